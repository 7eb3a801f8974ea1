"""A client of volume servers that says what it wants, byte by byte."""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import socket
import struct
from collections.abc import Iterable
from typing import Self

from remote_servers import SECRET

from holdfast.storage.server import wire
from holdfast.storage.server.wire import Type
from holdfast.storage.volume import IdempotencyKey, Operation

HEAD = struct.Struct(">IBI")


def frame(kind: int, request: int, body: bytes = b"") -> bytes:
    return HEAD.pack(len(body) + 5, kind, request) + body


def commit_body(idempotency_key: IdempotencyKey, operations: Iterable[Operation]) -> bytes:
    steps = list(operations)
    packed = b"".join(bytes(part) for step in steps for part in wire.pack_operation(step))
    return wire.pack_idempotency_key(idempotency_key) + len(steps).to_bytes(4, "big") + packed


def proof(secret: bytes, word: bytes, server_nonce: bytes, client_nonce: bytes) -> bytes:
    return hmac.new(secret, word + server_nonce + client_nonce, hashlib.sha256).digest()


class Peer:
    """A socket. The server's greeting is read and, unless told otherwise, answered."""

    def __init__(self, port: int, secret: bytes | None = SECRET, *, receive_bytes: int = 0) -> None:
        """With `receive_bytes` the system holds about so many bytes that were not read yet."""
        self.socket = socket.socket()
        self.socket.settimeout(60.0)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = 0
        if secret is not None:
            self.introduce(secret)

    def introduce(self, secret: bytes) -> None:
        kind, _, hello = self.read()
        assert kind == Type.HELLO, hello
        nonce = os.urandom(32)
        auth = struct.pack(">H32s32s", wire.VERSION, nonce, proof(secret, b"client", hello[3:], nonce))
        kind, _, welcome = self.ask(Type.AUTH, auth)
        assert kind == Type.DONE, welcome
        assert welcome[:32] == proof(secret, b"server", hello[3:], nonce)

    def send(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def ask(self, kind: int, body: bytes = b"") -> tuple[int, int, bytes]:
        """Type, number and body of the answer."""
        self.request += 1
        self.send(frame(kind, self.request, body))
        while True:
            answer = self.read()
            if answer[0] != Type.PROGRESS:
                return answer

    def read(self) -> tuple[int, int, bytes]:
        length, kind, request = HEAD.unpack(self._exactly(HEAD.size))
        return kind, request, self._exactly(length - 5)

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            piece = self.socket.recv(min(1 << 20, count - len(parts)))
            if not piece:
                raise ConnectionResetError("the server closed the connection")
            parts += piece
        return bytes(parts)

    def end(self) -> None:
        """Say that nothing more comes. A server that has reset the connection meanwhile need not be told."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise

    def rest(self) -> bytes:
        """All that the server still says until it closes the connection."""
        parts = bytearray()
        try:
            while piece := self.socket.recv(1 << 20):
                parts += piece
        except ConnectionResetError:
            pass
        return bytes(parts)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
