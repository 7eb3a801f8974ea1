"""Frames to another process: given to the socket while it takes them, kept in order while it does not."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from socket import socket

_JOINED_BYTES_MAX = 1 << 18


class FrameWriter:
    """Writes what one turn of the event loop brings in one go. Belongs to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: socket) -> None:
        self._loop = loop
        self._target = target
        self._frames: deque[bytes] = deque()
        self._offset = 0  # of the first frame, written already
        self._scheduled = False
        self._blocked = False
        self.put_bytes = 0  # ever
        self.sent_bytes = 0  # ever
        self.dead = False
        target.setblocking(False)

    @property
    def waiting_bytes(self) -> int:
        return 0 if self.dead else self.put_bytes - self.sent_bytes

    def put(self, frame: bytes) -> None:
        """Sends a frame, sooner or later; to a process that is gone, never."""
        if self.dead:
            return
        self._frames.append(frame)
        self.put_bytes += len(frame)
        if not self._scheduled and not self._blocked:
            self._scheduled = True
            self._loop.call_soon(self._write)

    def close(self) -> None:
        self._give_up()
        self._target.close()

    def flush(self) -> None:
        """Writes what can be written at once."""
        self._write()

    def _write(self) -> None:
        self._scheduled = False
        try:
            while self._frames and not self.dead:
                sent = self._target.send(self._next())
                self._sent(sent)
        except BlockingIOError:
            if not self._blocked:
                self._blocked = True
                self._loop.add_writer(self._target.fileno(), self._write)
            return
        except OSError:
            self._give_up()
            return
        self._unblock()

    def _next(self) -> bytes | memoryview:
        first = self._frames[0]
        if self._offset or len(first) > _JOINED_BYTES_MAX:
            return memoryview(first)[self._offset :]
        if len(self._frames) == 1:
            return first
        count, size = 0, 0
        for frame in self._frames:
            size += len(frame)
            if size > _JOINED_BYTES_MAX:
                break
            count += 1
        if count > 1:
            joined = b"".join([self._frames.popleft() for _ in range(count)])
            self._frames.appendleft(joined)
            return joined
        return first

    def _sent(self, count: int) -> None:
        self.sent_bytes += count
        self._offset += count
        if self._offset == len(self._frames[0]):
            self._frames.popleft()
            self._offset = 0

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            self._loop.remove_writer(self._target.fileno())

    def _give_up(self) -> None:
        with suppress(OSError, ValueError):
            self._unblock()
        self.dead = True
        self._frames.clear()
