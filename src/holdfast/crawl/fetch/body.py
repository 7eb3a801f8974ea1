"""A body as it comes in: in memory while it is small, in a file from then on, and never beyond its limit.

That the file cannot be written is no fault of the page: `failure` says so, and nothing is left behind.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple


class BodyLimits(NamedTuple):
    """Of one response."""

    body_bytes_max: int
    memory_bytes_max: int
    head_bytes_max: int


class ResponseBody:
    """Used for one response after the other; `take` is libcurl's write function."""

    def __init__(self, limits: BodyLimits, spool: Path) -> None:
        self._limits = limits
        self._spool = spool
        self._name = ""
        self._file: IO[bytes] | None = None
        self._parts: list[bytes] = []
        self.lines: list[bytes] = []  # of the head, filled by libcurl
        self.path = ""  # of the file, once there is one
        self.size = 0
        self.full = False
        self.failure = ""  # why what comes cannot be kept: our own trouble, not the server's

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

    def settle(self) -> None:
        """All has come. From now on `failure` is the last word: what was written is with the system, or is not."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()  # writes what it still holds
            except OSError as problem:
                self._fail(problem)

    def end(self) -> tuple[bytes, str]:
        """What is in memory, and the path of the file if it is there instead: the caller's from now on."""
        self.settle()
        parts, path = self._parts, self.path
        self._parts, self.path = [], ""
        return parts[0] if len(parts) == 1 else b"".join(parts), path

    def drop(self) -> None:
        """Gives up what came."""
        _, path = self.end()
        if path:
            with suppress(OSError):  # the next start empties the directory
                Path(path).unlink(missing_ok=True)

    def _write(self, parts: list[bytes] | tuple[bytes, ...]) -> None:
        try:
            if self._file is None:
                path = self._spool / self._name
                self._file = path.open("wb")
                self.path = str(path)
            self._file.writelines(parts)
        except OSError as problem:
            self._fail(problem)

    def _fail(self, problem: OSError) -> None:
        why = problem.strerror or str(problem)
        self.failure = self.failure or f"cannot keep a large body in '{self._spool}': {why}; make room there"
