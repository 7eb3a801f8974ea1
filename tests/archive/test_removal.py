"""What is removed is gone (N2): from every file but the audit log, for good, and without harm to others."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event

import pytest
import zstandard
from archive_warcs import HTTP, exchange, record, response, sha1, write
from truths import EVERYTHING, PLAN, assert_exact, assert_sound, captures, import_all, records_of, references, rows

import holdfast
from holdfast import Archive, Plan, StoreSettings
from holdfast.archive.removal import Removal, RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.env import paths
from holdfast.errors import CaptureNotFound, UsageError
from holdfast.records.selection import Selection

WHY = RemovalOptions("the owner asked")
REFUSE = RemovalOptions("the owner asked", refuse=True)
SHARED = b"<p>everybody has this</p>" * 9
SECRET_URL = "http://secret.example/hidden-place-1234"
SECRET = Random(5).randbytes(3000).hex().encode()  # text, so that codecs are tempted, and found by its beginning


def selecting(url: str, **more: str) -> Selection:
    return Selection(CaptureQuery(url=url, **more))  # type: ignore[arg-type]


def month(number: int) -> str:
    return f"2026-{number:02d}-01T00:00:00Z"


def some(archive: Archive, quick: Path) -> list[bytes]:
    """Two hosts and a subdomain in two batches, some with the same content."""
    records = []
    for number in range(1, 7):
        records += exchange(f"http://a.example/{number}", b"page %d" % number, month(number))
        records += exchange(f"http://sub.a.example/x/{number}", SHARED, month(number))
        records += exchange(f"http://b.example/{number}", SHARED if number % 2 else b"own %d" % number, month(number))
    import_all(archive, write(quick / "one.warc", records[:27]), batch="one")
    import_all(archive, write(quick / "two.warc", records[27:]), batch="two", collection="other")
    return records


@pytest.mark.parametrize(
    ("selection", "gone"),
    {
        "a URL": (selecting("http://a.example/1"), lambda each: each.url == "http://a.example/1"),
        "a prefix": (selecting("http://sub.a.example/x/*"), lambda each: "/x/" in each.url),
        "a host": (selecting("a.example", match="host"), lambda each: "//a.example" in each.url),
        "a domain": (selecting("*.a.example"), lambda each: "a.example" in each.url),
        "a time": (selecting("*", from_="202602", to="202604"), lambda each: each.timestamp[4:6] in ("02", "03", "04")),
        "a status": (Selection(CaptureQuery(url="*.b.example", filters=("status:404",))), lambda _: False),
        "a batch": (Selection(batch="two"), lambda each: each.record.batch == "two"),
        "a URL in a batch": (Selection(CaptureQuery(url="*"), batch="one"), lambda each: each.record.batch == "one"),
        "a collection": (Selection(collection="other"), lambda each: each.collection == "other"),
        "everything": (Selection(), lambda _: True),
    }.values(),
)
def test_just_what_was_selected_goes(archive: Archive, quick: Path, selection: Selection, gone: object) -> None:
    some(archive, quick)
    before = captures(archive)
    expected = [each for each in before if not gone(each)]  # type: ignore[operator]
    removal = archive.remove(selection, WHY)
    assert captures(archive) == expected
    assert removal.captures == len(before) - len(expected)
    assert removal.records == 3 * removal.captures, "the request and the metadata go with each"
    for capture in expected:
        archive.records.of(capture).payload()
    assert_exact(archive)
    archive.close()
    assert_sound(archive.path)


def test_others_keep_the_content(archive: Archive, quick: Path) -> None:
    import_all(archive, write(quick / "a.warc", [response(f"http://{n}.example/", SHARED) for n in range(3)]))
    for number in range(3):
        removal = archive.remove(selecting(f"http://{number}.example/"), WHY)
        assert (removal.contents, removal.shared) == ((1, 0) if number == 2 else (0, 1))
        for other in range(number + 1, 3):
            assert archive.get(f"http://{other}.example/").payload() == SHARED
        with pytest.raises(CaptureNotFound):
            archive.get(f"http://{number}.example/")
        assert_exact(archive)
    assert references(archive) == {}


def test_a_dry_run_changes_nothing(archive: Archive, quick: Path) -> None:
    some(archive, quick)
    archive.close()
    before = {path: path.read_bytes() for path in (quick / "archive/batches").rglob("*") if path.is_file()}
    with holdfast.open(quick / "archive") as again:
        listed, counted = captures(again), references(again)
        removal = again.remove(selecting("*"), RemovalOptions("a try", dry_run=True, refuse=True))
        assert (removal.captures, removal.records) == (18, 54)
        assert (captures(again), references(again)) == (listed, counted)
        assert not (quick / "archive/audit.log").exists()
    assert before == {path: path.read_bytes() for path in (quick / "archive/batches").rglob("*") if path.is_file()}


def test_it_needs_a_reason_and_tells_of_it(archive: Archive, quick: Path) -> None:
    some(archive, quick)
    with pytest.raises(UsageError, match="reason"):
        archive.remove(selecting("*"), RemovalOptions(" "))
    archive.remove(selecting("http://a.example/1"), WHY)
    archive.remove(selecting("http://a.example/2"), REFUSE)
    lines = [json.loads(line) for line in (quick / "archive/audit.log").read_text().splitlines()]
    assert [line["reason"] for line in lines] == ["the owner asked"] * 2
    assert [line["refused"] for line in lines] == [False, True]
    assert lines[0]["listed"][0][1:] == ["20260101000000", "http://a.example/1"]


@pytest.mark.parametrize("text", ["example", "!example", "~.*example"])
def test_a_filter_that_names_no_field_removes_nothing(archive: Archive, quick: Path, text: str) -> None:
    """It would be about the whole line, digests and offsets included."""
    some(archive, quick)
    before = rows(archive)
    with pytest.raises(UsageError, match="names no field"):
        archive.remove(Selection(CaptureQuery(url="*", filters=("=status:200", text))), WHY)
    assert rows(archive) == before


@pytest.mark.parametrize("refuse", [True, False])
def test_coming_back(archive: Archive, quick: Path, refuse: bool) -> None:
    records = some(archive, quick)
    path = write(quick / "again.warc", records[:9])
    before = rows(archive)
    archive.remove(selecting("http://a.example/1"), REFUSE if refuse else WHY)
    (report,) = import_all(archive, path, batch="one")
    assert (report.added, report.refused) == ((0, 3) if refuse else (3, 0))
    assert (report.added == 3) == bool(captures(archive, CaptureQuery(url="http://a.example/1")))
    if not refuse:
        assert [r._replace(filename="", offset=0, length=0) for r in rows(archive)] == [
            r._replace(filename="", offset=0, length=0) for r in before
        ]
        assert records_of(archive, "again.warc") == records[:9]
    assert_exact(archive)
    archive.close()
    with holdfast.open(quick / "archive") as again:  # and after the catalog was made anew
        again.reindex()
        (report,) = import_all(again, path, batch="one")
        assert (report.added, report.refused) == (0, 3 if refuse else 0)


def test_from_a_sealed_batch(archive: Archive, quick: Path) -> None:
    some(archive, quick)
    archive.seal("one")
    archive.remove(selecting("*.a.example"), WHY)
    report = archive.verify("one")
    assert (report.sealed, report.faults) == (True, [])
    assert_exact(archive)
    archive.close()
    assert_sound(quick / "archive")


def test_then_going_on(archive: Archive, quick: Path) -> None:
    """Serial numbers are not given twice, and the batch goes on after each removal."""
    seen = set()
    for number in range(12):
        import_all(archive, write(quick / f"{number}.warc", exchange(f"http://{number}.example/", b"%d" % number)))
        ids = {capture.record for capture in captures(archive)}
        assert len(ids - seen) == 1
        seen |= ids
        if number % 3 == 0:
            archive.remove(selecting(f"http://{number}.example/"), WHY)
        if number % 5 == 4:
            archive.close()
            archive = holdfast.open(quick / "archive")
        assert_exact(archive)
    assert len(captures(archive)) == 8
    archive.close()


# -- to the last byte -------------------------------------------------------------------------------------------------


def traces(root: Path, needles: list[bytes]) -> list[str]:
    """Files of the archive that hold one of these, also within frames of a journal; the audit log may."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name != "audit.log":
            raw = path.read_bytes()
            if path.name.endswith(".tw.zst"):
                with (
                    path.open("rb") as file,
                    zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader,
                ):
                    raw += reader.read()
            found += [f"{path.relative_to(root)}: {needle!r}" for needle in needles if needle in raw]
    return found


SECRETS = [SECRET[:40], b"hidden-place-1234", sha1(SECRET).partition(":")[2].encode()]


@pytest.mark.parametrize("volumes, replicas, organization", [(1, 1, "log"), (2, 2, "log"), (1, 1, "tree")])
def test_nothing_is_left_in_any_file(quick: Path, volumes: int, replicas: int, organization: str) -> None:
    store = StoreSettings(replicas=replicas, train_after=0, codec="none", keydir_cache_bytes=1 << 20)
    holdfast.init(quick / "archive", Plan(volumes, organization, 2, store, PLAN.records))
    with holdfast.open(quick / "archive") as archive:
        some(archive, quick)
        import_all(archive, write(quick / "a.warc", exchange(SECRET_URL, SECRET)))
        import_all(archive, write(quick / "b.warc", exchange("http://z.example/", b"later")))
        assert traces(quick / "archive", SECRETS)
        archive.remove(selecting(SECRET_URL), WHY)
        assert_exact(archive)
        assert traces(quick / "archive", SECRETS) == []
    assert traces(quick / "archive", SECRETS) == []


def test_nothing_is_left_after_opening_and_closing_between(quick: Path) -> None:
    """As above where the catalog's tables were written to disk before."""
    holdfast.init(quick / "archive", PLAN)
    for number in range(3):
        with holdfast.open(quick / "archive") as archive:
            import_all(archive, write(quick / f"{number}.warc", exchange(f"http://{number}.example/", b"%d" % number)))
            if number == 1:
                import_all(archive, write(quick / "a.warc", exchange(SECRET_URL, SECRET)))
    with holdfast.open(quick / "archive") as archive:
        archive.remove(selecting(SECRET_URL), WHY)
    assert traces(quick / "archive", SECRETS) == []


def test_a_large_record(archive: Archive, quick: Path) -> None:
    big = Random(1).randbytes(20_000)
    records = [response("http://a.example/", big), record("resource", "http://b.example/", HTTP + big[:9000])]
    path = write(quick / "a.warc", records)
    import_all(archive, path)
    archive.remove(selecting("http://a.example/"), REFUSE)
    assert len(references(archive)) == 3
    before = sum(each.stat().st_size for each in (archive.path / "volumes").rglob("*.seg"))
    (report,) = import_all(archive, path)
    assert (report.refused, report.known) == (1, 1)
    assert_exact(archive)
    after = sum(each.stat().st_size for each in (archive.path / "volumes").rglob("*.seg"))
    assert after == before, "what is refused is not even stored for a moment"


def test_a_content_held_twice_by_a_record(archive: Archive, quick: Path, closing: ExitStack) -> None:
    same = bytes(4096)
    import_all(
        archive,
        write(quick / "a.warc", [response("http://a.example/", same * 5), response("http://b.example/", same * 3)]),
    )
    assert_exact(archive)
    archive.remove(selecting("http://a.example/"), WHY)
    assert archive.get("http://b.example/").payload() == same * 3
    assert_exact(archive)
    assert captures(archive, EVERYTHING)


def test_companions_in_another_collection_stay(archive: Archive, quick: Path) -> None:
    """The same exchange in two collections, side by side in one batch: each has its own request and metadata."""
    path = write(quick / "a.warc", exchange("http://a.example/", b"hello"))
    for collection in ("one", "two"):
        import_all(archive, path, collection=collection)
    removal = archive.remove(Selection(CaptureQuery(url="*"), collection="one"), WHY)
    assert (removal.captures, removal.records) == (1, 3)
    assert records_of(archive, "a.warc", "two") == exchange("http://a.example/", b"hello")
    assert_exact(archive)


def test_dead_bytes_of_a_removal_that_was_killed_can_be_compacted(quick: Path) -> None:
    """The next writer ends the removal; nothing of it is left when it says so."""
    holdfast.init(quick / "archive", Plan(store=StoreSettings(train_after=0, codec="none"), records=PLAN.records))
    with holdfast.open(quick / "archive") as archive:
        import_all(archive, write(quick / "a.warc", exchange(SECRET_URL, SECRET)))
        plan, _ = archive._remover._plan(archive._remover._find(selecting(SECRET_URL)), WHY)
        (quick / "archive/removal").write_text(json.dumps(plan))
    with holdfast.open(quick / "archive") as archive:
        assert captures(archive) == []
        assert_exact(archive)
    assert traces(quick / "archive", SECRETS) == []


# -- beside others -----------------------------------------------------------------------------------------------------


def large(archive: Archive, quick: Path) -> None:
    """Contents that are kept in volumes."""
    random = Random(7)
    pages = [random.randbytes(20_000) for _ in range(3)]
    records = [each for n, page in enumerate(pages) for each in exchange(f"http://a.example/{n}", page, month(1))]
    import_all(archive, write(quick / "large.warc", records))


def test_a_second_removal_waits_for_the_first(archive: Archive, quick: Path) -> None:
    """There is one plan of a removal, which a crash needs until the volumes are compacted."""
    large(archive, quick)
    plan = archive.path / paths.REMOVAL
    others: list[Future[Removal]] = []
    plans: list[bool] = []

    def compacting(_: int) -> None:
        if not others:
            others.append(pool.submit(archive.remove, selecting("http://a.example/2"), WHY))
            wait(others, 0.2)
        plans.append(plan.exists())

    with ThreadPoolExecutor(1) as pool:
        assert archive.remove(selecting("http://a.example/1"), WHY, compacting).captures == 1
        assert others[0].result().captures == 1
    assert plans and all(plans)
    assert not plan.exists()
    assert_exact(archive)


def test_a_removal_ends_while_nobody_adds(archive: Archive, quick: Path) -> None:
    """It clears the log of intents, which an addition needs until its records are there."""
    large(archive, quick)
    is_held, may_go_on = Event(), Event()

    def hold() -> None:
        with archive.writer.lock:
            is_held.set()
            may_go_on.wait()

    def compacting(_: int) -> None:
        if not is_held.is_set():
            pool.submit(hold)
            is_held.wait()

    with ThreadPoolExecutor(2) as pool:
        removal = pool.submit(archive.remove, selecting("http://a.example/1"), WHY, compacting)
        is_held.wait()
        wait([removal], 0.2)
        is_early = removal.done()
        may_go_on.set()
        assert removal.result().captures == 1
        assert not is_early
