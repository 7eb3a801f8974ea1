"""Elements: which attributes of which elements refer to other documents, and how.

`URL_ATTRIBUTES` says it once for reading links and for rewriting pages. Most elements need only a row of it; what takes
more than looking up an attribute is a function in `READERS`, which is called in addition. Elements that stand in
neither are not visited, except for the attributes of `ANYWHERE`.

A GET form stands for the URL that it leads to if it is sent as it comes, with the default values of its fields:

    <form action="find?old=1"><input name=q><input type=hidden name=lang value=en></form>   ──►   find?q=&lang=en

Left alone are forms that send something (POST), that ask for a password, that have more fields than a search needs, and
those that lead to their own page with nothing filled in: documentation has such a search on every page, and a crawl
would fetch each twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.formats.html.links.css import add_css_references
from holdfast.formats.html.links.header_fields import hop_of
from holdfast.formats.html.links.join import form_query
from holdfast.formats.html.links.microsyntax import refresh_url, srcset_urls
from holdfast.formats.html.links.references import Hop, References
from holdfast.formats.html.links.script import add_json_references, add_script_references

if TYPE_CHECKING:
    from turbohtml import Element

FORMS_MAX = 64  # of a document: each looks for its fields in all of it
FIELDS_MAX = 64
QUERY_CHARACTERS_MAX = 2048

Reader = Callable[["Element", References], None]

# Attributes whose value is one URL, with the destination that the Fetch Standard has for it. Not here: <a>, of which
# there are most, and what depends on other attributes.
_DRAWN: Final = {"href": "image", "xlink:href": "image"}
URL_ATTRIBUTES: Final[dict[str, dict[str, str]]] = {
    "area": {"href": "document"},
    "audio": {"src": "audio"},
    "bgsound": {"src": "audio"},
    "embed": {"src": "embed"},
    "feImage": _DRAWN,
    "frame": {"src": "frame"},
    "iframe": {"src": "iframe"},
    "image": _DRAWN,
    "img": {"src": "image", "lowsrc": "image", "dynsrc": "image"},
    "script": {"src": "script", "href": "script", "xlink:href": "script"},
    "source": {"src": "video"},
    "track": {"src": "track"},
    "use": _DRAWN,
    "video": {"src": "video", "poster": "image"},
}
# What browsers do not load by themselves, but a crawl wants.
_MORE_ATTRIBUTES: Final = {
    "amp-iframe": {"src": "iframe"},
    "amp-img": URL_ATTRIBUTES["img"] | {"longdesc": "document"},
    "amp-video": URL_ATTRIBUTES["video"],
    "frame": URL_ATTRIBUTES["frame"] | {"longdesc": "document"},
    "iframe": URL_ATTRIBUTES["iframe"] | {"longdesc": "document"},
    "img": URL_ATTRIBUTES["img"] | {"longdesc": "document"},
}
HOPS: Final = {  # of each element, its attributes and how they link
    element: tuple((name, Hop.LINK if use == "document" else Hop.EMBED) for name, use in attributes.items())
    for element, attributes in (URL_ATTRIBUTES | _MORE_ATTRIBUTES).items()
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
        references.add_all(srcset_urls(candidates), Hop.EMBED)
    if candidates := attr("data-srcset") or attr("data-lazy-srcset"):
        references.add_all(srcset_urls(candidates), Hop.SPECULATIVE)
    for name in _LATER:
        if later := attr(name):
            references.add(later.strip(), Hop.SPECULATIVE)


def _read_link(element: Element, references: References) -> None:
    hop = hop_of(element.attr("rel") or "")
    if hop:
        references.add(_stripped(element.attr("href")), hop)
        if candidates := element.attr("imagesrcset"):
            references.add_all(srcset_urls(candidates), hop)


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
        references.add(refresh_url(content), Hop.REDIRECT)


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
