"""A whole run: the site is made once, then each crawler visits it, before a fresh server and in a fresh directory."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.crawl.crawlers import CRAWLERS
from benchmarks.crawl.figure import CrawlFigure
from benchmarks.crawl.frontier import FrontierScale, measure_frontier
from benchmarks.crawl.server import Server, serving
from benchmarks.crawl.site import ALONE, START, Site, build
from benchmarks.crawl.tree import Manner, run_tree
from benchmarks.harness.corpus import Corpus
from benchmarks.harness.figure import OURS
from benchmarks.harness.measure import Cost, bytes_on_disk
from benchmarks.harness.process import ChildFailed, Unavailable, run_apart
from benchmarks.harness.run import Missing, Progress, Runner, Step

_IDLE_S = 3.0  # after which a crawler that is known to hang is ended


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    """What to measure."""

    corpus: Corpus | None
    crawlers: tuple[str, ...] = tuple(CRAWLERS)
    repeats: int = 3
    frontier: tuple[int, ...] = ()  # numbers of URLs in a frontier of ours, for each a measurement


@dataclass(slots=True)
class CrawlOutcome:
    """All that a run found."""

    site: Site | None = None
    figures: list[CrawlFigure] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    frontiers: list[FrontierScale] = field(default_factory=list)

    def find(self, crawler: str) -> CrawlFigure | None:
        return next((each for each in self.figures if each.subject == crawler), None)


def run_crawls(plan: CrawlPlan, directory: Path, progress: Progress) -> CrawlOutcome:
    """Carries the plan out below the directory. What fails is noted and the rest goes on."""
    return _Run(plan, directory, progress).run()


class _Run:
    """A run under way."""

    def __init__(self, plan: CrawlPlan, directory: Path, progress: Progress) -> None:
        self._plan = plan
        self._directory = directory
        self._outcome = CrawlOutcome()
        crawls = 1 + (1 + plan.repeats) * len(plan.crawlers) if plan.corpus is not None else 0
        self._runner = Runner[CrawlFigure](plan.repeats, crawls + len(plan.frontier), progress)

    def run(self) -> CrawlOutcome:
        plan, runner = self._plan, self._runner
        if plan.corpus is not None:
            self._crawls(plan.corpus)
        for urls in plan.frontier:
            runner.announce(f"a frontier of {urls:,} URLs")
            self._attempt_frontier(urls)
        self._outcome.missing = runner.missing
        runner.finish()
        return self._outcome

    def _crawls(self, corpus: Corpus) -> None:
        runner = self._runner
        runner.announce("making the site")
        site = self._outcome.site = run_apart(build, corpus, self._directory / "site")
        starts: dict[str, float] = {}
        for name in self._plan.crawlers:
            runner.announce(f"{name} · one page")
            starts[name] = self._attempt_start(name, site)
        kept = self._directory / "crawl"
        runner.repeat(
            [
                Step(name, "crawl", crawl_site, (name, site, kept), apart=False, cleans=(kept,))
                for name in self._plan.crawlers
            ]
        )
        failed = {each.subject for each in runner.missing}
        self._outcome.figures = [
            replace(each, start_s=starts[each.subject]) for each in runner.figures() if each.subject not in failed
        ]
        shutil.rmtree(site.directory, ignore_errors=True)

    def _attempt_start(self, name: str, site: Site) -> float:
        """What a crawl of a page without links takes; zero if it fails, which is noted."""
        directory = self._directory / "start"
        try:
            return crawl(name, site, directory, ALONE)[0].seconds
        except (Unavailable, ChildFailed) as failure:
            self._runner.note(name, "crawl", failure)
            return 0.0
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _attempt_frontier(self, urls: int) -> None:
        directory = self._directory / "frontier"
        try:
            self._outcome.frontiers.append(run_apart(measure_frontier, directory / "frontier", urls))
        except ChildFailed as failure:
            self._runner.note(OURS, f"frontier of {urls:,} URLs", failure)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def crawl_site(name: str, site: Site, directory: Path) -> CrawlFigure:
    """Crawls the whole site. Raises ChildFailed if not all of it was fetched, Unavailable if there is no such thing."""
    cost, server = crawl(name, site, directory, START)
    absent = site.urls - server.fetched()
    if absent:
        raise ChildFailed(f"{len(absent):,} of {len(site.urls):,} URLs were not fetched, such as '{min(absent)}'")
    allocated, apparent = bytes_on_disk(directory / "kept")
    return CrawlFigure(
        name,
        "crawl",
        site.pages,
        cost,
        content_bytes=site.content_bytes,
        disk_bytes=allocated,
        apparent_bytes=apparent,
        urls=len(site.urls),
        requests=len(server.requests),
        server_cpu_s=server.cpu_s,
    )


def crawl(name: str, site: Site, directory: Path, path: str) -> tuple[Cost, Server]:
    """One crawl from the path, before a server of its own, in a new directory."""
    crawler = CRAWLERS[name]
    kept, scratch = directory / "kept", directory / "nginx"
    kept.mkdir(parents=True)
    scratch.mkdir()
    crawler.prepare(kept)
    manner = Manner(kept, good=crawler.good, idle_s=_IDLE_S if crawler.hangs else None)
    with serving(site.directory, scratch) as server:
        ended = run_tree(crawler.command(server.url + path, kept), manner)
    cost = ended.cost
    if ended.was_idle and server.requests:
        cost = replace(cost, seconds=max(request.time for request in server.requests) - ended.start)
    return cost, server
