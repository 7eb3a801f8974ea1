"""Log volumes on a file system with two tiers: what is added to `LogVolume` and `LogReader`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from holdfast.errors import VolumeDown, VolumeFull
from holdfast.storage.volume import Block, BlockKey
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES
from holdfast.storage.volumes.log.volume import LogReader, LogVolume
from holdfast.storage.volumes.object.range_cache import ObjectGone
from holdfast.storage.volumes.object.tiered_files import TieredFiles
from holdfast.storage.volumes.object.uploader import Uploader
from holdfast.storage.volumes.spec import VolumeSpec

KEEP_BYTES_MAX = 16 << 20  # a tail up to this size goes on growing after a clean close; it is copied, not moved
_Fetch = Callable[[Sequence[BlockKey]], list[Block | None]]


class _Fetcher:
    """Reads the blocks of a batch at once, where some of them are in the store."""

    def __init__(self, files: TieredFiles) -> None:
        self._files = files
        self._pool: ThreadPoolExecutor | None = None

    def fetch(self, read: _Fetch, keys: Sequence[BlockKey]) -> list[Block | None]:
        if len(keys) < 2 or not self._files.any_uploaded:
            return read(keys)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._files.bucket.requests_max, thread_name_prefix="fetch")
        share = -(-len(keys) // self._files.bucket.requests_max)
        shares = [keys[start : start + share] for start in range(0, len(keys), share)]
        return [block for part in self._pool.map(read, shares) for block in part]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


class ObjectVolume(LogVolume):
    """A log volume whose segments move into a store. Threads: as `LogVolume`; the uploader has one of its own."""

    def __init__(self, spec: VolumeSpec, files: TieredFiles) -> None:
        self._files = files
        self._fetcher = _Fetcher(files)
        self._staged_before = 0
        super().__init__(spec.name, spec.directory, spec.identity, spec.settings, spec.env)
        self.uploader = Uploader(files, spec.settings.stage_bytes_max)
        files.uploads = self.uploader
        try:
            self._stage()
            self.uploader.doom(files.doomed)
        except BaseException:
            self.uploader.close()
            self.keydir.abandon()
            raise

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        return self._fetcher.fetch(super().fetch, keys)

    # -- staging ------------------------------------------------------------------------------------------------

    def settle(self, prepared: object) -> None:
        """A segment is staged only when the log is durable beyond it: until then it may have to be cut back."""
        super().settle(prepared)
        if self._tail_number != self._staged_before:
            self._stage()

    def _seal(self) -> None:
        super()._seal()
        self._stage()

    def _stage(self) -> None:
        """Every segment but the tail is to be uploaded."""
        self._staged_before = self._tail_number
        tail = self._tail_name()
        for name in self._files.staged():
            if name != tail:
                self.uploader.add(name)

    def _tail_name(self) -> str:
        if not self._tail_number:
            return ""
        generation = self.ledger.segments[self._tail_number].generation
        return self._segments.path(self._tail_number, generation).name

    # -- closing ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """As `LogVolume`; besides, everything is in the store then, unless that is away."""
        if self._failure is None:
            self.flush()
            if self.uploader.failure is None:
                with suppress(VolumeFull, VolumeDown):  # the store went away just now: the tail stays as it is
                    self._hand_over_tail()
        self.uploader.close()
        self._files.uploads = None
        super().close()
        self._fetcher.close()
        self._files.bucket.close()

    def _hand_over_tail(self) -> None:
        """A large tail is sealed. A small one is copied, so that many short lives do not make many small segments."""
        size = self.ledger.position.offset
        if not self._tail_number or size <= SEGMENT_HEADER_BYTES:
            return
        if size > min(KEEP_BYTES_MAX, self.settings.segment_bytes_max // 4):
            self.seal()
            return
        name = self._tail_name()
        known = self._files.uploaded(name)
        if known is None or (known.size, known.term) != (size, self._files.ownership.term):
            self.uploader.add(name, keep=True)


class ObjectReader(LogReader):
    """An object-store volume open for reading, while another process may write to it."""

    def __init__(self, spec: VolumeSpec, files: TieredFiles) -> None:
        self._files = files
        self._fetcher = _Fetcher(files)
        super().__init__(spec.name, spec.directory, spec.identity, spec.settings, spec.env)

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        return self._fetcher.fetch(super().fetch, keys)

    def scan(self, **options: Any) -> Iterator[list[Block]]:
        """As `LogReader`. An object that the writer's compaction has removed meanwhile cannot be read to its end, as a
        file could: then the scan goes on behind the last block that it gave."""
        seen, failed_after = -1, -2
        while True:
            try:
                for batch in super().scan(**options):
                    fresh = [block for block in batch if block.serial > seen]
                    if fresh:
                        seen = fresh[-1].serial
                        yield fresh
                return
            except ObjectGone:
                if seen == failed_after:
                    raise  # looked for twice: it is lost
                failed_after = seen
                self.refresh()

    def close(self) -> None:
        super().close()
        self._fetcher.close()
        self._files.bucket.close()
