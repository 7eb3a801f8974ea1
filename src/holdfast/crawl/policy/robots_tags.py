"""Robots tags in pages and headers, for crawls that obey them.

    <meta name="robots" content="noarchive, nofollow">      or the name of the crawler in the place of 'robots'
    X-Robots-Tag: holdfast: nofollow                        the same for any response; the name may be left out
    <a rel="nofollow" href="...">                           one link

`nofollow`: links of the page, or the one link, are not followed; what the page needs, and redirects, are fetched.
`noarchive`: the response is not kept. `none` is `noindex, nofollow`; `noindex` and all other words mean nothing for an
archive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from holdfast.formats.html.charset import charset_of
from holdfast.formats.html.links.document import Document, is_page
from holdfast.formats.html.links.html import PAGE_BYTES_MAX, read_tree
from holdfast.formats.html.links.references import Hop
from holdfast.formats.html.text import parsed_page

if TYPE_CHECKING:
    from turbohtml import Document as Tree

_EVERYBODY = "robots"
_FIELD = "X-Robots-Tag"
_NEEDED = (Hop.EMBED, Hop.REDIRECT)
_WORDS = re.compile(r"[\s,;]+")
_NAMED = re.compile(r"\s*([\w.+-]+)\s*:(.*)", re.DOTALL)
_WITH_VALUE = frozenset(("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"))
_TOKEN = re.compile(r"[A-Za-z][\w.-]*")


class RobotsTags(NamedTuple):
    """What a response asks for."""

    follow: bool = True
    archive: bool = True
    unfollowed: frozenset[str] = frozenset()  # URLs to which only links with `nofollow` lead

    def followed(self, links: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those that may be followed, of URLs and hops."""
        if not self.follow:
            return [link for link in links if link[1] in _NEEDED]
        return [link for link in links if link[1] != Hop.LINK or link[0] not in self.unfollowed]


def read_robots_tags(document: Document, agent: str) -> RobotsTags:
    """What a response asks of the crawler that calls itself `agent`. Never raises, whatever the bytes."""
    names = {_EVERYBODY, *(token.lower() for token in _TOKEN.findall(agent)[:1])}
    words = {word for value in document.headers.get_all(_FIELD) for word in _words_of_field(value, names)}
    unfollowed: frozenset[str] = frozenset()
    if document.content and is_page(document.content_type, document.content):
        content = document.content[:PAGE_BYTES_MAX]
        tree = parsed_page(content, charset_of(document.content_type))
        for meta in tree.find_all("meta"):
            if (meta.attr("name") or "").strip().lower() in names:
                words.update(_WORDS.split((meta.attr("content") or "").lower()))
        unfollowed = _unfollowed(tree, content, document.url)
    return RobotsTags(not words & {"nofollow", "none"}, "noarchive" not in words, unfollowed)


def _words_of_field(value: str, names: set[str]) -> list[str]:
    named = _NAMED.fullmatch(value)
    if named is None or named[1].lower() in _WITH_VALUE:
        return _WORDS.split(value.lower())
    return _WORDS.split(named[2].lower()) if named[1].lower() in names else []


def _unfollowed(tree: Tree, content: bytes, url: str) -> frozenset[str]:
    free: set[str] = set()
    marked: set[str] = set()
    for name in ("a", "area"):
        for anchor in tree.find_all(name):
            if reference := (anchor.attr("href") or "").strip():
                words = (anchor.attr("rel") or "").lower().split()
                (marked if "nofollow" in words else free).add(reference)
    if not marked:
        return frozenset()
    join = read_tree(tree, content, url).joining.url
    urls = {join(reference.partition("#")[0]) for reference in marked} - {
        join(reference.partition("#")[0]) for reference in free
    }
    return frozenset(filter(None, urls))
