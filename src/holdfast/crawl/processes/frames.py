"""Frames out of a stream of bytes: a length of 8 bytes, the lowest first, and so many bytes."""

from __future__ import annotations

from collections.abc import Iterator
from socket import socket

_LENGTH = 8
RECEIVE_BYTES = 1 << 20


class Frames:
    """Takes bytes as they come, gives the frames that are whole. One thread."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _LENGTH:
            end = start + _LENGTH + int.from_bytes(buffer[start : start + _LENGTH], "little")
            if len(buffer) < end:
                break
            yield bytes(memoryview(buffer)[start + _LENGTH : end])
            start = end
        del buffer[:start]


def frames_from(source: socket) -> Iterator[bytes]:
    """All frames until the other side closes."""
    frames = Frames()
    while data := source.recv(RECEIVE_BYTES):
        yield from frames.feed(data)
