"""Tokens: the state of a stream in one line of text, from which it resumes (docs/formats/stream-token.md).

    ┌─────────┬───────┬──────────────────────────────────────────────────────────────┐
    │ version │ CRC32 │ deflated JSON: archive, options, snapshot, position, ranks   │  as base64url without padding
    │ 1 byte  │ 4     │                                                              │
    └─────────┴───────┴──────────────────────────────────────────────────────────────┘

The server keeps no state: a token can be used any number of times, after any number of restarts on either side.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass
from typing import Any

from holdfast.errors import FormatTooNew, MalformedToken
from holdfast.streams.options import StreamOptions
from holdfast.streams.order.ranges import Position, Range, Ranges, rank
from holdfast.streams.snapshot import Snapshot

VERSION = 1
_HEAD_BYTES = 5
_TOKEN_CHARACTERS_MAX = 1 << 20
_JSON_BYTES_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class StreamToken:
    archive: str  # the archive's uid
    options: str  # digest of the options
    snapshot: Snapshot
    left: Ranges = Ranges()  # noqa: RUF009 - a value
    delivered: int = 0  # captures delivered so far
    ranks: int = 0  # the generation of ranks that the stream depends on; 0: none
    ranks_crc32: str = ""  # of their columns, since a rebuilt index counts generations from 1 again

    def encode(self) -> str:
        facts: dict[str, Any] = {
            "archive": self.archive,
            "options": self.options,
            "snapshot": self.snapshot.ends,
            "delivered": self.delivered,
        }
        if len(self.left) == 1 and self.left.parts[0][1] is None:
            facts["position"] = self.left.first
        else:
            facts["ranges"] = self.left.parts
        if self.ranks:
            facts |= {"ranks": self.ranks, "ranks_crc32": self.ranks_crc32}
        packed = zlib.compress(json.dumps(facts, separators=(",", ":")).encode(), 9)
        raw = bytes([VERSION]) + zlib.crc32(packed).to_bytes(4, "big") + packed
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(text: str) -> StreamToken:
    """Raises MalformedToken, or FormatTooNew."""
    try:
        return _parsed(_facts(text.strip()))
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error, binascii.Error) as error:
        raise MalformedToken(f"malformed token '{text[:40]}': give it as it was received") from error


def _facts(text: str) -> Any:
    if len(text) > _TOKEN_CHARACTERS_MAX:
        raise ValueError("too long")
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(raw) <= _HEAD_BYTES or zlib.crc32(raw[_HEAD_BYTES:]) != int.from_bytes(raw[1:_HEAD_BYTES], "big"):
        raise ValueError("damaged")
    if raw[0] > VERSION:
        raise FormatTooNew(f"a token of version {raw[0]}; this release reads {VERSION}: use a later one")
    unpacked = zlib.decompressobj().decompress(raw[_HEAD_BYTES:], _JSON_BYTES_MAX)
    return json.loads(unpacked)


def _parsed(facts: Any) -> StreamToken:
    left = _left(facts)
    ends = {str(batch): end for batch, end in sorted(facts["snapshot"].items())}
    numbers = (*ends.values(), facts["delivered"], ranks := facts.get("ranks", 0))
    texts = (facts["archive"], facts["options"], ranks_crc32 := facts.get("ranks_crc32", ""))
    if not all(type(each) is int and each >= 0 for each in numbers) or not all(type(each) is str for each in texts):
        raise ValueError("of wrong types")
    return StreamToken(facts["archive"], facts["options"], Snapshot(ends), left, facts["delivered"], ranks, ranks_crc32)


def _left(facts: Any) -> Ranges:
    if "position" in facts:
        return Ranges.behind(_position(facts["position"]))
    parts: list[Range] = [(_position(a), None if b is None else _position(b)) for a, b in facts["ranges"]]
    ends = [rank(bound) for part in parts for bound in part]
    if ends != sorted(ends) or any(rank(a) == rank(b) for a, b in parts):
        raise ValueError("not in order")
    return Ranges(tuple(parts))


def _position(value: Any) -> Position:
    if not isinstance(value, list) or not all(type(each) in (str, int) for each in value):
        raise ValueError("of wrong types")
    return tuple(value)


def require_own(token: StreamToken, archive: str, options: StreamOptions) -> None:
    """Raises MalformedToken if the token belongs to another archive, or to a stream with other options."""
    if token.archive != archive:
        raise MalformedToken(
            f"the token belongs to another archive, '{token.archive or '-'}'; this one is '{archive or '-'}'"
        )
    if token.options != options.digest():
        raise MalformedToken(
            "the token belongs to a stream with other options: give the same query, filters, order and shard"
        )


def expect(position: Position, *kinds: type) -> tuple[Any, ...]:
    """The position, if its values have these types. Raises MalformedToken."""
    if [type(each) for each in position] != list(kinds):
        raise MalformedToken("the token has no position of this order")
    return position
