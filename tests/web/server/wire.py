"""HTTP by hand: requests as bytes, so that they can be wrong in every way, and answers as far as they come."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import NamedTuple

PATIENCE_S = 60.0
_RECEIVE_BYTES = 1 << 16


class Answer(NamedTuple):
    """What came back. Status 0: the connection ended without an answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def connect(port: int, patience_s: float = PATIENCE_S) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=patience_s)


def request(target: str = "/", *fields: str, method: str = "GET", host: str = "127.0.0.1", body: bytes = b"") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body


def ask(port: int, raw: bytes) -> Answer:
    """Sends the bytes on a new connection, and reads one answer."""
    with connect(port) as connection:
        return ask_on(connection, raw)


def ask_on(connection: socket.socket, raw: bytes) -> Answer:
    with suppress(ConnectionError):  # refused before all of it was sent: the answer may be there
        connection.sendall(raw)
    return read_answer(connection, is_head=raw.startswith(b"HEAD "))


def read_answer(connection: socket.socket, data: bytes = b"", *, is_head: bool = False) -> Answer:
    """Up to the end that the head announces, or to the end of the connection. `data` was read before."""
    while b"\r\n\r\n" not in data:
        if not (piece := _receive(connection)):
            return Answer(0, {}, data)
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(first.split(" ")[1])
    if status == 100:
        return read_answer(connection, body, is_head=is_head)
    if is_head or status in (204, 304):
        return Answer(status, headers, b"")
    length = int(headers.get("content-length", -1))
    gathered = bytearray(body)
    while not _is_complete(gathered, length, headers) and (piece := _receive(connection)):
        gathered += piece
    return Answer(status, headers, bytes(gathered))


def _is_complete(body: bytearray, length: int, headers: dict[str, str]) -> bool:
    if headers.get("transfer-encoding") == "chunked":
        return body.endswith(b"0\r\n\r\n")
    return 0 <= length <= len(body)


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_RECEIVE_BYTES)
    except ConnectionError:
        return b""


def ends(connection: socket.socket) -> bool:
    """Whether the other side ends the connection; whatever comes before that does not count."""
    while _receive(connection):
        pass
    return True
