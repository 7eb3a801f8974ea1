"""The journal: all batches of an archive, read by frame, appended to."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.batches.batch import Batch, BatchState, Frames, file_generations, is_restoring, is_sealed, open_newest
from holdfast.batches.entry import JournalEntry, OpenFrame, parse_entries
from holdfast.batches.frame import FramePlace, Passed, Walked, decompress, walk
from holdfast.env import Environment, File, paths
from holdfast.env.lru import LruCache
from holdfast.errors import DamagedBatch, Denied, UnknownName
from holdfast.model import SERIAL_MAX

_FRAMES_KEPT = 64
_OPENED_BYTES_MAX = 32 << 20  # of frames of which single entries are read
_FILES_KEPT = 64


class Journal:
    """Any thread may read; one at a time may write."""

    def __init__(self, root: Path, env: Environment, *, writable: bool) -> None:
        self._root = root
        self._env = env
        self._writable = writable
        self._batches: dict[str, Batch] = {}
        self._lock = threading.Lock()  # guards the caches
        self._frames: LruCache[tuple[str, int, int, int], list[JournalEntry]] = LruCache(_FRAMES_KEPT)
        self._opened: LruCache[tuple[str, int, int, int], OpenFrame] = LruCache(
            _OPENED_BYTES_MAX, lambda frame: len(frame.content)
        )
        self._files: LruCache[tuple[str, int, int], File] = LruCache(_FILES_KEPT)  # the last reader closes one

    # -- what there is ------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The batches, in the order of their names."""
        directory = self._root / paths.BATCHES
        return [name for name in self._env.files.names(directory) if self._env.files.is_directory(directory / name)]

    def directory(self, batch: str) -> Path:
        return paths.batch_directory(self._root, batch)

    def is_sealed(self, batch: str) -> bool:
        return is_sealed(self._env, self.directory(batch))

    def is_restoring(self, batch: str) -> bool:
        """Whether a restore of the batch is unfinished."""
        return is_restoring(self._env, self.directory(batch))

    def files(self, batch: str) -> dict[int, int]:
        """Number and newest generation of each file."""
        return {number: each[-1] for number, each in file_generations(self._env, self.directory(batch)).items()}

    def require(self, batch: str) -> None:
        if batch not in self.names():
            known = ", ".join(self.names())
            raise UnknownName(f"no batch {batch!r}: {f'known are {known}' if known else 'the archive has none yet'}")

    def check_version(self) -> None:
        """Reads the head of each file. Raises FormatTooOld or FormatTooNew if another release wrote them."""
        for batch in self.names():
            for number in self.files(batch):
                next(self.walk_file(batch, number), None)

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, batch: str, place: FramePlace) -> list[JournalEntry]:
        """The entries of a frame. Raises DamagedBatch, or FileNotFoundError if the file was rewritten meanwhile."""
        key = (batch, place.number, place.generation, place.offset)
        with self._lock:
            entries = self._frames.get(key)
            if entries is not None:
                return entries
        with self._named(batch, place):
            entries = parse_entries(self._content(batch, place))
        with self._lock:
            self._frames.put(key, entries)
        return entries

    def read_one(self, batch: str, place: FramePlace, serial: int) -> JournalEntry | None:
        """One entry of a frame, or None; the others are not parsed. Raises as `read`."""
        key = (batch, place.number, place.generation, place.offset)
        with self._named(batch, place):
            with self._lock:
                frame = self._opened.get(key)
            if frame is None:
                frame = OpenFrame(self._content(batch, place))
                with self._lock:  # pages and their resources are adjacent
                    self._opened.put(key, frame)
            entry = frame.entry(serial - place.first_serial)
        if entry is not None and entry.serial == serial:
            return entry
        return next((entry for entry in self.read(batch, place) if entry.serial == serial), None)

    def content(self, batch: str, place: FramePlace) -> bytes:
        """A frame's content, not cached. Raises as `read`."""
        with self._named(batch, place):
            return self._content(batch, place)

    def _content(self, batch: str, place: FramePlace) -> bytes:
        return decompress(self._file(batch, place.number, place.generation).read(place.offset, place.length))

    @contextmanager
    def _named(self, batch: str, place: FramePlace) -> Iterator[None]:
        """Adds the name of the file and the offset in it to an error."""
        try:
            yield
        except DamagedBatch as error:
            name = self.directory(batch) / paths.records_name(place.number, place.generation)
            raise DamagedBatch(f"cannot read '{name}' at {place.offset}: {error}; run 'holdfast check'") from None

    def _file(self, batch: str, number: int, generation: int) -> File:
        key = (batch, number, generation)
        with self._lock:
            file = self._files.get(key)
            if file is None:
                file = self._env.files.open(self.directory(batch) / paths.records_name(number, generation))
                self._files.put(key, file)
            return file

    def walk(self, batch: str) -> Iterator[Walked | Passed]:
        """Everything in a batch, in order, without seek tables."""
        for number in self.files(batch):
            yield from self.walk_file(batch, number)

    def walk_file(self, batch: str, number: int) -> Iterator[Walked | Passed]:
        """Everything in one file of a batch, in its newest generation."""
        file, generation = open_newest(self._env, self.directory(batch), number)
        try:
            for found in walk(file, number, generation):
                if isinstance(found, Passed) or found.place.entries:
                    yield found
        finally:
            file.close()

    # -- writing ------------------------------------------------------------------------------------------------

    def recover(self, batch: str, known: BatchState, unsure: int = SERIAL_MAX) -> Iterator[Walked]:
        """See `Batch.recover`. Required before a batch is written."""
        opened = Batch(batch, self.directory(batch), self._env)
        self._batches[batch] = opened
        yield from opened.recover(known, unsure)

    def batch(self, name: str) -> Batch:
        """The batch, open for writing. Its first entry creates it."""
        if not self._writable:
            raise Denied("the archive is open for reading only")
        if name not in self._batches:
            self._batches[name] = Batch(name, self.directory(name), self._env)
        return self._batches[name]

    def append(self, batch: str, entries: Sequence[JournalEntry]) -> Frames:
        """Appends the entries with new serial numbers. Durable on return."""
        return self.batch(batch).append(entries)

    def forget(self, batch: str, number: int) -> None:
        """Closes open files that were rewritten."""
        with self._lock:
            for key in [key for key in self._frames if key[:2] == (batch, number)]:
                self._frames.pop(key)
            for key in [key for key in self._opened if key[:2] == (batch, number)]:
                self._opened.pop(key)
            for file_key in [key for key in self._files if key[:2] == (batch, number)]:
                self._files.pop(file_key)

    def close(self) -> None:
        for batch in self._batches.values():
            batch.close()
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()
            self._frames.clear()
            self._opened.clear()
