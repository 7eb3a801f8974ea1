"""The catalog: what is added is found by URL, record, payload and time; what is removed is not; followers follow."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from captures import capture

from holdfast.catalog import CaptureQuery, Catalog, CatalogChange, Total
from holdfast.env import REAL
from holdfast.errors import DamagedCatalog
from holdfast.model import Capture, RecordId

HOME = "http://example.com/"


def add(catalog: Catalog, *captures: Capture) -> None:
    catalog.add(CatalogChange(captures=captures))


def test_an_empty_catalog(catalog: Catalog) -> None:
    assert catalog.lookup(HOME) == []
    assert (catalog.newest(HOME), catalog.closest(HOME, "2020"), catalog.capture_of(RecordId("a", 1))) == (None,) * 3
    assert (list(catalog.search(CaptureQuery(url="*"))), catalog.num_pages(CaptureQuery(url="*"))) == ([], 0)
    assert (catalog.batches(), catalog.collections(), catalog.totals()) == ([], (), ({}, {}))
    assert (catalog.known([b"0" * 16]), catalog.frame_of(RecordId("a", 1))) == ([None], None)
    catalog.verify()


def test_a_capture_is_found_with_all_its_fields(catalog: Catalog) -> None:
    odd = capture(
        "http://example.com/a b?\tx=\udcff",
        "20200102030405",
        7,
        refers_to="20190101000000 http://x/",
        extra='{"method": "POST"}',
        record=RecordId("a-b.c", 2**32 - 1),
        collection="other",
    )
    add(catalog, odd)
    (found,) = catalog.lookup(odd.url)
    assert found == odd._replace(url="http://example.com/a b?%09x=\udcff")
    assert catalog.capture_of(odd.record) == found
    assert catalog.lookup(odd.url, "main") == []
    catalog.verify()


def test_captures_are_in_the_order_of_time_and_of_all_collections(catalog: Catalog) -> None:
    captures = [capture(HOME, f"202{n}0101000000", n, collection="ab"[n % 2]) for n in range(6)]
    add(catalog, *reversed(captures))
    assert catalog.lookup(HOME) == captures
    assert catalog.lookup(HOME, "a") == captures[::2]
    assert catalog.newest(HOME) == captures[5]
    assert catalog.newest(HOME, "a") == captures[4]
    assert catalog.collections() == ("a", "b")


@pytest.mark.parametrize(
    ("moment", "year"),
    [
        ("1999", 2020),
        ("20201231", 2021),
        ("202006", 2020),
        ("20210702120000", 2021),
        ("20210702120001", 2022),
        ("3", 2022),
    ],
)
def test_the_closest_capture(catalog: Catalog, moment: str, year: int) -> None:
    add(catalog, *[capture(HOME, f"{y}0101000000", y) for y in (2020, 2021, 2022)])
    found = catalog.closest(HOME, moment)
    assert found is not None and found.timestamp[:4] == str(year)


def test_what_is_added_twice_is_there_once(catalog: Catalog) -> None:
    first = capture(HOME, "20200101000000", 1)
    add(catalog, first)
    add(catalog, first)
    assert catalog.lookup(HOME) == [first]
    assert catalog.totals() == ({"main": Total(1, 10)}, {"202001": Total(1, 10)})
    moved = first._replace(urlkey="com,example)/x", url="http://example.com/x", size=3, collection="b", digest="sha1:x")
    add(catalog, first, moved)
    assert (catalog.lookup(HOME), catalog.lookup(moved.url)) == ([], [moved])
    assert catalog.totals() == ({"b": Total(1, 3)}, {"202001": Total(1, 3)})
    catalog.verify()


def test_what_is_removed_is_gone(catalog: Catalog) -> None:
    captures = [capture(f"http://example.com/{n}", "20200101000000", n) for n in range(3000)]  # some begin a block
    fingerprints = {n.to_bytes(16): captures[n].record for n in range(3)}
    catalog.add(CatalogChange(captures=captures, fingerprints=fingerprints))
    catalog.verify()
    gone = [each.record for each in captures[1:]]
    catalog.add(CatalogChange(removed=[*gone, RecordId("none", 1)], fingerprints_removed=[b"\0" * 15 + b"\1"]))
    assert [row.capture for row in catalog.search(CaptureQuery(url="*"))] == captures[:1]
    assert catalog.capture_of(gone[0]) is None
    assert catalog.known([n.to_bytes(16) for n in range(3)]) == [captures[0].record, None, captures[2].record]
    assert catalog.totals() == ({"main": Total(1, 10)}, {"202001": Total(1, 10)})
    catalog.verify()


def test_frames_and_states_of_batches(catalog: Catalog) -> None:
    frames = [("a", 0, b"p0"), ("a", 10, b"p10"), ("a", 300, b"p300"), ("a.b", 5, b"q")]
    catalog.add(CatalogChange(frames=frames, batches={"a": b"state", "b": b""}))
    found = [catalog.frame_of(RecordId("a", serial)) for serial in (0, 9, 10, 299, 300, 2**32 - 1)]
    assert found == [b"p0", b"p0", b"p10", b"p10", b"p300", b"p300"]
    assert catalog.frame_of(RecordId("a.b", 4)) is None
    assert list(catalog.frames("a")) == [(0, b"p0"), (10, b"p10"), (300, b"p300")]
    assert (catalog.batches(), catalog.batch_state("a"), catalog.batch_state("b")) == (["a", "b"], b"state", b"")
    catalog.add(CatalogChange(frames_removed=[("a", 10)], batches={"a": b"next"}))
    assert (catalog.frame_of(RecordId("a", 11)), catalog.batch_state("a")) == (b"p0", b"next")


def test_it_lasts(tmp_path: Path) -> None:
    with Catalog(tmp_path / "catalog") as catalog:
        add(catalog, capture(HOME, "20200101000000", 1))
        catalog.sync()
    with Catalog(tmp_path / "catalog") as catalog:
        add(catalog, capture(HOME, "20210101000000", 2))
        assert len(catalog.lookup(HOME)) == 2
        assert catalog.totals()[0] == {"main": Total(2, 20)}


def test_a_follower_follows(catalog: Catalog) -> None:
    add(catalog, capture(HOME, "20200101000000", 1))
    with Catalog(catalog.path, read_only=True, cache_bytes=1 << 20) as follower:
        assert len(follower.lookup(HOME)) == 1
        running = follower.search(CaptureQuery(url="*"))
        next(running)
        add(catalog, capture(HOME, "20210101000000", 2, collection="new"))
        follower.refresh()
        assert len(follower.lookup(HOME)) == 2
        assert follower.collections() == ("main", "new")
        assert list(running) == [], "an answer is of one moment"
        follower.verify()


def test_a_follower_sees_whole_steps_while_they_are_written(catalog: Catalog) -> None:
    """Every step adds two captures and takes one away that the step before has added (I5)."""
    done = threading.Event()
    still = replace(REAL, monotonic=lambda: 0.0)  # only `refresh` refreshes

    def write() -> None:
        for serial in range(0, 400, 2):
            pair = [capture(HOME, "20200101000000", serial + n, collection="ab"[n]) for n in (0, 1)]
            catalog.add(CatalogChange(captures=pair, removed=[RecordId("202001", serial - 1)] if serial else ()))
        done.set()

    with Catalog(catalog.path, read_only=True, cache_bytes=1 << 20, env=still) as follower:
        writer = threading.Thread(target=write)
        writer.start()
        seen: list[int] = []
        while not done.is_set() or not seen:
            follower.refresh()
            collections, batches = follower.totals()
            found = {name: len(follower.lookup(HOME, name)) for name in "ab"}
            assert {name: total.captures for name, total in collections.items()} == {
                k: v for k, v in found.items() if v
            }
            assert found["b"] <= 1 and sum(total.captures for total in batches.values()) == sum(found.values())
            seen.append(found["a"])
        writer.join()
        assert seen == sorted(seen)
        follower.refresh()
        assert len(follower.lookup(HOME)) == 201


def test_a_follower_starts_again_when_the_catalog_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "catalog"
    with Catalog(path) as catalog:
        for serial in range(3):
            add(catalog, capture(HOME, "20200101000000", serial))
    with Catalog(path, read_only=True) as follower:
        path.rename(tmp_path / "old")
        with Catalog(path) as catalog:
            add(catalog, capture(HOME, "20210101000000", 9))
        follower.refresh()
        assert [each.record.serial for each in follower.lookup(HOME)] == [9]


def test_a_catalog_that_cannot_be_read_says_how_to_mend_it(tmp_path: Path) -> None:
    Catalog(tmp_path / "catalog").close()
    (tmp_path / "catalog" / "CURRENT").write_text("MANIFEST-999999\n")
    with pytest.raises(DamagedCatalog, match="run 'holdfast reindex'"):
        Catalog(tmp_path / "catalog")


def test_a_catalog_of_another_release_is_refused(catalog: Catalog) -> None:
    catalog._table.write([(b"v", b"1")])
    with pytest.raises(DamagedCatalog, match="another release"):
        Catalog(catalog.path, read_only=True)


@pytest.mark.parametrize(
    "key", [b"r202001-0000000001", b"w20200101000000 202001-0000000001", b"p", b"dsha1:", b"tcmain", b"s"]
)
def test_verify_notices_what_is_missing_or_too_much(catalog: Catalog, key: bytes) -> None:
    add(catalog, capture(HOME, "20200101000000", 1))
    if catalog._table.get(key):
        catalog._table.write([], [key])
    else:
        catalog._table.write([(key + b"x", b"")])
    catalog._rows.forget()
    with pytest.raises(DamagedCatalog, match="is not in order"):
        catalog.verify()
