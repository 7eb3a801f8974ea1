"""Whether the parts of a catalog agree with each other."""

from __future__ import annotations

from collections import Counter

from holdfast.catalog.keys import (
    BATCH,
    CAPTURE,
    DIGEST,
    MODIFIED,
    PAGE,
    PAGE_ID,
    RECORD,
    SPLIT,
    WHEN,
    Total,
    after,
    secondary_keys,
    total_key,
)
from holdfast.catalog.rows import CaptureRows
from holdfast.env.table import Table
from holdfast.errors import DamagedCatalog
from holdfast.model import Capture


def verify_rows(table: Table, rows: CaptureRows) -> None:
    """Every capture is found by its record and its payload, nothing else is, and the totals are right."""
    counted: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    expected = dict.fromkeys((RECORD, WHEN, PAGE, PAGE_ID, MODIFIED, DIGEST, SPLIT), 0)
    for collection in rows.collections():
        for capture in rows.scan(collection, (b"", b"\xff")):
            for key, value in secondary_keys(capture):
                _expect(table, capture, key, value)
                expected[key[:1]] += 1
            for key in (total_key(CAPTURE, collection), total_key(BATCH, capture.record.batch)):
                counted[key] += 1
                sizes[key] += capture.size
    for kind, count in expected.items():
        found = sum(1 for _ in table.scan(kind, after(kind)))
        if found != count:
            raise _damaged(table, f"{found} keys of kind {kind.decode()!r}, expected {count}")
    totals = {key: Total(count, sizes[key]) for key, count in counted.items()}
    if totals != rows.totals():
        raise _damaged(table, "totals are not those of the captures")


def _expect(table: Table, capture: Capture, key: bytes, value: bytes) -> None:
    found = table.get(key)
    if found != value:
        raise _damaged(table, f"capture of {capture.record} expects {value!r} under {key!r}, found {found!r}")


def _damaged(table: Table, text: str) -> DamagedCatalog:
    return DamagedCatalog(f"catalog '{table.path}' is not in order: {text}; run '{table.kind.repair}'")
