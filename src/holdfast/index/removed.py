"""`removed`: the records that are not to be found any more though they are still in the index, one a line.

    202611-0000004711            it left the archive
    202611-0000004902 again      a revisit of one that did: it is to be indexed again, without that one's text

A removal appends to it before it is acknowledged; from then on nobody finds them. Who writes the index next takes them
out of the words and the tables and clears what it has done. `removed.lock` keeps the two apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from holdfast.env import Environment, brief_lock
from holdfast.env.files import read_file, replace_file
from holdfast.errors import DamagedIndex, MalformedKey
from holdfast.index import layout
from holdfast.index.state import REPAIR
from holdfast.model import RecordId

_AGAIN = "again"
_LINE = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,63}}-\d{{10}}( {_AGAIN})?", re.ASCII)


class Waiting(NamedTuple):
    """Records that are to be taken out of the index."""

    gone: frozenset[RecordId] = frozenset()  # for good
    again: frozenset[RecordId] = frozenset()  # to be indexed again

    @property
    def all(self) -> frozenset[RecordId]:
        return self.gone | self.again


class RemovedRecords:
    """The file in one index. Any process may call any method at any time."""

    def __init__(self, directory: Path, env: Environment) -> None:
        self._directory = directory
        self._path = directory / layout.REMOVED
        self._env = env

    def add(self, gone: Iterable[RecordId], again: Iterable[RecordId] = ()) -> None:
        """Appends records that left the archive, and those to be indexed again. Durable on return."""
        text = _text(Waiting(frozenset(gone), frozenset(again)))
        files = self._env.files
        with self._locked():
            fresh = not files.exists(self._path)
            file = files.open(self._path, writable=True, create=fresh)
            try:
                whole = file.read(0, file.size()).rfind(b"\n") + 1
                file.truncate(whole)  # a line that a crash cut off was not acknowledged, and comes again
                file.append([text])
                file.sync()
            finally:
                file.close()
            if fresh:
                files.sync_directory(self._directory)

    def read(self) -> Waiting:
        """All of them. Raises DamagedIndex."""
        try:
            lines = read_file(self._env.files, self._path).decode("ascii", "replace").split("\n")
        except FileNotFoundError:
            return Waiting()
        try:  # a last line that was being written belongs to a removal that is not acknowledged yet
            words = [line.split(" ") for line in lines[:-1] if line]
            gone = frozenset(RecordId.parse(name) for name, *rest in words if not rest)
            return Waiting(gone, frozenset(RecordId.parse(name) for name, *rest in words if rest) - gone)
        except MalformedKey as error:
            raise DamagedIndex(f"cannot read '{self._path}': {error}; {REPAIR}") from None

    def clear(self, done: Waiting) -> None:
        """Takes those out that are settled. Durable on return."""
        with self._locked():
            waiting = self.read()
            left = Waiting(waiting.gone - done.gone, waiting.again - done.again - done.gone)
            if left.all:
                replace_file(self._env.files, self._path, _text(left))
            else:
                self._env.files.remove(self._path)
                self._env.files.sync_directory(self._directory)

    @property
    def is_sound(self) -> bool:
        try:
            self.read()
        except DamagedIndex:
            return False
        return True

    def mend(self) -> None:
        """Drops lines that make no sense. Only after a build: what they named was not in the archive when it began."""
        with self._locked():
            if not self.is_sound:
                lines = read_file(self._env.files, self._path).decode("ascii", "replace").split("\n")[:-1]
                kept = [line for line in lines if _LINE.fullmatch(line)]
                replace_file(self._env.files, self._path, "".join(f"{line}\n" for line in kept).encode())

    def mark(self) -> tuple[int, int, int] | None:
        """Changes whenever the file does; cheap."""
        try:
            facts = os.stat(self._path)
        except FileNotFoundError:
            return None
        return facts.st_ino, facts.st_size, facts.st_mtime_ns

    def _locked(self) -> AbstractContextManager[None]:
        return brief_lock(self._directory / layout.REMOVED_LOCK)


def _text(waiting: Waiting) -> bytes:
    lines = [f"{record}\n" for record in sorted(waiting.gone)]
    lines += [f"{record} {_AGAIN}\n" for record in sorted(waiting.again - waiting.gone)]
    return "".join(lines).encode()
