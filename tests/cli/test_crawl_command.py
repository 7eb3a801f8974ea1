"""`holdfast crawl`: what it does, and says of it; stopped, interrupted, resumed, repeated (W17, H5, H7)."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from crawl_screen import Screen
from crawl_site import ENDLESS, Site, serving
from program import Shell
from waiting import wait_until

from holdfast.crawl.job.job import ScopeKind
from holdfast.crawl.report.crawls import crawl_status, kept_job
from holdfast.crawl.report.log import read_log

PAGES = {
    "/": b'<title>Home</title><a href="/a">a</a> <a href="/b">b</a> <a href="/secret/x">x</a> <a href="/gone">gone</a>',
    "/a": b"<title>Same</title>",
    "/b": b"<title>Same</title>",
    "/secret/x": b"<title>Secret</title>",
    "/robots.txt": b"User-agent: *\nDisallow: /secret/\n",
}
QUICK = ("--delay", "0", "--no-sitemap")
LONG_S = 60.0


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(dict(PAGES)) as site:
        yield site


def captured(shell: Shell, *arguments: str) -> set[str]:
    """All but robots.txt."""
    urls = shell.quick("cdx", "*", "--output", "text", "--fl", "url", *arguments).lines
    return {url for url in urls if not url.endswith("/robots.txt")}


def wait_for_fetches(archive: Path, name: str, count: int) -> None:
    """Until a crawl in another process has so many in its log."""
    path = archive / "crawls" / name / "log.jsonl"
    wait_until(lambda: sum(row["event"] == "fetch" for row in read_log(path)) >= count, f"{count} fetches")


@contextmanager
def running(shell: Shell, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program, killed at the end of the block: a site without end is crawled without end."""
    with shell.start(*arguments) as process:
        try:
            yield process
        finally:
            process.kill()


# -- a whole crawl -----------------------------------------------------------------------------------------------------


def test_a_site_is_crawled_and_crawled_again(archive: Shell, site: Site) -> None:
    first = archive("crawl", site.url, *QUICK)
    assert captured(archive) >= {f"{site.url}{path}" for path in ("", "a", "b", "gone")}
    assert "/secret/x" not in site.asked
    lines = dict(line.split(None, 1) for line in first.lines)
    assert lines["crawl"] == f"{site.name}, visit 1: finished (nothing is left to fetch)"
    assert lines["fetched"].startswith("4 in ")
    assert lines["pages"] == "3"
    assert lines["duplicates"].startswith("1 (19 B saved)")
    assert (lines["gone"], lines["errors"], lines["refused"]) == ("1", "0", "1 by robots.txt")
    assert lines["log"] == f"crawls/{site.name}/log.jsonl"
    said = dict(line.split(None, 1) for line in first.errors.splitlines())
    assert said["crawl"] == f"'{site.name}' begins"
    assert said["scope"] == f"what begins with {site.url}; plus page requisites from anywhere"
    assert said["robots.txt"] == "is obeyed"
    assert said["collection"] == "main"

    (known,) = archive.quick("crawl", "why", site.url + "secret/x", "--json").objects
    assert (known["state"], known["robots"], known["via"], known["depth"]) == ("refused", "forbidden", site.url, 1)
    assert "unknown" in archive.quick("crawl", "why", site.url + "other").text
    assert "live for ever" in archive.quick("crawl", "expire", site.name, "--dry-run", code=2).errors

    site.pages["/a"] = b"<title>Another</title>"
    again = archive("crawl", site.url, *QUICK, "--json")
    (summary,) = again.objects
    assert (summary["event"], summary["visit"], summary["state"]) == ("summary", 2, "finished")
    assert (summary["fetched"], summary["changed"], summary["unchanged"], summary["new"]) == (4, 1, 2, 1)
    assert "was finished: visits all it knows again (visit 2)" in again.errors


def test_limits_end_a_run_and_the_next_goes_on(archive: Shell, site: Site) -> None:
    endless = site.url + ENDLESS[1:]
    (first,) = archive("crawl", endless, *QUICK, "--limit", "5", "--json", "-q").objects
    assert (first["state"], first["reason"], first["fetched"]) == ("limit", "5 URLs are fetched", 5)
    again = archive("crawl", endless, *QUICK, "--limit", "5", "--json")
    assert "had reached a limit: continues (visit 1)" in again.errors
    assert again.objects[0]["fetched"] == 10
    assert len(captured(archive)) == 10
    assert archive("crawl", "list", "--json").objects[0]["state"] == "limit"
    (third,) = archive("crawl", "--resume", site.name, "--quota", "1", "--limit", "1000", "--json", "-q").objects
    assert (third["state"], third["reason"]) == ("limit", "the bytes allowed are transferred")


def test_quietly_under_a_name_into_a_collection(archive: Shell, site: Site) -> None:
    result = archive("crawl", site.url + "a", *QUICK, "--scope", "page", "-q", "-c", "papers", "--name", "mine")
    assert (result.output, result.errors) == (b"", "")
    assert captured(archive, "-c", "papers") == {site.url + "a"}
    assert crawl_status(archive.directory).name == "mine"
    archive("export", "-o", "mine.warc")
    told = (archive.directory / "mine.warc").read_text()
    assert "visit 1 of the crawl 'mine', scope page, 1 seed\n" in told
    assert "http-header-user-agent: Holdfast/" in told


def test_nothing_could_be_fetched(archive: Shell, site: Site) -> None:
    site.pages["/robots.txt"] = b"User-agent: *\nDisallow: /\n"
    result = archive("crawl", site.url, *QUICK, code=12)
    assert f"holdfast: no seed of the crawl '{site.name}' could be fetched: robots.txt forbids it" in result.errors
    assert f"see 'holdfast crawl log {site.name}'" in result.errors
    assert captured(archive) == set()


def test_what_went_wrong_is_said_in_full(archive: Shell) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        archive.file("job.toml", f'seeds = ["http://{address}/"]\nname = "x"\n[fetch]\nretries = 0\n')
        result = archive("crawl", "job.toml", *QUICK, code=12)
        bare = archive("crawl", address, *QUICK, "--robots", "ignore", "--name", "y", "-q", code=12)
    assert "no seed of the crawl 'x' could be fetched: " in result.errors
    assert "connect" in result.errors
    assert "try 'http" not in result.errors
    assert f"; if it has no TLS, try 'http://{address}/'; see" in bare.errors


# -- stopping and going on ---------------------------------------------------------------------------------------------


def test_stop_and_resume(archive: Shell, site: Site) -> None:
    with running(archive, "crawl", site.url + ENDLESS[1:], *QUICK, "--json") as process:
        wait_for_fetches(archive.directory, site.name, 3)
        assert archive.quick("crawl", "list", "--json").objects[0]["state"] == "running"
        busy = archive("crawl", "--resume", site.name, code=4)
        assert f"the crawl '{site.name}' is running (pid {process.pid})" in busy.errors
        archive("crawl", site.url, *QUICK, "--name", "another", code=4)
        stopped = archive("crawl", "stop", site.name, "--wait")
        output, errors = process.communicate()
    assert stopped.text == f"crawl '{site.name}' has ended: stopped (asked to)\n"
    assert process.returncode == 0
    assert json.loads(output)["state"] == "stopped"
    assert f"'holdfast crawl --resume {site.name}' continues" in errors.decode()
    before = crawl_status(archive.directory, site.name).tally["fetched"]
    resumed = archive("crawl", "--resume", site.name, "--limit", str(before + 5), "--json")
    assert "was stopped: continues (visit 1)" in resumed.errors
    assert resumed.objects[0]["fetched"] == before + 5
    assert len(set(site.asked)) == len(site.asked)  # nothing twice, as nothing was cut off


def test_ctrl_c(archive: Shell, site: Site) -> None:
    with running(archive, "crawl", site.url + ENDLESS[1:], *QUICK) as process:
        wait_for_fetches(archive.directory, site.name, 3)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
    assert process.returncode == 130
    assert f"crawl       {site.name}, visit 1: stopped".encode() in output
    assert [line for line in errors.decode().splitlines() if line][-2:] == [
        f"holdfast: the queue is kept; 'holdfast crawl --resume {site.name}' continues",
        "holdfast: interrupted",
    ]


def test_a_killed_crawl_goes_on(archive: Shell, site: Site) -> None:
    with running(archive, "crawl", site.url + ENDLESS[1:], *QUICK) as process:
        wait_for_fetches(archive.directory, site.name, 3)
        process.kill()
        process.communicate()
    assert "interrupted" in archive.quick("crawl", "status", site.name).text
    resumed = archive("crawl", site.url + ENDLESS[1:], *QUICK, "--limit", "40", "--json")
    assert "was interrupted: continues (visit 1)" in resumed.errors
    assert resumed.objects[0]["state"] == "limit"


def test_the_log_is_followed_to_the_end(archive: Shell, site: Site) -> None:
    with running(archive, "crawl", site.url + ENDLESS[1:], *QUICK, "-q") as process:
        wait_for_fetches(archive.directory, site.name, 1)
        with running(archive, "crawl", "log", "-f", "--json", "-n", "10000") as follower:
            assert follower.stdout is not None
            assert json.loads(follower.stdout.readline())["event"] == "start"
            archive.quick("crawl", "stop", site.name)
            rest = follower.stdout.read()
            assert follower.wait() == 0
        process.communicate()
    rows = [json.loads(line) for line in rest.splitlines()]
    assert rows[-1]["event"] == "stop"
    assert len(rows) + 1 == len(list(read_log(archive.directory / "crawls" / site.name / "log.jsonl")))


# -- on a terminal -----------------------------------------------------------------------------------------------------


def test_progress_is_shown_on_a_terminal_and_stays_out_of_the_data(archive: Shell, site: Site) -> None:
    terminal, end = pty.openpty()
    done = archive.run(
        archive.command("crawl", site.url, *QUICK, "--json", "--limit", "3"),
        stdout=subprocess.PIPE,
        stderr=end,
        env=archive.environment(TERM="vt100", COLUMNS="200"),
    )
    os.close(end)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert json.loads(done.stdout)["state"] == "limit"
    assert "waiting " in shown
    assert " in flight; 0 errors, " in shown


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_ctrl_c_is_told_inside_what_is_drawn_in_place(archive: Shell, site: Site, columns: int) -> None:
    site.slow.append(ENDLESS + "5")
    command = archive.command("crawl", site.url + ENDLESS[1:], *QUICK)
    screen = Screen(columns, command, archive.directory, archive.environment())
    try:
        screen.read_until(" in flight")
        wait_until(lambda: site.slow[0] in site.asked, "the slow page")
        screen.press(b"\x03")
        screen.read_until("Ctrl-C again ends at once")
        site.go_on.set()
        assert screen.finish() == 130
    finally:
        site.go_on.set()
        screen.close()
    lines = screen.lines
    first = lines[lines.index("collection  main") + 1]  # nothing is left between the plan and the summary
    assert first.startswith(f"crawl       {site.name}, visit 1")
    assert not [line for line in lines if "Ctrl-C" in line or "^C" in line or "in flight" in line]
    assert lines[-1] == "holdfast: interrupted"
    assert screen.written.rindex("\x1b[?25h") > screen.written.rindex("\x1b[?25l")  # the cursor is back


# -- jobs --------------------------------------------------------------------------------------------------------------


def test_a_job_file_and_options_over_it(archive: Shell, site: Site) -> None:
    archive.file("job.toml", f'name = "mine"\nseeds = ["{site.url}a"]\nscope = "page"\nlimit = 7\n[fetch]\ndelay = 0\n')
    archive.file("more.txt", f"# more\n{site.url}b\n")
    (summary,) = archive("crawl", "job.toml", "--seeds", "more.txt", "--limit", "9", "--json", "-q").objects
    assert (summary["name"], summary["fetched"]) == ("mine", 2)
    job = kept_job(archive.directory, "mine")
    assert job is not None
    assert job.seeds == (f"{site.url}a", f"{site.url}b")
    assert (job.scope, job.limit, job.fetch.delay) == (ScopeKind.PAGE, 9, 0.0)
