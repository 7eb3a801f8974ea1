"""A body as it comes in: in memory while it is small, in a file from then on, and never beyond its limit."""

from __future__ import annotations

from pathlib import Path
from typing import IO, NamedTuple


class Limits(NamedTuple):
    """Of one response."""

    body_bytes_max: int
    memory_bytes_max: int
    head_bytes_max: int


class Body:
    """Used for one response after the other; `take` is libcurl's write function."""

    def __init__(self, limits: Limits, spool: Path) -> None:
        self._limits = limits
        self._spool = spool
        self._name = ""
        self._file: IO[bytes] | None = None
        self._parts: list[bytes] = []
        self.lines: list[bytes] = []  # of the head, filled by libcurl
        self.path = ""  # of the file, once there is one
        self.size = 0
        self.full = False
        self.failure = ""  # why what comes cannot be taken

    def begin(self, name: str) -> None:
        """Empties it for a response; `name` is its file's, if it needs one."""
        self._name = name
        self.lines.clear()
        self.size = 0
        self.full = False
        self.failure = ""

    def head_size(self) -> int:
        return sum(map(len, self.lines))

    def take(self, data: bytes) -> int | None:
        """Keeps what came; anything but None ends the transfer."""
        limits = self._limits
        if not self.size and self.head_size() > limits.head_bytes_max:
            return -1
        if self.size + len(data) > limits.body_bytes_max:
            self.full = True
            data = data[: limits.body_bytes_max - self.size]
        self.size += len(data)
        if self._file is not None:
            self._write((data,))
        else:
            self._parts.append(data)
            if self.size > limits.memory_bytes_max:
                self._write(self._parts)
                self._parts = []
        return -1 if self.full or self.failure else None

    def end(self) -> tuple[bytes, str]:
        """What is in memory, and the path of the file if it is there instead: the caller's from now on."""
        if self._file is not None:
            self._file.close()
            self._file = None
        parts, path = self._parts, self.path
        self._parts, self.path = [], ""
        return parts[0] if len(parts) == 1 else b"".join(parts), path

    def drop(self) -> None:
        """Gives up what came."""
        _, path = self.end()
        if path:
            Path(path).unlink(missing_ok=True)

    def _write(self, parts: list[bytes] | tuple[bytes, ...]) -> None:
        try:
            if self._file is None:
                path = self._spool / self._name
                self._file = path.open("wb")
                self.path = str(path)
            self._file.writelines(parts)
        except OSError as problem:
            self.failure = f"cannot keep a large body in '{self._spool}': {problem}"
