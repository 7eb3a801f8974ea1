"""Updates by batches (B8): new contents wait in update volumes; readers see whole states, the old or the new one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tantivy
from archive_warcs import response, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truths import PLAN, assert_exact, assert_sound, captures, import_all
from update_worlds import NOW, blocks, classes_by_hand, crawl, date_of, make, seen, text_of, url_of

import holdfast
from holdfast import Archive
from holdfast.archive.update import UpdateOptions
from holdfast.config import VolumeSettings
from holdfast.env import paths
from holdfast.errors import Damaged, UsageError, VolumeReadOnly
from holdfast.index.schema import schema
from holdfast.model import VolumeState
from holdfast.records.active_state import ActiveState, ClassCounts, leased, read_active, write_active
from holdfast.storage.maintenance.migrate import Transfer
from holdfast.streams import StreamOptions


@pytest.mark.parametrize(
    "kinds",
    [
        ("log", "log", "log"),
        ("log", "tree", "tree"),
        ("hash", "hash", "log"),
        ("hash", "hash", "hash"),
        ("hash", "hash", "hashed-log"),
    ],
)
def test_a_whole_cycle(quick: Path, kinds: tuple[str, str, str]) -> None:
    path = make(quick / "archive", organizations=kinds)
    with holdfast.open(path) as archive:
        crawl(archive, 0, range(40))
        assert seen(archive) == [], "nothing is seen before the first switch"
        assert archive.updates.status().classes == ClassCounts(0, 0, 40)
        assert blocks(archive) == {"v0": 0, "v1": 0, "u0": 40}
        first = archive.updates.run(NOW)
        assert (first.generation, first.moved.blocks, first.resumed) == (2, 40, False)
        found = blocks(archive)
        assert found["u0"] == 0
        assert found["v0"] + found["v1"] == 40
        assert found["v0"] and found["v1"], "both read volumes take their share"
        old = seen(archive)
        assert sorted(old) == sorted((url_of(n), text_of(n, 0)) for n in range(40))
        crawl(archive, 1, range(30, 50))
        assert seen(archive) == old
        assert archive.updates.status().classes == ClassCounts(10, 30, 20)
        assert archive.get(url_of(35)).payload() == text_of(35, 1), "by URL and time everything is found at once"
        archive.updates.run(NOW)
        assert len(seen(archive)) == 60, "history is kept"
        assert archive.updates.status().classes == ClassCounts(0, 60, 0)
        assert_exact(archive)
        assert archive.instance.volume("u0").stat().dead_bytes == 0, "compacted"
    assert_sound(path)


def test_keys_stay_valid_and_contents_are_kept_once(quick: Path) -> None:
    path = make(quick / "archive")
    with holdfast.open(path) as archive:
        crawl(archive, 0, range(5))
        keys = {each.url: each.contents for each in captures(archive)}
        assert all(key.startswith("u0:") for key in keys.values())
        archive.updates.run(NOW)
        assert {each.url: each.contents for each in captures(archive)} == keys
        again = [response(url_of(n), text_of(n, 0), date_of(3)) for n in range(5)]
        import_all(archive, write(quick / "again.warc", again))
        assert blocks(archive)["u0"] == 0, "what a read volume has is counted there"
        assert archive.updates.run(NOW).moved.blocks == 0
        assert_exact(archive)
    assert_sound(path)


def test_a_reader_in_another_process_sees_the_switch(quick: Path) -> None:
    path = make(quick / "archive")
    with holdfast.open(path) as archive, holdfast.open(path, read_only=True) as reader:
        crawl(archive, 0, range(3))
        reader.catalog.refresh()
        assert seen(reader) == []
        assert reader.updates.status().classes == ClassCounts(0, 0, 3)
        archive.updates.run(NOW)
        assert len(seen(reader)) == 3


def test_what_comes_during_an_update_waits_for_the_next(quick: Path) -> None:
    path = make(quick / "archive")
    with holdfast.open(path) as archive:
        crawl(archive, 0, range(3))
        come = iter([lambda: crawl(archive, 1, range(2, 6))])

        def meanwhile(_: int) -> None:
            next(come, lambda: None)()

        archive.updates.run(NOW, meanwhile)
        assert len(seen(archive)) == 3
        assert archive.updates.status().classes == ClassCounts(1, 2, 4)
        archive.updates.run(NOW)
        assert len(seen(archive)) == 7
        assert blocks(archive)["u0"] == 0


def test_latest_only_removes_what_the_new_state_supersedes_and_not_before_the_switch(quick: Path) -> None:
    path = make(quick / "archive", keep="latest")
    with holdfast.open(path) as archive:
        crawl(archive, 0, range(10))
        archive.updates.run(NOW)
        crawl(archive, 1, range(5, 15))
        old = seen(archive)
        shown = []
        report = archive.updates.run(NOW, lambda _: shown.append(seen(archive)))
        assert shown[0] == old, "moving changes nothing that is seen"
        assert (report.captures, report.contents) == (5, 5)
        expected = [(url_of(n), text_of(n, 0 if n < 5 else 1)) for n in range(15)]
        assert sorted(seen(archive)) == sorted(expected)
        assert len(captures(archive)) == 15
        assert report.reclaimed_bytes > 0
        lines = [json.loads(line) for line in (path / "audit.log").read_text().splitlines()]
        assert [(each["event"], each["captures"]) for each in lines] == [("removal", 5)]
    assert_sound(path)


def found(archive: Archive, word: str) -> set[str]:
    """The URLs that the index finds under a word."""
    view = archive.index.view()
    query = view.restricted(tantivy.Query.term_query(schema(), "main", word))
    hits = view.searcher.search(query, limit=100, order_by_field="record").hits
    records = [archive.records.read(view.record_of(number)) for number, _ in hits]
    return {each.entry.url for each in records}


def test_the_index_finds_the_active_state_and_no_more(quick: Path) -> None:
    path = make(quick / "archive")
    with holdfast.open(path) as archive, holdfast.open(path, read_only=True) as reader:
        crawl(archive, 0, range(3))
        archive.index.update()
        assert found(archive, "page") == set()
        archive.updates.run(NOW)
        assert found(archive, "page") == found(reader, "page") == {url_of(n) for n in range(3)}
        crawl(archive, 1, range(2, 5))
        archive.index.update()
        assert found(reader, "page") == {url_of(n) for n in range(3)}, "it knows more, and does not tell"
        crawl(archive, 1, range(5, 6), batch="other")
        report = archive.updates.run(NOW)
        assert report.indexed == 1
        assert found(reader, "page") == {url_of(n) for n in range(6)}


def test_streams_deliver_the_active_state(quick: Path) -> None:
    """One that has begun keeps its state, and is waited for."""

    def urls(archive: Archive, **more: str) -> list[str]:
        return sorted(page.url for page in archive.stream(StreamOptions(**more)))  # type: ignore[arg-type]

    path = make(quick / "archive", keep="latest")
    with holdfast.open(path) as archive, holdfast.open(path, read_only=True) as reader:
        crawl(archive, 0, range(20))
        assert urls(archive) == []
        archive.updates.run(NOW)
        crawl(archive, 1, range(19, 22))
        assert urls(archive) == urls(archive, order="url") == urls(reader) == sorted(map(url_of, range(20)))
        stream = reader.stream(StreamOptions(batch_size=1))
        batches = stream.batches()
        handed_out = [page.url for page in next(batches).pages]
        report = archive.updates.run(UpdateOptions(wait_s=0.1))
        assert not report.leases_ended
        assert report.captures == 1
        handed_out += [page.url for batch in batches for page in batch.pages]
        assert sorted(handed_out) == sorted(map(url_of, range(19))), "but for what was removed meanwhile"
        assert urls(reader) == sorted(map(url_of, range(22)))
        crawl(archive, 2, range(1))
        assert archive.updates.run(UpdateOptions(wait_s=0.1)).leases_ended, "it has ended"


def test_under_the_incremental_scheme_classes_are_told_by_the_index(quick: Path) -> None:
    holdfast.init(quick / "archive", PLAN)
    with holdfast.open(quick / "archive") as archive:
        crawl(archive, 0, range(3))
        archive.index.update()
        crawl(archive, 1, range(2, 5))
        assert archive.updates.status().classes == ClassCounts(1, 2, 3)
        assert archive.updates.run(NOW).indexed == 3
        assert archive.updates.status().classes == ClassCounts(0, 6, 0)


def test_a_lease_is_waited_for_and_then_not(quick: Path) -> None:
    path = make(quick / "archive", keep="latest")
    with holdfast.open(path) as archive:
        crawl(archive, 0, range(3))
        archive.updates.run(NOW)
        crawl(archive, 1, range(3))
        with leased(path, archive.settings, archive.env) as state:
            assert state == archive.updates.active
            report = archive.updates.run(UpdateOptions(wait_s=0.2))
            assert not report.leases_ended, "it goes on without those who read for too long"
            with leased(path, archive.settings, archive.env) as newer:
                assert newer is not None
                assert newer.generation == report.generation
        crawl(archive, 2, range(3))
        slept: list[float] = []
        lease = leased(path, archive.settings, archive.env)
        lease.__enter__()

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                lease.__exit__(None, None, None)

        archive.env = replace(archive.env, sleep=sleep)
        assert archive.updates.run(UpdateOptions(wait_s=600)).leases_ended
        assert len(slept) == 3
        assert len(list((path / paths.LEASES).iterdir())) == 1, "leases on states that are gone are cleared away"


def test_an_archive_changes_its_scheme_and_back(quick: Path) -> None:
    path = quick / "archive"
    holdfast.init(path, PLAN)
    with holdfast.open(path) as archive:
        crawl(archive, 0, range(3))
        assert archive.updates.active is None
        assert archive.updates.status().classes == ClassCounts(0, 3, 0)
        archive.add_volume(VolumeSettings("u0", role="update"))
    settings_file = path / paths.SETTINGS
    text = settings_file.read_text()
    settings_file.write_text(text.replace("[store]\n", '[store]\nupdate = "batch"\n'))
    with holdfast.open(path) as archive:
        assert len(seen(archive)) == 3, "what was there is the first active state"
        crawl(archive, 1, range(3, 6))
        assert len(seen(archive)) == 3
        archive.updates.run(NOW)
        crawl(archive, 2, range(6, 8))
    settings_file.write_text(text)
    with holdfast.open(path) as archive:
        assert len(seen(archive)) == 8, "without batches everything is seen"
        assert not (path / paths.ACTIVE).exists()
        assert archive.updates.run(NOW).generation == 0
    assert_sound(path)


def test_new_contents_need_an_update_volume_and_updates_a_read_volume(quick: Path) -> None:
    path = quick / "archive"
    holdfast.init(path, replace(PLAN, store=replace(PLAN.store, update="batch")))
    with holdfast.open(path) as archive:
        with pytest.raises(VolumeReadOnly, match="no writable update volume"):
            crawl(archive, 0, range(3))
        archive.add_volume(VolumeSettings("u0", role="update"))
        crawl(archive, 0, range(3))
        archive.set_state("v0", VolumeState.READ_ONLY)
        with pytest.raises(UsageError, match="read volume"):
            archive.updates.run(NOW)
        assert archive.updates.status().unfinished == ""
        archive.set_state("v0", VolumeState.WRITABLE)
        archive.updates.run(NOW)
        assert len(seen(archive)) == 3


def test_contents_are_moved_in_sorted_order_whatever_fits_in_memory(quick: Path) -> None:
    path = make(quick / "archive")
    with holdfast.open(path) as archive:
        crawl(archive, 0, range(300))
        transfer = Transfer(archive.instance, signatures_max=7)
        volume = archive.instance.volume("u0")
        keys = [facts.key for facts in transfer._sorted(volume)]
        assert len(keys) == 300
        assert keys == sorted(keys)
        assert transfer.run().blocks == 300


def test_replicas_stay_with_their_kind(quick: Path) -> None:
    path = quick / "archive"
    holdfast.init(path, replace(PLAN, volumes=2, store=replace(PLAN.store, update="batch", replicas=2)))
    with holdfast.open(path) as archive:
        for name in ("u0", "u1"):
            archive.add_volume(VolumeSettings(name, role="update"))
        crawl(archive, 0, range(8))
        replicas = {
            each.settings.name: each.stat.replicas + each.stat.blocks for each in archive.volumes() if each.stat
        }
        assert replicas == {"v0": 0, "v1": 0, "u0": 8, "u1": 8}
        archive.updates.run(NOW)
        replicas = {
            each.settings.name: each.stat.replicas + each.stat.blocks for each in archive.volumes() if each.stat
        }
        assert replicas == {"v0": 8, "v1": 8, "u0": 0, "u1": 0}
        crawl(archive, 0, range(8), batch="other")
        assert_exact(archive)
    assert_sound(path)


def test_a_damaged_state_is_told_and_made_anew(quick: Path) -> None:
    path = make(quick / "archive")
    with holdfast.open(path) as archive:
        crawl(archive, 0, range(3))
        archive.updates.run(NOW)
        data = (path / paths.ACTIVE).read_bytes()
        (path / paths.ACTIVE).write_bytes(data.replace(b'"generation": 2', b'"generation": 3'))
        with pytest.raises(Damaged, match="wrong checksum"):
            archive.updates.status()
    (path / paths.ACTIVE).unlink()
    with holdfast.open(path) as archive:
        assert len(seen(archive)) == 3


def test_the_file_of_a_state(quick: Path) -> None:
    path = make(quick / "archive")
    with holdfast.open(path) as archive:
        write_active(path, ActiveState(3, "2026-11-17T06:00:00+00:00", {"202610": 120401, "202611": 4712}), archive.env)
        golden = (
            b'{"format": 1, "generation": 3, "time": "2026-11-17T06:00:00+00:00", '
            b'"batches": {"202610": 120401, "202611": 4712}, "check": "be7804f3"}\n'
        )
        assert (path / paths.ACTIVE).read_bytes() == golden
        found = read_active(path, archive.env)
        assert found is not None
        assert dict(found.batches) == {"202610": 120401, "202611": 4712}


visits = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from("ab")), max_size=12)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=visits, since=visits)
def test_classes_are_as_the_definition_says(
    quick: Path, before: list[tuple[int, int, str]], since: list[tuple[int, int, str]]
) -> None:
    """Also where what comes later is older, or comes to another batch."""
    path = make(quick / f"archive{len(list(quick.iterdir()))}")
    with holdfast.open(path) as archive:
        for number, visit, batch in before:
            crawl(archive, visit, [number], batch)
        archive.updates.run(NOW)
        shown = [each.record for each in captures(archive)]
        for number, visit, batch in since:
            crawl(archive, visit, [number], batch)
        expected = classes_by_hand(captures(archive), shown)
        assert {each.record: archive.updates.class_of(each) for each in captures(archive)} == expected
        values = list(expected.values())
        counts = archive.updates.status().classes
        assert counts == tuple(sum(each == name for each in values) for name in "ABC")
