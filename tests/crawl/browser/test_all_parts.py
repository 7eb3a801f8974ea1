"""Every response that a page got in a browser is in the archive when the crawl ends, however late it comes."""

from __future__ import annotations

import threading
from pathlib import Path

from browser_site import Reply, Request, crawled, job_of, needs_browser, serving

import holdfast
from holdfast.archive.create import init
from holdfast.crawl.crawl import Crawl
from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.job.job import ScopeKind

pytestmark = needs_browser

LARGE = b"".join(b'<a href="/%d">x</a>\n' % (number % 50) for number in range(100_000))
ITEMS = [f"/item/{number}" for number in range(8)]
MANY = f"""<script>
(async () => {{ for (const each of {["/large", *ITEMS]}) await fetch(each) }})()
</script>""".encode()
LATE_S = 60.0  # after which a test that fails ends


def test_parts_that_are_parsed_after_their_page_are_kept(tmp_path: Path) -> None:
    """One of several parse workers has a part for long, while the others are done with the page."""
    items = {item: Reply(item.encode(), "text/plain") for item in ITEMS}
    pages = {"/": Reply(MANY), "/large": Reply(LARGE), **items}
    with serving(pages) as site, crawled(tmp_path, job_of(site, readers=2)) as crawl:
        assert [path for path in ("/", "/large", *ITEMS) if not crawl.has(site.url(path))] == []


def test_parts_that_come_after_their_page_are_kept_and_their_links_followed(tmp_path: Path) -> None:
    is_page_done = threading.Event()

    def late(_: Request) -> Reply:
        is_page_done.wait(LATE_S)
        return Reply(b"@import '/linked.css'", "text/css")

    def on_progress(tally: CrawlTally) -> None:
        if tally.pages:
            is_page_done.set()

    pages = {
        "/": Reply(b"<script>fetch('/la' + 'te.css')</script>"),
        "/late.css": late,
        "/linked.css": Reply(b"a{}", "text/css"),
    }
    init(tmp_path / "archive")
    with serving(pages) as site, holdfast.open(tmp_path / "archive") as archive:
        job = job_of(site, scope=ScopeKind.HOST, browser={"page_timeout_s": 3.0})
        Crawl(archive, job).run(on_progress)
        is_page_done.set()
        for path in ("/", "/late.css", "/linked.css"):
            assert archive.get(site.url(path)).entry.status == "200"
