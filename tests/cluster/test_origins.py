"""Records by their origin (I4, H1, H6): ids that hold everywhere, partitions, digests that survive kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from copy_world import RULE, copy_to, digests_of, entries_of, make_node, rebuilt, seeded, some_pages

import holdfast
from holdfast import Archive
from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.cluster.copies.origins import Cursor, OriginRow, OriginTable
from holdfast.cluster.copies.partitions import PartitionRule, pack_partitions, unpack_partitions
from holdfast.errors import CaptureNotFound, MalformedInput, UsageError
from holdfast.model import RecordId
from holdfast.records.selection import Selection

WHY = RemovalOptions("the owner asked")


def test_batches_of_a_node_end_in_its_name(tmp_path: Path) -> None:
    with holdfast.open(make_node(tmp_path, "n1")) as archive:
        pages = some_pages(Random(1), 3)
        added = [archive.add(pages[:1]), archive.add(pages[1:2], batch="spring"), archive.add(pages[2:], batch="x.n1")]
        names = [each[0].record.batch for each in added if each[0].record is not None]
        assert names[0].endswith(".n1") and names[0][:-3].isdigit()
        assert names[1:] == ["spring.n1", "x.n1"]


def test_both_ids_of_a_copy_lead_to_it(tmp_path: Path) -> None:
    """By id, in the catalog, on the command line; until it is removed."""
    with holdfast.open(make_node(tmp_path, "n1")) as one, holdfast.open(make_node(tmp_path, "n2")) as two:
        one.add(some_pages(Random(2), 4), batch="a")
        two.add(some_pages(Random(3), 2), batch="b")
        copied = copy_to(one, two, "a.n1", "n2")
        for (origin, entry), here in zip(entries_of(one, "a.n1"), copied, strict=True):
            assert here is not None and here.batch == "copies.n2"
            by_origin, by_id = two.records.read(origin), two.records.read(here)
            assert by_origin.id == by_id.id == here
            assert b"".join(by_origin.raw()) == b"".join(one.records.read(origin).raw())
            assert by_id.entry.origin == str(origin)
            assert two.catalog.capture_of(origin) == two.catalog.capture_of(here)
            if entry.type == "response":
                assert two.get_page(holdfast.urls.page_id(entry.url)).id == here
        origin, entry = next(entries_of(one, "a.n1"))
        two.reindex()
        assert two.records.read(origin).entry.url == entry.url
        two.remove(Selection(CaptureQuery(url=entry.url)), WHY)
        with pytest.raises(CaptureNotFound):
            two.records.read(origin)
        assert two.catalog.copy_of(origin) is None


def test_partitions_are_the_same_for_ever() -> None:
    """Golden values: nodes of different releases must agree."""
    rule = PartitionRule(splits={"huge.example": 8})
    urls = [
        "http://www.example.com/a",
        "https://example.com/b?c",
        "http://other.example.co.uk/",
        "http://192.0.2.7:8080/",
    ]
    assert [rule.of_url(url) for url in urls] == [614, 614, 1016, 807]
    assert [rule.of_url(url) for url in ("-", "", "filedesc://x.arc", "dns:example.com", "holdfast:source/a")] == [
        None,
        None,
        rule.of_url("http://x.arc/"),
        None,
        None,
    ]
    parts = {rule.of_url(f"http://www.huge.example/{number}/x/{number}") for number in range(200)}
    assert len(parts) == 8
    assert rule.of_url("http://huge.example/a/b/c") == rule.of_url("http://www.huge.example/a/b/d?e")
    with pytest.raises(UsageError):
        PartitionRule(splits={"huge.example": 0})


def test_sets_of_partitions() -> None:
    chosen = frozenset(Random(4).sample(range(1000), 300))
    assert unpack_partitions(pack_partitions(chosen, 1000), 1000) == chosen
    for bad in (b"", bytes(126), pack_partitions([1003], 1004)):
        with pytest.raises(MalformedInput):
            unpack_partitions(bad, 1000)


def test_the_table_follows_additions_copies_aliases_and_removals(tmp_path: Path) -> None:
    """And is the same if it is built again; aliases come back with the next copy."""
    random = seeded()
    with holdfast.open(make_node(tmp_path, "n1")) as one, holdfast.open(make_node(tmp_path, "n2")) as two:
        origins, theirs = OriginTable(two, RULE), OriginTable(one, RULE)
        for turn in range(6):
            pages = some_pages(random, 30)
            one.add(pages, batch=f"a{turn % 2}")
            two.add(some_pages(random, 10), batch="b")
            for batch in [name for name in one.journal.names() if random.random() < 0.7]:
                copy_to(one, two, batch, "n2")
            if turn % 2:
                gone = random.choice(pages).url
                for archive in (one, two):
                    archive.remove(Selection(CaptureQuery(url=gone)), WHY)
            if random.random() < 0.5:
                origins.catch_up()
        for batch in one.journal.names():
            copy_to(one, two, batch, "n2")
        origins.catch_up()
        theirs.catch_up()
        mine, there = digests_of(origins), digests_of(theirs)
        assert {place: each for place, each in mine.items() if place[1].endswith("n1")} == there
        assert sum(each.records for each in mine.values()) == sum(
            1 for name in two.journal.names() for _ in entries_of(two, name)
        )
        for name in two.journal.names():
            for record, _ in entries_of(two, name):
                assert [found.record for found in map(origins.find, origins.origins_of(record)) if found] == [record]
        origins.close()
        theirs.close()
        assert rebuilt(two) == mine
        assert rebuilt(one) == there


def test_an_alias_counts_and_goes_with_its_record(tmp_path: Path) -> None:
    with holdfast.open(make_node(tmp_path, "n1")) as archive:
        page = some_pages(Random(6), 1)[0]
        (added, *_) = archive.add([page])
        assert added.record is not None
        origins = OriginTable(archive, RULE)
        origins.catch_up()
        before = digests_of(origins)
        row = origins.find(added.record)
        assert row is not None
        alias = RecordId("202611.n9", 77)
        cursor = Cursor(80, frozenset({1, 2}))
        origins.add_aliases([OriginRow(alias, row.partition, row.fingerprint, row.record)])
        assert origins.advance("202611.n9", cursor, origins.rule)
        assert origins.cursor("202611.n9") == cursor
        assert origins.origins_of(added.record) == [added.record, alias]
        assert archive.records.read(alias).id == added.record
        assert digests_of(origins) == before | {
            (row.partition, "202611.n9", 0): before[row.partition, added.record.batch, 0]
        }
        assert origins.batches() == {
            added.record.batch: max(r.origin.serial for r in origins.rows(added.record.batch)),
            "202611.n9": 77,
        }
        archive.remove(Selection(CaptureQuery(url=page.url)), WHY)
        origins.catch_up()
        assert digests_of(origins) == {}
        origins.close()


def test_another_rule_of_partitions_builds_the_table_again(tmp_path: Path) -> None:
    with holdfast.open(make_node(tmp_path, "n1")) as archive:
        archive.add(some_pages(Random(7), 60))
        for rule in (RULE, PartitionRule(128), PartitionRule(128, {"site1.example": 4}), RULE):
            origins = OriginTable(archive, rule)
            origins.catch_up()
            found = digests_of(origins)
            origins.close()
            assert found == rebuilt(archive, rule)


def test_a_batch_file_that_is_gone_takes_its_rows_along(tmp_path: Path) -> None:
    path = make_node(tmp_path, "n1")
    with holdfast.open(path) as archive:
        archive.add(some_pages(Random(8), 20), batch="a")
        archive.add(some_pages(Random(9), 20), batch="b")
        origins = OriginTable(archive, RULE)
        origins.catch_up()
        whole = digests_of(origins)
        origins.close()
    for file in (path / "batches" / "a.n1").glob("records-*"):
        file.unlink()
    subprocess.run([sys.executable, "-m", "holdfast", "-a", str(path), "reindex"], check=True, capture_output=True)
    with holdfast.open(path) as archive:
        origins = OriginTable(archive, RULE)
        origins.catch_up()
        assert digests_of(origins) == {place: each for place, each in whole.items() if place[1] == "b.n1"}
        origins.close()


_CHILD = """
import sys
from random import Random
import holdfast
from copy_world import RULE, some_pages
from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.cluster.copies.origins import OriginTable
from holdfast.records.selection import Selection
random = Random(int(sys.argv[2]))
with holdfast.open(sys.argv[1]) as archive:
    origins = OriginTable(archive, RULE)
    while True:
        pages = some_pages(random, 5, size=300)
        archive.add(pages)
        print("added", flush=True)
        origins.catch_up()
        print("known", flush=True)
        if random.random() < 0.3:
            archive.remove(Selection(CaptureQuery(url=random.choice(pages).url)), RemovalOptions("x", compact=False))
"""


def test_digests_are_exact_after_kill_9(tmp_path: Path) -> None:
    random = seeded()
    path = make_node(tmp_path, "n1")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for turn in range(4):
        command = [sys.executable, "-c", _CHILD, str(path), str(turn)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
            assert child.stdout is not None
            for _ in range(random.randrange(1, 20)):
                assert child.stdout.readline()
            os.kill(child.pid, signal.SIGKILL)
        with holdfast.open(path) as archive:
            assert isinstance(archive, Archive)
            origins = OriginTable(archive, RULE)
            origins.catch_up()
            found = digests_of(origins)
            origins.close()
            assert found == rebuilt(archive)
            assert found
