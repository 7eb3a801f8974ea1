"""Records that were removed and are not to come back: one line of 32 hexadecimal digits for each, its fingerprint.

They are kept in memory while the archive is open for writing. A record is refused whatever collection it is meant for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.env import Environment, paths
from holdfast.env.files import read_file

_LINE = 33
_MARK = re.compile(rb"[0-9a-f]{32}")


class Refusals:
    """Any thread may ask; one at a time may add."""

    def __init__(self, root: Path, env: Environment) -> None:
        self._path = root / paths.REFUSED
        self._env = env
        self._marks = set(self.all())

    def __contains__(self, mark: bytes) -> bool:
        return mark in self._marks

    def __bool__(self) -> bool:
        return bool(self._marks)

    def add(self, marks: Sequence[bytes]) -> None:
        """Durable on return. Those that are there already do no harm."""
        if not marks:
            return
        files = self._env.files
        fresh = not files.exists(self._path)
        file = files.open(self._path, writable=True, create=fresh)
        try:
            file.truncate(file.size() - file.size() % _LINE)  # a line that was torn
            file.append(["".join(f"{each.hex()}\n" for each in marks).encode()])
            file.sync()
        finally:
            file.close()
        if fresh:
            files.sync_directory(self._path.parent)
        self._marks.update(marks)

    def all(self) -> Iterator[bytes]:
        """Those in the file."""
        try:
            text = read_file(self._env.files, self._path)
        except FileNotFoundError:
            return
        for start in range(0, len(text), _LINE):  # by place, for a power cut may have spoiled a line and its end
            if _MARK.fullmatch(line := text[start : start + _LINE - 1]):
                yield bytes.fromhex(line.decode())
