"""Digests of WARC records: parsed, and verified while the block passes.

`WARC-Block-Digest` is over the whole block, `WARC-Payload-Digest` over what follows the HTTP head, as it was sent or
with its chunks joined, since tools differ. They are mostly 'sha1:' and base32; other algorithms, hexadecimal and base64
occur.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Protocol

from holdfast.formats.http import HEAD_BYTES_MAX, Unframer, parse_head
from holdfast.formats.io.record_block import BytesBlock, Checks
from holdfast.formats.record import Record

ALGORITHMS = {
    "md5": "md5",
    "sha1": "sha1",
    "sha-1": "sha1",
    "sha256": "sha256",
    "sha-256": "sha256",
    "sha512": "sha512",
    "sha-512": "sha512",
}
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"  # RFC 4648
_NUMERALS = "0123456789abcdefghijklmnopqrstuv"  # of int() in base 32
_DIGITS_32 = str.maketrans(_ALPHABET + _ALPHABET[:26].lower() + "0189", _NUMERALS + _NUMERALS[:26] + "zzzz")
_URL_SAFE = str.maketrans("-_", "+/")
_CONSTRUCTORS = {"md5": hashlib.md5, "sha1": hashlib.sha1, "sha256": hashlib.sha256, "sha512": hashlib.sha512}
_SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}


def decode_digest(text: str) -> tuple[str, bytes] | None:
    """Algorithm and bytes of 'sha1:<base32 or hex>'; None if it is of another kind or malformed."""
    name, _, value = text.partition(":")
    algorithm = ALGORITHMS.get(name.strip().lower())
    if algorithm is None:
        return None
    bare = value.strip().rstrip("=")
    size = _SIZES[algorithm]
    try:
        if len(bare) == 2 * size:
            return algorithm, bytes.fromhex(bare)
        if len(bare) == (size * 8 + 4) // 5:
            return algorithm, _from_base32(bare, size)
        if len(bare) == (size * 8 + 5) // 6:
            return algorithm, base64.b64decode(bare.translate(_URL_SAFE) + "=" * (-len(bare) % 4), validate=True)
    except ValueError:
        pass
    return None


def _from_base32(text: str, size: int) -> bytes:
    """`size` bytes; ten times as fast as the standard library, which matters for every record of every file."""
    if not (text.isascii() and text.isalnum()):
        raise ValueError("not base32")
    number = int(text.translate(_DIGITS_32), 32)
    return (number >> (len(text) * 5 - size * 8)).to_bytes(size, "big")


class _Hash(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...
    def digest(self) -> bytes: ...


def digest_faults(record: Record, block: BytesBlock, *, thorough: bool) -> list[str] | None:
    """The digests that a block in memory does not match; None if the record has none that can be verified."""
    digest, payload = _stated(record, thorough=thorough)
    if digest is None and payload is None:
        return None
    head = block.http() if record.has_http and payload is not None else None
    if head is not None and head.chunked:
        checks = DigestChecks(digest, payload, http=True)
        checks.feed(block.view())
        return checks.faults()
    found = []
    if digest is not None and _digest(digest[0], block.view()) != digest[1]:
        found.append(_mismatch("block", digest[0]))
    if payload is not None and _digest(payload[0], block.view(head.size if head is not None else 0)) != payload[1]:
        found.append(_mismatch("payload", payload[0]))
    return found


def _digest(algorithm: str, data: memoryview) -> bytes:
    return _CONSTRUCTORS[algorithm](data, usedforsecurity=False).digest()


def _mismatch(what: str, algorithm: str) -> str:
    return f"the {what} does not match its WARC-{what.capitalize()}-Digest ({algorithm})"


def digest_checks(record: Record, *, thorough: bool) -> Checks | None:
    """Verifies the digests of a record that is read in pieces; None if it has none that can be verified."""
    block, payload = _stated(record, thorough=thorough)
    if block is None and payload is None:
        return None
    return DigestChecks(block, payload, http=record.has_http)


def _stated(record: Record, *, thorough: bool) -> tuple[tuple[str, bytes] | None, tuple[str, bytes] | None]:
    """What the head says of block and payload: algorithm and digest.

    Unless the check is to be `thorough`, the digest of the payload is enough: that of the block takes as long again.
    """
    fields = record.headers.first()
    stated = fields.get("warc-payload-digest")
    payload = decode_digest(stated) if stated else None
    if payload is not None and (
        record.type in ("revisit", "continuation") or "warc-segment-number" in fields or "warc-truncated" in fields
    ):
        payload = None  # of the whole payload, which is not here
    if payload is not None and not thorough:
        return None, payload
    stated = fields.get("warc-block-digest")
    return decode_digest(stated) if stated else None, payload


class DigestChecks:
    """The digests of one record, computed as its block passes."""

    def __init__(self, block: tuple[str, bytes] | None, payload: tuple[str, bytes] | None, *, http: bool) -> None:
        self._block = block
        self._block_hash: _Hash | None = hashlib.new(block[0]) if block else None
        self._payload = payload
        self._raw_hash: _Hash | None = hashlib.new(payload[0]) if payload else None
        self._joined_hash: _Hash | None = None  # with the chunks joined
        self._unframer: Unframer | None = None
        self._waiting: bytes | None = b"" if http else None  # until the end of the HTTP head is seen

    def feed(self, piece: bytes | memoryview) -> None:
        if self._block_hash is not None:
            self._block_hash.update(piece)
        if self._raw_hash is None:
            return
        if self._waiting is not None:
            self._wait(self._waiting + piece, last=False)
        else:
            self._feed_payload(piece)

    def faults(self) -> list[str]:
        """Digests that do not match. To be called once, after the whole block."""
        if self._waiting is not None and self._raw_hash is not None:
            self._wait(self._waiting, last=True)
        found = []
        if self._block is not None and self._block_hash is not None and self._block_hash.digest() != self._block[1]:
            found.append(_mismatch("block", self._block[0]))
        if self._payload is not None and not self._payload_matches(self._payload[1]):
            found.append(_mismatch("payload", self._payload[0]))
        return found

    def _wait(self, begin: bytes, *, last: bool) -> None:
        if not last and b"\n\r\n" not in begin and b"\n\n" not in begin and len(begin) < HEAD_BYTES_MAX:
            self._waiting = begin
            return
        self._waiting = None
        head = parse_head(begin)
        if head is not None and head.chunked and self._payload is not None:
            self._unframer = Unframer(head)
            self._joined_hash = hashlib.new(self._payload[0])
            self._feed_joined(begin)
        if self._raw_hash is not None:
            self._raw_hash.update(memoryview(begin)[head.size if head else 0 :])

    def _feed_payload(self, piece: bytes | memoryview) -> None:
        if self._raw_hash is not None:
            self._raw_hash.update(piece)
        if self._unframer is not None:
            self._feed_joined(bytes(piece))

    def _feed_joined(self, piece: bytes) -> None:
        assert self._unframer is not None and self._joined_hash is not None
        for is_payload, run in self._unframer.feed(piece):
            if is_payload:
                self._joined_hash.update(run)

    def _payload_matches(self, expected: bytes) -> bool:
        if self._raw_hash is not None and self._raw_hash.digest() == expected:
            return True
        if self._unframer is None or self._joined_hash is None:
            return False
        for is_payload, run in self._unframer.finish():
            if is_payload:
                self._joined_hash.update(run)
        return self._joined_hash.digest() == expected
