"""What parent and worker say to each other, over a pair of sockets whose end tells of the other's death.

parent → worker   the start, pickled, after its length; then single letters: S stop, H open the log anew
worker → parent   R ready; or E, length, and the error that kept it from working
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from socket import MSG_WAITALL, socket
from typing import Any

from holdfast.config import ServeSettings
from holdfast.web.context import Origins

STOP, REOPEN, READY, FAILED = b"S", b"H", b"R", b"E"
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """All that a worker needs to know. Numbers are descriptors that it was given."""

    root: Path  # of the archive
    settings: ServeSettings
    origins: Origins
    write_tokens: tuple[str, ...]  # besides those of the file
    row: int  # of the counters
    counters: int
    attempts: int
    controls: tuple[int, ...]
    replay: tuple[int, ...]
    log_level: int


def send_message(target: socket, message: Any, *, letter: bytes = b"") -> None:
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    target.sendall(letter + len(body).to_bytes(_LENGTH_BYTES, "little") + body)


def receive_message(source: socket) -> Any:
    """Raises EOFError if the other side is gone."""
    length = int.from_bytes(_exactly(source, _LENGTH_BYTES), "little")
    return pickle.loads(_exactly(source, length))


def _exactly(source: socket, count: int) -> bytes:
    data = source.recv(count, MSG_WAITALL)
    if len(data) != count:
        raise EOFError("the other process is gone")
    return data
