"""The outline of a catalog: its hosts, and the paths below them, level by level.

Keys are in the order of hosts and paths, so a listing skips: it reads the first capture of a host, then seeks past the
host's last one. Its cost depends on its own length, not on that of the catalog.

    com,example)/            PAGE      the page itself
    com,example)/?q=1        QUERIES   the page with queries
    com,example)/a           PAGE
    com,example)/a-z         PAGE      sorts between 'a' and the paths below it
    com,example)/a/b         FOLDER    'a/'
    com,example)/a?x=1       QUERIES   'a?'

All reading is bounded: captures are counted up to `COUNTED_MAX`, and a listing that has read `LOOKED_MAX` captures says
where to continue. Captures that `permits` refuses are left out; so is a host or path whose first `REFUSED_MAX` captures
are all refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Generic, TypeVar

from holdfast.arguments import checked
from holdfast.catalog.keys import after as beyond
from holdfast.catalog.keys import encoded
from holdfast.catalog.query.search import Permits
from holdfast.catalog.rows import CaptureRows, unpacked
from holdfast.model import Capture, Coverage
from holdfast.urls import parse, url_key, without_www

COUNTED_MAX = 1000  # captures counted per entry
REFUSED_MAX = 2000  # refused captures in a row after which an entry is left out
LOOKED_MAX = 200_000  # captures read by one listing
SKIPPED_MAX = 10_000  # hosts that do not match the search, or captures of another type
TYPED_MAX = 5000  # captures whose types are counted

Entry = TypeVar("Entry")
_HOST = re.compile(r"([^)/?]+)\)/")
_END = b"\xff"  # above every key of a collection: keys are ASCII


class ChildKind(StrEnum):
    """The kind of a name below a path."""

    PAGE = "page"
    FOLDER = "folder"
    QUERIES = "queries"


@dataclass(frozen=True, slots=True)
class Extent:
    """Captures of an entry; first and last time of those counted."""

    captures: int
    is_whole: bool  # False: there are more
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class HostEntry:
    key: str  # 'com,example:8080'
    host: str  # 'example.com:8080'
    extent: Extent
    capture: Capture  # the first by key

    @property
    def place(self) -> bytes:
        """The least of its places: listings are in this order."""
        return encoded(f"{self.key})/")


@dataclass(frozen=True, slots=True)
class OutlineChild:
    name: str  # a segment of the path, or a query, as keys have it
    kind: ChildKind
    path: str  # from the host's root, as keys have it; a folder's ends in '/', that of queries in '?'
    extent: Extent
    capture: Capture


@dataclass(frozen=True, slots=True)
class Listing(Generic[Entry]):
    """A part of a listing; `next` is the `after` of the next part, '' at the end."""

    entries: list[Entry]
    next: str = ""


@dataclass(frozen=True, slots=True)
class Types:
    """Captures by type, the most frequent first, among the first `looked` captures."""

    counts: list[tuple[str, int]]
    looked: int
    is_whole: bool


class Outline:
    """Reads the outline of a collection, or of all together (None). Thread-safe."""

    coverage: Coverage | None = None  # of a cluster: how much of it has answered so far

    def __init__(self, rows: CaptureRows, permits: Permits | None = None) -> None:
        self._rows = rows
        self._permits = permits

    @checked
    def hosts(
        self, collection: str | None, *, after: str = "", limit: int = 50, containing: str = ""
    ) -> Listing[HostEntry]:
        """Hosts in the order of their keys, so that those of a domain are adjacent."""
        wanted = containing.strip().lower()
        look = _Look(self._rows, collection, self._permits)
        entries: list[HostEntry] = []
        place = encoded(after)
        skipped = 0
        while (capture := look.first(place, _END)) is not None:
            start, place = key_bounds(capture.urlkey)
            if (key := _host_of_key(capture.urlkey)) is None:
                continue
            if wanted and wanted not in _name_of_key(key):
                skipped += 1
            elif (found := look.permitted(capture, (start, place))) is not None:
                entries.append(HostEntry(key, host_name(found), look.extent((start, place)), found))
            if len(entries) >= limit or skipped >= SKIPPED_MAX or look.is_spent:
                return Listing(entries, _text(place) if look.first(place, _END) else "")
        return Listing(entries)

    @checked
    def children(
        self, collection: str | None, host: str, path: str = "/", *, after: str = "", limit: int = 100
    ) -> Listing[OutlineChild]:
        """What is directly below a path of a host; the path ends in '/' or '?'."""
        look = _Look(self._rows, collection, self._permits)
        prefix = encoded(f"{host_prefix(host)}){path}")
        end = beyond(prefix)
        place = max(prefix, encoded(after))
        entries: list[OutlineChild] = []
        while (capture := look.first(place, end)) is not None:
            name, kind = _segment(capture.urlkey[len(prefix) :], in_query="?" in path)
            bounds = _bounds(prefix + encoded(name), kind)
            place = bounds[1]
            if (found := look.permitted(capture, bounds)) is not None:
                below = {ChildKind.PAGE: "", ChildKind.FOLDER: "/", ChildKind.QUERIES: "?"}[kind]
                entries.append(OutlineChild(name, kind, path + name + below, look.extent(bounds), found))
            if len(entries) >= limit or look.is_spent:
                return Listing(entries, _text(place) if look.first(place, end) else "")
        return Listing(entries)

    @checked
    def types(self, collection: str | None, host: str, path: str = "/") -> Types:
        """Types of the first captures below a path."""
        look = _Look(self._rows, collection, self._permits)
        prefix = encoded(f"{host_prefix(host)}){path}")
        counts: Counter[str] = Counter()
        looked = 0
        with closing(look.captures((prefix, beyond(prefix)))) as captures:
            for capture in captures:
                looked += 1
                if look.permits(capture):
                    counts[capture.mime] += 1
                if looked >= TYPED_MAX:
                    break
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return Types(ordered, sum(counts.values()), looked < TYPED_MAX)

    @checked
    def of_type(
        self, collection: str | None, host: str, path: str, mime: str, *, after: str = "", limit: int = 100
    ) -> Listing[Capture]:
        """The newest capture of each URL below a path that has this type."""
        look = _Look(self._rows, collection, self._permits)
        prefix = encoded(f"{host_prefix(host)}){path}")
        newest: dict[str, Capture] = {}
        with closing(look.captures((max(prefix, encoded(after)), beyond(prefix)))) as captures:
            for looked, capture in enumerate(captures):
                if capture.urlkey not in newest and (len(newest) >= limit or looked >= SKIPPED_MAX):
                    return Listing([*newest.values()], capture.urlkey)
                if capture.mime == mime and look.permits(capture):
                    newest[capture.urlkey] = capture
        return Listing([*newest.values()])


class _Look:
    """One pass over the catalog, which counts what it reads."""

    def __init__(self, rows: CaptureRows, collection: str | None, permits: Permits | None) -> None:
        self._rows = rows
        self._collection = collection
        self._permits = permits
        self._left = LOOKED_MAX

    @property
    def is_spent(self) -> bool:
        return self._left <= 0

    def permits(self, capture: Capture) -> bool:
        return self._permits is None or self._permits(capture)

    def first(self, start: bytes, end: bytes) -> Capture | None:
        self._left -= 1
        return self._rows.first_of(self._collection, (start, end)) if start < end else None

    def captures(self, bounds: tuple[bytes, bytes]) -> Generator[Capture, None, None]:
        yield from self._rows.scan(self._collection, bounds)

    def permitted(self, capture: Capture, bounds: tuple[bytes, bytes]) -> Capture | None:
        """The first capture there that may be shown; `capture` is the first of all."""
        if self.permits(capture):
            return capture
        with closing(self.captures(bounds)) as captures:
            for each in islice(captures, REFUSED_MAX):
                self._left -= 1
                if self.permits(each):
                    return each
        return None

    def extent(self, bounds: tuple[bytes, bytes]) -> Extent:
        """Number and times of the captures. Times are in the keys, so rows are unpacked for `permits` only."""
        count, first, last, looked = 0, "", "", 0
        with closing(self._rows.found(self._collection, bounds)) as found:  # type: ignore[type-var]
            for each in islice(found, COUNTED_MAX + REFUSED_MAX):
                looked += 1
                if self._permits is not None and not self._permits(unpacked(each)):
                    continue
                if count == COUNTED_MAX:
                    self._left -= looked
                    return Extent(count, False, first, last)
                time = each[0].rsplit(b" ", 2)[1].decode("ascii", "replace")
                count += 1
                first, last = min(first or time, time), max(last, time)
        self._left -= looked
        return Extent(count, looked < COUNTED_MAX + REFUSED_MAX, first, last)


def host_prefix(host: str) -> str:
    """The prefix of a host's keys, before the ')'. The host may have a port."""
    return url_key(f"http://{host}/").partition(")")[0]


def host_name(capture: Capture) -> str:
    """The host of a capture with its port, without 'www', which keys do not have."""
    url = parse(capture.url)
    if url is not None and url.scheme in ("http", "https") and url.host:
        return without_www(url.host) + (f":{url.port}" if url.port else "")
    return _name_of_key(capture.urlkey.partition(")")[0])


def _name_of_key(key: str) -> str:
    name, colon, port = key.partition(":")
    return ".".join(reversed(name.split(","))) + colon + port


def _host_of_key(key: str) -> str | None:
    """None for what has no host: 'dns:example.com'."""
    match = _HOST.match(key)
    return match[1] if match else None


def key_bounds(key: str) -> tuple[bytes, bytes]:
    """The range of places of a key's host; without a host, of its scheme or itself."""
    host = _host_of_key(key)
    if host is not None:
        return encoded(f"{host})/"), beyond(encoded(f"{host})/"))
    scheme, colon, rest = key.partition(":")
    has_no_ports = colon and rest[:1] > "9"  # 'dns:8080)/' is a host; behind 'dns:a' none of that name can follow
    start = encoded(scheme + colon if has_no_ports else key + " ")
    return start, beyond(start)


def _segment(rest: str, *, in_query: bool) -> tuple[str, ChildKind]:
    """The next name after a path, and the character that ends it."""
    if in_query:
        return rest, ChildKind.PAGE
    match = re.search(r"[/?]", rest)
    if match is None:
        return rest, ChildKind.PAGE
    return rest[: match.start()], ChildKind.FOLDER if match[0] == "/" else ChildKind.QUERIES


def _bounds(start: bytes, kind: ChildKind) -> tuple[bytes, bytes]:
    start += {ChildKind.PAGE: b" ", ChildKind.FOLDER: b"/", ChildKind.QUERIES: b"?"}[kind]
    return start, beyond(start)


def _text(place: bytes) -> str:
    return place.decode("utf-8", "surrogateescape")
