"""What goes wrong out there, and must not cost more than it has to (H5, P)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from crawl_runs import NAME, crawled, job_for, log_rows, make_archive
from crawl_sites import LittleWeb, captures_of, linking, page
from hostile_web.exchange import Answer, Request, plain

import holdfast
from holdfast.crawl import Crawl
from holdfast.crawl.frontier import HostRow
from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.job.job import CrawlJob, FetchSettings, ScopeKind
from holdfast.crawl.parse.records import Recorder
from holdfast.crawl.parse.worker import ParseWorker
from holdfast.crawl.processes.feeder import Feeder, Flight
from holdfast.crawl.processes.messages import Fetched, FetchJob, FetchKind, FetchOutcome, ParseWorkerStart

Handling = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_archive(tmp_path / "archive")


@contextmanager
def serving(handle: Handling, port: int = 0) -> Iterator[int]:
    """A server whose every answer is written by `handle`, byte for byte if it likes."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.close_connection = True
            handle(self)

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def answer(handler: BaseHTTPRequestHandler, status: int, body: bytes, length: int | None = None, **fields: str) -> None:
    handler.send_response(status)
    for name, value in fields.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Type", "text/html")
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)


def job(port: int, **fetch: object) -> CrawlJob:
    settings = replace(FetchSettings(delay=0.0, outage_s=0.0), **fetch)  # type: ignore[arg-type]
    return CrawlJob(
        seeds=(f"http://127.0.0.1:{port}/",), name=NAME, scope=ScopeKind.HOST, sitemap=False, fetch=settings
    )


# -- servers that go away ----------------------------------------------------------------------------------------------


def test_a_server_that_is_away_for_a_while_loses_nothing(archive: Path) -> None:
    """Its queue is kept, and it is asked now and then whether it is back."""
    pages = 60

    def site(handler: BaseHTTPRequestHandler) -> None:
        known = handler.path in ["/", *(f"/{number}" for number in range(pages))]
        answer(handler, 200 if known else 404, linking(*(f"/{number}" for number in range(pages))).encode())

    first = serving(site)
    port = first.__enter__()
    later: list[object] = []

    def on_progress(tally: CrawlTally) -> None:
        if not later and tally.fetched > 10:
            first.__exit__(None, None, None)
            later.append(None)
        elif len(later) == 1 and tally.retries >= 5:
            second = serving(site, port)
            second.__enter__()
            later.append(second)

    # One at a time, with a little delay, so that it is seen between fetches.
    wanted = job(port, delay=0.02, delay_max=0.5, outage_s=600.0, retries=1, connect_timeout_s=2.0)
    with holdfast.open(archive) as opened:
        summary = Crawl(opened, wanted).run(on_progress)
    later[1].__exit__(None, None, None)  # type: ignore[attr-defined]
    assert (summary.tally.fetched, summary.tally.errors) == (pages + 1, 0)


def test_how_long_a_host_is_waited_for() -> None:
    never = HostRow(queued=5, failures=9)
    assert not never.is_lost(600.0)
    assert never._replace(failures=10).is_lost(600.0)
    answered = HostRow(queued=5, fetched=7, failures=3, failing_since=10**12)
    assert answered.is_down
    assert not answered.is_lost(600.0)
    assert answered._replace(failing_since=1).is_lost(600.0)


def test_hosts_that_ask_for_a_long_pause_do_not_keep_others_waiting(archive: Path) -> None:
    """More of them than the crawl looks ahead."""
    busy = [f"busy{number}.test" for number in range(24)]
    fine = [f"fine{number}.test" for number in range(4)]
    pause = Answer(429, (("Retry-After", "86400"),))
    pages: dict[str, Answer | Callable[[Request], Answer]] = {
        f"{host}/{each}": pause for host in busy for each in "abc"
    }
    pages |= {f"{host}/{each}": page(f"{host} {each}") for host in fine for each in "abc"}
    web = LittleWeb({"/": page("")} | pages)
    with web.serving():
        urls = [web.url(f"{host}/{each}") for each in "abc" for host in (*busy, *fine)]
        web.set("/", page(linking(*urls)))
        done = {web.url(f"{host}/{each}") for host in fine for each in "abc"}
        wanted = replace(job_for(web, sitemap=False, workers=2), time_s=1000.0)  # type: ignore[arg-type]

        def stopping() -> bool:
            return done <= {row["url"] for row in log_rows(archive) if row.get("status") == 200}

        with holdfast.open(archive) as opened:
            summary = Crawl(opened, wanted).run(stopping=stopping)
        log = web.log()
    assert summary.state == "stopped"  # not by its time
    asked = [entry for entry in log if entry.host.startswith("busy") and entry.target != "/robots.txt"]
    assert len(asked) == len(busy)  # once each


# -- answers that are cut off ------------------------------------------------------------------------------------------


def test_what_was_cut_off_is_fetched_in_full_at_the_next_visit(archive: Path) -> None:
    """A server may say 'not modified' of the whole, never of what came of it."""
    cut = True

    def site(handler: BaseHTTPRequestHandler) -> None:
        if handler.path != "/":
            answer(handler, 404, b"")
        elif handler.headers.get("If-None-Match"):
            answer(handler, 304, b"", ETag='"1"')
        elif cut:
            answer(handler, 200, b"the beginning", 1000, ETag='"1"')
        else:
            answer(handler, 200, b"the beginning and the end", ETag='"1"')

    with serving(site) as port:
        first = crawled(archive, job(port))
        assert first.tally.truncated == 1
        cut = False
        crawled(archive, job(port))
        with holdfast.open(archive, read_only=True) as opened:
            assert opened.get(f"http://127.0.0.1:{port}/").payload() == b"the beginning and the end"


def test_rules_that_are_cut_off_are_no_permission(archive: Path) -> None:
    asked: list[str] = []

    def site(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        if handler.path == "/robots.txt":
            answer(handler, 200, b"User-agent: *\nAllow: /\n", 1000)
        else:
            answer(handler, 200, b"")

    with serving(site) as port:
        summary = crawled(archive, job(port, retries=1))
    assert set(asked) == {"/robots.txt"}
    assert (summary.tally.fetched, summary.tally.errors) == (0, 1)


def test_an_unasked_304_is_no_revisit(archive: Path) -> None:
    with serving(lambda handler: answer(handler, 304 if handler.path == "/" else 404, b"")) as port:
        crawled(archive, job(port))
        (capture,) = captures_of(archive, f"http://127.0.0.1:{port}/")
    assert (capture.type, capture.status) == ("response", "304")


# -- rules and sitemaps without measure --------------------------------------------------------------------------------


def test_a_delay_without_measure_is_a_refusal(archive: Path) -> None:
    web = LittleWeb({"/": page("x"), "/robots.txt": plain(200, "User-agent: *\nCrawl-delay: 1000000000\n")})
    with web.serving():
        summary = crawled(archive, job_for(web, sitemap=False))  # type: ignore[arg-type]
    assert summary.tally.refused == 1
    (row,) = [row for row in log_rows(archive) if row["event"] == "refused"]
    assert row["note"] == "robots.txt asks for 1,000,000,000 s between two fetches"


def test_sitemaps_that_name_sitemaps_end(archive: Path) -> None:
    def sitemap(number: int) -> Answer:
        inner = f"<sitemap><loc>/map{number + 1}.xml</loc></sitemap>"
        return plain(200, f"<sitemapindex>{inner}</sitemapindex>", kind="application/xml")

    web = LittleWeb({"/": page("x")} | {f"/map{number}.xml": sitemap(number) for number in range(20)})
    web.set("/robots.txt", plain(200, "Sitemap: /map0.xml\n"))
    with web.serving():
        crawled(archive, job_for(web))  # type: ignore[arg-type]
        assert [name for name in web.asked() if "map" in name] == [f"/map{number}.xml" for number in range(4)]


def test_thousands_of_forbidden_urls_are_settled(archive: Path) -> None:
    web = LittleWeb({"/": page(linking(*(f"/no/{number}" for number in range(2500))))})
    web.set("/robots.txt", plain(200, "User-agent: *\nDisallow: /no/\n"))
    with web.serving():
        summary = crawled(archive, job_for(web, sitemap=False))  # type: ignore[arg-type]
    assert (summary.tally.refused, summary.tally.fetched) == (2500, 1)


# -- readers that fail -------------------------------------------------------------------------------------------------


def fetched(kind: str = FetchKind.PAGE) -> Fetched:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    return Fetched(
        FetchJob(1, "http://a.test/", "a.test", kind), FetchOutcome.OK, head=head, body=b"<a href=/b>", size=11
    )


def test_a_page_that_cannot_be_recorded_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("never seen before")

    reader = ParseWorker(ParseWorkerStart(CrawlJob(), "main", "sha256"))
    monkeypatch.setattr(Recorder, "payload", broken)
    reading = reader.read(fetched())
    assert (reading.outcome, reading.detail) == (FetchOutcome.CRASHED, "ZeroDivisionError: never seen before")


@pytest.mark.parametrize(
    ("kind", "outcome"), [(FetchKind.PAGE, FetchOutcome.OK), (FetchKind.ROBOTS, FetchOutcome.PROTOCOL)]
)
def test_a_page_that_cannot_be_parsed_is_kept(monkeypatch: pytest.MonkeyPatch, kind: str, outcome: str) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("never seen before")

    reader = ParseWorker(ParseWorkerStart(CrawlJob(), "main", "sha256"))
    monkeypatch.setattr(ParseWorker, "_parsed", broken)
    reading = reader.read(fetched(kind))
    assert reading.outcome == outcome
    assert "never seen before" in reading.detail
    assert reading.drafts


def test_a_page_over_which_readers_die_is_given_up() -> None:
    """First it is read again, then it is not looked into, then it is left."""
    feeder = object.__new__(Feeder)
    feeder._suspects, feeder.flights = Counter(), {}
    feeder.flights[1] = Flight(FetchJob(1, "http://a.test/", "a.test"), b"key", "a.test")
    assert [feeder.suspect(1) for _ in range(3)] == [False, False, True]
    assert feeder.flights[1].job.no_links
