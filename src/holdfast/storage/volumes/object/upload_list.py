"""The file `uploaded`: the segments in the store, and the objects to delete there.

    HOLDFAST-UPLOADED/1
    000007.seg 1 268435456 SE9MREZBU1QtU0VHTUVOVC8x...     name, term, bytes, and the first 96 bytes in base64
    gone segments/000001/000003.seg                        to delete: replaced by a compaction
    crc32 1a2b3c4d

It is replaced as a whole, and durable before a segment's local file is removed. Readers follow it, so that they need
not list the store. It is derived: without it the writer lists the store (`adopt`).
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path

from holdfast.env import paths
from holdfast.errors import DamagedBlock
from holdfast.storage import block
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, check_version

SEGMENTS = "segments/"
HEAD_BYTES = SEGMENT_HEADER_BYTES
_MAGIC = b"HOLDFAST-UPLOADED/"
_KEY = re.compile(r"segments/(\d{6})/([^/]+)")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A segment in the store."""

    name: str
    term: int
    size: int
    head: bytes = b""  # its first bytes, read at every opening

    @property
    def key(self) -> str:
        return segment_key(self.term, self.name)


def segment_key(term: int, name: str) -> str:
    return f"{SEGMENTS}{term:06d}/{name}"


def pack(uploaded: Mapping[str, Uploaded], doomed: Iterable[str]) -> bytes:
    lines = ["HOLDFAST-UPLOADED/1"]
    lines += [
        f"{each.name} {each.term} {each.size} {b64encode(each.head).decode()}" for _, each in sorted(uploaded.items())
    ]
    lines += [f"gone {key}" for key in doomed]
    text = ("\n".join(lines) + "\n").encode()
    return text + b"crc32 %08x\n" % block.checksum(text)


def parse(raw: bytes, path: Path) -> tuple[dict[str, Uploaded], list[str]]:
    """Raises FormatTooNew or DamagedBlock."""
    check_version(raw, _MAGIC, path)
    uploaded: dict[str, Uploaded] = {}
    doomed: list[str] = []
    try:
        for line in raw.decode().splitlines()[1:-1]:
            name, *rest = line.split(" ")
            if name == "gone":
                doomed.append(rest[0])
            else:
                uploaded[name] = Uploaded(name, int(rest[0]), int(rest[1]), b64decode(rest[2], validate=True))
    except (ValueError, IndexError, binascii.Error):
        uploaded = {}
    if pack(uploaded, doomed) != raw:
        raise DamagedBlock(f"cannot read '{path}': its checksum does not match its text; it will be rebuilt")
    return uploaded, doomed


def adopt(sizes: Mapping[str, int]) -> tuple[dict[str, Uploaded], list[str]]:
    """The valid segments in a store, without their heads, and the keys of the others.

    Segments that a replaced owner uploaded late are invalid: it and its successor continued after the same segment, and
    the successor's are valid.
    """
    found = [
        Uploaded(match[2], int(match[1]), size)
        for key, size in sizes.items()
        if (match := _KEY.fullmatch(key)) and paths.parse_segment_name(match[2])
    ]
    counting: dict[str, Uploaded] = {}
    late: list[str] = []
    first_later: float = inf  # the lowest number that a later owner created
    for term in sorted({each.term for each in found}, reverse=True):
        begun = first_later
        for each in found:
            if each.term != term:
                continue
            number, generation = paths.parse_segment_name(each.name) or (0, 0)
            is_new = generation == 0  # not made by a compaction
            if each.name in counting or (is_new and number >= first_later):
                late.append(each.key)
                continue
            counting[each.name] = each
            begun = min(begun, number if is_new else inf)
        first_later = begun
    return counting, late
