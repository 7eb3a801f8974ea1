"""What pages ask for, as it goes out, and what comes back, as Chromium takes it."""

from __future__ import annotations

import asyncio
import gzip
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import uvloop
from browser_site import Reply, Site, serving

from holdfast.crawl.browser.network import CONTENT_BYTES_MAX, SHOWN_BYTES_MAX, BrowserRequest, answer_of, is_page
from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.job.job import CrawlJob, FetchSettings
from holdfast.crawl.processes.messages import Fetched, FetchJob, FetchOutcome

PAGE = FetchJob(7, "http://a.test/", "a.test", depth=2, delay=3.0)
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def asked(url: str = "http://a.test/x", method: str = "GET", **changes: Any) -> BrowserRequest:
    headers = {"Referer": PAGE.url, "User-Agent": "Chrome", "Range": "bytes=0-", "sec-ch-ua": "x", "X-Own": "1"}
    content = changes.pop("content", b"")
    request = {"url": url, "method": method, "headers": headers | changes.pop("headers", {})}
    if content:
        request["postDataEntries"] = [{"bytes": b64encode(content).decode()}]
    return BrowserRequest.of({"requestId": "1", "request": request, "frameId": "f", "resourceType": "XHR", **changes})


def answered(head: bytes, body: bytes = b"", **changes: Any) -> Fetched:
    return Fetched(PAGE, FetchOutcome.OK, head=head + b"\r\n", body=body, size=len(body))._replace(**changes)


class TestAsked:
    def test_only_what_the_page_wants_is_sent(self) -> None:
        job = asked(headers={"Cookie": "a=1"}).job(PAGE, delay=1.0, cookies=False)
        assert job.fields == (("X-Own", "1"),)
        assert (job.id, job.via, job.depth, job.method) == (7, PAGE.url, 2, "")

    def test_cookies_go_along_where_the_crawl_has_any(self) -> None:
        job = asked(headers={"Cookie": "a=1"}).job(PAGE, delay=1.0, cookies=True)
        assert ("Cookie", "a=1") in job.fields

    def test_each_host_is_owed_its_own_delay(self) -> None:
        assert asked().job(PAGE, delay=1.0, cookies=True).delay == 3.0
        assert asked("http://b.test/").job(PAGE, delay=1.0, cookies=True).delay == 1.0

    def test_streams_and_what_is_not_of_the_web_are_not_fetched(self) -> None:
        assert asked().is_fetchable
        assert not asked("ftp://a.test/").is_fetchable
        assert not asked(headers={"Accept": "text/event-stream"}).is_fetchable
        assert not asked(method="POST", content=bytes(CONTENT_BYTES_MAX + 1)).is_fetchable


class TestAnswered:
    def test_the_browser_gets_it_decoded(self) -> None:
        head = HTML + b"Content-Encoding: gzip\r\nContent-Length: 3\r\nX-Odd: \xff\r\n folded\r\n"
        answer = answer_of(answered(head, gzip.compress(b"<p>")))
        assert answer is not None
        assert b64decode(answer["body"]) == b"<p>"
        assert b64decode(answer["binaryResponseHeaders"]) == b"Content-Type: text/html\0X-Odd: \xff folded"

    def test_what_does_not_fit_is_not_shown(self, tmp_path: Path) -> None:
        bomb = gzip.compress(bytes(SHOWN_BYTES_MAX + 1))
        assert answer_of(answered(HTML + b"Content-Encoding: gzip\r\n", bomb)) is None
        assert answer_of(answered(HTML, size=SHOWN_BYTES_MAX + 1)) is None
        assert answer_of(answered(b"HTTP/1.1 304 Not Modified\r\n")) is None
        assert answer_of(Fetched(PAGE, FetchOutcome.DNS)) is None
        (tmp_path / "spooled").write_bytes(b"large")
        answer = answer_of(answered(HTML, spool=str(tmp_path / "spooled"), size=5))
        assert answer is not None
        assert b64decode(answer["body"]) == b"large"

    def test_only_pages_are_shown(self) -> None:
        assert is_page(answered(HTML, b"<p>"))
        assert not is_page(answered(HTML))
        assert not is_page(answered(HTML + b"Content-Disposition: Attachment\r\n", b"<p>"))
        assert not is_page(answered(HTML.replace(b"200", b"404"), b"<p>"))
        assert not is_page(answered(HTML, b"<p>", truncated="length"))
        assert not is_page(answered(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n", b"<p>"))
        assert not is_page(Fetched(PAGE, FetchOutcome.TIMEOUT))


def fetch_all(site: Site, directory: Path, *jobs: FetchJob) -> list[Fetched]:
    """One after the other, so that all use one handle."""

    async def run() -> list[Fetched]:
        settings = FetchSettings(delay=0.0, private=True, headers=(("X-Crawl", "yes"),))
        fetcher = Fetcher(CrawlJob(fetch=settings), directory)
        try:
            return [await fetcher.fetch(job, polite=False) for job in jobs]
        finally:
            fetcher.close()
            await asyncio.sleep(0)

    return uvloop.run(run())


class TestFetching:
    def test_other_methods_are_sent_as_the_page_wants(self, tmp_path: Path) -> None:
        with serving({"/": Reply(b"answer", headers={"Set-Cookie": "ours=1"})}) as site:
            plain = FetchJob(1, site.url(), f"127.0.0.1:{site.port}")
            large = b"x" * (2 << 20)  # for which libcurl would wait to be told to go on
            jobs = (
                plain,
                plain._replace(method="POST", content=b"a=1", fields=(("Cookie", "page=2"), ("X-Crawl", "no"))),
                plain._replace(method="PUT", content=large, fields=(("Content-Type", "text/plain"),)),
                plain._replace(method="OPTIONS"),
                plain._replace(method="HEAD"),
                plain._replace(method="POST"),
                plain,
            )
            fetched = fetch_all(site, tmp_path, *jobs)
            seen = site.requests
        assert [each.outcome for each in fetched] == [FetchOutcome.OK] * len(jobs)
        assert [each.method for each in seen] == ["GET", "POST", "PUT", "OPTIONS", "HEAD", "POST", "GET"]
        assert [each.body for each in seen] == [b"", b"a=1", large, b"", b"", b"", b""]
        assert seen[1].headers["cookie"] == "page=2; ours=1"
        assert {each.headers["x-crawl"] for each in seen} == {"yes"}
        assert "content-type" not in seen[1].headers
        assert seen[2].headers["content-type"] == "text/plain"
        assert "expect" not in seen[2].headers
        assert seen[5].headers["content-length"] == "0"
        assert seen[6].headers == {**seen[0].headers, "cookie": "ours=1"}

    def test_what_is_recorded_is_what_was_sent(self, tmp_path: Path) -> None:
        with serving({"/": Reply(b"answer")}) as site:
            job = FetchJob(1, site.url(), "", method="POST", content=b"a=1", fields=(("Accept", "x/y"),))
            (fetched,) = fetch_all(site, tmp_path, job)
            (seen,) = site.requests
        head, _, body = fetched.request.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        assert first == "POST / HTTP/1.1"
        assert {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines} == seen.headers
        assert body == seen.body == b"a=1"
