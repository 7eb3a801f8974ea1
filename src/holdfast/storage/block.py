"""The bytes of a block (W3, N6): a fixed-length ASCII header, then the data container.

    byte  text                                                     meaning
    ----  -------------------------------------------------------  --------------------------------------------
       0  HOLDFAST/1 block    9f3a61c2\\n                            magic and version, kind, uid of the volume
      29  serial 000000000042 after 000000000041\\n                  place in the log; all up to `after` is durable
      68  signature sha256   <hex, padded to 64>\\n                  algorithm and value
     152  overflow 00000 home -               \\n                    which of several contents with this signature;
                                                                   the volume whose block this is (`-`: this one's)
     189  codec zstd-dict    dictionary 1a2b3c4d\\n                  how the data was encoded
     228  size 000000019432 stored 000000004711\\n                   bytes of the content, bytes of the data
     266  references 0000000001\\n                                   the counter, when this was written
     288  crc32 1a2b3c4d header 5e6f7a8b\\n\\n                         of the data; of the header's first 310 bytes
     320  data

Without Holdfast, find a block with `grep -abo HOLDFAST/1`, read its header with `head -c 320`, cut its data out with
`dd` and decode it with `zstd -d`.

Kinds: `block` is a content; `replica` is a copy of a block of another volume (`home`); `dict` is a compression
dictionary; `count` has no data and sets the counter of an earlier block, 0 removes it; `ticket` names the commit that
the next `references` entries belong to and keeps its results (`volumes/idempotency`): its signature is client and
sequence; `state` begins a transaction of a `hash` volume's journal in the same way. Every entry of a segment has this
header, and a block file of the `tree` organization is a segment of one block.
"""

from __future__ import annotations

import struct
from binascii import hexlify, unhexlify
from functools import lru_cache
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from holdfast.env.files import Buffer

HEADER_BYTES: Final = 320
MAGIC: Final = b"HOLDFAST/1 "

BLOCK: Final = b"block"
REPLICA: Final = b"replica"
DICT: Final = b"dict"
COUNT: Final = b"count"
TICKET: Final = b"ticket"
STATE: Final = b"state"
_NO_HOME = b"-".ljust(16)

_FORMAT = (
    b"HOLDFAST/1 %-8b %-8b\n"
    b"serial %012d after %012d\n"
    b"signature %-8b %-64b\n"
    b"overflow %05d home %-16b\n"
    b"codec %-12b dictionary %08x\n"
    b"size %012d stored %012d\n"
    b"references %010d\n"
    b"crc32 %08x header "
)
_FIELDS = struct.Struct("11s8sx8s8x12s7x12s11x8sx64s10x5s6x16s7x12s12x8s6x12s8x12s12x10s7x8s8x8s2s")
_ENCODING = struct.Struct("195x32s6x12s8x12s29x8s8x8s2s")
assert _FIELDS.size == _ENCODING.size == HEADER_BYTES
CHECKED_BYTES: Final = 310
_SIGNATURE_AT = 87


class Header(NamedTuple):
    """A parsed header. `signature` is raw bytes, `home` is empty for a volume's own block."""

    kind: bytes
    uid: bytes
    serial: int
    after: int
    algorithm: bytes
    signature: bytes
    overflow: int
    home: bytes
    codec: bytes
    dictionary: int
    size: int
    stored: int
    references: int
    checksum: int

    @property
    def length(self) -> int:
        """Bytes of header and data together."""
        return HEADER_BYTES + self.stored


def pack(header: Header) -> bytes:
    """The 320 bytes of a header."""
    kind, uid, serial, after, algorithm, signature, overflow, home, codec, dictionary, size, stored, count, crc = header
    name, home = hexlify(signature), home or b"-"
    fields = (kind, uid, serial, after, algorithm, name, overflow, home, codec, dictionary, size, stored, count, crc)
    text = _FORMAT % fields
    assert len(text) == CHECKED_BYTES, "a field outgrew its place in the header"
    return b"%b%08x\n\n" % (text, crc32(text))


def parse(raw: Buffer) -> Header | None:
    """The header in the first 320 bytes of `raw`, or None if they are not a sound header."""
    if len(raw) < HEADER_BYTES:
        return None
    magic, kind, uid, serial, after, algorithm, signature, *rest = _FIELDS.unpack_from(raw)
    overflow, home, codec, dictionary, size, stored, references, checksum, header_checksum, end = rest
    if magic != MAGIC or end != b"\n\n" or b"%08x" % crc32(raw[:CHECKED_BYTES]) != header_checksum:
        return None
    return Header(
        _stripped(kind),
        uid,
        int(serial),
        int(after),
        _stripped(algorithm),
        unhexlify(signature.rstrip()),
        int(overflow),
        b"" if home == _NO_HOME else home.rstrip(),
        _stripped(codec),
        int(dictionary, 16),
        int(size),
        int(stored),
        int(references),
        int(checksum, 16),
    )


class Encoding(NamedTuple):
    """The part of a header that is needed to decode the data."""

    codec: str
    dictionary: int
    size: int
    stored: int
    checksum: int


def parse_encoding(raw: Buffer, signature: bytes) -> Encoding | None:
    """How the block with this signature is encoded; None if `raw` does not begin with its sound header.

    Half the cost of `parse`, for a reader that has the rest in the keydir.
    """
    if len(raw) < HEADER_BYTES:
        return None
    encoding, size, stored, checksum, header_checksum, end = _ENCODING.unpack_from(raw)
    if raw[:11] != MAGIC or end != b"\n\n" or b"%08x" % crc32(raw[:CHECKED_BYTES]) != header_checksum:
        return None
    text = hexlify(signature)
    if raw[_SIGNATURE_AT : _SIGNATURE_AT + len(text)] != text or raw[_SIGNATURE_AT + len(text)] not in b" \n":
        return None
    return Encoding(*_codec_and_dictionary(encoding), int(size), int(stored), int(checksum, 16))


@lru_cache(maxsize=256)
def _codec_and_dictionary(encoding: bytes) -> tuple[str, int]:
    return encoding[:12].rstrip().decode(), int(encoding[24:], 16)


@lru_cache(maxsize=64)
def _stripped(name: bytes) -> bytes:
    """Kinds, algorithms and codecs: few values, repeated in every header."""
    return name.rstrip()


def mended(raw: Buffer) -> bytes | None:
    """The 320 bytes of a header with one wrong byte corrected; None if more than one is wrong."""
    if len(raw) < HEADER_BYTES:
        return None
    fixed = mended_text(bytes(raw[:CHECKED_BYTES]), bytes(raw[CHECKED_BYTES : CHECKED_BYTES + 8]))
    return None if fixed is None else b"%b%b\n\n" % fixed


def mended_text(text: bytes, checksum: bytes) -> tuple[bytes, bytes] | None:
    """A text and its hexadecimal checksum with one wrong byte corrected in either; None if more are wrong."""
    found = b"%08x" % crc32(text)
    if sum(a != b for a, b in zip(found, checksum, strict=True)) <= 1:  # at most one digit of the checksum
        return text, found
    try:
        fixed = corrected(text, int(checksum, 16))
    except ValueError:
        return None
    return None if fixed is None else (fixed, checksum)


def corrected(text: bytes, checksum: int) -> bytes | None:
    """The text with at most one byte changed so that it has this checksum; None if there is no such byte."""
    if crc32(text) == checksum:
        return text
    for at in range(len(text)):
        before = crc32(text[:at])
        rest = text[at + 1 :]
        for value in range(256):
            if crc32(rest, crc32(bytes([value]), before)) == checksum:
                return text[:at] + bytes([value]) + rest
    return None


def checksum(data: Buffer) -> int:
    """The CRC-32 of the data, as recorded in a header."""
    value: int = crc32(data)
    return value
