"""Sitemaps: lists of URLs that sites publish, in any format.

    bytes ─gunzip─▶ ─decode─▶ text ─┬─ starts with '<' ─▶ elements ─▶ Sitemap(urls, sitemaps)
     50 MiB at most                 └─ else ─────────────▶ lines ───▶

XML is not parsed but searched for the elements that carry URLs, by one expression that never goes back. So nothing of
what makes XML dangerous exists here (no entity but the five of XML and numbers is replaced, nothing is loaded), a file
that is cut or malformed gives what it has, and namespaces may be wrong or missing:

    urlset, sitemapindex    loc of url and sitemap; the text of a sitemap without loc; translations (xhtml:link)
                            after them, images and videos: loc, content_loc, player_loc, thumbnail_loc, ...
    RSS 0.9 to 2.0          link, permanent guid, enclosure
    Atom                    link, unless it is for machines: self, edit, hub

URLs are canonical, each is given once, those of pages first. Never raises; time, memory and number are bounded.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.formats.html.charset import charset_of
from holdfast.urls.parse import parse, parsed_url

SITEMAP_BYTES_MAX: Final = 50 << 20  # the protocol's own limit, uncompressed
URLS_MAX: Final = 500_000  # ten times the protocol's
URL_CHARACTERS_MAX: Final = 8192
_LAYERS_MAX = 2  # of gzip: servers compress what is compressed already
_WEB = ("http://", "https://")
_GZIP = b"\x1f\x8b"
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}["']([\w.:-]{1,40})""", re.IGNORECASE)
# Codecs that take bytes one after the other; others of Python's can take their time, or are none of characters.
_CODECS = re.compile(r"iso-?8859|latin|windows-125|cp125|koi8|gb|big5|shift[_-]?jis|sjis|euc|us-ascii|utf-?8", re.I)

_LINE = re.compile(r"(?:\A|(?<=[\r\n]))[ \t]*(https?://\S+)", re.IGNORECASE)
_ROOT = re.compile(r"<(?:[\w.-]{1,64}:)?(urlset|sitemapindex|rss|feed|rdf|html)\b", re.IGNORECASE)
_ELEMENT = re.compile(
    r"<(?:([\w.-]{1,64}):)?"
    r"(url|sitemap|loc|link|guid|enclosure|content_loc|content_segment_loc|player_loc|thumbnail_loc|gallery_loc)"
    r"(?=[\s/>])([^<>]*)>([^<]*)",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"""(?<![\w:.-])([\w:.-]{1,64})\s{0,9}=\s{0,9}(?:"([^"]*)"|'([^']*)')""")
_ENTITY = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ESCAPES = {ord(sign): f"&{name};" for name, sign in _ENTITIES.items()}
_FEEDS = ("rss", "feed", "rdf")
_FOR_MACHINES = frozenset(("self", "edit", "edit-media", "hub", "service", "search", "replies", "stylesheet"))
_MEDIA = frozenset(
    ("enclosure", "content_loc", "content_segment_loc", "player_loc", "thumbnail_loc", "gallery_loc"),
)


class Sitemap(NamedTuple):
    """What a site says it has."""

    urls: list[str]
    sitemaps: list[str]  # further ones


def read_sitemap(content: bytes, url: str, content_type: str = "") -> Sitemap:
    """The URLs in `content`, which was found at `url`; none if it is not a sitemap."""
    text = _text(_unzipped(content), content_type)
    found = _Found(url)
    if "<" in text[:1024]:
        _read_elements(_without_sections(text), found)
    else:
        for line in _LINE.finditer(text):
            if not found.add(found.pages, line[1]):
                break
    return found.sitemap()


class _Found:
    """URLs gathered, each once, up to the limit."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.pages: dict[str, None] = {}
        self.media: dict[str, None] = {}
        self.sitemaps: dict[str, None] = {}
        self._left = 2 * URLS_MAX  # to be looked at, good or not
        self._last = ""

    def add(self, place: dict[str, None], text: str) -> bool:
        """Notes the URL in `text`, if there is one. Whether there is room for more."""
        text = text.strip()
        self._left -= 1
        if 0 < len(text) <= URL_CHARACTERS_MAX and text != self._last:
            self._last = text
            if url := self._resolved(_unescaped(text)):
                place[url] = None
        return self._left > 0 and len(place) < URLS_MAX

    def _resolved(self, text: str) -> str:
        """Canonical; empty if it is not an http or https URL."""
        if text[:8].lower().startswith(_WEB):
            whole = parsed_url(text)  # does not need the base, and costs a fifth
            return whole.href.partition("#")[0] if whole is not None else ""
        url = parse(text, self.base)
        return url.href.partition("#")[0] if url is not None and url.href.startswith(_WEB) else ""

    def sitemap(self) -> Sitemap:
        return Sitemap(list(self.pages | self.media)[:URLS_MAX], list(self.sitemaps))


def _read_elements(text: str, found: _Found) -> None:
    root = _ROOT.search(text, 0, 65_536)
    kind = root[1].lower() if root else ""
    inside = "sitemap" if kind == "sitemapindex" else "url"
    page_prefix: str | None = None  # of elements that do not belong to an extension
    for element in _ELEMENT.finditer(text):
        prefix, name, attributes, content = element.groups("")
        name = name.lower()
        if name in ("url", "sitemap"):
            inside, page_prefix = name, prefix
            if name == "sitemap" and content.strip() and not found.add(found.sitemaps, content):
                return
            continue
        if name == "loc":
            is_page = page_prefix is None or prefix == page_prefix
            place = found.sitemaps if inside == "sitemap" else found.pages if is_page else found.media
        else:
            place = found.media if name in _MEDIA else found.pages
        for candidate in _candidates(name, kind, attributes, content):
            if not found.add(place, candidate):
                return


def _candidates(name: str, kind: str, attributes: str, content: str) -> Iterator[str]:
    """What may be a URL in an element that is neither url nor sitemap."""
    if name.endswith("loc"):
        yield content
    elif name == "link" and kind != "html":
        values = _attributes(attributes)
        if not _FOR_MACHINES.intersection(values.get("rel", "").lower().split()):
            yield values.get("href") or (content if kind in _FEEDS else "")
    elif name == "guid" and _attributes(attributes).get("ispermalink", "").lower() != "false":
        if content.strip()[:4].lower() == "http":
            yield content
    elif name == "enclosure":
        yield _attributes(attributes).get("url", "")


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): first or second for name, first, second in _ATTRIBUTE.findall(text[:URL_CHARACTERS_MAX])}


def _unzipped(content: bytes) -> bytes:
    """Without gzip, as far as it is whole, up to the limit."""
    for _ in range(_LAYERS_MAX):
        if not content.startswith(_GZIP):
            break
        content = _gunzip(content)
    return content[:SITEMAP_BYTES_MAX]


def _gunzip(content: bytes) -> bytes:
    parts: list[bytes] = []
    room = SITEMAP_BYTES_MAX
    while room > 0 and content.startswith(_GZIP):
        member = zlib.decompressobj(31)
        try:
            parts.append(member.decompress(content, room))
        except zlib.error:
            parts.append(_gunzip_damaged(content, room))
            break
        room -= len(parts[-1])
        if not member.eof:
            break
        content = member.unused_data
    return b"".join(parts)


def _gunzip_damaged(content: bytes, room: int) -> bytes:
    """What comes before the damage."""
    member = zlib.decompressobj(31)
    parts: list[bytes] = []
    try:
        for start in range(0, len(content), 256):
            parts.append(member.decompress(content[start : start + 256], room))
            room -= len(parts[-1])
            if room <= 0:
                break
    except zlib.error:
        pass  # all before it is in the parts
    return b"".join(parts)


def _text(content: bytes, content_type: str) -> str:
    """Decoded as its byte order mark says, else as the XML declares, else the header; UTF-8 if nobody does."""
    for mark, codec in _BOMS:
        if content.startswith(mark):
            return content.decode(codec, "replace")
    if content[:4] in (b"<\0?\0", b"\0<\0?"):
        return content.decode("utf-16-le" if content[0] else "utf-16-be", "replace")
    declared = _DECLARED.search(content[:1024])
    codec = declared[1].decode("ascii", "replace") if declared else charset_of(content_type)
    if not _CODECS.match(codec):
        codec = "utf-8"
    try:
        return content.decode(codec, "replace")
    except LookupError:
        return content.decode("utf-8", "replace")


def _without_sections(text: str) -> str:
    """Comments gone, CDATA written with escapes. One without its end stays: too much is better than nothing."""
    for opening, closing, keep in (("<!--", "-->", False), ("<![CDATA[", "]]>", True)):
        parts: list[str] = []
        position = 0
        while (start := text.find(opening, position)) >= 0:
            end = text.find(closing, start + len(opening))
            if end < 0:
                break
            parts.append(text[position:start])
            if keep:
                parts.append(text[start + len(opening) : end].translate(_ESCAPES))
            position = end + len(closing)
        text = "".join((*parts, text[position:]))
    return text


def _unescaped(text: str) -> str:
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(entity: re.Match[str]) -> str:
    decimal, hexadecimal, name = entity.groups()
    if name:
        return _ENTITIES[name]
    number = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(number) if number < 0x110000 else "\ufffd"
