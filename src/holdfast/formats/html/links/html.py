"""Pages: one walk over the tree of elements, and one over those with attributes that any element may have.

The tree is preferred to a stream of tokens for speed: turbohtml builds and walks it in C, and only elements that can
refer to something become Python objects. It is also what browsers see: markup in comments, titles, text areas and
scripts is none, and the first <base> that has an href counts for the whole page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from holdfast.formats.html.charset import UTF_8
from holdfast.formats.html.links.elements import ANYWHERE, FORMS_MAX, HOPS, READERS, form_reference, read_anywhere
from holdfast.formats.html.links.join import Joiner
from holdfast.formats.html.links.references import Hop, References
from holdfast.formats.html.text import parsed_page

if TYPE_CHECKING:
    from turbohtml import Document as Tree
    from turbohtml import Element

PAGE_BYTES_MAX = 8 << 20  # what lies beyond is not looked at; a tree takes up to forty times the bytes of its page
ANCHORS_MAX = 250_000  # the <a> of a page that are looked at, repeats counted; far more than give `LINKS_MAX` links
ANCHOR_CHARACTERS_MAX = 200  # of the text of a link; what lies beyond is cut off
FRAMES_MAX = 64  # pages written within a page (srcdoc) that are looked into; not into those within them
_VISITED = [*{*HOPS, *READERS, "base", "form", "svg"}]
_STYLESHEET = re.compile(rb"<\?xml-stylesheet[^>]*?\bhref\s*=\s*[\"']([^\"'>]+)[\"']")
_PROLOGUE_BYTES = 4096


class LinkedPage(NamedTuple):
    """What a page refers to, and how that is joined."""

    references: References
    joining: Joiner
    anchors: Sequence[tuple[str, Element]] = ()  # every <a> of the page itself, after its href without the fragment


def read_page(content: bytes, charset: str, url: str) -> LinkedPage:
    """The references of a page at `url`; `charset` is what the HTTP header names, if it does."""
    content = content[:PAGE_BYTES_MAX]
    return read_tree(parsed_page(content, charset), content, url)


def read_tree(tree: Tree, content: bytes, url: str) -> LinkedPage:
    """The references of a page that was parsed."""
    references = References()
    encoding = tree.encoding or UTF_8
    walk = _Walk(references, url, encoding)
    walk.visit(tree)
    for frame in walk.frames[:FRAMES_MAX]:
        walk.visit(parsed_page(frame.encode("utf-8", "replace"), "utf-8"))
    for reference in _STYLESHEET.findall(content[:_PROLOGUE_BYTES]):
        references.add(reference.decode("utf-8", "replace").strip(), Hop.EMBED)
    base = Joiner(url, encoding).url(walk.base) if walk.base is not None else None
    return LinkedPage(references, Joiner(base or url, encoding), walk.anchors)


def anchor_texts(anchors: Sequence[tuple[str, Element]]) -> dict[str, str]:
    """What stands between <a> and </a>, or the `alt` of a picture there: of each reference the first that says any."""
    texts: dict[str, str] = {}
    for reference, anchor in anchors:
        if reference and reference not in texts:
            text = " ".join(anchor.text[:ANCHOR_CHARACTERS_MAX].split()) or _alternative_text(anchor)
            if text:
                texts[reference] = text
    return texts


def _alternative_text(anchor: Element) -> str:
    picture = anchor.find("img")
    return " ".join((picture.attr("alt") or "")[:ANCHOR_CHARACTERS_MAX].split()) if picture is not None else ""


class _Walk:
    """A visit to all elements of a page, then to those of the pages written within it."""

    def __init__(self, references: References, url: str, encoding: str) -> None:
        self.base: str | None = None
        self.frames: list[str] = []
        self.anchors: list[tuple[str, Element]] = []  # of the page itself
        self._references = references
        self._url, self._encoding = url, encoding
        self._forms = 0
        self._has_drawings = False
        self._within = False

    def visit(self, tree: Tree) -> None:
        self._visit_anchors(tree)
        for element in tree.iter_elements(_VISITED):
            self._visit(element.tag, element)
        if self._has_drawings:
            for anchor in tree.select("svg a"):
                self._references.add(anchor.attr("xlink:href"), Hop.LINK)
        for element in tree.select(ANYWHERE):
            read_anywhere(element, self._references)
        self._within = True

    def _visit_anchors(self, tree: Tree) -> None:
        """Most links are such, so repeats are dropped before anything is looked at."""
        anchors = [
            (href if "#" not in href else href[: href.index("#")], anchor)
            for anchor in islice(tree.iter_elements("a"), ANCHORS_MAX)
            if (href := anchor.attr("href"))
        ]
        self._references.add_all(dict(anchors), Hop.LINK)
        if not self._within:
            self.anchors = anchors

    def _visit(self, tag: str, element: Element) -> None:
        for name, hop in HOPS.get(tag, ()):
            if reference := element.attr(name):
                self._references.add(reference.strip(), hop)
        reader = READERS.get(tag)
        if reader is not None:
            reader(element, self._references)
        elif tag == "svg":
            self._has_drawings = True
        elif tag == "form" and self._forms < FORMS_MAX:
            self._forms += 1
            self._references.add(form_reference(element, self._url, self._encoding), Hop.FORM)
        elif tag == "base" and self.base is None and not self._within:
            self.base = element.attr("href")
        elif tag == "iframe" and not self._within and (within := element.attr("srcdoc")):
            self.frames.append(within)
