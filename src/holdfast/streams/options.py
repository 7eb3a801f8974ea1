"""Options of a stream: which captures, in which order, from which position."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from hashlib import blake2b

from holdfast.arguments import check_fields, read_text_field
from holdfast.catalog import CaptureQuery
from holdfast.catalog.timestamps import digits, latest
from holdfast.errors import UnknownName, UsageError
from holdfast.model import batch_name

ORDERS = ("log", "url", "date", "modified", "rank")
BOTH_WAYS = ("date", "modified", "rank")  # orders that can be reversed
WHICH = ("all", "latest")
FACTS = ("record", "url", "timestamp", "status", "mime", "collection", "type", "digest", "size")
PARTS = ("headers", "payload", "content", "text", "title")
FIELDS = (*FACTS, *PARTS)
ON_DEMAND = ("main_text", "language", "modified", "page_id")  # included only if named
KNOWN_FIELDS = (*FIELDS, *ON_DEMAND)
SHARDS_MAX = 1 << 20
BATCH_SIZE = 256
BATCH_SIZE_MAX = 65_536
_SHARD = re.compile(r"(\d{1,9})/(\d{1,9})", re.ASCII)
_OF_A_CATALOG_QUERY = ("url", "match", "to_url", "from_", "to", "filters", "collection")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Which captures, in which order, from which position. All options may be combined."""

    query: str = ""  # in the query language; needs the index
    captures: CaptureQuery | None = None  # by URL, time and filters; without order, limit and pages
    batch: str | None = None
    collection: str | None = None
    order: str = "log"  # one of ORDERS
    reverse: bool = False  # newest, or lowest rank, first; for the orders in BOTH_WAYS
    which: str = "all"  # latest: the newest selected capture of each URL
    at: str = ""  # the archive as of this time: the newest capture of each URL up to then
    shard: tuple[int, int] | None = None  # (i, n): part i of n disjoint parts, counted from 0
    token: str = ""  # resume where the stream that issued it stopped
    batch_size: int = BATCH_SIZE  # maximum number of captures
    fields: tuple[str, ...] = ()  # fields of the pages to read ahead; none: all
    strict: bool = False  # raise at the first record or content that cannot be read

    def __post_init__(self) -> None:
        read_text_field(self, "captures", lambda url: CaptureQuery(url=url))
        read_text_field(self, "fields", lambda name: (name,))
        read_text_field(self, "shard", _shard)
        check_fields(self)
        for name, value, known in (("order", self.order, ORDERS), ("which", self.which, WHICH)):
            if value not in known:
                raise UnknownName(f"unknown {name} {value!r}: known are {', '.join(known)}")
        if self.reverse and self.order not in BOTH_WAYS:
            raise UsageError(f"order {self.order!r} cannot be reversed, only {', '.join(BOTH_WAYS)}")
        for field in self.fields:
            if field not in KNOWN_FIELDS:
                raise UnknownName(f"unknown field {field!r}: known are {', '.join(KNOWN_FIELDS)}")
        for given in (self.batch, self.collection):
            if given is not None:
                batch_name(given)
        if self.at:
            digits(self.at, "at")
        if not 1 <= self.batch_size <= BATCH_SIZE_MAX:
            raise UsageError(f"bad batch size {self.batch_size}: 1 to {BATCH_SIZE_MAX}")
        _canonical(self.query)
        self._check_shard()
        self._check_captures()

    def _check_shard(self) -> None:
        if self.shard is None:
            return
        index, count = self.shard
        if not (1 <= count <= SHARDS_MAX and 0 <= index < count):
            raise UsageError(f"bad shard {index}/{count}: the first of {count} is 0/{count}, at most {SHARDS_MAX}")

    def _check_captures(self) -> None:
        asked = self.captures
        if asked is None:
            return
        for each in fields(asked):
            if each.name not in _OF_A_CATALOG_QUERY and getattr(asked, each.name) != each.default:
                raise UsageError(f"{each.name!r} of a capture query does not apply to a stream: leave it out")
        if None not in (asked.collection, self.collection) and asked.collection != self.collection:
            raise UsageError(f"two collections: {asked.collection!r} and {self.collection!r}")

    @property
    def wanted(self) -> frozenset[str]:
        """The fields that are read ahead."""
        return frozenset(self.fields or FIELDS)

    @property
    def of_collection(self) -> str | None:
        return self.collection or (self.captures.collection if self.captures is not None else None)

    @property
    def is_latest(self) -> bool:
        """Whether each URL has one capture."""
        return self.which == "latest" or bool(self.at)

    @property
    def until(self) -> str:
        """No capture is later than this; 14 digits, or empty."""
        return latest(digits(self.at, "at")) if self.at else ""

    def digest(self) -> str:
        """Identifies the set of captures and their order: equal for options that mean the same stream."""
        asked = self.captures.plain() if self.captures is not None else None
        facts: dict[str, object] = {
            "query": _canonical(self.query),
            "captures": [getattr(asked, name) for name in _OF_A_CATALOG_QUERY[:-1]] if asked is not None else None,
            "batch": self.batch,
            "collection": self.of_collection,
            "order": self.order,
            "latest": self.is_latest,
            "until": self.until,
            "shard": self.shard,
        }
        if self.reverse:  # otherwise left out, so that older tokens stay valid
            facts["reverse"] = True
        return blake2b(json.dumps(facts).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def _shard(text: str) -> tuple[int, int]:
    match = _SHARD.fullmatch(text)
    if match is None:
        raise UsageError(f"bad shard {text[:40]!r}: give I/N, such as 0/4 for the first of four")
    return int(match[1]), int(match[2])


def _canonical(query: str) -> str:
    """The canonical form of a query. Raises MalformedQuery."""
    if not query:
        return ""
    from holdfast.query.language.parser import parse
    from holdfast.query.language.syntax import canonical

    return canonical(parse(query))
