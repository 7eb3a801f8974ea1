"""Damage of the last frame of an open batch is damage, not the unfinished end of a crash: it was acknowledged (N3)."""

from __future__ import annotations

from pathlib import Path

import holdfast
from holdfast import check
from holdfast.archive.ingest.exchange import page


def test_the_last_frame_of_an_open_batch_is_verified(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        for number in range(3):
            archive.add([page(f"http://a.example/{number}", b"<p>small", timestamp="20240101000000")], batch="b")
    (file,) = (path / "batches" / "b").glob("records-*")
    data = bytearray(file.read_bytes())
    data[-30] ^= 1
    file.write_bytes(data)
    with holdfast.open(path, read_only=True) as archive:
        report = archive.verify("b")
    assert [fault.kind for fault in report.faults] == ["damaged frame"]
    assert not check(path).clean


def test_an_unfinished_end_behind_what_was_acknowledged_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        archive.add([page("http://a.example/", b"<p>small", timestamp="20240101000000")], batch="b")
    (file,) = (path / "batches" / "b").glob("records-*")
    file.write_bytes(file.read_bytes() + b"\x28\xb5\x2f\xfd unfinished")
    with holdfast.open(path, read_only=True) as archive:
        assert archive.verify("b").faults == []
    assert check(path).clean
