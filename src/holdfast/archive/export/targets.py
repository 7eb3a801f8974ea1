"""Where an export goes: files that get their name when they are whole, or a stream; and what was written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, cast

from holdfast.env.files import Buffer, translated_errors
from holdfast.errors import UsageError

_BUFFER = 1 << 20


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written."""

    records: int
    bytes: int
    files: tuple[str, ...]
    missing: int = 0  # records that should have been written and are not there any more
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class ExportTally:
    """Counts while an export runs."""

    progress: Callable[[int], None] | None = None
    records: int = 0
    bytes: int = 0
    missing: int = 0
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def advance(self, count: int) -> None:
        self.bytes += count
        if self.progress is not None:
            self.progress(count)

    def report(self) -> ExportReport:
        return ExportReport(self.records, self.bytes, tuple(self.files), self.missing, tuple(self.notes))


class _Counting:
    """A stream that tells how much passes."""

    def __init__(self, sink: IO[bytes], tally: ExportTally) -> None:
        self._sink = sink
        self._tally = tally

    def write(self, data: Buffer) -> int:
        self._sink.write(data)
        self._tally.advance(len(data))
        return len(data)

    def flush(self) -> None:
        self._sink.flush()


def regular(path: Path) -> Path:
    """The path, if a file can be put there. Raises UsageError for a directory or a device."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a directory: name a file")
    if path.exists() and not path.is_file():
        raise UsageError(f"'{path}' is no regular file")
    return path


@contextmanager
def output(target: Path | BinaryIO, tally: ExportTally) -> Iterator[BinaryIO]:
    """A sink. A file is whole, durable and has its name on leaving; after an exception nothing is left of it."""
    if not isinstance(target, Path):
        yield cast(BinaryIO, _Counting(target, tally))
        target.flush()
        return
    draft = regular(target).with_name(target.name + ".open")
    with translated_errors(target):
        file = draft.open("wb", buffering=_BUFFER)
    try:
        yield cast(BinaryIO, _Counting(file, tally))
        with translated_errors(draft):
            file.flush()
            os.fsync(file.fileno())
            file.close()
            draft.replace(target)
        tally.files.append(str(target))
    except BaseException:
        file.close()
        draft.unlink(missing_ok=True)
        raise
