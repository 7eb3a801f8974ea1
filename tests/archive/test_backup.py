"""A batch is a backup by itself (I4): written with all that it needs, restored elsewhere under the same ids."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from archive_warcs import response, write
from test_archive_kill import NEVER, children
from truths import PLAN, STORE, assert_exact, assert_sound, captures, entries, held, import_all, references
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

import holdfast
from holdfast import Archive, Plan
from holdfast.archive.backup import BatchCopyReport
from holdfast.archive.export import ExportOptions
from holdfast.archive.removal import RemovalOptions
from holdfast.batches.entry import REMOVED, SOURCE, JournalEntry
from holdfast.batches.frame import Walked
from holdfast.catalog import CaptureQuery
from holdfast.errors import BatchSealed, NotFound, UnknownName, UsageError
from holdfast.model import RecordId
from holdfast.records.selection import Selection

pytestmark = pytest.mark.filterwarnings(  # warcio leaves temporary files open
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:Unclosed file:ResourceWarning"
)

PAGES = 150
OLD = "http://a.example/old"
NEW = "http://b.example/page"
PAGE = b"<title>Old and seen again</title>" * 20


def body(number: int) -> bytes:
    """Of a page; two pages share each."""
    return Random(number % 100).randbytes(300).hex().encode()


def make_warcs(directory: Path) -> tuple[Path, Path]:
    """Two files by warcio: one for each batch. The second repeats the first: as revisits, and record for record."""
    early, late = io.BytesIO(), io.BytesIO()
    first, second = WARCWriter(early, gzip=True), WARCWriter(late, gzip=True)

    def http(status: str = "200 OK", *fields: tuple[str, str]) -> StatusAndHeaders:
        return StatusAndHeaders(status, [("Content-Type", "text/html"), *fields], protocol="HTTP/1.1")

    def dated(date: str) -> dict[str, str]:
        return {"WARC-Date": date}

    info = first.create_warcinfo_record("early.warc.gz", {"software": "test"})
    first.write_record(info)
    old = first.create_warc_record(
        OLD, "response", io.BytesIO(PAGE), http_headers=http(), warc_headers_dict=dated("2026-01-01T00:00:00Z")
    )
    request = first.create_warc_record(
        OLD, "request", io.BytesIO(), http_headers=StatusAndHeaders("GET /old HTTP/1.1", [("Host", "a.example")])
    )
    first.write_request_response_pair(request, old)
    cut = len(early.getvalue())
    first.write_record(
        first.create_warc_record("http://a.example/only", "response", io.BytesIO(b"only early"), http_headers=http())
    )
    late.write(early.getvalue()[:cut])  # the same records again: they stay in the first batch
    revisit = second.create_revisit_record(
        OLD, old.rec_headers.get_header("WARC-Payload-Digest"), OLD, "2026-01-01T00:00:00Z", http()
    )
    second.write_record(revisit)
    for number in range(PAGES):
        page = second.create_warc_record(
            f"{NEW}/{number}",
            "response",
            io.BytesIO(body(number)),
            http_headers=http("302 Found", ("Location", "/x")) if number % 9 == 0 else http(),
            warc_headers_dict=dated(f"2026-02-01T00:{number // 60:02d}:{number % 60:02d}Z"),
        )
        second.write_record(page)
    large = Random("large").randbytes(30_000)  # in pieces
    second.write_record(
        second.create_warc_record(
            "http://b.example/large", "resource", io.BytesIO(large), warc_content_type="application/x-large"
        )
    )
    second.write_record(
        second.create_warc_record("urn:note", "metadata", io.BytesIO(b"via: x\r\n"), warc_content_type="text/plain")
    )
    second.write_record(
        second.create_warc_record("dns:b.example", "resource", io.BytesIO(b"192.0.2.1"), warc_content_type="text/dns")
    )
    (directory / "early.warc.gz").write_bytes(early.getvalue())
    (directory / "late.warc.gz").write_bytes(late.getvalue())
    return directory / "early.warc.gz", directory / "late.warc.gz"


@pytest.fixture
def source(quick: Path) -> Path:
    """An archive with the batches `early` and `late`; records of the second need records of the first."""
    early, late = make_warcs(quick)
    holdfast.init(quick / "source", PLAN)
    with holdfast.open(quick / "source") as archive:
        import_all(archive, early, batch="early")
        import_all(archive, late, batch="late")
    return quick / "source"


def new_archive(quick: Path, name: str = "target", plan: Plan = PLAN) -> Path:
    holdfast.init(quick / name, plan)
    return quick / name


def of_batch(archive: Archive, batch: str) -> dict[RecordId, JournalEntry]:
    """The records without their contentkeys, which tell the places in a store."""
    return {record: entry._replace(contents="-") for record, entry in entries(archive) if record.batch == batch}


def raw(archive: Archive, batch: str) -> dict[RecordId, bytes]:
    return {
        record: b"".join(archive.records.read(record).raw())
        for record, entry in entries(archive)
        if record.batch == batch and entry.type != SOURCE
    }


def exact(archive: Archive, name: str) -> bytes:
    sink = io.BytesIO()
    archive.export(Selection(), sink, ExportOptions("warc", exact=True, source=name))
    return gzip.decompress(sink.getvalue())


def back_up(source: Path, target: Path, batch: str = "late") -> BatchCopyReport:
    with holdfast.open(source, read_only=True) as archive:
        return archive.back_up(batch, target)


def restore(target: Path, backup: Path) -> BatchCopyReport:
    with holdfast.open(target) as archive:
        return archive.restore(backup)


@pytest.mark.parametrize("sealed", [True, False])
def test_a_batch_comes_back_elsewhere(quick: Path, source: Path, *, sealed: bool) -> None:
    with holdfast.open(source) as archive:
        if sealed:
            archive.seal("late")
        before = references(archive)
    made = back_up(source, quick / "backup")
    assert (made.batch, made.sealed, made.faults) == ("late", sealed, ())
    assert made.originals == 3  # two that the file has in common with the other, one of them the original; its warcinfo
    shutil.move(quick / "backup", quick / "moved")
    target = new_archive(quick)
    with holdfast.open(source) as archive:
        assert references(archive) == before
        wanted, wanted_raw = of_batch(archive, "late"), raw(archive, "late")
        file = exact(archive, "late.warc.gz")
    shutil.rmtree(source)  # nothing of it is needed any more
    report = restore(target, quick / "moved")
    assert (report.records, report.known, report.faults, report.sealed) == (len(wanted), 0, (), sealed)
    assert_sound(target)
    with holdfast.open(target) as archive:
        assert archive.journal.is_sealed("late") is sealed
        assert not archive.journal.is_restoring("late")
        found = of_batch(archive, "late")
        assert found.keys() == wanted.keys()
        assert {i: e for i, e in found.items() if e.type != SOURCE} == {
            i: e for i, e in wanted.items() if e.type != SOURCE
        }
        assert raw(archive, "late") == wanted_raw
        assert exact(archive, "late.warc.gz") == file == gzip.decompress((quick / "late.warc.gz").read_bytes())
        (revisit,) = [each for each in captures(archive, CaptureQuery(url=OLD)) if each.type == "revisit"]
        assert archive.records.of(revisit).payload() == PAGE
        assert archive.journal.names() == ["late", "late-originals"]


def test_the_backup_is_an_archive(quick: Path, source: Path) -> None:
    back_up(source, quick / "backup")
    assert_sound(quick / "backup")
    with holdfast.open(source, read_only=True) as archive, holdfast.open(quick / "backup", read_only=True) as backup:
        assert of_batch(backup, "late") == of_batch(archive, "late")
        assert exact(backup, "late.warc.gz") == exact(archive, "late.warc.gz")
        assert backup.get(OLD).payload() == PAGE
        assert len(of_batch(backup, "early")) == 3
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=quick / "backup", capture_output=True, check=True)
    assert b"batches/late/records-000001.tw.zst: OK" in done.stdout


def test_restoring_twice_changes_nothing(quick: Path, source: Path) -> None:
    back_up(source, quick / "backup")
    target = new_archive(quick)
    first = restore(target, quick / "backup")
    with holdfast.open(target) as archive:
        before, rows = references(archive), captures(archive)
    again = restore(target, quick / "backup")
    assert (again.records, again.known) == (0, first.records)
    with holdfast.open(target) as archive:
        assert (references(archive), captures(archive)) == (before, rows)
    assert_sound(target)
    own = restore(source, quick / "backup")
    assert (own.records, own.known) == (0, first.records)
    assert_sound(source)


def test_a_batch_that_has_grown(quick: Path, source: Path) -> None:
    back_up(source, quick / "one")
    target = new_archive(quick)
    restore(target, quick / "one")
    with holdfast.open(source) as archive:
        import_all(archive, write(quick / "more.warc", [response("http://c.example/", b"more")]), batch="late")
        wanted = of_batch(archive, "late")
    back_up(source, quick / "two")
    assert restore(target, quick / "two").records == 2  # the page, and the list of the file
    with holdfast.open(target) as archive:
        assert of_batch(archive, "late").keys() == wanted.keys()
    assert_sound(target)
    report = restore(target, quick / "one")  # the older one adds nothing, and takes nothing away
    assert report.records == 0
    assert_sound(target)


def test_another_batch_of_the_same_name(quick: Path, source: Path) -> None:
    back_up(source, quick / "backup")
    target = new_archive(quick)
    with holdfast.open(target) as archive:
        import_all(archive, write(quick / "other.warc", [response("http://c.example/", b"other")]), batch="late")
        rows, before = captures(archive), references(archive)
    with holdfast.open(target) as archive, pytest.raises(UsageError, match=r"another batch 'late'.*late-0000000001"):
        archive.restore(quick / "backup")
    with holdfast.open(target) as archive:
        assert (captures(archive), references(archive)) == (rows, before)
        assert archive.journal.names() == ["late"]


def test_ids_of_other_batches_may_be_taken_here(quick: Path, source: Path) -> None:
    """The target has a batch `early` of its own: what the backup needs of the other one goes elsewhere."""
    back_up(source, quick / "backup")
    target = new_archive(quick)
    with holdfast.open(target) as archive:
        pages = [response(f"http://c.example/{n}", b"own %d" % n) for n in range(5)]
        import_all(archive, write(quick / "own.warc", pages), batch="early")
    restore(target, quick / "backup")
    assert_sound(target)
    with holdfast.open(target) as archive:
        assert exact(archive, "late.warc.gz") == gzip.decompress((quick / "late.warc.gz").read_bytes())
        assert archive.get(OLD).payload() == PAGE


def test_what_was_refused_stays_away(quick: Path, source: Path) -> None:
    back_up(source, quick / "backup")
    target = new_archive(quick)
    with holdfast.open(target) as archive:
        import_all(archive, quick / "late.warc.gz", batch="x")
        removed = archive.remove(Selection(CaptureQuery(url=f"{NEW}/3")), RemovalOptions("asked", refuse=True))
        archive.remove(Selection(CaptureQuery(url=OLD)), RemovalOptions("asked", refuse=True))
        assert removed.records == 1
    report = restore(target, quick / "backup")
    assert report.refused == 2  # the page, and the revisit
    assert_sound(target)
    with holdfast.open(target) as archive:
        assert captures(archive, CaptureQuery(url=f"{NEW}/3")) == []
        assert captures(archive, CaptureQuery(url=OLD)) == []
        (gone,) = [r for r, e in _all_entries(source, "late") if e.url == f"{NEW}/3"]
        entry = archive.records.entry(gone)
        assert entry is not None
        assert entry.type == REMOVED
    assert restore(target, quick / "backup").records == 0


def _all_entries(path: Path, batch: str) -> list[tuple[RecordId, JournalEntry]]:
    with holdfast.open(path, read_only=True) as archive:
        return [(record, entry) for record, entry in entries(archive) if record.batch == batch]


def test_removed_records_are_not_in_a_backup(quick: Path, source: Path) -> None:
    with holdfast.open(source) as archive:
        for number in (17, 117):
            archive.remove(Selection(CaptureQuery(url=f"{NEW}/{number}")), RemovalOptions("asked"))
        payload = body(17)
        next_serial = archive.journal.batch("late").tail.next_serial
    made = back_up(source, quick / "backup")
    assert made.removed == 2
    target = new_archive(quick)
    assert restore(target, quick / "backup").removed == 2
    assert_sound(target)
    with holdfast.open(target) as archive:
        assert archive.journal.batch("late").tail.next_serial == next_serial
        assert captures(archive, CaptureQuery(url=f"{NEW}/17")) == []
        assert payload not in [content for some in archive.contents.scan() for _, content in some]


def test_another_signature(quick: Path, source: Path) -> None:
    back_up(source, quick / "backup")
    from dataclasses import replace

    target = new_archive(quick, plan=replace(PLAN, volumes=3, store=replace(STORE, signature="rabin64")))
    report = restore(target, quick / "backup")
    assert report.faults == ()
    assert restore(target, quick / "backup").records == 0
    assert_sound(target)
    with holdfast.open(target) as archive:
        assert exact(archive, "late.warc.gz") == gzip.decompress((quick / "late.warc.gz").read_bytes())


# -- damage ------------------------------------------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(data)


def test_a_damaged_block_of_the_backup_is_named(quick: Path, source: Path) -> None:
    back_up(source, quick / "backup")
    with holdfast.open(quick / "backup", read_only=True) as backup:
        capture = next(each for each in captures(backup, CaptureQuery(url=f"{NEW}/17")))
        stat = backup.contents.stat(holdfast.ContentKey.parse(capture.contents))
        wanted = raw_sound(backup, {capture.contents})
        lost = {record for record, entry in entries(backup) if entry.contents == capture.contents}
    name, _, at = stat.place.rpartition("@")
    flip(Path(name), int(at) + 330)
    target = new_archive(quick)
    report = restore(target, quick / "backup")
    assert {fault.kind for fault in report.faults} == {"missing content"}
    named = " ".join(fault.expected for fault in report.faults)
    assert all(str(record) in named for record in lost)
    assert len(report.faults) == len(lost)
    with holdfast.open(target) as archive:
        assert raw_sound(archive, lost_ids=lost) == wanted
        entry = archive.records.entry(next(iter(lost)))
        assert entry is not None
        assert entry.url.startswith(NEW)  # what is sound of it is here
        # Somebody brings the same content: removing the record that lost it does not touch theirs.
        import_all(archive, write(quick / "o.warc", [response("http://c.example/", body(17))]))
        for number in (17, 117):
            archive.remove(Selection(CaptureQuery(url=f"{NEW}/{number}")), RemovalOptions("asked"))
        assert archive.get("http://c.example/").payload() == body(17)
    assert_sound(target)


def raw_sound(
    archive: Archive, lost_keys: set[str] = frozenset(), lost_ids: set[RecordId] = frozenset()
) -> dict[RecordId, bytes]:  # type: ignore[assignment]
    return {
        record: b"".join(archive.records.read(record).raw())
        for record, entry in entries(archive)
        if record.batch == "late"
        and entry.type != SOURCE
        and not lost_keys & set(entry.contents.split(" "))
        and record not in lost_ids
    }


def test_a_payload_that_was_lost_here_comes_back(quick: Path, source: Path) -> None:
    """For all records that hold it, also those of other batches: counters stay exact. And `check` is clean again."""
    back_up(source, quick / "backup")
    with holdfast.open(source) as archive:
        import_all(archive, write(quick / "o.warc", [response("http://c.example/", body(17))]), batch="other")
        (capture,) = captures(archive, CaptureQuery(url=f"{NEW}/17"))
        stat = archive.contents.stat(holdfast.ContentKey.parse(capture.contents))
        before = references(archive)
    name, _, at = stat.place.rpartition("@")
    flip(Path(name), int(at) + 330)
    assert not holdfast.check(source, holdfast.CheckOptions(repair=True)).clean
    lost = holdfast.check(source).faults  # it is lost, and stays so
    assert {(fault.kind, fault.remedy.partition(" ")[0]) for fault in lost} == {("missing content", "restore")}
    report = restore(source, quick / "backup")
    assert (report.put_back, report.records, report.faults) == (1, 0, ())
    assert_sound(source)
    with holdfast.open(source) as archive:
        assert references(archive) == before
        assert archive.get("http://c.example/").payload() == archive.get(f"{NEW}/17").payload() == body(17)
    assert restore(source, quick / "backup").put_back == 0


def test_records_that_are_damaged_here_are_named(quick: Path, source: Path) -> None:
    back_up(source, quick / "backup")
    with holdfast.open(source, read_only=True) as archive:
        frames = [found for found in archive.journal.walk_file("late", 1) if isinstance(found, Walked)]
    flip(source / "batches/late/records-000001.tw.zst", frames[3].place.offset + 20)
    report = restore(source, quick / "backup")
    assert {fault.kind for fault in report.faults} == {"missing record"}
    named = " ".join(fault.expected for fault in report.faults)
    assert all(str(RecordId("late", entry.serial)) in named for entry in frames[3].entries)
    assert restore(new_archive(quick), quick / "backup").faults == ()


def test_a_damaged_frame_of_the_backup_is_named(quick: Path, source: Path) -> None:
    back_up(source, quick / "backup")
    with holdfast.open(quick / "backup", read_only=True) as backup:
        whole = raw(backup, "late")
        frames = [found for found in backup.journal.walk_file("late", 1) if isinstance(found, Walked)]
    middle = frames[len(frames) // 2]
    flip(quick / "backup/batches/late/records-000001.tw.zst", middle.place.offset + 20)
    target = new_archive(quick)
    report = restore(target, quick / "backup")
    kinds = Counter(fault.kind for fault in report.faults)
    assert kinds["damaged frame"] == kinds["missing records"] == 1
    assert any("records-000001.tw.zst" in fault.file and fault.offset == middle.place.offset for fault in report.faults)
    with holdfast.open(target) as archive:
        found = raw(archive, "late")
        assert set(whole) - set(found) == {RecordId("late", entry.serial) for entry in middle.entries} & set(whole)
        assert all(found[record] == whole[record] for record in found)
        assert_exact(archive)
        last = max(whole)
        assert archive.journal.batch("late").tail.next_serial >= last.serial + 1


def test_a_lost_end_of_the_backup_is_named(quick: Path, source: Path) -> None:
    back_up(source, quick / "backup")
    directory = quick / "backup/batches/late"
    sorted(directory.glob("records-*"))[-1].unlink()
    target = new_archive(quick)
    report = restore(target, quick / "backup")
    assert "missing records" in {fault.kind for fault in report.faults}
    facts = json.loads((quick / "backup/BACKUP").read_bytes())
    with holdfast.open(target) as archive:
        assert archive.journal.batch("late").tail.next_serial == facts["next_serial"]  # not given again
        assert_exact(archive)


def test_bad_input_changes_nothing(quick: Path, source: Path) -> None:
    target = new_archive(quick)
    with holdfast.open(target) as archive:
        with pytest.raises(NotFound, match="not a backup of a batch"):
            archive.restore(source)
        with pytest.raises(NotFound):
            archive.restore(quick / "nothing")
        with pytest.raises(NotFound):
            archive.restore(quick / "late.warc.gz")
        assert archive.journal.names() == []
    with holdfast.open(source, read_only=True) as archive:
        with pytest.raises(UnknownName):
            archive.back_up("nope", quick / "backup")
        (quick / "file").write_bytes(b"")
        with pytest.raises(UsageError, match="exists"):
            archive.back_up("late", quick / "file")
        (quick / "mine.open").mkdir()
        (quick / "mine.open/letter").write_bytes(b"dear")
        with pytest.raises(UsageError, match="not an unfinished backup"):
            archive.back_up("late", quick / "mine")
        assert (quick / "mine.open/letter").read_bytes() == b"dear"


def test_a_batch_under_restore_takes_nothing_else(quick: Path, source: Path) -> None:
    back_up(source, quick / "backup")
    target = new_archive(quick)

    class Stop(Exception):
        pass

    done = 0

    def stop(count: int) -> None:
        nonlocal done
        done += count
        if done > 20_000:
            raise Stop

    with holdfast.open(target) as archive, pytest.raises(Stop):
        archive.restore(quick / "backup", stop)
    with holdfast.open(target) as archive:
        assert archive.journal.is_restoring("late")
        assert [fault.kind for fault in archive.verify("late").faults] == ["unfinished restore"]
        with pytest.raises(BatchSealed, match="batch restore"):
            import_all(archive, write(quick / "o.warc", [response("http://c.example/", b"o")]), batch="late")
        with pytest.raises(UsageError, match="not completely restored"):
            archive.back_up("late", quick / "other")
    assert "unfinished restore" in {fault.kind for fault in holdfast.check(target).faults}
    restore(target, quick / "backup")
    assert_sound(target)


# -- interruptions -----------------------------------------------------------------------------------------------------


def test_a_backup_and_a_restore_that_are_killed_again_and_again(quick: Path, source: Path) -> None:
    back_up(source, quick / "whole")
    with holdfast.open(new_archive(quick, "calm")) as calm:
        calm.restore(quick / "whole")
        expected, counted = captures(calm), references(calm)
    with holdfast.open(source) as archive:
        before = references(archive)
    kills: Counter[str] = Counter()
    with children() as living:
        for turn in range(4):
            backup, target = quick / f"backup{turn}", new_archive(quick, f"target{turn}")
            for what, path in (("backup", source), ("restore", target)):
                random = Random(turn)
                for _ in range(12):
                    if what == "backup" and backup.exists():  # killed once it was whole, and so had its name
                        break
                    if living.life(random.randrange(2, 90), what=what, path=str(path), backup=str(backup)):
                        break
                    kills[what] += 1
                else:
                    if what == "restore" or not backup.exists():
                        assert living.life(NEVER, what=what, path=str(path), backup=str(backup))
            assert_sound(backup)
            assert_sound(target)
            with holdfast.open(target) as archive:
                assert (captures(archive), references(archive)) == (expected, counted)
                assert exact(archive, "late.warc.gz") == gzip.decompress((quick / "late.warc.gz").read_bytes())
            assert list(quick.glob("*.open")) == []
    assert min(kills["backup"], kills["restore"]) > 8
    with holdfast.open(source) as archive:
        assert references(archive) == before


def test_a_backup_killed_at_any_of_its_last_steps_goes_on(quick: Path, source: Path) -> None:
    """When its facts are written, it is still known as unfinished."""
    finished, step = 0, 6  # far from the end, every sixth moment is enough
    with children() as living:
        number = 1
        while True:
            backup, draft = quick / f"backup{number}", quick / f"backup{number}.open"
            if living.life(NEVER, what="backup", path=str(source), backup=str(backup), die=number):
                break
            if (draft / "BACKUP").exists() or (draft / "BACKUP.open").exists():
                finished += 1
                assert living.life(NEVER, what="backup", path=str(source), backup=str(backup))
                assert_sound(backup)
                assert not (backup / "BACKING-UP").exists()
                if step > 1:
                    number, step = number - step, 1
            shutil.rmtree(draft, ignore_errors=True)
            shutil.rmtree(backup, ignore_errors=True)
            number += step
    assert finished > 4


def test_a_draft_that_is_removed_in_part_is_still_known_as_one(
    quick: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = quick / "backup.open" / "BACKING-UP"
    (mark.parent / "batches").mkdir(parents=True)
    mark.write_text("of another state")
    remove = shutil.rmtree

    def killed(path: Path, **options: bool) -> None:
        if mark.parent not in (path, path.parent):
            return remove(path, **options)
        (path / mark.name).unlink(missing_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        back_up(source, quick / "backup")
    monkeypatch.setattr(shutil, "rmtree", remove)
    back_up(source, quick / "backup")
    assert_sound(quick / "backup")


def test_a_killed_restore_leaves_exact_counters_and_a_batch_that_says_so(quick: Path, source: Path) -> None:
    records = back_up(source, quick / "backup").records
    seen = set()
    with children() as living:
        for die in range(3, 400, 23):
            target = new_archive(quick, f"target{die}")
            if living.life(NEVER, what="restore", path=str(target), backup=str(quick / "backup"), die=die):
                break
            with holdfast.open(target) as archive:
                held_now = held(archive)
                assert references(archive) == held_now
                if archive.journal.is_restoring("late"):
                    assert [fault.kind for fault in archive.verify("late").faults] == ["unfinished restore"]
                    seen.add(bool(held_now))
                else:
                    assert len(of_batch(archive, "late")) in (0, records)
    assert True in seen
