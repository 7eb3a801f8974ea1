"""Streams of a hash volume, and the page displacement table of WebBase's section 3.4.

A scan reads a stretch of buckets in one stroke, since they lie side by side, and then the overflow buckets of all of
them, in the order of their places. Between the two, commits go on, and blocks move: from a bucket whose page has been
read into an overflow bucket that has not, and the other way round; and into other buckets, when one is split. The
*stream pointer* is the set of pages that have been read. What moves across it is noted in the table:

    block   moved       what becomes of it
    -----   ---------   -----------------------------------------------------------------------------------
    key     forward     it was read, and is now on a page that has not been read: it is skipped there
    key     backward    it was not read, and is now on a page that has been, or will not be: it is fetched at the end

If a block moves several times, its first place and its last one count. Its key is address enough: random access needs
no index. A table lives as long as its stretch. Nothing crosses the end of one, since the order of a scan is that of the
keys (`hash_reading`), so that a stream may be paused there for ever, and no table has to be kept for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final

from holdfast.storage.volume import BlockKey
from holdfast.storage.volumes.hash.chain import BucketId, Chain
from holdfast.storage.volumes.hash.files import OVERFLOW_FILE
from holdfast.storage.volumes.hash.page import BUCKET, PageId, bucket_of
from holdfast.storage.volumes.hash.reader import FoundBlock, HashReading, Overlay
from holdfast.storage.volumes.hash.salvage import Salvaged, salvaged_page

STRETCH_BYTES: Final = 4 << 20  # of buckets that are read at once


class Direction(Enum):
    """How a block moved, as seen from the stream pointer."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Displacements:
    """The table of one stream. Not thread-safe: the volume's lock of streams guards it."""

    def __init__(self) -> None:
        self.unread: set[PageId] = set()
        self._read: set[PageId] = set()
        self._rows: dict[BlockKey, Direction] = {}

    def passes(self, page: PageId) -> None:
        """The stream pointer moves past the page: it has been read."""
        self.unread.discard(page)
        self._read.add(page)

    def displaced(
        self, before: Mapping[BlockKey, PageId], after: Mapping[BlockKey, PageId], freed: Iterable[PageId]
    ) -> None:
        """Blocks were on these pages, and are on those now; some pages are of no more use."""
        for key, page in before.items():
            if after.get(key) == page:
                continue
            if key in self._rows:
                if key not in after and self._rows[key] is Direction.BACKWARD:
                    del self._rows[key]  # removed before it was read
            elif page in self._read:
                self._rows[key] = Direction.FORWARD
            elif page in self.unread and key in after:
                self._rows[key] = Direction.BACKWARD
        self.unread.difference_update(freed)

    def skips(self, key: BlockKey) -> bool:
        """Whether a block that was found on a page has been read before. If not, it counts as read now."""
        if self._rows.get(key) is Direction.FORWARD:
            return True
        if key in self._rows:
            self._rows[key] = Direction.FORWARD
        return False

    def missed(self) -> list[BlockKey]:
        """At the end: what moved backward, and was not found on the way."""
        return [key for key, direction in self._rows.items() if direction is Direction.BACKWARD]


class HashStreaming(HashReading):
    """The streams of the process that writes: they know what moves. `_streams_lock` is held while pages are written."""

    def _begin_streaming(self) -> None:
        self._streams_lock = threading.Lock()
        self._streams: set[Displacements] = set()

    def _note_displaced(self, before: Iterable[Chain], after: Iterable[Chain]) -> None:
        """Pages have just been written; the lock is held."""
        if self._streams:
            left, right = list(before), list(after)
            freed = {page.id for chain in left for page in chain.pages}
            freed -= {page.id for chain in right for page in chain.pages}
            old, new = _places(left), _places(right)
            for stream in self._streams:
                stream.displaced(old, new, freed)

    def _sweep(self, first: BucketId, end: int) -> tuple[list[FoundBlock], int]:
        """What is in the buckets from the first one on, as many as are read at once, and the position behind them.

        Nothing, and the position of the first, if that has been split meanwhile, or is damaged.
        """
        stream = Displacements()
        count = min(end - first.number, max(1, STRETCH_BYTES // self.identity.shape))
        with self._streams_lock:
            roots = self._roots(first, count)
            found = [each for root in roots for each in self._passed(root, stream)]
            for root in roots:
                assert root.head is not None
                stream.unread.update(PageId(OVERFLOW_FILE, number) for number, _ in root.head.chain)
            self._streams.add(stream)
        behind = first.number + len(roots)
        try:
            for part in self._overflows(stream):
                found += part
            with self._streams_lock:
                missed = stream.missed()
        finally:
            with self._streams_lock:
                self._streams.discard(stream)
        for key in missed:
            found += self._attempted(lambda overlay, key=key: self._found(key, overlay), lambda _: [])  # type: ignore[misc]
        inside = [each for each in found if first.number <= bucket_of(each.key.signature, first.buckets) < behind]
        return sorted(inside, key=lambda each: each.key), -(-(behind << 32) // first.buckets)

    def _roots(self, first: BucketId, count: int) -> list[Salvaged]:
        """The pages of the buckets, up to one that has been split meanwhile, or is damaged."""
        raw = self._files.read(first.page, count)
        size = self.identity.shape
        roots: list[Salvaged] = []
        for at in range(count):
            page = PageId(first.file, first.number + at)
            root = salvaged_page(page, raw[at * size : (at + 1) * size], self.identity.uid)
            if root.head is None or root.head.kind != BUCKET:
                break
            roots.append(root)
        return roots

    def _overflows(self, stream: Displacements) -> Iterator[list[FoundBlock]]:
        """What is on the pages chained to those read, page by page in the order of their places."""
        while True:
            with self._streams_lock:
                page = min(stream.unread, default=None)
                if page is None:
                    return
                found = self._passed(salvaged_page(page, self._files.read(page), self.identity.uid), stream)
            yield found

    def _passed(self, part: Salvaged, stream: Displacements) -> list[FoundBlock]:
        """What the stream gets from a page. Nothing may move between its reading and this."""
        stream.passes(part.id)
        found = (FoundBlock(entry, part.id, offset) for offset, entry in part.entries)
        return [each for each in found if not stream.skips(each.key)]

    def _found(self, key: BlockKey, overlay: Overlay) -> list[FoundBlock]:
        return [each for each in self._having(key.signature, overlay) if each.key == key]


def _places(chains: Iterable[Chain]) -> dict[BlockKey, PageId]:
    return {key: page for chain in chains for key, page in chain.places().items()}
