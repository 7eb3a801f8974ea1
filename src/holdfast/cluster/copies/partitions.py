"""Which partition a record belongs to, and sets of partitions as they are sent and stored (H1).

    a record with a URL    registered domain                                    example.com
    of a split domain      the domain, and hash of two path segments mod n      example.com/3
    a checkpoint           the partition of its log                             holdfast:checkpoint/17/web
    any other record       its fingerprint                                      9f3b0c6d...

All records of one URL are in one partition, so a capture, its request and its metadata stay together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from holdfast.batches.entry import CHECKPOINT, JournalEntry
from holdfast.cluster.membership.placement import PARTITIONS, partition_of
from holdfast.errors import MalformedInput, UsageError
from holdfast.urls import parse, registered_domain, without_www

_KEYS_CACHED = 65_536
_SEGMENTS = 2  # of a path, that decide where a record of a split domain goes
_PARTS_MAX = 65_536
_CHECKPOINTS = "holdfast:checkpoint/"


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """How many partitions there are, and into how many parts a huge domain is divided (`cluster split`).

    The same on every node, because all of them must find the same holders.
    """

    partitions: int = PARTITIONS
    splits: Mapping[str, int] = field(default_factory=dict)  # registered domain, and its number of parts

    def __post_init__(self) -> None:
        for domain, parts in self.splits.items():
            if not 1 <= parts <= _PARTS_MAX:
                raise UsageError(f"bad number of parts {parts} of domain '{domain}': 1 to {_PARTS_MAX}")

    def of_url(self, url: str) -> int | None:
        """The partition of all records of a URL; None if the text names no host."""
        domain, path = _place(url)
        if not domain:
            return None
        parts = self.splits.get(domain, 1)
        return partition_of(f"{domain}/{_hashed(path) % parts}" if parts > 1 else domain, self.partitions)

    def of_host(self, url: str) -> int | None:
        """The partition of all records of the host of a URL, with and without 'www'; None if they are in several."""
        parsed = parse(url)
        if parsed is None or not parsed.host:
            return None
        host = without_www(parsed.host)
        domain = registered_domain(host)
        if self.splits.get(domain, 1) > 1 or registered_domain(f"www.{host}") != domain:
            return None  # a huge domain, or 'www' is all that one of them has
        return partition_of(domain, self.partitions)

    def is_split(self, url: str) -> bool:
        return _place(url)[0] in self.splits

    def of_domain(self, domain: str) -> frozenset[int]:
        """The partitions of all records of a registered domain."""
        parts = self.splits.get(domain, 1)
        keys = [f"{domain}/{number}" for number in range(parts)] if parts > 1 else [domain]
        return frozenset(partition_of(key, self.partitions) for key in keys)

    def changed(self, other: PartitionRule) -> frozenset[str]:
        """The domains that are split otherwise by another rule."""
        domains = {*self.splits, *other.splits}
        return frozenset(each for each in domains if self.splits.get(each, 1) != other.splits.get(each, 1))

    def of_record(self, entry: JournalEntry, fingerprint: bytes) -> int:
        if entry.type == CHECKPOINT:
            number = entry.url.removeprefix(_CHECKPOINTS).partition("/")[0]
            return int(number) % self.partitions if number.isdecimal() else 0
        found = self.of_url(entry.url)
        return partition_of(fingerprint.hex(), self.partitions) if found is None else found

    def text(self) -> bytes:
        """The same for equal rules."""
        return f"{self.partitions} {sorted(self.splits.items())}".encode()


@lru_cache(_KEYS_CACHED)
def _place(url: str) -> tuple[str, str]:
    """Registered domain and first path segments; empty if there is no host."""
    parsed = parse(url)
    if parsed is None or not parsed.host:
        return "", ""
    return registered_domain(parsed.host), "/".join(parsed.path.split("/")[1 : _SEGMENTS + 1])


def checkpoint_url(partition: int, crawl: str) -> str:
    """The URL of the checkpoints of a log: it names the partition whose holders hold them."""
    return f"{_CHECKPOINTS}{partition}/{crawl}"


def crawl_of_checkpoint(url: str) -> str:
    """The crawl whose log it is of."""
    return url.removeprefix(_CHECKPOINTS).partition("/")[2]


def split_domain(text: str) -> str:
    """A domain that can be split, as a user has written it. Raises UsageError."""
    domain = text.strip().rstrip(".").lower()
    parsed = parse(f"http://{domain}/")
    if parsed is None or parsed.host != domain or "." not in domain:
        raise UsageError(f"bad domain '{text}': a registered domain like 'example.com'")
    if registered_domain(domain) != domain:
        raise UsageError(f"'{text}' is a part of '{registered_domain(domain)}', which can be split only as a whole")
    return domain


def _hashed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")


def pack_partitions(chosen: Iterable[int], partitions: int) -> bytes:
    """One bit for each partition, the lowest bit of the first byte for partition 0."""
    bits = bytearray((partitions + 7) // 8)
    for each in chosen:
        bits[each >> 3] |= 1 << (each & 7)
    return bytes(bits)


def unpack_partitions(bits: bytes, partitions: int) -> frozenset[int]:
    """Raises MalformedInput."""
    if len(bits) != (partitions + 7) // 8:
        raise MalformedInput(f"a set of {partitions} partitions has {len(bits)} bytes")
    found = [8 * at + bit for at, byte in enumerate(bits) if byte for bit in range(8) if byte >> bit & 1]
    if found and found[-1] >= partitions:
        raise MalformedInput(f"partition {found[-1]} is beyond {partitions}")
    return frozenset(found)
