"""The handshake: client and server prove to each other that they know the secret, without sending it.

    server  HELLO  u16 version | u8 whether a secret is wanted | 32 random bytes
    client  AUTH   u16 version | 32 random bytes | 32 bytes of proof
    server  DONE   32 bytes of proof | JSON: facts about the volume

A proof is the HMAC-SHA256, under the secret, of the word `client` or `server` and both random numbers: it is of no use
on another connection, nor to the other side. Without a secret the proofs are zeros, and certificates take their place.
"""

from __future__ import annotations

import hmac
import json
import os
import struct
from pathlib import Path
from typing import Any, Final

from holdfast.env import Environment
from holdfast.env.files import Buffer
from holdfast.errors import Denied, FormatTooNew, MalformedInput, NotFound, Unauthorized, UsageError
from holdfast.storage.server.wire import VERSION, WireReader

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
SECRET_BYTES_MIN: Final = 16
_HELLO = struct.Struct(">HB32s")
_AUTH = struct.Struct(">H32s32s")
_NO_PROOF: Final = bytes(PROOF_BYTES)
_SECRET_BYTES_MAX: Final = 4096


def read_secret(path: Path) -> bytes:
    """The secret in a file, white space around it removed. Raises NotFound, Denied or UsageError."""
    try:
        raw = path.read_bytes()[: _SECRET_BYTES_MAX + 1].strip()
    except FileNotFoundError:
        raise NotFound(f"no secret in '{path}'; make one with 'holdfast volume secret {path}'") from None
    except OSError as error:
        raise Denied(f"cannot read the secret '{path}': {error.strerror}") from None
    if not SECRET_BYTES_MIN <= len(raw) <= _SECRET_BYTES_MAX:
        raise UsageError(
            f"the secret in '{path}' has {len(raw)} bytes; it must have {SECRET_BYTES_MIN} to {_SECRET_BYTES_MAX}"
        )
    return raw


def make_secret(path: Path, env: Environment) -> None:
    """Writes a new secret that only its owner can read. Raises UsageError if the file exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"'{path}' exists already; remove it to make another secret") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(env.random_bytes(32).hex().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


class ServerSide:
    """One connection's handshake, as the server sees it."""

    def __init__(self, secret: bytes | None, nonce: bytes) -> None:
        self._secret = secret
        self._nonce = nonce

    def hello(self) -> bytes:
        return _HELLO.pack(VERSION, self._secret is not None, self._nonce)

    def welcome(self, auth: Buffer, facts: dict[str, Any]) -> bytes:
        """The response to a client that knows the secret. Raises Unauthorized, FormatTooNew or MalformedInput."""
        if len(auth) != _AUTH.size:
            raise MalformedInput("the client's part of the handshake has a wrong length")
        version, nonce, proof = _AUTH.unpack(auth)
        if version != VERSION:
            raise FormatTooNew(f"the client speaks version {version} of the protocol, this server version {VERSION}")
        if not hmac.compare_digest(proof, _proof(self._secret, b"client", self._nonce, nonce)):
            raise Unauthorized("the client does not know this server's secret")
        return _proof(self._secret, b"server", self._nonce, nonce) + json.dumps(facts).encode()


def answer_hello(hello: Buffer, secret: bytes | None, nonce: bytes) -> bytes:
    """The client's part. Raises Unauthorized, FormatTooNew or MalformedInput."""
    if len(hello) != _HELLO.size:
        raise MalformedInput("the other side is not a volume server")
    version, wants_secret, _ = _HELLO.unpack(hello)
    if version != VERSION:
        raise FormatTooNew(f"the server speaks version {version} of the protocol, this client version {VERSION}")
    if wants_secret and secret is None:
        raise Unauthorized("the server wants a secret; name its file as 'secret_file' in [remote]")
    if not wants_secret and secret is not None:
        raise Unauthorized("the server does not know the secret, or was started without it")
    return _AUTH.pack(VERSION, nonce, _proof(secret, b"client", _nonce_of(hello), nonce))


def verify_welcome(hello: Buffer, welcome: Buffer, secret: bytes | None, nonce: bytes) -> dict[str, Any]:
    """The facts about the volume, from a server that knows the secret. Raises Unauthorized or MalformedInput."""
    reader = WireReader(welcome)
    if not hmac.compare_digest(reader.take(PROOF_BYTES), _proof(secret, b"server", _nonce_of(hello), nonce)):
        raise Unauthorized("the server does not know our secret")
    try:
        facts = json.loads(reader.rest())
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        raise MalformedInput("the server does not say what volume it has")
    return facts


def _nonce_of(hello: Buffer) -> bytes:
    nonce: bytes = _HELLO.unpack(hello)[2]
    return nonce


def _proof(secret: bytes | None, side: bytes, server_nonce: bytes, client_nonce: bytes) -> bytes:
    if secret is None:
        return _NO_PROOF
    return hmac.digest(secret, side + server_nonce + client_nonce, "sha256")
