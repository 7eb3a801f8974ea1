"""A terminal of so many columns: what a program that was run in it has left on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_TOKEN = re.compile(r"\x1b\[(\??)(\d*)([A-Za-z])|(.)", re.DOTALL)
_ROWS = 200  # so that nothing scrolls away


class Screen:
    """The controlling terminal of a program; keys are pressed with `press`."""

    def __init__(self, columns: int, command: Sequence[str], directory: Path, environment: dict[str, str]) -> None:
        self._columns = columns
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *command],
            cwd=directory,
            # The size is the terminal's own: those who run tests in parallel set COLUMNS.
            env={name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
            | {"TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.written = ""

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def read_until(self, text: str) -> None:
        while text not in self.written:
            assert self._read(), f"ended without {text!r}: {self.written!r}"

    def finish(self) -> int:
        """Reads to the end; the exit code."""
        while self._read():
            pass
        return self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self) -> bool:
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:  # nobody has the other end any more
            return False
        self.written += data.decode()
        return bool(data)

    @property
    def lines(self) -> list[str]:
        """As a terminal of this width shows them."""
        rows: list[list[str]] = [[]]
        row = column = 0
        for _, count, command, character in _TOKEN.findall(self.written):
            if character == "\r":
                column = 0
            elif character == "\n":
                row += 1
            elif character:
                if column == self._columns:
                    row, column = row + 1, 0
                rows += [[] for _ in range(row - len(rows) + 1)]
                rows[row] += [" "] * (column - len(rows[row]) + 1)
                rows[row][column] = character
                column += 1
            elif command == "A":
                row = max(0, row - int(count or 1))
            elif command == "K" and count == "2" and row < len(rows):
                rows[row] = []
        return ["".join(each).rstrip() for each in rows]
