"""Ed25519 keys and signed claims in the form that NATS gives them.

A public key is the base32 text of

    ┌──────────┬───────────────┬───────────────────┐
    │ kind     │ key, 32 bytes │ CRC-16 (XMODEM),  │
    │ 1 byte   │               │ 2 bytes, little e.│
    └──────────┴───────────────┴───────────────────┘

and claims are a JWT with the algorithm `ed25519-nkey`, signed by the key that its field `iss` names.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from holdfast.env.files import replace_private_file
from holdfast.errors import Damaged, NotAMember

_HEAD = {"typ": "JWT", "alg": "ed25519-nkey"}
_KEY_BYTES = 32


class KeyKind(IntEnum):
    """First byte of a public key: it makes the first letter of its text."""

    OPERATOR = 14 << 3  # O
    ACCOUNT = 0  # A
    USER = 20 << 3  # U


class KeyPair:
    """A private key, kept as a PEM file that `openssl` and `nats-server` read."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self.private = private
        self.public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @classmethod
    def generate(cls) -> Self:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_secret(cls, secret: bytes) -> Self:
        return cls(Ed25519PrivateKey.from_private_bytes(secret))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises Damaged, and FileNotFoundError."""
        try:
            private = load_pem_private_key(path.read_bytes(), password=None)
        except ValueError as error:
            raise Damaged(f"'{path}' does not hold a key: {error}") from error
        if not isinstance(private, Ed25519PrivateKey):
            raise Damaged(f"'{path}' does not hold an Ed25519 key")
        return cls(private)

    def save(self, path: Path) -> None:
        """Durably, readable for the owner only."""
        replace_private_file(path, self.pem)

    @property
    def pem(self) -> bytes:
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def secret(self) -> bytes:
        return self.private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())

    def text(self, kind: KeyKind) -> str:
        return public_text(kind, self.public)

    def sign(self, data: bytes) -> bytes:
        return self.private.sign(data)

    def sign_claims(self, kind: KeyKind, subject: str, name: str, nats: dict[str, Any], **more: Any) -> str:
        """A JWT about `subject`, issued by this key. `nats` is what servers read; `more` goes beside it."""
        claims = {"iat": int(time.time()), "iss": self.text(kind), "sub": subject, "name": name, "nats": nats, **more}
        claims["jti"] = base64.b32encode(sha256(_compact(claims)).digest()).decode().rstrip("=")
        text = f"{_encode(_compact(_HEAD))}.{_encode(_compact(claims))}"
        return f"{text}.{_encode(self.sign(text.encode()))}"


def public_text(kind: KeyKind, public: bytes) -> str:
    raw = bytes([kind]) + public
    return base64.b32encode(raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


def public_bytes(kind: KeyKind, text: str) -> bytes:
    """The key of a text. Raises NotAMember if it is not a key of this kind."""
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        raw = b""
    if (
        len(raw) != _KEY_BYTES + 3
        or raw[0] != kind
        or binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little")
    ):
        raise NotAMember(f"not a public key: {text[:80]!r}")
    return raw[1:-2]


def is_signed(public: bytes, data: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_claims(jwt: str, kind: KeyKind, issuer: bytes) -> dict[str, Any]:
    """The claims, if this key has issued them and they have not expired. Raises NotAMember."""
    try:
        text, _, signature = jwt.rpartition(".")
        head, claims = (json.loads(_decode(part)) for part in text.split("."))
        is_valid = (
            head == _HEAD
            and claims["iss"] == public_text(kind, issuer)
            and is_signed(issuer, text.encode(), _decode(signature))
        )
    except (ValueError, TypeError, KeyError):
        is_valid = False
    if not is_valid:
        raise NotAMember("a statement that this cluster has not signed")
    if claims.get("exp", float("inf")) < time.time():
        raise NotAMember("a statement of this cluster that has expired")
    return dict(claims)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
