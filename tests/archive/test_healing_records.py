"""Damaged payloads are healed by what is added, imported or crawled again (N13)."""

from __future__ import annotations

from pathlib import Path

import pytest
from archive_warcs import HTTP, record

import holdfast
from holdfast import Archive, ContentKey, Plan, StoreSettings
from holdfast.archive.ingest.writer import AddOutcome
from holdfast.errors import DamagedBlock

BODY = b"<p>a page that comes to harm</p>" * 40
URL = "http://example.org/"


@pytest.fixture(params=["log", "tree", "hash", "hashed-log"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    holdfast.init(tmp_path / "a", Plan(1, str(request.param), store=StoreSettings(codec="none")))
    return tmp_path / "a"


def harm(path: Path, body: bytes) -> None:
    """Flips a byte of the body, wherever it is."""
    for file in [each for each in (path / "volumes").rglob("*") if each.is_file() and "keydir" not in each.parts]:
        raw = file.read_bytes()
        if body in raw:
            file.write_bytes(raw.replace(body, bytes([body[0] ^ 1]) + body[1:]))


def payload_key(archive: Archive) -> ContentKey:
    (batch,) = list(archive.contents.listing())
    (stat,) = [each for each in batch if each.size == len(BODY)]
    return stat.key


def met_damage(path: Path) -> ContentKey:
    with holdfast.open(path) as archive:
        key = payload_key(archive)
    harm(path, BODY)
    with holdfast.open(path, read_only=True) as reader, pytest.raises(DamagedBlock):
        reader.contents.get(key)
    return key


def assert_healed(path: Path, key: ContentKey, references: int) -> None:
    assert holdfast.check(path).faults == []
    with holdfast.open(path, read_only=True) as reader:
        assert reader.contents.get(key) == BODY
        assert reader.contents.stat(key).references == references


def test_another_capture_of_the_same_content(path: Path) -> None:
    with holdfast.open(path) as archive:
        archive.add([holdfast.page(URL, BODY, "text/html", "20240102030405")])
    key = met_damage(path)
    with holdfast.open(path) as archive:
        (added,) = archive.add([holdfast.page(URL, BODY, "text/html", "20250102030405")])
        assert (added.outcome, added.new_content) == (AddOutcome.ADDED, False)
    assert_healed(path, key, 2)


def test_the_same_file_imported_again_heals_and_counts_nothing(path: Path, tmp_path: Path) -> None:
    warc = tmp_path / "pages.warc"
    warc.write_bytes(record("response", URL, HTTP + BODY))
    with holdfast.open(path) as archive:
        list(archive.import_files([warc]))
    key = met_damage(path)
    with holdfast.open(path) as archive:
        (report,) = archive.import_files([warc])
        assert report.known
    assert_healed(path, key, 1)
    assert '"event": "healed"' in (path / "audit.log").read_text()


def test_a_large_record_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its payload is in pieces, each a content by itself."""
    path, warc = tmp_path / "a", tmp_path / "large.warc"
    body = bytes(range(256)) * 1024
    holdfast.init(path, Plan(store=StoreSettings(codec="none")))
    monkeypatch.setattr("holdfast.records.draft.PIECE_BYTES_MAX", 65536)
    warc.write_bytes(record("response", URL, HTTP + body))
    with holdfast.open(path) as archive:
        list(archive.import_files([warc]))
        keys = [stat.key for batch in archive.contents.listing() for stat in batch]
    (segment,) = (path / "volumes" / "v0").glob("*.seg")
    raw = bytearray(segment.read_bytes())
    at = raw.index(body[:1000])
    raw[at + 7] ^= 1
    segment.write_bytes(raw)
    assert len(holdfast.check(path).faults) == 1
    with holdfast.open(path) as archive:
        list(archive.import_files([warc]))
        assert all(archive.contents.stat(key).references for key in keys)
        assert len(archive.contents.get_batch(keys)) == len(keys)
    assert holdfast.check(path).faults == []
