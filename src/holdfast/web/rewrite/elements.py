"""The rewriting of elements: a table of attributes, and the content of scripts and styles.

Modifiers say how the browser will use the response: `mp_` a page, `if_` and `fr_` one in a frame,
`js_` a script, `cs_` a style sheet, `im_` a picture, sound, film or font, `oe_` what an object or embed shows.

`formats.html.links` knows which attributes are URLs, and where URLs are in `srcset` and in a refresh.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from holdfast.formats.html.links.elements import URL_ATTRIBUTES
from holdfast.formats.html.links.microsyntax import refresh_span, srcset_spans
from holdfast.formats.http import media_type
from holdfast.web.rewrite.addresses import Scene, resolved, rewrite
from holdfast.web.rewrite.css import rewrite_css
from holdfast.web.rewrite.javascript import rewrite_script
from holdfast.web.rewrite.markup import Tag

_SPECULATION = "speculationrules"  # what a browser may prefetch
_SCRIPT_ENDINGS = ("javascript", "ecmascript", "jscript", "livescript")
_SCRIPT_URL = re.compile(r"\s*javascript:", re.IGNORECASE)
_BEFORE_SCRIPT = frozenset("jJ \t\n\r\f\v\x1c\x1d\x1e\x1f\x85\xa0")
_PARAMETERS = frozenset(("movie", "src", "url", "href", "filename", "data"))
_FRAMES_DEEP_MAX = 4  # nested pages (srcdoc); deeper ones are not rewritten


@dataclass(slots=True)
class PageState:
    """The state of rewriting one page. `scene` changes at the page's first <base>."""

    scene: Scene
    head: bytes
    codec: str
    rewrite_page: Callable[[bytes, PageState], bytes]  # for pages within the page
    is_xml: bool = False
    has_base: bool = False
    frames_deep: int = 0


Rule = Callable[[Tag, bytes, PageState], None]


def rewrite_attributes(tag: Tag, state: PageState) -> None:
    """Enters the changes into the tag."""
    rules = RULES.get(tag.name, _ANY)
    for name in tag.names():
        rule = rules.get(name)
        if rule is not None:
            rule(tag, name, state)
        elif name[:2] == b"on":
            _handler(tag, name, state)


# -- the content of <script> and <style> -----------------------------------------------------------------------------


def rewrite_inline(tag: Tag, content: bytes, scene: Scene) -> bytes:
    """The content of a <script> or <style>."""
    if tag.name == b"style":
        return rewrite_css(content, scene)
    if not content or content.isspace():
        return content
    kind = media_type(tag.value(b"type"))
    if kind == "importmap":
        return rewrite_import_map(content, scene)
    is_script = kind.startswith(("text/", "application/")) and kind.rstrip("0123456789.").endswith(_SCRIPT_ENDINGS)
    if not kind or kind == "module" or is_script:
        return rewrite_script(content, scene, module=kind == "module", is_inline=True)
    return content


def rewrite_import_map(content: bytes, scene: Scene) -> bytes:
    """The URLs of `imports` and `scopes`; without `integrity`, which is of the scripts as they were."""
    try:
        known = json.loads(content)
        if not isinstance(known, dict):
            return content
        known.pop("integrity", None)
        if "imports" in known:
            known["imports"] = _mapped(known["imports"], scene)
        if isinstance(scopes := known.get("scopes"), dict):
            known["scopes"] = {
                _mapped_url(place, scene, modifier): _mapped(names, scene)
                for place, names in scopes.items()
                for modifier in ("js_", scene.modifier)  # for scripts that have an address, and those of the page
            }
        return json.dumps(known).replace("<", "\\u003c").encode("ascii")
    except (ValueError, RecursionError):
        return content


def _mapped(names: object, scene: Scene) -> object:
    if not isinstance(names, dict):
        return names
    return {
        _mapped_url(name, scene): _mapped_url(url, scene) if isinstance(url, str) else url
        for name, url in names.items()
    }


def _mapped_url(name: str, scene: Scene, modifier: str = "js_") -> str:
    """Relative names are relative to the page, whose address is not that of a script."""
    if name.startswith(("./", "../")):
        return resolved(name, scene, modifier) or name
    return rewrite(name, scene, modifier)


# -- attributes ------------------------------------------------------------------------------------------------------


def _url(tag: Tag, name: bytes, state: PageState, *, modifier: str) -> None:
    value = tag.value(name)
    if value[:1] in _BEFORE_SCRIPT and (script := _SCRIPT_URL.match(value)):
        tag.change(name, value, script[0] + _script_text(value[script.end() :], state))
    else:
        tag.change(name, value, rewrite(value, state.scene, modifier))


def _handler(tag: Tag, name: bytes, state: PageState) -> None:
    """An event handler: the body of a function."""
    value = tag.value(name)
    if value:
        tag.change(name, value, _script_text(value, state))


def _script_text(text: str, state: PageState) -> str:
    rewritten = rewrite_script(text.encode("utf-8", "surrogatepass"), state.scene, module=False, is_inline=True)
    return rewritten.decode("utf-8", "surrogatepass")


def _srcset(tag: Tag, name: bytes, state: PageState) -> None:
    value = tag.value(name)
    parts: list[str] = []
    written = 0
    for start, end in srcset_spans(value):
        parts += (value[written:start], rewrite(value[start:end], state.scene, "im_"))
        written = end
    tag.change(name, value, "".join(parts) + value[written:])


def _style(tag: Tag, name: bytes, state: PageState) -> None:
    value = tag.value(name)
    if "(" in value:
        new = rewrite_css(value.encode("utf-8", "surrogatepass"), state.scene)
        tag.change(name, value, new.decode("utf-8", "surrogatepass"))


def _disarmed(tag: Tag, name: bytes, state: PageState) -> None:
    tag.disarm(name)


def _to_self(tag: Tag, name: bytes, state: PageState) -> None:
    """Keeps the page in its frame below the banner."""
    value = tag.value(name)
    if value.strip().lower() in ("_top", "_parent", "_blank"):
        tag.change(name, value, "_self")


def _frame_content(tag: Tag, name: bytes, state: PageState) -> None:
    if state.frames_deep >= _FRAMES_DEEP_MAX:
        return
    value = tag.value(name)
    within = PageState(state.scene, state.head, "utf-8", state.rewrite_page, frames_deep=state.frames_deep + 1)
    new = state.rewrite_page(value.encode("utf-8", "replace"), within)
    tag.change(name, value, new.decode("utf-8", "replace"))


def _base(tag: Tag, name: bytes, state: PageState) -> None:
    """The first <base> with an href applies to the rest of the page."""
    value = tag.value(name)
    if not state.has_base:
        state.has_base = True
        tag.change(name, value, resolved(value, state.scene, "mp_") or value)
        state.scene = state.scene.rebased(value)


def _script_kind(tag: Tag, name: bytes, state: PageState) -> None:
    if tag.word(name) == _SPECULATION:
        tag.change(name, tag.value(name), f"hf-{_SPECULATION}")


def _module(tag: Tag, name: bytes, state: PageState) -> None:
    """A module has one address however it is imported, that of a script: relative names become absolute."""
    value = tag.value(name)
    tag.change(name, value, resolved(value, state.scene, "js_") or value)


def _script_source(tag: Tag, name: bytes, state: PageState) -> None:
    if tag.word(b"type") == "module":
        _module(tag, name, state)
    else:
        _url(tag, name, state, modifier="js_")


def _sandbox(tag: Tag, name: bytes, state: PageState) -> None:
    """A frame without an origin could load no parts: it shares the page's, and the runtime says that it does not."""
    value = tag.value(name)
    if "allow-same-origin" not in value.lower().split():
        tag.add(name, "data-hf-boxed", f"{value} allow-same-origin".strip())


def _parameter(tag: Tag, name: bytes, state: PageState) -> None:
    """The address of what a plug-in shows."""
    if tag.word(b"name") in _PARAMETERS:
        _url(tag, name, state, modifier="oe_")


def _link(tag: Tag, name: bytes, state: PageState) -> None:
    relations = tag.word(b"rel").split()
    if "preconnect" in relations or "dns-prefetch" in relations:
        tag.disarm(name)
        return
    modifier = _MODIFIERS.get(tag.word(b"as"), "mp_")
    if "stylesheet" in relations:
        modifier = "cs_"
    elif "modulepreload" in relations:
        _module(tag, name, state)
        return
    elif any(relation.endswith("icon") or relation.startswith("apple-touch-") for relation in relations):
        modifier = "im_"
    _url(tag, name, state, modifier=modifier)


def _meta(tag: Tag, name: bytes, state: PageState) -> None:
    kind = tag.word(name)
    if kind.startswith("content-security-policy"):
        tag.disarm(name)
    elif kind == "refresh" and (content := tag.value(b"content")):
        tag.change(b"content", content, rewrite_refresh(content, state.scene, "mp_"))


def rewrite_refresh(text: str, scene: Scene, modifier: str) -> str:
    """The refresh with its target in the archive; one without a URL reloads the page and is kept."""
    span = refresh_span(text)
    if span is None:
        return text
    start, end = span
    return text[:start] + rewrite(text[start:end], scene, modifier) + text[end:]


# -- the table ------------------------------------------------------------------------------------------------------

_MODIFIERS: Final = {  # by destination
    **dict.fromkeys(("script", "worker", "sharedworker", "serviceworker"), "js_"),
    **dict.fromkeys(("image", "font", "audio", "video", "track"), "im_"),
    **dict.fromkeys(("object", "embed"), "oe_"),
    "style": "cs_",
    "document": "mp_",
    "iframe": "if_",
    "frame": "fr_",
}


def _to(destination: str) -> Rule:
    return partial(_url, modifier=_MODIFIERS[destination])


_PAGE, _IMAGE, _OBJECT = _to("document"), _to("image"), _to("object")
_ANY: Final[dict[bytes, Rule]] = {b"style": _style, b"background": _IMAGE, b"integrity": _disarmed}
_ANCHOR: Final[dict[bytes, Rule]] = {b"target": _to_self, b"ping": _disarmed}
_SENDING: Final[dict[bytes, Rule]] = {b"formaction": _PAGE, b"formtarget": _to_self, b"src": _IMAGE}
_URLS: Final[dict[bytes, dict[bytes, Rule]]] = {
    element.lower().encode(): {name.encode(): _to(destination) for name, destination in attributes.items()}
    for element, attributes in URL_ATTRIBUTES.items()
}
_PICTURE: Final[dict[bytes, Rule]] = _URLS[b"img"] | {b"srcset": _srcset}
_MORE: Final[dict[bytes, dict[bytes, Rule]]] = {
    b"a": {b"href": _PAGE, b"xlink:href": _PAGE, **_ANCHOR},
    b"area": _ANCHOR,
    b"base": {b"href": _base, b"target": _to_self},
    b"button": _SENDING,
    b"form": {b"action": _PAGE, b"target": _to_self},
    b"iframe": {b"srcdoc": _frame_content, b"sandbox": _sandbox},
    b"image": _PICTURE,  # outside of drawings it is an <img>
    b"img": _PICTURE,
    b"input": _SENDING,
    b"link": {b"href": _link, b"imagesrcset": _srcset},
    b"meta": {b"http-equiv": _meta},
    b"object": {b"data": _OBJECT},
    b"param": {b"value": _parameter},
    b"script": {b"type": _script_kind, b"src": _script_source},
    b"source": {b"srcset": _srcset},
}
RULES: Final[dict[bytes, dict[bytes, Rule]]] = {
    element: _ANY | _URLS.get(element, {}) | _MORE.get(element, {}) for element in _URLS | _MORE
}
