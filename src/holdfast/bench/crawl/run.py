"""A whole run: the site is made once, then each crawler visits it, before a fresh server and in a fresh directory."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.bench.child import ChildFailed, run_apart
from holdfast.bench.corpus import Corpus
from holdfast.bench.crawl.crawlers import CRAWLERS, OURS
from holdfast.bench.crawl.figure import CrawlFigure, middle
from holdfast.bench.crawl.frontier import FrontierScale, measure_frontier
from holdfast.bench.crawl.server import Server, serving
from holdfast.bench.crawl.site import ALONE, START, Site, build
from holdfast.bench.crawl.tree import Manner, run_tree
from holdfast.bench.measure import Cost
from holdfast.bench.run import Missing, Progress
from holdfast.bench.subject import Unavailable, bytes_on_disk

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
        return next((each for each in self.figures if each.crawler == crawler), None)


def run_crawls(plan: CrawlPlan, directory: Path, progress: Progress) -> CrawlOutcome:
    """Carries the plan out below the directory. What fails is noted and the rest goes on."""
    return _Run(plan, directory, progress).run()


class _Run:
    """A run under way."""

    def __init__(self, plan: CrawlPlan, directory: Path, progress: Progress) -> None:
        self._plan = plan
        self._directory = directory
        self._progress = progress
        self._outcome = CrawlOutcome()
        self._found: dict[str, list[CrawlFigure]] = defaultdict(list)
        self._dead: set[str] = set()
        self._done = 0
        crawls = 1 + (1 + plan.repeats) * len(plan.crawlers) if plan.corpus is not None else 0
        self._total = crawls + len(plan.frontier)

    def run(self) -> CrawlOutcome:
        plan = self._plan
        if plan.corpus is not None:
            self._crawls(plan.corpus)
        for urls in plan.frontier:
            self._tell(f"a frontier of {urls:,} URLs")
            self._attempt_frontier(urls)
        self._progress(self._total, self._total, "done")
        return self._outcome

    def _tell(self, text: str) -> None:
        self._progress(self._done, self._total, text)
        self._done += 1

    # -- crawls -------------------------------------------------------------------------------------------------

    def _crawls(self, corpus: Corpus) -> None:
        self._tell("making the site")
        site = self._outcome.site = run_apart(build, corpus, self._directory / "site")
        starts: dict[str, float] = {}
        for name in self._plan.crawlers:
            self._tell(f"{name} · one page")
            starts[name] = self._attempt_start(name, site)
        for turn in range(self._plan.repeats):  # repeats are spread over the run: a slow minute hits one of each
            for name in self._plan.crawlers:
                self._tell(f"{name} · repeat {turn + 1}/{self._plan.repeats}")
                self._attempt(name, site)
        self._outcome.figures = [replace(middle(found), start_s=starts[name]) for name, found in self._found.items()]
        shutil.rmtree(site.directory, ignore_errors=True)

    def _attempt_start(self, name: str, site: Site) -> float:
        """What a crawl of a page without links takes; zero if it fails, which is noted."""
        try:
            return crawl(name, site, self._fresh(), ALONE)[0].seconds
        except (Unavailable, ChildFailed) as failure:
            self._note(name, failure)
            return 0.0

    def _attempt(self, name: str, site: Site) -> None:
        if name in self._dead:
            return
        try:
            self._found[name].append(crawl_site(name, site, self._fresh()))
        except (Unavailable, ChildFailed) as failure:
            self._note(name, failure)

    def _fresh(self) -> Path:
        directory = self._directory / "crawl"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        os.sync()  # what the crawler before left dirty is not this one's burden
        return directory

    def _note(self, name: str, failure: Exception) -> None:
        verb = "skipped" if isinstance(failure, Unavailable) else "failed"
        self._dead.add(name)
        self._found.pop(name, None)
        self._outcome.missing.append(Missing(name, "crawl", f"{verb}: {failure}"))

    # -- the frontier -------------------------------------------------------------------------------------------

    def _attempt_frontier(self, urls: int) -> None:
        directory = self._fresh()
        try:
            self._outcome.frontiers.append(run_apart(measure_frontier, directory / "frontier", urls))
        except ChildFailed as failure:
            self._outcome.missing.append(Missing(OURS, f"frontier of {urls:,} URLs", f"failed: {failure}"))
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
        site.pages,
        len(site.urls),
        len(server.requests),
        site.content_bytes,
        cost,
        allocated,
        apparent,
        server.cpu_s,
    )


def crawl(name: str, site: Site, directory: Path, path: str) -> tuple[Cost, Server]:
    """One crawl from the path, before a server of its own; the directory is empty."""
    crawler = CRAWLERS[name]
    kept, scratch = directory / "kept", directory / "nginx"
    kept.mkdir()
    scratch.mkdir()
    crawler.prepare(kept)
    manner = Manner(kept, good=crawler.good, idle_s=_IDLE_S if crawler.hangs else None)
    with serving(site.directory, scratch) as server:
        ended = run_tree(crawler.command(server.url + path, kept), manner)
    cost = ended.cost
    if ended.was_idle and server.requests:
        cost = replace(cost, seconds=max(request.time for request in server.requests) - ended.start)
    return cost, server
