"""What is seen of crawls: lists, status and logs, also damaged ones, and what servers put into them (W17, H5)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from program import Shell

from holdfast.cli.terminal import note, show_fields, show_table, visible
from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.report.crawls import CrawlState, CrawlStatus, keep_job, write_status

JOB = CrawlJob(seeds=("https://example.com/",), name="example.com")


def test_list_and_status(archive: Shell) -> None:
    assert archive.quick("crawl", "list").lines == ["NAME  STATE  UPDATED  VISIT  FETCHED  RECEIVED  WAITING  ERRORS"]
    tally = CrawlTally(
        fetched=1200, pages=3, content_bytes=4096, new_bytes=1024, queued=5, seconds=60.0, errors=2
    ).as_dict()
    tally |= {"trapped": 4, "besides": 3}
    keep_job(archive.directory, JOB)
    keep_job(archive.directory, replace(JOB, name="other"))
    status = CrawlStatus("example.com", CrawlState.LIMIT, 1, 1.0, reason="so", tally=tally, errors={"dns": 2})
    write_status(archive.directory, status)
    table = archive.quick("crawl", "list").lines
    assert [line.split()[:2] for line in table[1:]] == [["example.com", "limit"], ["other", "interrupted"]]
    lines = archive.quick("crawl", "status").lines
    assert lines[0] == "crawl       example.com, visit 1: limit (so)"
    assert "fetched     1,200 in 1m (20.0 a second), 0 B received" in lines
    assert "duplicates  0 (3.0 KiB saved)" in lines
    assert "errors      2: 2 dns" in lines
    assert "waiting     5" in lines
    assert "trapped     4 of a site without end, or beyond a budget" in lines
    assert "besides     3 robots.txt and sitemaps" in lines
    (values,) = archive.quick("crawl", "status", "example.com", "--json").objects
    assert (values["rate"], values["saved_bytes"], values["reasons"]) == (20.0, 3072, {"dns": 2})
    assert values["directory"] == str(archive.directory / "crawls" / "example.com")
    stopped = archive.quick("crawl", "stop", "example.com", "--wait", "--json").objects
    assert stopped == [{"name": "example.com", "asked": False, "state": "limit", "reason": "so"}]
    assert archive.quick("crawl", "stop", "example.com").text == "crawl 'example.com' is not running: limit (so)\n"


def test_a_damaged_status_is_noted(archive: Shell) -> None:
    keep_job(archive.directory, JOB)
    (archive.directory / "crawls" / "example.com" / "status.json").write_text('{"state": "finished", "updated": "x"}')
    result = archive.quick("crawl", "list")
    assert "note: the progress of the crawl 'example.com' is unknown: status.json cannot be read" in result.errors
    assert result.lines[1].split()[:3] == ["example.com", "interrupted", "-"]
    assert "interrupted (status.json cannot be read)" in archive.quick("crawl", "status").text


def test_log_lines_for_people(archive: Shell) -> None:
    keep_job(archive.directory, JOB)
    path: Path = archive.directory / "crawls" / "example.com" / "log.jsonl"
    path.write_text(
        '{"event":"start","time":1,"visit":1,"note":""}\n'
        '{"event":"fetch","time":1,"elapsed":0.5,"url":"https://example.com/","hop":"-","status":200,"size":2048,'
        '"result":"new","truncated":"length"}\n'
        '{"event":"fetch","time":2,"url":"https://example.org/","outcome":"dns","result":"error","note":"no host"}\n'
    )
    assert archive.quick("crawl", "log").lines == [
        "1970-01-01T00:00:01Z  start      visit=1",
        "1970-01-01T00:00:01Z  new          200     2.0 KiB    0.50s  -  https://example.com/  (length)",
        "1970-01-01T00:00:02Z  error        dns         0 B    0.00s  -  https://example.org/  (no host)",
    ]
    assert len(archive.quick("crawl", "log", "example.com", "--result", "error").lines) == 1
    assert len(archive.quick("crawl", "log", "--host", "example.com").lines) == 1
    assert len(archive.quick("crawl", "log", "--event", "fetch", "--url", "example.").lines) == 2
    assert len(archive.quick("crawl", "log", "-n", "2").lines) == 2
    assert archive.quick("crawl", "log", "-f", "-n", "1", "--json").objects[0]["note"] == "no host"


def test_log_lines_of_wrong_types(archive: Shell) -> None:
    keep_job(archive.directory, JOB)
    path: Path = archive.directory / "crawls" / "example.com" / "log.jsonl"
    path.write_text(
        '{"event":"fetch","time":"x","elapsed":"y","size":[],"url":{},"result":3,"status":[1],"hop":null,"note":{"a":1}}\n'
        '{"event":"fetch","time":1e300,"elapsed":NaN,"size":Infinity,"url":"https://example.com/","result":"new"}\n'
        '{"event":["start"],"time":{}}\n'
        f'{{"event":"fetch","time":-1e15,"size":{"9" * 400}}}\n'
    )
    lines = archive.quick("crawl", "log").lines
    assert [line.split()[0] for line in lines] == [*"---", lines[3].split()[0]]
    assert len(archive.quick("crawl", "log", "--result", "new").lines) == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--event", "fetched"], "no event is called 'fetched'; known are fetch, start, stop, "),
        (["--result", "errors"], "no result is called 'errors'; known are new, duplicate, "),
    ],
)
def test_words_that_the_log_does_not_have(archive: Shell, option: list[str], message: str) -> None:
    keep_job(archive.directory, JOB)
    assert message in archive.quick("crawl", "log", *option, code=2).errors


# -- what servers say --------------------------------------------------------------------------------------------------

HOSTILE = "a\x1b[2J\x07\x9b\x7f\u2028\u202e\ud800\nb"
HARMLESS = r"a\x1b[2J\x07\x9b\x7f\u2028\u202e\ud800\x0ab"


def test_what_servers_say_moves_no_terminal(archive: Shell) -> None:
    keep_job(archive.directory, JOB)
    write_status(
        archive.directory, CrawlStatus("example.com", CrawlState.FAILED, 1, reason=HOSTILE, errors={HOSTILE: 1})
    )
    path: Path = archive.directory / "crawls" / "example.com" / "log.jsonl"
    rows = [{"event": "fetch", "url": HOSTILE, "note": HOSTILE}, {"event": "pause", "note": HOSTILE, HOSTILE: 1}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = [archive.quick("crawl", *words) for words in (["log"], ["log", "-f"], ["status"], ["stop", "example.com"])]
    for result in shown:
        assert HARMLESS in result.text
        assert all(character.isprintable() or character == "\n" for character in result.text)
    assert archive.quick("crawl", "log", "--json").objects == rows


def test_all_that_is_shown_is_visible(capsys: pytest.CaptureFixture[str]) -> None:
    note(HOSTILE)
    show_fields({"url": HOSTILE})
    show_table(("A", "B"), [(HOSTILE, HOSTILE)], left=1)
    out, err = capsys.readouterr()
    assert err == f"{HARMLESS}\n"
    assert out.splitlines()[0] == f"url  {HARMLESS}"
    assert out.splitlines()[2] == f"{HARMLESS}  {HARMLESS}"
    assert visible("Ünïcødé 例え 🙂") == "Ünïcødé 例え 🙂"
