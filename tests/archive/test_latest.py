"""Latest only (B15): superseded captures go, and no page that could be shown before cannot be shown afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from archive_warcs import exchange, response, revisit, sha1, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truths import PLAN, assert_exact, assert_sound, captures, import_all
from update_worlds import ERROR, NOW, crawl, date_of, text_of, url_of

import holdfast
from holdfast import Archive
from holdfast.archive import update
from holdfast.archive.update import UpdateOptions
from holdfast.errors import CaptureNotFound
from holdfast.model import Capture


def make(path: Path, keep: str = "latest") -> Path:
    holdfast.init(path, replace(PLAN, records=replace(PLAN.records, keep=keep)))
    return path


def add(archive: Archive, *records: bytes) -> None:
    name = f"{len(list(archive.path.parent.glob('*.warc')))}.warc"
    import_all(archive, write(archive.path.parent / name, records))


def left(archive: Archive) -> list[str]:
    """URL's number and time of what is there."""
    return [f"{each.url.removeprefix('http://').partition('.')[0]} {each.timestamp[6:8]}" for each in captures(archive)]


def shown(archive: Archive, capture: Capture) -> bytes | None:
    """What a capture shows; nothing if it is an error, or repeats something that is not here."""
    if capture.status.startswith(("4", "5")):
        return None
    try:
        return archive.records.of(capture).payload()
    except CaptureNotFound:
        return None


def pages(archive: Archive) -> dict[tuple[str, str], bytes]:
    """What each URL shows now: its newest capture that can be shown."""
    found = {}
    for each in captures(archive):
        if (payload := shown(archive, each)) is not None:
            found[each.collection, each.url] = payload
    return found


def test_history_is_kept_unless_asked_otherwise(quick: Path) -> None:
    with holdfast.open(make(quick / "archive", "all")) as archive:
        for visit in range(3):
            crawl(archive, visit, range(2))
        assert archive.updates.run(NOW).captures == 0
        assert len(captures(archive)) == 6


def test_the_latest_stays_with_what_belongs_to_it(quick: Path) -> None:
    path = make(quick / "archive")
    with holdfast.open(path) as archive:
        for visit in range(3):
            for number in range(2):
                add(archive, *exchange(url_of(number), text_of(number, visit), date_of(visit)))
        planned = archive.updates.run(UpdateOptions(dry_run=True))
        assert (planned.captures, planned.records, planned.contents) == (4, 12, 4)
        assert len(captures(archive)) == 6
        report = archive.updates.run(NOW)
        assert (report.captures, report.records, report.contents) == (4, 12, 4), "requests and metadata go, too"
        assert left(archive) == ["page0 03", "page1 03"]
        assert archive.updates.run(NOW).captures == 0
        assert_exact(archive)
    assert_sound(path)


def test_a_revisit_keeps_its_original(quick: Path) -> None:
    same, other = text_of(1, 0), text_of(2, 0)
    refers = [("WARC-Refers-To-Target-URI", url_of(1)), ("WARC-Refers-To-Date", date_of(0))]
    with holdfast.open(make(quick / "archive")) as archive:
        add(archive, response(url_of(1), same, date_of(0)))
        add(archive, response(url_of(1), text_of(1, 1), date_of(1)))
        add(archive, revisit(url_of(1), sha1(same), date_of(2), refers))
        add(archive, response(url_of(2), other, date_of(0)))
        add(archive, revisit(url_of(2), sha1(other), date_of(1)))
        add(archive, revisit(url_of(2), sha1(other), date_of(2)))
        before = pages(archive)
        assert archive.updates.run(NOW).captures == 2
        assert left(archive) == ["page1 01", "page1 03", "page2 01", "page2 03"]
        assert pages(archive) == before
        add(archive, response(url_of(1), b"new", date_of(3)))
        archive.updates.run(NOW)
        assert left(archive) == ["page1 04", "page2 01", "page2 03"], "and when the revisit goes, so does the original"


def test_a_page_elsewhere_that_repeats_an_old_version_keeps_it(quick: Path) -> None:
    same = text_of(1, 0)
    with holdfast.open(make(quick / "archive")) as archive:
        add(archive, response(url_of(1), same, date_of(0)), response(url_of(1), b"other", date_of(1)))
        file = write(quick / "mirror.warc", [revisit(url_of(2), sha1(same), date_of(1))])
        import_all(archive, file, collection="mirrors")
        before = pages(archive)
        assert before["mirrors", url_of(2)] == same
        assert archive.updates.run(NOW).captures == 0
        assert pages(archive) == before


def test_an_error_does_not_supersede_a_page(quick: Path) -> None:
    with holdfast.open(make(quick / "archive")) as archive:
        add(archive, response(url_of(1), b"first", date_of(0)), response(url_of(1), b"second", date_of(1)))
        add(archive, response(url_of(1), b"busy", date_of(2), ERROR), response(url_of(1), b"busy", date_of(3), ERROR))
        archive.updates.run(NOW)
        assert left(archive) == ["page1 02", "page1 04"], "the last that can be shown, and the last"
        add(archive, response(url_of(1), b"back", date_of(4)))
        archive.updates.run(NOW)
        assert left(archive) == ["page1 05"]


def test_a_revisit_of_nothing_does_not_supersede_a_page(quick: Path) -> None:
    with holdfast.open(make(quick / "archive")) as archive:
        add(archive, response(url_of(1), b"first", date_of(0)), revisit(url_of(1), sha1(b"lost"), date_of(1)))
        archive.updates.run(NOW)
        assert left(archive) == ["page1 01", "page1 02"]


def test_other_spellings_are_other_pages(quick: Path) -> None:
    """http and https have one key; a redirect from one to the other must not take the page away."""
    moved = b"HTTP/1.1 301 Moved\r\nLocation: https://page1.example/\r\n\r\n"
    with holdfast.open(make(quick / "archive")) as archive:
        add(archive, response("https://page1.example/", b"page", date_of(0)))
        add(archive, response("http://page1.example/", b"", date_of(1), moved))
        assert archive.updates.run(NOW).captures == 0


def test_collections_do_not_supersede_each_other(quick: Path) -> None:
    with holdfast.open(make(quick / "archive")) as archive:
        add(archive, response(url_of(1), b"first", date_of(0)))
        import_all(archive, write(quick / "b.warc", [response(url_of(1), b"second", date_of(1))]), collection="other")
        assert archive.updates.run(NOW).captures == 0


def test_what_arrives_while_it_works_is_not_broken(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A revisit comes in after the old version was chosen to go, and before it went."""
    same = text_of(1, 0)
    with holdfast.open(make(quick / "archive")) as archive:
        add(archive, response(url_of(1), same, date_of(0)), response(url_of(1), b"other", date_of(1)))
        add(archive, response(url_of(2), same, date_of(0)), response(url_of(2), b"more", date_of(1)))
        remove = archive.remove

        def late(*arguments: object, **more: object) -> object:
            monkeypatch.setattr(archive, "remove", remove)
            add(archive, revisit(url_of(1), sha1(same), date_of(2)))
            return remove(*arguments, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(archive, "remove", late)
        assert archive.updates.run(NOW).captures == 1
        assert pages(archive) == {("main", url_of(1)): same, ("main", url_of(2)): b"more"}


def test_many_are_removed_in_groups(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "AT_A_TIME", 4)
    path = make(quick / "archive")
    with holdfast.open(path) as archive:
        for visit in range(4):
            crawl(archive, visit, range(5))
        assert archive.updates.run(NOW).captures == 15
        assert left(archive) == [f"page{number} 04" for number in range(5)]
    assert_sound(path)


class Visit(NamedTuple):
    """One capture, drawn at random: of few pages and few contents, so that much repeats."""

    page: int
    day: int
    content: int
    kind: str

    def record(self) -> bytes:
        payload = b"content %d; " % self.content * 30
        if self.kind == "revisit":
            return revisit(url_of(self.page), sha1(payload), date_of(self.day))
        if self.kind == "unmodified":
            return revisit(url_of(self.page), "", date_of(self.day))
        return response(url_of(self.page), payload, date_of(self.day), *([ERROR] if self.kind == "error" else []))


kinds = st.sampled_from(["response", "response", "revisit", "revisit", "unmodified", "error"])
visits = st.lists(st.builds(Visit, st.integers(0, 2), st.integers(0, 8), st.integers(0, 2), kinds), max_size=14)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(visits)
def test_no_page_is_ever_broken(quick: Path, drawn: list[Visit]) -> None:
    path = make(quick / f"archive{len(list(quick.iterdir()))}")
    with holdfast.open(path) as archive:
        add(archive, *(each.record() for each in drawn))
        before, everything = pages(archive), captures(archive)
        payloads = {each.record: shown(archive, each) for each in everything}
        newest = {each.url: each for each in everything}
        newest_shown = {each.url: each for each in everything if payloads[each.record] is not None}
        staying = {*newest.values(), *newest_shown.values()}
        originals = {archive.catalog.resolve(each) for each in staying}
        archive.updates.run(NOW)
        found = captures(archive)
        assert set(found) == staying | originals - {None}, "just what is needed"
        assert pages(archive) == before, "what a URL shows"
        assert {each.record: shown(archive, each) for each in found} == {
            each.record: payloads[each.record] for each in found
        }
        assert archive.updates.run(NOW).captures == 0
        assert_exact(archive)
