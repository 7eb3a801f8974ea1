"""The end of a record's head: a blank line, if one comes.

Damaged and hostile files have many places that look like the start of a head and few or no blank lines after them.
The end that was found for one start is the end for all that follow before it: so it is searched once, and after
`TRIES_MAX` failed starts before the same end only the last one is tried. So reading stays linear.
"""

from __future__ import annotations

import re

from holdfast.formats.io.source import ByteSource

HEAD_BYTES_MAX = 1024 * 1024
TRIES_MAX = 32
_BLANK_BYTES_MAX = 5  # of a blank line and the line end before it
_FIRST_BYTES = 4096


class Unreadable(Exception):
    """There is no whole record here; the message says why. `resume` is where to continue, if not at the next byte.

    Set after many failed starts before the same end of a head, so that reading stays linear.
    """

    def __init__(self, reason: str, resume: int = 0) -> None:
        super().__init__(reason)
        self.resume = resume


class CutHead(Unreadable):
    """The file ends, or is damaged, within the head."""


class HeadEnd:
    """Finds ends of heads in one source, front to back."""

    def __init__(self, blank: re.Pattern[bytes], magics: tuple[bytes, ...], *, bytes_max: int = HEAD_BYTES_MAX) -> None:
        self._blank = blank
        self._magics = magics
        self._bytes_max = bytes_max
        self._none_before = 0  # no blank line ends before this position
        self._end = -1
        self._tries = 0

    def head(self, source: ByteSource) -> bytes:
        """The bytes from the source's position through the blank line. Raises Unreadable."""
        match = self._blank.search(source.data, max(source.pos, self._none_before - source.base))
        if match is None or match.end() - source.pos > self._bytes_max:
            match = self._look_on(source)
        end = source.base + match.end()
        if end == self._end:
            self._tries += 1
            if self._tries > TRIES_MAX:
                raise Unreadable("too many starts of heads before one end", self._last_start(source, match.end()))
        else:
            self._end, self._tries = end, 0
        return source.data[source.pos : match.end()]

    def _look_on(self, source: ByteSource) -> re.Match[bytes]:
        size = _FIRST_BYTES
        while True:
            more = source.fill(size)
            match = self._blank.search(source.data, max(source.pos, self._none_before - source.base))
            if match is not None and match.end() - source.pos <= self._bytes_max:
                return match
            if match is not None or size > self._bytes_max:
                self._none_before = source.base + (match.start() if match else len(source.data) - _BLANK_BYTES_MAX)
                raise Unreadable(f"no end of the head within {self._bytes_max} bytes")
            if not more:
                self._none_before = source.base + len(source.data) - _BLANK_BYTES_MAX
                raise CutHead(source.broken or "the head is cut off by the end of the file")
            size *= 2

    def _last_start(self, source: ByteSource, end: int) -> int:
        """Position of the last start before the end, or of the end itself."""
        last = max(source.data.rfind(magic, source.pos + 1, end) for magic in self._magics)
        return source.base + (last if last >= 0 else end)
