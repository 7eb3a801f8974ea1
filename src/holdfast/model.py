"""The values that pass between packages: frozen, except `Coverage`, with no behaviour beyond text forms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self, TypeVar

from holdfast.arguments import checked
from holdfast.errors import MalformedKey, UnknownName, UsageError

Member = TypeVar("Member", bound=StrEnum)

OVERFLOW_MAX = 99_999  # five digits in a block's header
SERIAL_MAX = 2**32 - 1  # of a record in its batch
_BATCH_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VOLUME_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,15}")
_KEY = re.compile(
    r"(?P<volume>[a-z0-9][a-z0-9_-]{0,15}):(?P<signature>(?:[0-9a-f]{2}){1,32})(?:~(?P<overflow>[1-9][0-9]{0,4}))?"
)


def _member(kind: type[Member], text: str, what: str) -> Member:
    try:
        return kind(text)
    except ValueError:
        raise UnknownName(f"unknown {what} {text!r}: one of {', '.join(kind)}") from None


class StoreMode(StrEnum):
    """How a store decides that a content is a duplicate (W5)."""

    REGULAR = "regular"  # same signature and same size
    COMPARE = "compare"  # same bytes
    FORCE_NEW = "force-new"  # never

    @classmethod
    def parse(cls, text: str) -> StoreMode:
        """Raises UnknownName."""
        return _member(cls, text, "mode")


class VolumeState(StrEnum):
    """Whether a volume accepts new contents (W8). Deleting is possible in both states."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"

    @classmethod
    def parse(cls, text: str) -> VolumeState:
        """Raises UnknownName."""
        return _member(cls, text, "state")


class Pick(StrEnum):
    """Which capture of a URL is shown for a time (H8)."""

    NEAREST = "nearest"  # in either direction
    NOT_NEWER = "not-newer"  # the last up to it

    @classmethod
    def parse(cls, text: str | Pick) -> Pick:
        """Raises UnknownName."""
        return _member(cls, text, "pick")


@dataclass(frozen=True, slots=True, order=True)
class ContentKey:
    """Identifies a content, to fetch or delete it (W1): `volume:signature[~overflow]`."""

    volume: str
    signature: bytes
    overflow: int = 0

    def __str__(self) -> str:
        suffix = f"~{self.overflow}" if self.overflow else ""
        return f"{self.volume}:{self.signature.hex()}{suffix}"

    @classmethod
    @checked
    def parse(cls, text: str) -> Self:
        """Raises MalformedKey."""
        match = _KEY.fullmatch(text)
        if match is None:
            raise MalformedKey(
                f"malformed contentkey {text!r}: expected 'volume:signature' or 'volume:signature~overflow'"
            )
        return cls(match["volume"], bytes.fromhex(match["signature"]), int(match["overflow"] or 0))


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of a store: where the content is, and its sizes."""

    key: ContentKey
    duplicate: bool
    size: int
    stored_size: int
    references: int


@dataclass(frozen=True, slots=True)
class ContentStat:
    """Facts of a content, without its bytes."""

    key: ContentKey
    size: int
    stored_size: int
    references: int
    codec: str
    place: str  # file and offset, for a person with dd
    copies: tuple[str, ...]  # names of the other volumes with a replica


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that `check` found wrong, with its exact place."""

    volume: str
    file: str
    offset: int
    kind: str
    expected: str
    found: str
    key: ContentKey | None = None
    repaired: bool = False
    remedy: str = ""

    def __str__(self) -> str:
        subject = f" of {self.key}" if self.key else ""
        tail = f"; {self.remedy}" if self.remedy else ""
        place = f"in '{self.file}' at {self.offset}"
        return f"{self.kind}{subject} {place}: expected {self.expected}, found {self.found}{tail}"


def volume_name(text: str) -> str:
    """Returns `text` if it is a valid volume name; raises UsageError otherwise."""
    if _VOLUME_NAME.fullmatch(text) is None:
        raise UsageError(
            f"bad volume name {text!r}: use 1 to 16 of a-z, 0-9, '-' and '_', starting with a letter or digit"
        )
    return text


def batch_name(text: str) -> str:
    """Returns `text` if it is a valid batch or collection name; raises UsageError otherwise."""
    if _BATCH_NAME.fullmatch(text) is None:
        raise UsageError(
            f"bad name {text!r} of a batch or collection: use 1 to 64 of a-z, 0-9, '.', '-' and '_', "
            "starting with a letter or digit"
        )
    return text


class RecordId(NamedTuple):
    """The global id of a record (I4): `202611-0000004711`, batch and serial number."""

    batch: str
    serial: int

    def __str__(self) -> str:
        return f"{self.batch}-{self.serial:010d}"

    @classmethod
    @checked
    def parse(cls, text: str) -> Self:
        """Raises MalformedKey."""
        batch, dash, serial = text.rpartition("-")
        if not dash or not (serial.isascii() and serial.isdigit()) or int(serial) > SERIAL_MAX:
            raise MalformedKey(f"malformed record id {text!r}: expected 'batch-serial', such as '202611-0000004711'")
        return cls(batch_name(batch), int(serial))


class Capture(NamedTuple):
    """One row of the catalog: a record under its URL and time. Unknown texts are `-`."""

    urlkey: str
    timestamp: str  # 14 digits, UTC
    url: str
    mime: str
    status: str
    digest: str  # with its algorithm: 'sha1:<base32>' or 'sha256:<hex>'
    length: int  # of the record in its source file, as stored there; else of the whole record
    offset: int  # in that file
    filename: str  # of its source file
    type: str  # of the record: response, revisit, resource, ...
    size: int  # of the payload
    contents: str  # contentkeys of the payload, in order, separated by spaces; '-': none, or the record keeps it
    record: RecordId
    collection: str
    refers_to: str = "-"  # of a revisit: timestamp, a space, URL; either may be '-'
    extra: str = "-"  # JSON object: method, requestBody, redirect, languages, charset, truncated, block, dateFrom
    modified: str = "-"  # 14 digits, UTC: Last-Modified of the response, at the latest the time of its capture

    @property
    def is_inline(self) -> bool:
        """True if the record keeps its payload itself: it is in the batch, not in a volume."""
        return self.contents == "-" and self.size > 0 and self.type != "revisit"


@dataclass(slots=True)
class Coverage:
    """How much of a cluster an answer is about: its partitions, and those of which no holder responds (H8)."""

    partitions: int
    missing: int = 0

    def __str__(self) -> str:
        """As the header `Holdfast-Partial` has it: missing partitions, a slash, all partitions."""
        return f"{self.missing}/{self.partitions}"
