"""The index from the command line."""

from __future__ import annotations

import time

import pytest
from crawl_site import serving
from program import Shell
from waiting import wait_until
from warcs import PAGES, write_warc

import holdfast
from holdfast.cli.archive.index import bring_up
from holdfast.cli.main import INTERRUPTED
from holdfast.cli.terminal import Interruption
from holdfast.index.updater import IndexUpdater
from holdfast.index.workers.pool import TASK_RECORDS

ON = {"HOLDFAST_INDEX_AUTOMATIC": "true"}


def test_an_import_brings_the_index_up_to_date_unless_told_otherwise(archive: Shell) -> None:
    write_warc(archive.directory / "pages.warc.gz")
    assert "indexed" not in archive("import", "--no-index", "pages.warc.gz", **ON).errors
    before = archive.quick("index", "status", "--json").objects[0]
    assert (before["captures"], before["pending"]) == (0, 11), "ten records, and the list of them"
    [report] = archive.quick("index", "update", "--json", "--no-ranks").objects
    assert (report["captures"], report["removed"]) == (len(PAGES), 0)
    again = archive("import", "--collection", "other", "pages.warc.gz", **ON)
    assert again.errors == f"indexed {len(PAGES)} captures\n"
    status = archive.quick("index", "status", "--json").objects[0]
    assert (status["captures"], status["pending"], status["failed"]) == (2 * len(PAGES), 0, {})
    assert f"index                 {2 * len(PAGES)} captures" in archive.quick("status").lines


def test_a_crawl_leaves_an_index(archive: Shell) -> None:
    with serving({"/": b"<title>Home</title><a href=/a>a</a>", "/a": b"whales"}) as site:
        result = archive("crawl", site.url, "--delay", "0", "--no-sitemap", **ON)
    assert "indexed " in result.errors
    status = archive.quick("index", "status", "--json").objects[0]
    assert (status["pending"], status["captures"] >= 2) == (0, True)


def test_when_the_time_is_over_the_index_is_left_for_later(archive: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """H5: `crawl --time` is the time of the whole command; whoever goes on with the index does so where it was."""
    with holdfast.open(archive.directory) as writer:
        writer.add([holdfast.page("http://example.org/", b"whales")])
    bring_up(archive.directory, quiet=False, until=time.monotonic())
    told = "note: time ran out before 1 record could be indexed: 'holdfast index update' continues\n"
    assert capsys.readouterr().err == told
    assert archive.quick("index", "status", "--json").objects[0]["pending"] == 1
    bring_up(archive.directory, quiet=False, until=time.monotonic() + 1000.0)
    assert capsys.readouterr().err == "indexed 1 capture\n"


def test_beside_a_writer_the_index_is_brought_up_to_date(archive: Shell) -> None:
    with holdfast.open(archive.directory) as writer:
        writer.add([holdfast.page("http://example.org/", b"whales")])
        with IndexUpdater(archive.directory, 0.1):
            wait_until(lambda: writer.index.exists and writer.index.pending() == 0, "the first capture indexed")
            writer.add([holdfast.page("http://example.org/2", b"more whales")])
            wait_until(lambda: writer.index.pending() == 0, "the second one")


def test_build_status_and_removal(filled: Shell) -> None:
    assert filled.quick("index", "build").text.startswith(f"indexed {len(PAGES)} captures with ")
    assert filled.quick("index", "update", "--no-ranks").text == "nothing to index\n"
    lines = dict(line.split("  ", 1) for line in filled.quick("index", "status").lines)
    assert lines["captures"].strip() == str(len(PAGES))
    filled.quick("rm", "--all", "--reason", "test")
    status = filled.quick("index", "status", "--json").objects[0]
    assert (status["captures"], status["documents"], status["removed_pending"], status["unpurged"]) == (0, 0, 0, 0)
    filled.quick("check")


def test_ctrl_c_keeps_what_was_indexed(archive: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def pages(host: str) -> list[holdfast.Exchange]:
        return [holdfast.page(f"http://{host}/{number}", b"whales") for number in range(TASK_RECORDS)]

    with holdfast.open(archive.directory) as opened:
        for host in ("a.org", "b.org"):
            opened.add(pages(host))
    everything = 2 * TASK_RECORDS
    with monkeypatch.context() as patched:
        patched.setattr(Interruption, "checkpoint", _press)
        result = archive.quick("index", "update", code=INTERRUPTED)
        assert f"{TASK_RECORDS} records are indexed and stay so; run the same command again" in result.errors
        [status] = archive.quick("index", "status", "--json").objects
        assert (status["captures"], status["pending"]) == (TASK_RECORDS, everything - TASK_RECORDS)
        assert archive.quick("search", "whales", "--limit", "0", "--json").objects[0]["total"] == TASK_RECORDS
        archive.quick("index", "build", code=INTERRUPTED)
    [report] = archive.quick("index", "build", "--json", "--no-ranks").objects
    assert report["captures"] == everything - TASK_RECORDS
    assert archive.quick("index", "status", "--json").objects[0]["captures"] == everything
    archive.quick("check")


def test_ctrl_c_before_anything_was_indexed(filled: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.index.build.tasks", _press)
    result = filled.quick("index", "update", code=INTERRUPTED)
    assert "nothing was indexed yet; run the same command again to continue" in result.errors


def _press(*_: object) -> None:
    raise KeyboardInterrupt


def test_damage_is_found_and_mended(filled: Shell) -> None:
    filled.quick("index", "update", "--no-ranks")
    state = filled.directory / "index" / "STATE"
    state.write_bytes(b"damaged")
    assert "holdfast index build" in filled.quick("index", "status", code=5).errors
    assert "damaged" in filled.quick("status").text
    assert "damaged index" in filled.quick("check", code=5).text
    filled.quick("check", "--repair")
    assert filled.quick("index", "status", "--json").objects[0]["captures"] == len(PAGES)


def test_ranks_are_computed_with_the_index_or_alone(filled: Shell) -> None:
    filled.quick("index", "update", "--no-ranks")
    [first] = filled.quick("index", "rank", "--json").objects
    assert (first["generation"], first["computed"]) == (1, True)
    assert filled.quick("index", "rank").text.startswith("no link has changed: ")
    assert filled.quick("index", "rank", "--force", "--json").objects[0]["generation"] == 2
    filled.quick("index", "build")
    [last] = filled.quick("index", "rank", "--json").objects
    assert (last["generation"], last["computed"]) == (3, False)


def test_damaged_ranks_are_found_and_mended(filled: Shell) -> None:
    filled.quick("index", "update")
    ranks = filled.directory / "index" / "ranks-000001"
    ranks.write_bytes(ranks.read_bytes()[:-1] + b"x")
    assert "ranks-000001" in filled.quick("check", code=5).text
    filled.quick("check", "--repair")
    filled.quick("check")
