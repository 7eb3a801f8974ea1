"""Elements: which attributes of which elements refer to other documents, and how.

Most need only a row of `ATTRIBUTES`; what takes more than looking up an attribute is a function in `READERS`, which is
asked in addition. Elements that stand in neither are not visited, except for the attributes of `ANYWHERE`.

Forms: the URL that a GET form leads to if it is sent as it comes, with the default values of its fields.

    <form action="find?old=1"><input name=q><input type=hidden name=lang value=en></form>   ──►   find?q=&lang=en

Left alone are forms that send something (POST), that ask for a password, that have more fields than a search needs, and
those that lead to their own page with nothing filled in: documentation has such a search on every page, and a crawl
would fetch each twice.

`srcset`: URLs with descriptors, `small.jpg 1x, large.jpg 2x`, split as the HTML Standard does.

A URL may hold commas, but not end with one; a descriptor may hold commas in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from holdfast.formats.html.links.css import add_css_references
from holdfast.formats.html.links.header_fields import hop_of, refresh_target
from holdfast.formats.html.links.join import form_query
from holdfast.formats.html.links.references import Hop, References
from holdfast.formats.html.links.script import add_json_references, add_script_references

if TYPE_CHECKING:
    from turbohtml import Element


FORMS_MAX = 64  # of a document: each looks for its fields in all of it
FIELDS_MAX = 64
QUERY_CHARACTERS_MAX = 2048


def form_reference(form: Element, document_url: str, encoding: str) -> str:
    """The reference that the form stands for; '' if it is none to be followed."""
    if (form.attr("method") or "get").strip().lower() != "get":
        return ""
    action = (form.attr("action") or "").strip()
    fields = form.form_data()
    if not action and not any(value for _, value in fields):
        return ""
    if len(fields) > FIELDS_MAX or form.select_one("input[type=password i]") is not None:
        return ""
    query = form_query(fields, encoding)
    if len(query) > QUERY_CHARACTERS_MAX:
        return ""
    return f"{(action or document_url).partition('#')[0].partition('?')[0]}?{query}"


CANDIDATES_MAX = 1000
_URL = re.compile(r"[\t\n\f\r ,]*+([^\t\n\f\r ]++)")
_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?+)*+")


def urls_of_srcset(text: str) -> list[str]:
    """The URLs as written, at most `CANDIDATES_MAX`."""
    return [text[start:end] for start, end in islice(places_in_srcset(text), CANDIDATES_MAX)]


def places_in_srcset(text: str) -> Iterator[tuple[int, int]]:
    """Where the URLs begin and end."""
    at = 0
    while match := _URL.match(text, at):
        url, at = match[1], match.end()
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            descriptors = _DESCRIPTORS.match(text, at)
            assert descriptors is not None, "they may be empty, so there is always a match"
            at = descriptors.end()
        yield match.start(1), match.start(1) + len(url)


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
