"""The records that came last, from the end of a batch."""

from __future__ import annotations

from pathlib import Path

import holdfast
from holdfast.archive.ingest.exchange import page


def test_the_newest_records_come_first_across_frames_and_for_readers(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive")
    urls = [f"http://a.example/{number}" for number in range(5)]
    with holdfast.open(tmp_path / "archive") as archive:
        for url in urls:
            archive.add([page(url, url.encode(), "text/plain", "20240102030405")], batch="b")
    with holdfast.open(tmp_path / "archive", read_only=True) as archive:
        found = list(archive.records.newest("b"))
        assert [entry.url for _, entry in found if entry.type == "response"] == urls[::-1]
        assert [record.serial for record, _ in found] == sorted((record.serial for record, _ in found), reverse=True)
        assert list(archive.records.newest("nothing")) == []
