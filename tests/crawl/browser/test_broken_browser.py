"""H5 with a browser: pages, browsers and fetchers that die cost nothing but what a browser would have found."""

from __future__ import annotations

from pathlib import Path

from browser_processes import browsers, fetchers, gone, kill, mains, renderers
from browser_site import Reply, Request, crawled, job_of, needs_browser, serving

from holdfast.crawl.conductor import CrawlState

pytestmark = needs_browser

PAGE = b"<p>shown<img src=%s>"


def test_a_crash_costs_only_what_the_browser_would_have_found(tmp_path: Path) -> None:
    seen: list[int] = []

    def kill_renderers(_request: Request) -> Reply:
        seen.extend(browsers())
        kill(renderers())
        return Reply(status=404)

    def kill_browser(_request: Request) -> Reply:
        kill(mains())
        return Reply(status=404)

    pages = {
        "/crashes": Reply(PAGE % b"/kill-page"),
        "/ends": Reply(PAGE % b"/kill-browser"),
        "/after": Reply(PAGE % b"/picture.png"),
        "/kill-page": kill_renderers,
        "/kill-browser": kill_browser,
    }
    with serving(pages) as site, crawled(tmp_path, job_of(site, "/crashes", "/ends", "/after")) as crawl:
        assert crawl.body(site.url("/crashes")) == PAGE % b"/kill-page"
        assert "the page crashed" in crawl.note(site.url("/crashes"))
        assert crawl.body(site.url("/ends")) == PAGE % b"/kill-browser"
        assert "kept without" in crawl.note(site.url("/ends"))
        assert crawl.body(f"urn:text:{site.url('/after')}") == b"shown"
        assert crawl.summary.state is CrawlState.FINISHED
    assert seen
    assert gone(seen)


def test_a_fetcher_that_is_killed_leaves_no_browser_behind(tmp_path: Path) -> None:
    seen: list[int] = []

    def kill_fetcher(_request: Request) -> Reply:
        if not seen:
            seen.extend(browsers())
            kill(fetchers())
        return Reply(b"1", "text/plain")

    pages = {"/": Reply(b"<p id=told><script>fetch('/late').then(() => told.append('done'))</script>")}
    with serving(pages | {"/late": kill_fetcher}) as site, crawled(tmp_path, job_of(site)) as crawl:
        assert crawl.summary.state is CrawlState.FINISHED
        assert crawl.body(f"urn:text:{site.url('/')}") == b"done"
        assert crawl.body(site.url("/late")) == b"1"
        assert seen
        assert gone(seen)
        assert not browsers()
