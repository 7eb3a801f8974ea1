"""HTML: one tree, from which links, title, date, language and text are taken, in this order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.formats.html.charset import charset_of
from holdfast.formats.html.links import Document, links_of_page
from holdfast.formats.html.links.references import Hop
from holdfast.formats.html.text import lines_of, title_of
from holdfast.formats.html.tree import parsed_page
from holdfast.index.extract.dates import document_date
from holdfast.index.extract.language import UNKNOWN, declared_language, language_of
from holdfast.index.extract.result import Extracted, ExtractionLimits, LinkKind, OutLink, Payload

if TYPE_CHECKING:
    from turbohtml import Document as Tree

TITLE_CHARACTERS_MAX = 1000
KINDS = {
    Hop.LINK: LinkKind.LINK,
    Hop.RELATION: LinkKind.RELATION,
    Hop.EMBED: LinkKind.EMBED,
    Hop.REDIRECT: LinkKind.REDIRECT,
    Hop.FORM: LinkKind.FORM,
}  # not what a script may load, which is a guess
_DATES = frozenset(
    [
        "article:modified_time",
        "article:published_time",
        "date",
        "dc.date",
        "dc.date.modified",
        "dcterms.date",
        "dcterms.modified",
        "datemodified",
        "datepublished",
        "last-modified",
    ]
)


def read_page(payload: Payload, limits: ExtractionLimits) -> Extracted:
    """All that a page tells."""
    tree = parsed_page(payload.content, charset_of(payload.content_type))
    document = Document(payload.url, payload.content, payload.content_type, payload.headers, payload.status)
    links, anchors = links_of_page(document, tree)
    out = [OutLink(url, KINDS[hop], anchors.get(url, "")) for url, hop in links if hop in KINDS]
    title = title_of(tree)[:TITLE_CHARACTERS_MAX]
    date = _date(tree)
    declared = _declared(tree, payload)
    text = lines_of(tree)[: limits.text_characters]
    return Extracted(title, text, language_of(text, declared), date, tuple(out))


def _declared(tree: Tree, payload: Payload) -> str:
    """What the page says of its language: on <html> or <body>, in a <meta>, in the header of the response."""
    for name in ("html", "body"):
        element = tree.find(name)
        own = (element.attr("lang") or element.attr("xml:lang") or "") if element is not None else ""
        if (code := declared_language(own)) != UNKNOWN:
            return code
    for element in tree.find_all("meta"):
        if (element.attr("http-equiv") or "").strip().lower() == "content-language":
            return declared_language(element.attr("content") or "")
    return declared_language(payload.headers.get("Content-Language") or "")


def _date(tree: Tree) -> str:
    """The newest that a <meta> gives."""
    found = ""
    for element in tree.find_all("meta"):
        name = element.attr("property") or element.attr("name") or element.attr("itemprop") or ""
        if name.strip().lower() in _DATES:
            found = max(found, document_date(element.attr("content") or ""))
    return found
