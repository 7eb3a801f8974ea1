"""Archives of a cluster's nodes, and records for them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from shutil import rmtree

import holdfast
from holdfast import Archive, Plan
from holdfast.archive.ingest.exchange import Exchange
from holdfast.archive.ingest.writer import Copy
from holdfast.batches.entry import REMOVED, JournalEntry
from holdfast.cluster.copies.digests import BUCKET_SERIALS, RangeDigest
from holdfast.cluster.copies.origins import TABLE, OriginTable
from holdfast.cluster.copies.partitions import PartitionRule
from holdfast.config import RecordSettings, StoreSettings
from holdfast.env import paths
from holdfast.model import ContentKey, RecordId
from holdfast.records.draft import signatures_of

RULE = PartitionRule(partitions=64)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def seeded() -> Random:
    """A random generator whose seed is printed, so that a failure can be repeated: HOLDFAST_SEED=1234 pytest ..."""
    seed = int(os.environ.get("HOLDFAST_SEED") or Random().randrange(10**6))
    print("seed", seed)
    return Random(seed)


def make_node(root: Path, name: str, keep: str = "all", **store: int) -> Path:
    """An empty archive of the node."""
    path = root / name
    holdfast.init(path, Plan(records=RecordSettings(node=name, keep=keep), store=StoreSettings(**store)))
    return path


def some_page(random: Random, domains: int = 40, size: int = 3000) -> Exchange:
    """A page of one of the domains, some with requests, small bodies and bodies in common."""
    number = random.randrange(domains)
    url = f"http://www.site{number}.example/{random.randrange(10**9)}"
    kind = random.random()
    body = (
        b"<p>the same everywhere</p>" * 60 if kind < 0.1 else random.randbytes(random.randrange(1, size)).hex().encode()
    )
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" if kind > 0.6 else b""
    timestamp = f"2026{random.randrange(1, 10):02d}{random.randrange(1, 28):02d}{random.randrange(24):02d}0000"
    return Exchange(url, HEAD, body, timestamp, request)


def some_pages(random: Random, count: int, **more: int) -> list[Exchange]:
    return [some_page(random, **more) for _ in range(count)]


def entries_of(archive: Archive, batch: str) -> Iterator[tuple[RecordId, JournalEntry]]:
    """The records of a batch that are still there."""
    if batch in archive.journal.names():
        for entry in archive.records.entries_from(RecordId(batch, 1)):
            if entry.type != REMOVED:
                yield RecordId(batch, entry.serial), entry


def copy_to(source: Archive, target: Archive, batch: str, node: str) -> list[RecordId | None]:
    """Copies all records of a batch, as a holder does."""
    copies = [
        Copy(entry._replace(origin=str(record)), signatures_of(entry)) for record, entry in entries_of(source, batch)
    ]
    return target.writer.add_copies(
        f"copies.{node}", copies, lambda key: source.contents.get(ContentKey.parse(str(key)))
    )


def digests_of(origins: OriginTable) -> Mapping[tuple[int, str, int], RangeDigest]:
    """All buckets, after the sums above them were checked."""
    found: dict[tuple[int, str, int], RangeDigest] = {}
    for partition, whole in origins.held().items():
        assert origins.partition_digests([partition]) == [whole]
        per_batch = origins.batch_digests(partition)
        assert _sum(per_batch.values()) == whole
        for batch, digest in per_batch.items():
            buckets = origins.bucket_digests(partition, batch)
            assert _sum(buckets.values()) == digest
            found |= {(partition, batch, bucket): each for bucket, each in buckets.items()}
    recomputed: dict[tuple[int, str, int], RangeDigest] = {}
    for batch in origins.batches():
        for row in origins.rows(batch):
            place = row.partition, batch, row.origin.serial // BUCKET_SERIALS
            value = int.from_bytes(row.fingerprint, "big")
            recomputed[place] = recomputed.get(place, RangeDigest()).plus(1, value)
    assert recomputed == found
    return found


def _sum(digests: object) -> RangeDigest:
    whole = RangeDigest()
    for each in digests:  # type: ignore[attr-defined]
        whole = whole.plus(*each)
    return whole


def rebuilt(archive: Archive, rule: PartitionRule = RULE) -> Mapping[tuple[int, str, int], RangeDigest]:
    """The digests of a table that is built from the batches alone. The archive's own table must be closed."""
    rmtree(archive.path / paths.CLUSTER / TABLE, ignore_errors=True)
    origins = OriginTable(archive, rule)
    try:
        origins.catch_up()
        return digests_of(origins)
    finally:
        origins.close()
