"""What must be true of an archive: files come out as they went in, and counters say how many records hold a content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import holdfast
from holdfast import Archive, Plan, StoreSettings
from holdfast.archive.ingest.file_reader import inputs_of
from holdfast.archive.ingest.importer import ImportOptions, ImportReport
from holdfast.archive.ingest.manifest import listed
from holdfast.batches.entry import FILE_HEAD, REMOVED, SOURCE, JournalEntry
from holdfast.batches.frame import Walked
from holdfast.catalog import CaptureQuery
from holdfast.config import RecordSettings
from holdfast.model import Capture, ContentKey, RecordId

SAMPLES = Path(__file__).resolve().parents[3] / "shared/samples/warc"
STORE = StoreSettings(segment_bytes_max=16_384, keydir_cache_bytes=1 << 20, train_after=0)
RECORDS = RecordSettings(
    batch="b",
    catalog_cache_bytes=1 << 20,
)
PLAN = Plan(store=STORE, records=RECORDS)
EVERYTHING = CaptureQuery(url="*")


def import_all(archive: Archive, *paths: Path, **options: object) -> list[ImportReport]:
    """The report on each file, in their order."""
    inputs = [each for path in paths for each in inputs_of(path)]
    reports = {report.name: report for report in archive.import_files(inputs, ImportOptions(**options))}  # type: ignore[arg-type]
    return [reports[each.name] for each in inputs]


def captures(archive: Archive, query: CaptureQuery = EVERYTHING) -> list[Capture]:
    return [row.capture for row in archive.search(query)]


def rows(archive: Archive) -> list[Capture]:
    """What the catalog says, save the numbers that records were given."""
    return sorted(capture._replace(record=RecordId(capture.record.batch, 0)) for capture in captures(archive))


def entries(archive: Archive) -> Iterator[tuple[RecordId, JournalEntry]]:
    """All records in the journal."""
    for batch in archive.journal.names():
        for found in archive.journal.walk(batch):
            assert isinstance(found, Walked), found
            for entry in found.entries:
                if entry.type not in (FILE_HEAD, REMOVED):
                    yield RecordId(batch, entry.serial), entry


def held(archive: Archive) -> Counter[str]:
    """How many times the records hold each content."""
    return Counter(key for _, entry in entries(archive) if entry.contents != "-" for key in entry.contents.split(" "))


def references(archive: Archive) -> Counter[str]:
    """The counter of each content."""
    return Counter({str(stat.key): stat.references for stats in archive.contents.listing() for stat in stats})


def assert_exact(archive: Archive) -> None:
    """Counters are exact, every batch is sound, every record can be read, and the catalog lists just what is there."""
    found, expected = references(archive), held(archive)
    wrong = {key: (found[key], expected[key]) for key in found | expected if found[key] != expected[key]}
    assert not wrong, f"references found and expected: {wrong}"
    for batch in archive.journal.names():
        assert archive.verify(batch).faults == []
    there = {}
    for record, entry in entries(archive):
        stored = archive.records.read(record)
        assert stored.entry == entry
        raw = b"".join(stored.raw())
        if entry.is_inline:
            assert entry.data == raw
            assert archive.contents.sign([entry.payload])[0].hex() == entry.signature
        there[record] = entry
    listed_there = {capture.record for capture in captures(archive)}
    assert listed_there <= there.keys()
    assert {r for r, e in there.items() if e.type in ("response", "revisit", "resource")} <= listed_there


def assert_sound(path: Path) -> None:
    """The store is clean, and the archive exact, for one who opens it to write."""
    report = holdfast.check(path)
    assert report.faults == []
    with holdfast.open(path) as archive:
        assert_exact(archive)


def records_of(archive: Archive, filename: str, collection: str = "main") -> list[bytes]:
    """The records of a file that was imported, in its order."""
    sources = [record for _, record in archive.catalog.sources(filename)]
    manifests = [archive.records.read(record).entry for record in sources]
    (manifest,) = [entry for entry in manifests if entry.collection == collection]
    return [b"".join(archive.records.read(record).raw()) for record in listed(manifest.data)]


def sources(archive: Archive) -> list[str]:
    return sorted(entry.filename for _, entry in entries(archive) if entry.type == SOURCE)


def content(archive: Archive, key: str) -> bytes:
    return archive.contents.get(ContentKey.parse(key))
