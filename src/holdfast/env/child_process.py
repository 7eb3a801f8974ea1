"""Python child processes, and the frames they exchange with their parent.

    ┌────────────────────────┬──────────────┐
    │ length, 8 bytes,       │ body         │
    │ little endian          │ length bytes │
    └────────────────────────┴──────────────┘

A body may be marshalled, pickled or plain bytes. Pickles are only read from a child or from the parent.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from socket import MSG_WAITALL, socket
from typing import IO, Any

_LENGTH = 8
_NEW_OBJECTS = 200_000
RECEIVE_BYTES = 1 << 16  # from 128 KiB on, malloc may map and unmap the buffer for each call
_IGNORE_INTERRUPTS = (
    "import signal as s; s.signal(s.SIGINT, s.SIG_IGN); s.pthread_sigmask(s.SIG_UNBLOCK, (s.SIGINT,)); del s"
)
# Arrow's own allocators reserve more memory than a limit allows.
LITTLE_MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}


def start_child(
    module: str, function: str = "main", arguments: Sequence[str] = (), env: Mapping[str, str] | None = None, **how: Any
) -> subprocess.Popen[bytes]:
    """Starts a function of a module in a new process with this one's import path.

    The child ignores SIGINT from its first instruction: Ctrl-C reaches the whole process group, and the parent decides
    when to stop. `env` is added to the environment; `how` is passed to `Popen`.
    """
    path = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-c", f"{_IGNORE_INTERRUPTS}; from {module} import {function}; {function}()", *arguments]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))  # inherited while the interpreter starts
    try:
        child: subprocess.Popen[bytes] = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": path, **(env or {})}, **how
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return child


def packed_frame(body: bytes) -> bytes:
    return len(body).to_bytes(_LENGTH, "little") + body


def frame_head(length: int) -> bytes:
    """The head of a frame whose body is sent separately, to save a copy."""
    return length.to_bytes(_LENGTH, "little")


def read_frame(stream: IO[bytes]) -> bytes:
    """The next body. Raises EOFError at the end of the stream, also within a frame."""
    head = stream.read(_LENGTH)
    length = int.from_bytes(head, "little")
    body = stream.read(length) if len(head) == _LENGTH else b""
    if len(head) < _LENGTH or len(body) < length:
        raise EOFError("the other process is gone")
    return body


class Frames:
    """Splits a stream of bytes into bodies. For one thread."""

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
    """All bodies until the other side closes."""
    frames = Frames()
    while data := source.recv(RECEIVE_BYTES):
        yield from frames.feed(data)


def send_pickled(target: socket, message: object, *, prefix: bytes = b"") -> None:
    """A pickled message as one frame, after `prefix`."""
    target.sendall(prefix + packed_frame(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)))


def receive_pickled(source: socket) -> Any:
    """The message of the next frame. Raises EOFError if the other side is gone."""
    return pickle.loads(receive_frame(source))


def receive_frame(source: socket) -> bytes:
    """The body of the next frame. Raises EOFError if the other side is gone."""
    return _exactly(source, int.from_bytes(_exactly(source, _LENGTH), "little"))


def _exactly(source: socket, count: int) -> bytes:
    data = source.recv(count, MSG_WAITALL)
    if len(data) != count:
        raise EOFError("the other process is gone")
    return data


def collect_seldom() -> None:
    """Makes cyclic garbage collection rare, in a process that has imported what it needs and makes few cycles.

    By default Python examines young objects after every 700 allocations: a tenth of the CPU time of a crawl.
    """
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 50, 1000)
