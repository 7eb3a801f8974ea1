"""One batch: a directory of journal files. Entries are appended to the last one.

A file that has reached its limit is finished with a seek table, and the next one is started. A removal rewrites a file
as the next generation of the same number. The newest generation counts; older ones are deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from holdfast.batches.entry import FILE_HEAD, REMOVED, JournalEntry, encode, numbered
from holdfast.batches.frame import FramePlace, Passed, Walked, frame_compressor, seek_table, walk
from holdfast.env import Environment, File, paths
from holdfast.env.files import read_file, replace_file
from holdfast.errors import BatchSealed, DamagedBatch, TooLarge, VolumeDown
from holdfast.model import SERIAL_MAX

FRAME_BYTES = 64 << 10  # of entries compressed together; more means smaller files and slower reads
FILE_BYTES_MAX = 256 << 20  # a removal rewrites whole files
_CHUNK = 1 << 20
_OPEN_TRIES = 100


Frames = list[tuple[FramePlace, list[JournalEntry]]]  # as written, with their entries


@dataclass(slots=True)
class Tail:
    """Where the next entry is written."""

    number: int = 0  # 0: there is no file yet
    generation: int = 0
    end: int = 0
    next_serial: int = 1
    finished: bool = True  # the file is finished


@dataclass(slots=True)
class BatchState:
    """How much of a batch a reader knows: generation and end of each file, and the next serial number."""

    files: dict[int, tuple[int, int]] = field(default_factory=dict)
    next_serial: int = 1

    def pack(self) -> bytes:
        files = [[number, *facts] for number, facts in self.files.items()]
        return json.dumps({"files": files, "next_serial": self.next_serial}).encode()

    @classmethod
    def unpack(cls, packed: bytes | None) -> BatchState:
        if not packed:
            return cls()
        facts = json.loads(packed)
        return cls({number: (generation, end) for number, generation, end in facts["files"]}, facts["next_serial"])


def file_generations(env: Environment, directory: Path) -> dict[int, list[int]]:
    """The journal files by number, each with its generations in ascending order."""
    found: dict[int, list[int]] = {}
    for name in env.files.names(directory):
        parsed = paths.parse_records_name(name)
        if parsed is not None:
            found.setdefault(parsed[0], []).append(parsed[1])
    return {number: sorted(found[number]) for number in sorted(found)}


def open_newest(env: Environment, directory: Path, number: int) -> tuple[File, int]:
    """A file in its newest generation, and that generation. A removal may replace it at any moment."""
    for _ in range(_OPEN_TRIES):
        generations = file_generations(env, directory).get(number)
        if not generations:
            break
        try:
            return env.files.open(directory / paths.records_name(number, generations[-1])), generations[-1]
        except FileNotFoundError:
            continue
    raise DamagedBatch(f"'{directory / paths.records_name(number, 0)}' is missing")


def is_sealed(env: Environment, directory: Path) -> bool:
    return env.files.exists(directory / paths.SEALED)


def is_restoring(env: Environment, directory: Path) -> bool:
    """Whether a restore of the batch is unfinished."""
    return env.files.exists(directory / paths.RESTORING)


class Batch:
    """A batch open for writing, by one thread at a time. If it cannot undo a failed write, it refuses further ones."""

    def __init__(self, name: str, directory: Path, env: Environment) -> None:
        self.name = name
        self.directory = directory
        self.tail = Tail()
        self.ends: dict[int, tuple[int, int]] = {}  # generation and end of each file, a seek table not counted
        self._env = env
        self._compressor = frame_compressor()
        self._file: File | None = None
        self._unsure = SERIAL_MAX
        self.failed = False

    # -- opening ------------------------------------------------------------------------------------------------

    def state(self) -> BatchState:
        """Its current extent."""
        return BatchState(dict(self.ends), self.tail.next_serial)

    def recover(self, known: BatchState, unsure: int = SERIAL_MAX) -> Iterator[Walked]:
        """Yields the frames that are not known yet, cuts off a torn tail, and prepares for writing.

        Entries from serial `unsure` on may not have been acknowledged: damage there was left by a power cut during a
        write of several frames, and is cut off with the frames after it.
        """
        self._unsure = unsure
        self.tail.next_serial = known.next_serial
        for number, generations in file_generations(self._env, self.directory).items():
            for old in generations[:-1]:
                self._env.files.remove(self.directory / paths.records_name(number, old))
            generation = generations[-1]
            known_generation, end = known.files.get(number, (generation, 0))
            start = end if known_generation == generation else 0
            reached = self.tail.next_serial if start or number not in known.files else 0
            yield from self._recover_file(number, generation, start, reached)
            self.ends[number] = (generation, self.tail.end)

    def _recover_file(self, number: int, generation: int, start: int, reached: int) -> Iterator[Walked]:
        """`reached` is above all known serials before `start`."""
        file = self._open(number, generation)
        start = start if start <= file.size() else 0  # it was replaced by an older file
        tail = Tail(number, generation, start, self.tail.next_serial, finished=False)
        try:
            for found in walk(file, number, generation, start):
                if isinstance(found, Passed):
                    torn = found.torn or reached >= self._unsure
                    if torn and not is_sealed(self._env, self.directory):
                        file.truncate(found.offset)
                        file.sync()
                        break
                    continue
                tail.finished = found.place.entries == 0
                if not tail.finished:  # the next opening finds the seek table again, which marks the end
                    tail.end = found.place.offset + found.place.length
                for entry in found.entries:
                    reached = max(reached, entry.serial + 1)
                tail.next_serial = max(tail.next_serial, reached)
                if not tail.finished:
                    yield found
            if tail.end > start:
                file.sync()  # a killed process may have left it unsynced
        finally:
            file.close()
        self.tail = tail

    def _open(self, number: int, generation: int) -> File:
        return self._env.files.open(self.directory / paths.records_name(number, generation), writable=True)

    # -- writing ------------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[JournalEntry]) -> Frames:
        """Appends the entries and gives them serial numbers. Durable on return."""
        if is_restoring(self._env, self.directory):
            raise BatchSealed(
                f"batch {self.name!r} is not completely restored: run 'holdfast batch restore' again, "
                "or name another batch"
            )
        first = self.tail.next_serial
        if first + len(entries) > SERIAL_MAX:
            raise TooLarge(f"batch {self.name!r} has no serial numbers left: name another one")
        return self.append_numbered([numbered(entry, first + index) for index, entry in enumerate(entries)])

    def append_numbered(self, entries: Sequence[JournalEntry]) -> Frames:
        """Appends entries that have serial numbers, ascending and above all existing ones. Durable on return."""
        self._require_open()
        assert entries[0].serial >= self.tail.next_serial
        packed = list(self._packed(entries))
        try:
            return self._write(packed, entries[-1].serial + 1)
        except BaseException:
            self._cut_back()
            raise

    def _write(self, packed: list[tuple[bytes, int, list[JournalEntry]]], next_serial: int) -> Frames:
        if not self.tail.finished and self.tail.end >= FILE_BYTES_MAX:
            self._finish_file()
        file = self._current()
        tail = self.tail
        places = []
        end = tail.end
        for frame, size, entries in packed:
            place = FramePlace(tail.number, tail.generation, end, len(frame), size, entries[0].serial, len(entries))
            places.append((place, entries))
            end += len(frame)
        file.append([frame for frame, _, _ in packed])
        file.sync()
        tail.end = end
        tail.next_serial = next_serial
        self.ends[tail.number] = (tail.generation, end)
        return places

    def _cut_back(self) -> None:
        """Undoes a failed append; if that fails, the batch refuses to write."""
        self.failed = True
        if self._file is not None:
            self._file.truncate(self.tail.end)
            self._file.sync()
        self.failed = False

    def _packed(self, entries: Sequence[JournalEntry]) -> Iterator[tuple[bytes, int, list[JournalEntry]]]:
        """Frames of about the target size, with the size of their content and their entries."""
        texts: list[bytes] = []
        gathered: list[JournalEntry] = []
        size = 0
        for entry in entries:
            text = encode(entry)
            texts.append(text)
            gathered.append(entry)
            size += len(text)
            if size >= FRAME_BYTES:
                yield self._compressor.compress(b"".join(texts)), size, gathered
                texts, gathered, size = [], [], 0
        if texts:
            yield self._compressor.compress(b"".join(texts)), size, gathered

    def _current(self) -> File:
        tail = self.tail
        if self._file is None and not tail.finished:
            self._file = self._open(tail.number, tail.generation)
        if self._file is None:
            self._env.files.make_directory(self.directory)
            head = self._compressor.compress(encode(self._file_head(tail.number + 1)))
            self._file = self._begun(tail.number + 1, head)
            self.tail = Tail(tail.number + 1, 0, len(head), tail.next_serial, finished=False)
        return self._file

    def _begun(self, number: int, head: bytes) -> File:
        """Creates a file with its head, or none if that cannot be written."""
        file = self._create(number, 0)
        try:
            file.append([head])
        except BaseException:
            file.close()
            self._env.files.remove(file.path)
            raise
        return file

    def _create(self, number: int, generation: int) -> File:
        path = self.directory / paths.records_name(number, generation)
        file = self._env.files.open(path, writable=True, create=True)
        self._env.files.sync_directory(self.directory)
        return file

    def _file_head(self, number: int) -> JournalEntry:
        now = datetime.fromtimestamp(self._env.clock(), UTC).strftime("%Y%m%d%H%M%S")
        return JournalEntry(FILE_HEAD, f"holdfast:batch/{self.name}/{number}", now, b"")

    def finish_file(self) -> None:
        """Finishes the current file; later entries go to a new one."""
        if not self.tail.finished:
            self._finish_file()

    def _finish_file(self) -> None:
        file = self._current()
        sizes = [
            (found.place.length, found.place.size)
            for found in walk(file, self.tail.number, self.tail.generation)
            if isinstance(found, Walked)
        ]
        file.append([seek_table(sizes)])
        file.sync()
        self.close()
        self.tail.finished = True

    # -- sealing ------------------------------------------------------------------------------------------------

    def seal(self) -> None:
        """Seals the batch: its files are listed with sizes and digests. Idempotent."""
        if is_sealed(self._env, self.directory):
            return
        self.finish_file()
        self.write_seal()

    def write_seal(self) -> None:
        files = {}
        for number, generations in file_generations(self._env, self.directory).items():
            name = paths.records_name(number, generations[-1])
            size, digest = file_digest(self._env, self.directory / name)
            files[name] = {"bytes": size, "sha256": digest}
        facts = {"batch": self.name, "next_serial": self.tail.next_serial, "files": files}
        replace_file(self._env.files, self.directory / paths.SEALED, json.dumps(facts, indent=1).encode() + b"\n")

    # -- restoring ----------------------------------------------------------------------------------------------

    def begin_restore(self, backup: str) -> None:
        """Until `end_restore`, the batch accepts only records of the backup. Durable on return. Idempotent."""
        self._env.files.make_directory(self.directory)
        facts = json.dumps({"batch": self.name, "backup": backup}).encode() + b"\n"
        replace_file(self._env.files, self.directory / paths.RESTORING, facts)

    def end_restore(self) -> None:
        """Marks the batch as complete."""
        self._env.files.remove(self.directory / paths.RESTORING)
        self._env.files.sync_directory(self.directory)

    # -- removing -----------------------------------------------------------------------------------------------

    def rewrite(self, number: int, generation: int, serials: set[int]) -> Frames:
        """Rewrites a file without the entries of these serials; only their numbers stay. Durable on return.

        The old generation stays until `drop`, so that readers that know only it can continue.
        """
        if number == self.tail.number:
            self.finish_file()
        draft = self.directory / (paths.records_name(number, generation + 1) + paths.UNFINISHED)
        self._env.files.remove(draft)
        source = self._open(number, generation)
        target = self._env.files.open(draft, writable=True, create=True)
        try:
            places = self._copy(source, target, (number, generation), serials)
            target.sync()
        finally:
            source.close()
            target.close()
        self._env.files.rename(draft, self.directory / paths.records_name(number, generation + 1))
        self._env.files.sync_directory(self.directory)
        if number == self.tail.number:
            self.tail.generation = generation + 1
        self.ends[number] = (generation + 1, sum(place.length for place, _ in places))
        return places

    def _copy(self, source: File, target: File, file: tuple[int, int], serials: set[int]) -> Frames:
        places: Frames = []
        sizes: list[tuple[int, int]] = []
        end = 0
        for found in walk(source, *file):
            if isinstance(found, Passed):  # unreadable: it stays as it is
                target.append([source.read(found.offset, found.length)])
                sizes.append((found.length, 0))
                end += found.length
                continue
            if found.place.entries == 0:
                continue
            kept = [bare(entry) if entry.serial in serials else entry for entry in found.entries]
            if serials.isdisjoint(entry.serial for entry in found.entries):
                frame, size = source.read(found.place.offset, found.place.length), found.place.size
            else:
                text = b"".join(map(encode, kept))
                frame, size = self._compressor.compress(text), len(text)
            target.append([frame])
            first = found.place.first_serial
            places.append((FramePlace(file[0], file[1] + 1, end, len(frame), size, first, len(kept)), kept))
            sizes.append((len(frame), size))
            end += len(frame)
        target.append([seek_table(sizes)])
        return places

    def drop(self, number: int, generation: int) -> None:
        """Deletes an old generation of a file."""
        self._env.files.remove(self.directory / paths.records_name(number, generation))
        self._env.files.sync_directory(self.directory)

    # -- life ---------------------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self.failed:
            raise VolumeDown(f"batch {self.name!r} failed to write before; open the archive again")
        if is_sealed(self._env, self.directory):
            raise BatchSealed(f"batch {self.name!r} is sealed: name another one")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def bare(entry: JournalEntry) -> JournalEntry:
    """What stays of a removed entry: its number, so that it is not used again."""
    return JournalEntry(REMOVED, "-", "19700101000000", b"", serial=entry.serial)


def file_digest(env: Environment, path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    file = env.files.open(path)
    try:
        digest = hashlib.sha256()
        at = 0
        while chunk := file.read(at, _CHUNK):
            digest.update(chunk)
            at += len(chunk)
        return at, digest.hexdigest()
    finally:
        file.close()


def read_seal(env: Environment, directory: Path) -> dict[str, object] | None:
    """What SEALED says; None if the batch is open. Raises DamagedBatch."""
    try:
        facts = json.loads(read_file(env.files, directory / paths.SEALED))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedBatch(f"cannot read '{directory / paths.SEALED}': {error}") from None
    if not isinstance(facts, dict) or not isinstance(facts.get("files"), dict):
        raise DamagedBatch(f"cannot read '{directory / paths.SEALED}': it lists no files")
    return facts
