"""The set of what is captured is the set that is within reach: whatever the workers, scope and depth (W17, H5)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from crawl_pages import Answer, links, serving
from crawl_runs import LONG_S, beside_the_web, captured, crawled, frontier_state, job_for, log_rows, make_archive
from hostile_web import Served, Web, checks
from hostile_web.survey import parsed, target

import holdfast
from holdfast.catalog import CaptureQuery
from holdfast.crawl.job.job import CrawlJob, FetchSettings, ScopeKind
from holdfast.formats.html.links.references import Hop

SMALL = 250
LARGE = 2000


def web_of(seed: int, pages: int, **more: float) -> Web:
    """All kinds of pages, links and hosts, but nobody who asks for patience."""
    return Web(seed=seed, pages=pages, pauses=0, crawl_delay_s=0.0, robots_bytes=600_000, words=8, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """One web for many small crawls; failures that pass have passed for the first of them."""
    with web_of(11, SMALL, flaky=0).serving() as served:
        yield served


def check_all(path: Path, served: Served, job: CrawlJob, wanted: set[str]) -> None:
    """Crawls, and compares with what is within reach, to the last URL."""
    served.clear_log()
    summary = crawled(path, job)
    found = captured(path)
    assert wanted - found == set()
    assert found - wanted - beside_the_web(served.web) == set()
    assert summary.state == "finished"
    log = served.log()
    assert checks.repeated(log) == []
    assert checks.disallowed(log, served.web) == []
    totals, rows = frontier_state(path)
    assert totals.queued == 0
    assert {row.state for row in rows} <= {"done", "refused"}
    assert {row.url for row in rows if row.state == "done"} == found - served.web.robots_urls


# -- workers, readers, seeds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "readers"), [(1, 1), (8, 2), (64, 1), (64, 2)])
def test_the_set_does_not_depend_on_workers_and_readers(
    tmp_path: Path, served: Served, workers: int, readers: int
) -> None:
    """W17: a page is captured because it can be reached, not because of who came first."""
    job = job_for(served, workers=workers, readers=readers, per_host=1 + workers // 8, retries=1)
    check_all(make_archive(tmp_path / "archive"), served, job, served.web.reachable())


def test_thousands_of_pages_over_many_hosts(tmp_path: Path) -> None:
    """W17, H5: some pages fail before they are well; each has the status that it should have, in the end."""
    path = make_archive(tmp_path / "archive")
    with web_of(2, LARGE, hosts=9).serving() as served:
        check_all(path, served, job_for(served, workers=64, per_host=4), served.web.reachable())
        with holdfast.open(path, read_only=True) as archive:
            rows = {row.capture.url: row.capture.status for row in archive.search(CaptureQuery(url="*"))}
        wrong = {url: rows[url] for url in served.web.reachable() if rows[url] != str(served.web.expected_status(url))}
        assert wrong == {}
        assert len(rows) > LARGE
        assert sum(row.get("result") == "retry" for row in log_rows(path, "fetch")) > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("workers", "readers"), [(1, 1), (8, 1), (8, 2), (64, 2), (256, 3)])
def test_tens_of_thousands_of_pages(tmp_path: Path, seed: int, workers: int, readers: int) -> None:
    """W17, H5: the same for webs that are larger than any queue that is held in memory."""
    with web_of(100 + seed, 20_000, hosts=40).serving() as served:
        job = job_for(served, workers=workers, readers=readers, per_host=4)
        check_all(make_archive(tmp_path / "archive"), served, job, served.web.reachable())


# -- scopes and sitemaps -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [ScopeKind.PAGE, ScopeKind.PREFIX, ScopeKind.HOST, ScopeKind.DOMAIN])
@pytest.mark.parametrize("sitemap", [True, False])
def test_scopes(tmp_path: Path, served: Served, scope: ScopeKind, sitemap: bool) -> None:
    """W17: what lies outside is left out, but for what the pages inside need."""
    roots = [served.web.graph.page_url(0)]
    if scope is ScopeKind.PREFIX:
        roots = [url for url in sorted(served.web.reachable()) if "/alpha.test" in url and "/notes/p" in url][:1]
    wanted = served.web.reachable(scope=scope, roots=roots, sitemap=sitemap)
    assert 0 < len(wanted) < len(served.web.reachable())
    job = job_for(served, scope=scope, seeds=tuple(roots), sitemap=sitemap, retries=1)
    check_all(make_archive(tmp_path / "archive"), served, job, wanted)


def test_a_link_that_was_outside_is_inside_when_the_scope_has_grown(tmp_path: Path) -> None:
    """W17: where a seed redirects to belongs to the crawl, also what was linked to before that was known."""
    known = threading.Event()
    other = ""

    def first(path: str) -> Answer:
        if path == "/second":  # a seed
            known.wait(LONG_S)
            return f"{other}/"
        if path == "/picture":
            return "/after"  # asked for when the links of the first page were settled
        if path == "/after":
            known.set()
        return links(f"{other}/page") + b'<img src="/picture">' if path == "/" else None

    with serving(lambda path: links("/page")) as theirs, serving(first) as ours:
        other = theirs.url
        fetch = FetchSettings(delay=0.0, per_host=4)
        seeds = (f"{ours.url}/", f"{ours.url}/second")
        job = CrawlJob(seeds, "web", scope=ScopeKind.HOST, sitemap=False, readers=1, fetch=fetch)
        crawled(make_archive(tmp_path / "archive"), job)
        assert set(theirs.asked) == {"/robots.txt", "/", "/page"}


def test_without_sitemaps_and_rules(tmp_path: Path, served: Served) -> None:
    """W17: `--no-sitemap` and `--robots ignore` change what is within reach, and nothing else."""
    wanted = served.web.reachable(robots=False, sitemap=False)
    assert wanted - served.web.reachable()
    path = make_archive(tmp_path / "archive")
    crawled(path, job_for(served, robots=False, sitemap=False, retries=1))
    assert captured(path) == wanted


# -- depth -------------------------------------------------------------------------------------------------------------


def within(web: Web, depth: int, *, sitemap: bool) -> set[str]:
    """What lies so many links from the seeds; requisites and redirects are as far as what they belong to."""
    near: dict[str, int] = {}
    waiting = [(url, 0) for url in web.seeds]
    waiting += [(url, 1) for url in listed(web) if sitemap]
    while waiting:
        url, away = waiting.pop()
        if away > depth or near.get(url, depth + 1) <= away or not web.allowed(url):
            continue
        near[url] = away
        parts = parsed(url)
        thing = web.graph.at(parts.host, target(parts))
        for edge in web.graph.edges(thing) if thing is not None else ():
            waiting.append((edge.url, away if edge.hop in (Hop.EMBED, Hop.REDIRECT) else away + 1))
    return set(near)


def listed(web: Web) -> list[str]:
    """What sitemaps name: some pages of the first host, and the home pages of all, which are the first pages."""
    graph = web.graph
    pages = [number for number in range(graph.pages) if number < len(graph.hosts) or graph.dealt(number) == "sitemap"]
    return [graph.page_url(number) for number in pages]


@pytest.mark.parametrize("depth", [0, 1, 2, 4])
@pytest.mark.parametrize(("workers", "readers"), [(1, 1), (64, 2)])
def test_depth_is_exact(tmp_path: Path, served: Served, depth: int, workers: int, readers: int) -> None:
    """W17: whichever way to a page was found first, the shortest decides."""
    wanted = within(served.web, depth, sitemap=False)
    job = job_for(served, depth=depth, workers=workers, readers=readers, sitemap=False, per_host=8, retries=1)
    check_all(make_archive(tmp_path / "archive"), served, job, wanted)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))])
def test_depth_with_pages_that_are_slow_and_near(tmp_path: Path, seed: int) -> None:
    """W17: long ways are found first where the short ones fail for a while."""
    with web_of(30 + seed, 120, flaky=3).serving() as served:
        wanted = within(served.web, 3, sitemap=True)
        assert wanted < served.web.reachable()
        job = job_for(served, depth=3, workers=32, readers=2, per_host=4)
        check_all(make_archive(tmp_path / "archive"), served, job, wanted)


def test_what_a_redirect_leads_to_comes_nearer_with_it(tmp_path: Path) -> None:
    """W17: the short way to a redirect is found when its target was fetched long ago."""
    far = threading.Event()
    ways: dict[str, Answer] = {
        "/": links("/far", "/slow"),
        "/far": links("/farther"),
        "/farther": links("/moved"),
        "/moved": "/target",
        "/target": links("/last"),
        "/last": links("/beyond"),
        "/slow": links("/moved"),
    }

    def answer(path: str) -> Answer:
        if path == "/slow":
            far.wait(LONG_S)
        if path == "/again":
            far.set()
        return ways.get(path, b"")

    ways["/target"] = links("/last") + b'<img src="/picture">'
    ways["/picture"] = "/again"  # asked for after the target was settled
    path = make_archive(tmp_path / "archive")
    with serving(answer) as pages:
        fetch = FetchSettings(delay=0.0, per_host=4)
        crawled(path, CrawlJob((f"{pages.url}/",), "web", depth=3, sitemap=False, fetch=fetch))
        asked = set(pages.asked) - {"/robots.txt"}
    assert asked == {*ways, "/again"}  # and not '/beyond'


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 64])
def test_a_limit_is_exact_and_the_next_run_goes_on(tmp_path: Path, served: Served, workers: int) -> None:
    """W17, H5: N URLs and no more; then N more; then the rest."""
    path = make_archive(tmp_path / "archive")
    beside = beside_the_web(served.web)
    served.clear_log()
    for run in (1, 2):
        summary = crawled(path, job_for(served, workers=workers, limit=70, per_host=4, retries=1))
        assert (summary.state, summary.tally.fetched) == ("limit", run * 70)
        assert len(captured(path) - beside) == run * 70
    assert crawled(path, job_for(served, workers=workers, retries=1)).state == "finished"
    assert captured(path) - beside == served.web.reachable()
    assert checks.repeated(entry for entry in served.log() if entry.path != "/robots.txt") == []
