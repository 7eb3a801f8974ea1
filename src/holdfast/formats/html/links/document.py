"""The links of a document: references extracted by type, then joined, the strongest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

from holdfast.formats.html.charset import charset_of, decoded
from holdfast.formats.html.links.css import add_css_references, charset_rule
from holdfast.formats.html.links.header_fields import add_header_references, has_references
from holdfast.formats.html.links.html import PAGE_BYTES_MAX, LinkedPage, anchor_texts, read_page, read_tree
from holdfast.formats.html.links.join import Joiner
from holdfast.formats.html.links.references import LINKS_MAX, STRONGEST_FIRST, Hop, References
from holdfast.formats.html.links.script import SCRIPT_BYTES_MAX, add_json_references, add_script_references
from holdfast.formats.html.text import looks_like_html
from holdfast.formats.http import HTML_TYPES, media_type
from holdfast.formats.record import Headers

if TYPE_CHECKING:
    from turbohtml import Document as Tree

_UNKNOWN_KINDS = frozenset(("", "unknown/unknown", "application/unknown", "*/*"))  # which browsers look into
_PAGE_KINDS = HTML_TYPES | {"application/vnd.wap.xhtml+xml", "image/svg+xml"}
_XML_KINDS = frozenset(("text/xml", "application/xml"))


class Document(NamedTuple):
    """A response. `url` is canonical; `content` is without its content coding; `content_type` may be ''."""

    url: str
    content: bytes
    content_type: str
    headers: Headers
    status: int


class Link(NamedTuple):
    """A canonical http or https URL without fragment, and how it was found: one of `Hop`."""

    url: str
    hop: str


_MAKE_LINK = cast("Callable[[tuple[str, str]], Link]", partial(tuple.__new__, Link))  # without a call into Python


def links_of(document: Document) -> list[Link]:
    """What to fetch after a document: each URL once, the strongest first, then as they stand in it. Never raises.

    The document itself is left out, unless it redirects to itself; what is a RELATION is given as a LINK.
    """
    found = _read_fields(document)
    if document.content:
        found.append(_read(document))
    return [*map(_MAKE_LINK, followed_links(document.url, _joined(found)))]


def followed_links(url: str, links: Mapping[str, str]) -> list[tuple[str, str]]:
    """What to fetch of the links of the page at `url`: not itself, unless it redirects; a RELATION as a LINK."""
    link, relation = Hop.LINK, Hop.RELATION
    followed = [(target, hop if hop != relation else link) for target, hop in links.items()]
    if links.get(url, Hop.REDIRECT) != Hop.REDIRECT:
        followed = [each for each in followed if each[0] != url]
    return followed


def links_of_fields(document: Document) -> dict[str, str]:
    """What the header of a response links to: the hop of each URL. Never raises."""
    return _joined(_read_fields(document))


def links_of_page(document: Document, tree: Tree) -> tuple[dict[str, str], dict[str, str]]:
    """The links of a page that was parsed, the hop of each URL; and the texts that lead to them, if there are some."""
    page = read_tree(tree, document.content[:PAGE_BYTES_MAX], document.url)
    urls: dict[str, str | None] = {}  # of references: most lead to both
    links = _joined([*_read_fields(document), page], urls)
    texts: dict[str, str] = {}
    for reference, text in anchor_texts(page.anchors).items():
        if url := urls[reference] if reference in urls else page.joining.url(reference):
            texts.setdefault(url, text)
    return links, texts


def is_page(content_type: str, content: bytes) -> bool:
    """True if a browser would show it as a page."""
    return _is_page(media_type(content_type), content)


def _read_fields(document: Document) -> list[LinkedPage]:
    if not has_references(document.headers):
        return []
    fields = References()
    add_header_references(document.headers, document.status, fields)
    return [LinkedPage(fields, Joiner(document.url))]


def _read(document: Document) -> LinkedPage:
    url, content = document.url, document.content
    kind, charset = media_type(document.content_type), charset_of(document.content_type)
    if _is_page(kind, content):
        return read_page(content, charset, url)
    references = References()
    if kind == "text/css":
        text, encoding = decoded(content[:SCRIPT_BYTES_MAX], charset, charset_rule(content), "utf-8")
        add_css_references(text, references)
        return LinkedPage(references, Joiner(url, encoding))
    if kind.endswith(("/json", "+json")):
        add_json_references(decoded(content[:SCRIPT_BYTES_MAX], charset, "utf-8").text, references)
    elif kind.endswith(("javascript", "ecmascript")):
        add_script_references(decoded(content[:SCRIPT_BYTES_MAX], charset, "utf-8").text, references)
    return LinkedPage(references, Joiner(url))


def _is_page(kind: str, content: bytes) -> bool:
    if kind in _PAGE_KINDS:
        return True
    return (kind in _UNKNOWN_KINDS and looks_like_html(content)) or (kind in _XML_KINDS and b"<html" in content[:4096])


def _joined(found: list[LinkedPage], last: dict[str, str | None] | None = None) -> dict[str, str]:
    """The strongest hop of each URL; at most `LINKS_MAX` URLs.

    `last` is filled with the references of the last page, and their URLs.
    """
    links: dict[str | None, str] = {None: ""}  # which is what has no URL
    for hop in STRONGEST_FIRST:
        for page in found:
            if not (references := page.references.by_hop[hop]):
                continue
            urls = [*map(page.joining.url, references)]
            if last is not None and page is found[-1]:
                last.update(zip(references, urls, strict=True))
            weaker = dict.fromkeys(urls, hop)
            for url in links.keys() & weaker.keys():
                del weaker[url]
            links.update(weaker)
    del links[None]
    joined = cast("dict[str, str]", links)
    return joined if len(joined) <= LINKS_MAX else dict(islice(joined.items(), LINKS_MAX))
