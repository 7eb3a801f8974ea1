"""What is rewritten of which element: a table of its attributes, and a function for each that takes more than its URL.

Modifiers say what a browser is going to do with the response: `mp_` a page, `if_` and `fr_` one in a frame,
`js_` a script, `cs_` a style sheet, `im_` a picture, sound, film or font, `oe_` what an object or embed shows.

Which attributes are URLs, and where they stand in `srcset` and in a refresh, is the matter of `formats.html.links`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from holdfast.formats.html.links.elements import URL_ATTRIBUTES
from holdfast.formats.html.links.microsyntax import refresh_span, srcset_spans
from holdfast.web.rewrite.addresses import Scene, resolved, rewrite
from holdfast.web.rewrite.css import rewrite_css
from holdfast.web.rewrite.inline import SPECULATION
from holdfast.web.rewrite.markup import Tag

_FRAMES_DEEP_MAX = 4  # pages written within pages (srcdoc); what is deeper stays as it is


@dataclass(slots=True)
class PageState:
    """What the rewriting of one page knows. `scene` changes at the page's first <base>."""

    scene: Scene
    head: bytes
    codec: str
    is_xml: bool = False
    has_base: bool = False
    frames_deep: int = 0
    rewrite_page: Callable[[bytes, PageState], bytes] | None = None  # for pages within the page


Rule = Callable[[Tag, bytes, PageState], None]


def rewrite_attributes(tag: Tag, state: PageState) -> None:
    """Enters the changes into the tag."""
    rules = RULES.get(tag.name, _ANY)
    for name in tag.names():
        rule = rules.get(name)
        if rule is not None:
            rule(tag, name, state)


def _url(tag: Tag, name: bytes, state: PageState, *, modifier: str) -> None:
    value = tag.value(name)
    tag.change(name, value, rewrite(value, state.scene, modifier))


def _srcset(tag: Tag, name: bytes, state: PageState) -> None:
    value = tag.value(name)
    tag.change(name, value, rewrite_srcset(value, state.scene, "im_"))


def _style(tag: Tag, name: bytes, state: PageState) -> None:
    value = tag.value(name)
    if "(" in value:
        new = rewrite_css(value.encode("utf-8", "surrogatepass"), state.scene)
        tag.change(name, value, new.decode("utf-8", "surrogatepass"))


def rewrite_srcset(text: str, scene: Scene, modifier: str) -> str:
    """Each URL rewritten, all else kept."""
    parts: list[str] = []
    written = 0
    for start, end in srcset_spans(text):
        parts += (text[written:start], rewrite(text[start:end], scene, modifier))
        written = end
    return "".join(parts) + text[written:] if parts else text


def _disarmed(tag: Tag, name: bytes, state: PageState) -> None:
    tag.disarm(name)


def _to_self(tag: Tag, name: bytes, state: PageState) -> None:
    """The page lives in a frame below the banner, and is not to break out of it."""
    value = tag.value(name)
    if value.strip().lower() in ("_top", "_parent", "_blank"):
        tag.change(name, value, "_self")


def _frame_content(tag: Tag, name: bytes, state: PageState) -> None:
    if state.rewrite_page is None or state.frames_deep >= _FRAMES_DEEP_MAX:
        return
    value = tag.value(name)
    within = PageState(state.scene, state.head, "utf-8", frames_deep=state.frames_deep + 1, has_base=False)
    new = state.rewrite_page(value.encode("utf-8", "replace"), within)
    tag.change(name, value, new.decode("utf-8", "replace"))


def _base(tag: Tag, name: bytes, state: PageState) -> None:
    """The first one with an href counts for the whole page; what stood before it was rewritten without."""
    value = tag.value(name)
    if not state.has_base:
        state.has_base = True
        tag.change(name, value, resolved(value, state.scene, "mp_") or value)
        state.scene = state.scene.rebased(value)


def _script_kind(tag: Tag, name: bytes, state: PageState) -> None:
    if tag.word(name) == SPECULATION:
        tag.change(name, tag.value(name), f"hf-{SPECULATION}")


# -- <link> ---------------------------------------------------------------------------------------------------------

_BY_DESTINATION: Final = {
    "script": "js_",
    "worker": "js_",
    "sharedworker": "js_",
    "serviceworker": "js_",
    "style": "cs_",
    "document": "mp_",
    "iframe": "if_",
    "frame": "fr_",
    "object": "oe_",
    "embed": "oe_",
    "image": "im_",
    "font": "im_",
    "audio": "im_",
    "video": "im_",
    "track": "im_",
}


def _link(tag: Tag, name: bytes, state: PageState) -> None:
    relations = tag.word(b"rel").split()
    if "preconnect" in relations or "dns-prefetch" in relations:
        tag.disarm(name)
    else:
        _url(tag, name, state, modifier=_modifier_of(relations, tag))


def _modifier_of(relations: list[str], tag: Tag) -> str:
    if "stylesheet" in relations:
        return "cs_"
    if "modulepreload" in relations:
        return "js_"
    if any(relation.endswith("icon") or relation.startswith("apple-touch-") for relation in relations):
        return "im_"
    return _BY_DESTINATION.get(tag.word(b"as"), "mp_")


# -- <meta> ---------------------------------------------------------------------------------------------------------


def _meta(tag: Tag, name: bytes, state: PageState) -> None:
    kind = tag.word(name)
    if kind.startswith("content-security-policy"):
        tag.disarm(name)
    elif kind == "refresh" and (content := tag.value(b"content")):
        tag.change(b"content", content, rewrite_refresh(content, state.scene, "mp_"))


def rewrite_refresh(text: str, scene: Scene, modifier: str) -> str:
    """Leads to the archive's capture of its target; one without a URL loads the page again, and stays."""
    span = refresh_span(text)
    if span is None:
        return text
    start, end = span
    return text[:start] + rewrite(text[start:end], scene, modifier) + text[end:]


# -- the table ------------------------------------------------------------------------------------------------------


def _to(destination: str) -> Rule:
    return partial(_url, modifier=_BY_DESTINATION[destination])


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
    b"iframe": {b"srcdoc": _frame_content},
    b"image": _PICTURE,  # outside of drawings it is an <img>
    b"img": _PICTURE,
    b"input": _SENDING,
    b"link": {b"href": _link, b"imagesrcset": _srcset},
    b"meta": {b"http-equiv": _meta},
    b"object": {b"data": _OBJECT},
    b"script": {b"type": _script_kind},
    b"source": {b"srcset": _srcset},
}
RULES: Final[dict[bytes, dict[bytes, Rule]]] = {
    element: _ANY | _URLS.get(element, {}) | _MORE.get(element, {}) for element in _URLS | _MORE
}
