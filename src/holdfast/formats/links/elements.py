"""Elements: which attributes of which elements refer to other documents, and how.

Most need only a row of `ATTRIBUTES`; what takes more than looking up an attribute is a function in `READERS`, which is
asked in addition. Elements that stand in neither are not visited, except for the attributes of `ANYWHERE`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.formats.links.css import add_css_references
from holdfast.formats.links.header_fields import refresh_target
from holdfast.formats.links.hops import Hop
from holdfast.formats.links.references import References
from holdfast.formats.links.relations import hop_of
from holdfast.formats.links.script import add_json_references, add_script_references
from holdfast.formats.links.srcset import urls_of_srcset

if TYPE_CHECKING:
    from turbohtml import Element

Reader = Callable[["Element", References], None]
Row = tuple[tuple[str, str], ...]

_SOURCE: Final[Row] = (("src", Hop.EMBED),)
_HREF: Final[Row] = (("href", Hop.EMBED), ("xlink:href", Hop.EMBED))
_PICTURE: Final[Row] = (*_SOURCE, ("lowsrc", Hop.EMBED), ("dynsrc", Hop.EMBED), ("longdesc", Hop.LINK))
_MOVING: Final[Row] = (*_SOURCE, ("poster", Hop.EMBED))
ATTRIBUTES: Final[dict[str, Row]] = {
    "area": (("href", Hop.LINK),),
    "amp-iframe": _SOURCE,
    "amp-img": _PICTURE,
    "amp-video": _MOVING,
    "audio": _SOURCE,
    "bgsound": _SOURCE,
    "embed": _SOURCE,
    "feImage": _HREF,
    "frame": (*_SOURCE, ("longdesc", Hop.LINK)),
    "iframe": (*_SOURCE, ("longdesc", Hop.LINK)),
    "image": _HREF,
    "img": _PICTURE,
    "script": (*_SOURCE, *_HREF),
    "source": _SOURCE,
    "track": _SOURCE,
    "use": _HREF,
    "video": _MOVING,
}
ANYWHERE: Final = "[style],[onclick],[background],[data-src],[data-bg]"  # each costs some microseconds of every page
_LATER: Final = ("data-original", "data-lazy-src", "data-lazy", "data-background")
_PICTURES_IN_META: Final = frozenset(
    [
        "og:image",
        "og:image:url",
        "og:image:secure_url",
        "twitter:image",
        "twitter:image:src",
        "msapplication-tileimage",
        "msapplication-config",
        "thumbnail",
    ]
)
_LINKS_IN_META: Final = frozenset(
    ["og:url", "og:video", "og:video:url", "og:video:secure_url", "og:audio", "og:audio:url", "twitter:player"]
)
_MOVIES: Final = frozenset(("movie", "src", "url", "filename", "data"))


def read_anywhere(element: Element, references: References) -> None:
    """Inline styles, backgrounds, what scripts load when it is scrolled to, and handlers of clicks."""
    attr = element.attr
    if (style := attr("style")) and "(" in style:
        add_css_references(style, references)
    references.add(_stripped(attr("background")), Hop.EMBED)
    references.add(_stripped(attr("data-src")), Hop.SPECULATIVE)
    references.add(_stripped(attr("data-bg")), Hop.SPECULATIVE)
    if handler := attr("onclick"):
        add_script_references(handler, references)


def _read_picture(element: Element, references: References) -> None:
    attr = element.attr
    if candidates := attr("srcset"):
        references.add_all(urls_of_srcset(candidates), Hop.EMBED)
    if candidates := attr("data-srcset") or attr("data-lazy-srcset"):
        references.add_all(urls_of_srcset(candidates), Hop.SPECULATIVE)
    for name in _LATER:
        if later := attr(name):
            references.add(later.strip(), Hop.SPECULATIVE)


def _read_link(element: Element, references: References) -> None:
    hop = hop_of(element.attr("rel") or "")
    if hop:
        references.add(_stripped(element.attr("href")), hop)
        if candidates := element.attr("imagesrcset"):
            references.add_all(urls_of_srcset(candidates), hop)


def _read_meta(element: Element, references: References) -> None:
    content = element.attr("content")
    if not content:
        return
    name = (element.attr("property") or element.attr("name") or element.attr("itemprop") or "").strip().lower()
    if name in _PICTURES_IN_META:
        references.add(content.strip(), Hop.EMBED)
    elif name in _LINKS_IN_META:
        references.add(content.strip(), Hop.RELATION)
    elif (element.attr("http-equiv") or "").strip().lower() == "refresh":
        references.add(refresh_target(content), Hop.REDIRECT)


def _read_script(element: Element, references: References) -> None:
    text = element.text
    if text:
        kind = element.attr("type") or ""
        (add_json_references if "json" in kind else add_script_references)(text, references)


def _read_style(element: Element, references: References) -> None:
    add_css_references(element.text, references)


def _read_input(element: Element, references: References) -> None:
    if (element.attr("type") or "").strip().lower() == "image":
        references.add(_stripped(element.attr("src")), Hop.EMBED)


def _read_object(element: Element, references: References) -> None:
    """What plug-ins load; all of it lies below the codebase, if there is one."""
    attr = element.attr
    below = _stripped(attr("codebase"))
    if below and not below.endswith("/"):
        below += "/"
    found = [_stripped(attr("data")), *(attr("archive") or "").replace(",", " ").split()]
    code = _stripped(attr("code"))
    if code:
        found.append(code if code.endswith(".class") else code.replace(".", "/") + ".class")
    for reference in filter(None, found):
        absolute = ":" in reference or reference.startswith("/")
        references.add(reference if absolute else below + reference, Hop.EMBED)


def _read_parameter(element: Element, references: References) -> None:
    if (element.attr("name") or "").strip().lower() in _MOVIES:
        references.add(_stripped(element.attr("value")), Hop.EMBED)


def _stripped(text: str | None) -> str:
    return text.strip() if text else ""


READERS: Final[dict[str, Reader]] = {
    "amp-img": _read_picture,
    "applet": _read_object,
    "img": _read_picture,
    "input": _read_input,
    "link": _read_link,
    "meta": _read_meta,
    "object": _read_object,
    "param": _read_parameter,
    "script": _read_script,
    "source": _read_picture,
    "style": _read_style,
}
