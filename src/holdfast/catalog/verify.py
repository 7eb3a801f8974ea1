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
    area,
    begins_split,
    digest_key,
    encoded,
    modified_key,
    pack_home,
    page_id_key,
    page_key,
    place_of,
    record_key,
    total_key,
    when_key,
)
from holdfast.catalog.rows import CaptureRows
from holdfast.env.table import Table
from holdfast.errors import DamagedCatalog
from holdfast.model import Capture


def verify_rows(table: Table, rows: CaptureRows) -> None:
    """Every capture is found by its record and its payload, nothing else is, and the totals are right."""
    counted: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    expected = {RECORD: 0, WHEN: 0, PAGE: 0, PAGE_ID: 0, MODIFIED: 0, DIGEST: 0, SPLIT: 0}
    for collection in rows.collections():
        for capture in rows.scan(collection, (b"", b"\xff")):
            place = place_of(capture)
            _expect(table, capture, record_key(capture.record), pack_home(collection, place))
            _expect(table, capture, when_key(capture.timestamp, capture.record), b"")
            expected[RECORD] += 1
            expected[WHEN] += 1
            record = str(capture.record).encode()
            _expect(table, capture, page_key(encoded(capture.urlkey), record), b"")
            _expect(table, capture, page_id_key(capture, record), b"")
            _expect(table, capture, modified_key(capture, record), b"")
            for kind in (PAGE, PAGE_ID, MODIFIED):
                expected[kind] += 1
            if key := digest_key(capture, place):
                _expect(table, capture, key, collection.encode())
                expected[DIGEST] += 1
            if begins_split(place):
                _expect(table, capture, area(SPLIT, collection) + place, b"")
                expected[SPLIT] += 1
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
