"""What a command line comes to before anything is fetched: names, scopes, known crawls, mistakes (W17, H7)."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from program import SOURCE, Shell

from holdfast.cli.crawl.options import SCOPES, changed_options, with_options
from holdfast.cli.crawl.plan import scope_words
from holdfast.cli.crawl.run import Pace, progress_lines, tally_fields
from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.job.job import CrawlJob, ScopeKind
from holdfast.crawl.report.crawls import CrawlState, CrawlStatus, keep_job, write_status
from holdfast.env.units import rounded_duration

JOB = CrawlJob(seeds=("https://example.com/",), name="example.com")


def planned(shell: Shell, *arguments: str, code: int = 0) -> dict[str, Any]:
    (values,) = shell.quick("crawl", *arguments, "--dry-run", "--json", code=code).objects
    return values


# -- options -----------------------------------------------------------------------------------------------------------


def test_every_option_reaches_the_job(archive: Shell) -> None:
    values = planned(
        archive,
        *("www.example.com", "--name", "mine", "-c", "papers", "--depth", "0", "--limit", "5", "--time", "1h30m"),
        *("--scope", "domain", "--include", "a+", "--include", "b", "--exclude", "c", "--no-sitemap"),
        *("--robots", "ignore", "--delay", "0", "--per-host", "2", "--workers", "3", "--user-agent", "me"),
        *("--header", "A: b", "--header", "C: d", "--proxy", "http://p:1", "--max-bytes", "5M", "--quota", "2G"),
        *("--resolve", "example.com=192.0.2.7", "--private", "--screenshots"),
    )
    job = values["job"]
    assert values["collection"] == "papers"
    assert values["notes"] == ["'www.example.com' is taken for 'https://www.example.com/'"]
    assert {key: job[key] for key in ("seeds", "name", "depth", "limit", "time_s", "scope", "bytes_max")} == {
        "seeds": ["https://www.example.com/"],
        "name": "mine",
        "depth": 0,
        "limit": 5,
        "time_s": 5400.0,
        "scope": "domain",
        "bytes_max": 2 << 30,
    }
    assert (job["include"], job["exclude"], job["sitemap"], job["workers"]) == (["a+", "b"], ["c"], False, 3)
    fetch = job["fetch"]
    assert (fetch["robots"], fetch["delay"], fetch["per_host"], fetch["user_agent"]) == (False, 0.0, 2, "me")
    assert fetch["headers"] == [["A", "b"], ["C", "d"]]
    assert (fetch["proxy"], fetch["body_bytes_max"], fetch["private"]) == ("http://p:1", 5 << 20, True)
    assert fetch["resolve"] == [["example.com", "192.0.2.7"]]
    assert (job["browser"]["enabled"], job["browser"]["screenshots"]) == (True, True)


def test_without_options_all_is_by_default(archive: Shell) -> None:
    job = planned(archive, "https://example.com/")["job"]
    default = with_options(JOB, {})
    assert (job["workers"], job["fetch"]["delay"], job["sitemap"]) == (default.workers, default.fetch.delay, True)
    assert planned(archive, "https://example.com/", "--sitemap", "--robots", "obey")["job"] == job


def test_a_dry_run_changes_nothing(archive: Shell) -> None:
    before = sorted(archive.directory.rglob("*"))
    text = archive.quick("crawl", "example.com", "--dry-run").text
    assert text.startswith("crawl       'example.com' begins\n")
    assert sorted(archive.directory.rglob("*")) == before


def test_the_scopes_are_those_of_the_crawler() -> None:
    assert list(SCOPES) == list(ScopeKind)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ftp://example.com/"], "seed 'ftp://example.com/' is not a URL that can be fetched"),
        (["lst"], "'lst' is not a URL: did you mean 'holdfast crawl list'?"),
        (["--json", "list"], "'list' is not a URL: did you mean 'holdfast crawl list'?"),
        (["statsu", "news"], "did you mean 'holdfast crawl status'?"),
        (["bg"], "seed 'bg' is not a URL that can be fetched: write 'https://example.com/'"),
        (["./list"], "seed './list' is not a URL that can be fetched: it is a path"),
        (["example.com", "stat"], "seed 'stat' is not a URL that can be fetched"),
        ([__file__], "is not a URL that can be fetched: it is a path"),
        (["example.com", "--header", "Host: a"], "the header 'Host' is written for each request"),
        (["example.com", "--name", "No"], "bad name 'No' of a crawl"),
        (["example.com", "--include", "a("], "include 'a(' is not a regular expression"),
        (["example.com", "--header", "A"], "'A' is not a header"),
        (["example.com", "--resolve", "a"], "'a' is not an address for a host"),
        (["example.com", "--proxy", "p"], "proxy 'p' must begin with one of"),
        (["example.com", "--time", "soon"], "'soon' is not a duration"),
        (["example.com", "--quota", "much"], "'much' is not a number of bytes"),
        (["example.com", "--limit", "0"], "0 must be at least 1"),
        (["example.com", "--scope", "world"], "'world' is not one of"),
        (["example.com", "--revisit"], "there is no crawl 'example.com' to visit again"),
        (["example.com", "--revisit", "--due"], "give one of them"),
        (["--resume", "news"], "no crawl 'news'"),
        (["--name", "news"], "no crawl 'news'"),
        (["--limit", "5"], "no seeds: give a URL, a job file, '--seeds FILE' or '--resume NAME'"),
        (["a.toml", "b.toml"], "'a.toml' and 'b.toml' are two jobs"),
        (["status", "news"], "no crawl 'news'"),
        (["stop", "news"], "no crawl 'news'"),
        (["log"], "no crawl in"),
        (["why", "http://example.com/"], "no crawl in"),
        (["expire", "news"], "no crawl 'news'"),
    ],
)
def test_mistakes(archive: Shell, arguments: list[str], message: str) -> None:
    before = sorted(archive.directory.rglob("*"))
    result = archive.quick("crawl", *arguments, code=2)
    assert message in result.errors
    assert result.output == b""
    assert sorted(archive.directory.rglob("*")) == before


def test_no_such_file(archive: Shell) -> None:
    assert "no job file" in archive.quick("crawl", "/nowhere/job.toml", code=3).errors
    assert "/nowhere/seeds" in archive.quick("crawl", "--seeds", "/nowhere/seeds", code=3).errors


@pytest.mark.parametrize(
    "arguments", [["crawl", "example.com"], ["crawl", "list"], ["crawl", "log"], ["crawl", "expire", "x"]]
)
def test_no_archive(shell: Shell, arguments: list[str]) -> None:
    assert "no archive in" in shell.quick(*arguments, code=3).errors
    assert list(shell.directory.iterdir()) == []


def test_init_makes_nothing_for_a_crawl_that_cannot_be(shell: Shell) -> None:
    for words in ([], ["not-a-url"], ["--resume", "news"]):
        assert shell.quick("crawl", "--init", "--limit", "5", *words, code=2).errors
    assert not (shell.directory / "holdfast.toml").exists()


def test_the_name_of_a_crawl_is_no_seed(archive: Shell) -> None:
    keep_job(archive.directory, replace(JOB, name="bg"))
    said = archive.quick("crawl", "bg", "--dry-run", code=2).errors
    assert "'bg' is not a URL: there is a crawl of that name, '--resume bg' continues it" in said


def test_a_file_is_no_seed(archive: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.file("seeds.txt", "example.com\n")
    monkeypatch.chdir(archive.directory)
    said = archive.quick("crawl", "seeds.txt", "--dry-run", code=2).errors
    assert "'seeds.txt' is a file: '--seeds seeds.txt' reads seeds from it" in said
    assert "write 'https://seeds.txt/'" in said


def test_seeds_of_another_system(archive: Shell) -> None:
    path = archive.file("seeds.txt", "\ufeffhttps://example.com/\r\n\r\nexample.org # b\r\n".encode())
    assert planned(archive, "--seeds", str(path))["job"]["seeds"] == ["https://example.com/", "https://example.org/"]
    words = ("crawl", "--seeds", "-", "--dry-run", "--json")
    (values,) = archive(*words, input="\ufeffexample.com\r\n".encode()).objects
    assert values["job"]["seeds"] == ["https://example.com/"]


def test_seeds_from_standard_input(archive: Shell) -> None:
    result = archive("crawl", "--seeds", "-", "--dry-run", "--json", input=b"# mine\nexample.com # yes\n\n")
    assert result.objects[0]["job"]["seeds"] == ["https://example.com/"]


@pytest.mark.parametrize("arguments", [["crawl", "--help"], ["crawl", "log", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    heavy = ("rich", "rocksdict", "tomlkit", "pycurl", "holdfast.archive", "holdfast.crawl", "holdfast.urls")
    program = (
        "import sys; from holdfast.cli.main import run; code = run(); "
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(SOURCE)}, capture_output=True, check=True)
    assert done.stderr == b"[]\n"


# -- known crawls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "action"),
    [
        (CrawlState.FINISHED, "was finished: visits all it knows again (visit 3)"),
        (CrawlState.STOPPED, "was stopped: continues (visit 2)"),
        (CrawlState.LIMIT, "had reached a limit: continues (visit 2)"),
        (CrawlState.FAILED, "had failed: continues (visit 2)"),
        (CrawlState.RUNNING, "is running in another process: continues (visit 2)"),
    ],
)
def test_what_a_known_crawl_does(archive: Shell, state: CrawlState, action: str) -> None:
    keep_job(archive.directory, JOB)
    tally = {"queued": 1234, "seen": 5678}
    write_status(archive.directory, CrawlStatus("example.com", state, 2, tally=tally))
    values = planned(archive, "https://example.com/")
    assert values["action"] == action
    assert values["known"]["tally"] == tally
    line = "known       5,678 URLs" if state is CrawlState.FINISHED else "waiting     1,234 URLs"
    assert line in archive.quick("crawl", "--resume", "example.com", "--dry-run").lines
    if state is CrawlState.RUNNING:
        assert "is running (pid " in archive.quick("crawl", "https://example.com/", code=4).errors


def test_more_seeds_and_another_scope_for_a_known_crawl(archive: Shell) -> None:
    keep_job(archive.directory, replace(JOB, limit=7))
    values = planned(archive, "https://example.com/b", "--name", "example.com", "--scope", "host")
    assert values["job"]["seeds"] == ["https://example.com/", "https://example.com/b"]
    assert values["notes"] == [
        "1 seed more for the crawl 'example.com'",
        "changed for the crawl 'example.com': scope, limit",
    ]
    assert values["job"]["limit"] is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--scope", "host"], "because what they link to may be in scope now"),
        (["--depth", "3"], "because what they link to may be in scope now"),
        (["--exclude", "x"], "because what they link to may be in scope now"),
        (["https://example.com/b"], "because what they link to may be in scope now"),
        (["-c", "papers"], "because that collection does not have them"),
        (["-c", "main"], ""),
        (["--limit", "3"], ""),
    ],
)
def test_pages_are_fetched_in_full_when_it_must_be(archive: Shell, options: list[str], why: str) -> None:
    """H7: of an unchanged page nothing would be learnt that another scope or collection needs."""
    keep_job(archive.directory, JOB)
    write_status(archive.directory, CrawlStatus("example.com", CrawlState.FINISHED, 1))
    notes = planned(archive, "--resume", "example.com", *options)["notes"]
    assert [note for note in notes if "in full" in note] == (
        [f"pages are fetched in full this time, {why}"] * bool(why)
    )


def test_lifetimes_of_all_pages_and_of_some(archive: Shell) -> None:
    """B4: given by option, kept with the job, and said before anything is fetched."""
    keep_job(archive.directory, JOB)
    write_status(archive.directory, CrawlStatus("example.com", CrawlState.FINISHED, 1))
    options = ("--lifetime", r"/news/\?a=1=36h", "--lifetime", "/law/=0", "--lifetime", "90d")
    values = planned(archive, "--resume", "example.com", *options)
    assert values["notes"] == ["changed for the crawl 'example.com': lifetime"]
    revisit = values["job"]["revisit"]
    assert (revisit["lifetime_s"], revisit["lifetimes"]) == (90 * 86400, [[r"/news/\?a=1", 129600], ["/law/", 0]])
    words = archive.quick("crawl", "--resume", "example.com", *options, "--dry-run").text
    assert (
        r"lifetime    1d 12h for '/news/\?a=1', for ever for '/law/' and 90d for others; then pages that are" in words
    )
    assert (
        "'soon' is not a duration"
        in archive.quick("crawl", "--resume", "example.com", "--lifetime", "soon", code=2).errors
    )


@pytest.mark.parametrize("how", ["--resume", "--name"])
def test_the_job_that_a_crawl_has(archive: Shell, how: str) -> None:
    keep_job(archive.directory, replace(JOB, limit=7, depth=2))
    write_status(archive.directory, CrawlStatus("example.com", CrawlState.FINISHED, 1))
    values = planned(archive, how, "example.com", "--due", "--depth", "3")
    assert (values["job"]["limit"], values["job"]["depth"]) == (7, 3)
    assert values["action"] == "was finished: visits what is due again (visit 2)"
    assert values["notes"][0] == "changed for the crawl 'example.com': depth, revisit"


def test_revisiting_what_did_not_come_to_its_end(archive: Shell) -> None:
    keep_job(archive.directory, JOB)
    assert planned(archive, "--resume", "example.com", "--revisit")["notes"] == [
        "its last visit is unfinished and continues first"
    ]


def test_resume_takes_no_other_job(archive: Shell) -> None:
    keep_job(archive.directory, JOB)
    archive.file("job.toml", 'seeds = ["example.com"]')
    for more in (["--name", "b"], [str(archive.directory / "job.toml")]):
        assert (
            "--resume NAME uses the crawl's own job"
            in archive.quick("crawl", "--resume", "example.com", *more, code=2).errors
        )


def test_changed_options() -> None:
    assert changed_options(JOB, JOB) == []
    other = with_options(JOB, {"scope": "host", "max_bytes": 5, "due": True})
    assert changed_options(JOB, other) == ["scope", "max-bytes", "revisit"]


# -- words and numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.05, "50ms"),
        (0.0005, "0.5ms"),
        (0.44, "0.4s"),
        (9, "9s"),
        (59.6, "1m"),
        (123, "2m 3s"),
        (3600, "1h"),
        (4800, "1h 20m"),
        (273600, "3d 4h"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert rounded_duration(seconds) == text


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (ScopeKind.PAGE, "the seeds alone"),
        (ScopeKind.PREFIX, "what begins with https://a.example.com/x/ or https://b.example.com:8443/"),
        (ScopeKind.HOST, "all of a.example.com and b.example.com:8443"),
        (ScopeKind.DOMAIN, "all hosts of example.com"),
        (ScopeKind.ANY, "wherever links lead"),
    ],
)
def test_scopes_in_words(scope: ScopeKind, words: str) -> None:
    job = CrawlJob(seeds=("https://a.example.com/x/y?z=/", "https://b.example.com:8443/"), scope=scope)
    assert scope_words(job) == f"{words}; plus page requisites from anywhere"
    narrow = replace(job, depth=1, include=("a", "b", "c", "d"), exclude=("e",))
    assert scope_words(narrow) == (
        f"{words}, at most 1 link from a seed; also what matches a, b, c or 1 more; never what matches e, but for "
        "seeds; "
        "plus page requisites from anywhere"
    )


def test_reasons_of_errors_are_ranked() -> None:
    reasons = {"dns": 1, "timeout": 9, "tls": 2, "connect": 2, "status 500": 3, "dropped": 1, "protocol": 1}
    text = tally_fields(CrawlTally(errors=19).as_dict(), reasons)["errors"]
    assert text == "19: 9 timeout, 3 status 500, 2 connect, 2 tls, 1 dns, 2 others"


def test_a_summary_of_nothing() -> None:
    assert list(tally_fields({}, {})) == ["fetched", "pages", "new", "duplicates", "errors"]


def test_the_pace_is_that_of_the_last_seconds() -> None:
    now = 0.0
    pace = Pace(replace(JOB, limit=1000, time_s=500.0), lambda: now)
    tally = CrawlTally()
    pace.take(tally)
    assert pace.rates()[0] == 0.0
    for now in range(1, 31):
        tally.fetched += 10 if now > 15 else 1
        tally.seconds = float(now)
        pace.take(tally)
    assert pace.rates()[0] == 10.0
    assert pace.remaining_s(tally) == (1000 - tally.fetched) / 10
    tally.seconds = 490.0
    assert pace.remaining_s(tally) == 10.0
    assert progress_lines("x", tally, pace)[0] == "x  8m 10s, 10s left"


def test_progress_fits_into_80_columns() -> None:
    many = dict.fromkeys(("fetched", "pages", "new", "duplicates", "unchanged", "queued"), 1_234_567)
    some = dict.fromkeys(("hosts", "errors", "retries"), 12_345)
    tally = CrawlTally(**many, **some, in_flight=64, transferred_bytes=987 << 30)
    assert max(map(len, progress_lines("example.com", tally, Pace(JOB)))) < 79


def test_a_limit_that_was_reached_counts_anew() -> None:
    now = 0.0
    pace = Pace(replace(JOB, limit=100, bytes_max=None), lambda: now)
    pace.take(CrawlTally(fetched=100))
    now = 1.0
    pace.take(later := CrawlTally(fetched=110))
    assert pace.remaining_s(later) == 9.0
    pace = Pace(replace(JOB, bytes_max=100), lambda: now)
    pace.take(CrawlTally(transferred_bytes=120))
    now = 2.0
    pace.take(later := CrawlTally(transferred_bytes=130, fetched=110))
    assert pace.remaining_s(later) == 9.0
    endless = Pace(JOB, lambda: now)
    endless.take(later)
    assert endless.remaining_s(later) is None
