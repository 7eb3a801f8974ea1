"""A whole run: the files are made once, every server gets them, all are started, and measured in turns."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.archive.crawl import Crawls, build
from benchmarks.harness.corpus import Corpus
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.process import ChildFailed, Unavailable, run_apart
from benchmarks.harness.run import Missing, Progress, Runner
from benchmarks.replay.checking import check_sample
from benchmarks.replay.figure import Answered, Memory, ReplayFigure, Soak, middle
from benchmarks.replay.running import Running, free_ports, running
from benchmarks.replay.servers import SERVERS, Place
from benchmarks.replay.workload import Page, ReplayWorkload, mixed_paths, pages_of, paths_of
from benchmarks.replay.wrk import Load, ask, find_wrk

SOAK_PARTS = 10
_WARM_UP_S = 1.0
_CONTROLS = (ReplayWorkload.CDX, ReplayWorkload.TIMEMAP)  # what the origin without archived pages answers


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What to measure."""

    corpus: Corpus
    servers: tuple[str, ...] = tuple(SERVERS)
    workloads: tuple[ReplayWorkload, ...] = tuple(ReplayWorkload)
    repeats: int = 3
    seconds: float = 4.0  # of one measurement
    pywb: str = ""  # the interpreter that has it
    requests: int = 0  # instead of all this: Holdfast alone, asked so many times


@dataclass(slots=True)
class ReplayOutcome:
    """All that a run found."""

    crawls: Crawls | None = None
    figures: list[ReplayFigure] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    soak: Soak | None = None

    def find(self, server: str, workload: ReplayWorkload) -> ReplayFigure | None:
        return next((each for each in self.figures if (each.server, each.workload) == (server, workload)), None)

    def best_peer(self, workload: ReplayWorkload) -> ReplayFigure | None:
        """The faster form of pywb."""
        peers = [each for each in self.figures if each.workload == workload and each.server != OURS]
        return max(peers, key=lambda each: each.per_s, default=None)


def run_replay(plan: ReplayPlan, directory: Path, progress: Progress) -> ReplayOutcome:
    """Carries the plan out below the directory. What fails is noted and the rest goes on. Raises Unavailable."""
    find_wrk()
    return _Run(plan, directory, progress).run()


class _Run:
    """A run under way."""

    def __init__(self, plan: ReplayPlan, directory: Path, progress: Progress) -> None:
        self._plan = plan
        self._directory = directory
        self._outcome = ReplayOutcome()
        self._pages: list[Page] = []
        self._found: dict[tuple[str, ReplayWorkload], list[ReplayFigure]] = defaultdict(list)
        self._asked: dict[Path, int] = defaultdict(int)
        rounds = (plan.repeats + 1) * len(plan.workloads) * len(plan.servers)
        total = 2 + SOAK_PARTS if plan.requests else 1 + len(plan.servers) + rounds
        self._runner = Runner[Figure](plan.repeats, total, progress)

    def run(self) -> ReplayOutcome:
        plan, outcome = self._plan, self._outcome
        self._runner.announce("making the files")
        crawls = outcome.crawls = run_apart(build, plan.corpus, self._directory / "files")
        self._pages = pages_of(crawls)
        with ExitStack() as stack:
            names = (OURS,) if plan.requests else plan.servers
            ready = [started for name in names if (started := self._attempt_start(name, crawls, stack))]
            before = {each.name: each.memory_bytes() for each in ready}
            if plan.requests:
                self._attempt_soak(ready)
            else:
                self._measure(ready)
            outcome.memories = [Memory(each.name, before[each.name], each.memory_bytes()) for each in ready]
        outcome.missing = self._runner.missing
        self._runner.finish()
        return outcome

    # -- servers ------------------------------------------------------------------------------------------------

    def _attempt_start(self, name: str, crawls: Crawls, stack: ExitStack) -> Running | None:
        self._runner.announce(f"{name} · files in, started, looked at")
        try:
            started = self._start(name, crawls, stack)
            check_sample(started, self._pages, crawls)
        except (Unavailable, ChildFailed) as failure:
            self._runner.note(name, "all", failure)
            return None
        return started

    def _start(self, name: str, crawls: Crawls, stack: ExitStack) -> Running:
        server = SERVERS[name]
        directory = self._directory / (server.directory or name)
        port, replay_port = free_ports(2)
        place = Place(directory, port, replay_port, self._plan.pywb)
        server.command(place)  # before all the work: is it here at all?
        if not directory.exists():
            directory.mkdir()
            server.prepare(crawls, place)
        return stack.enter_context(running(name, server, place))

    # -- measurements -------------------------------------------------------------------------------------------

    def _measure(self, ready: list[Running]) -> None:
        plan = self._plan
        for workload in plan.workloads:
            for turn in range(plan.repeats):  # servers take turns: a slow minute hits one of each
                for each in ready:
                    self._runner.announce(f"{workload} · {each.name} · repeat {turn + 1}/{plan.repeats}")
                    self._attempt_top(each, workload)
            for each in ready:
                self._runner.announce(f"{workload} · {each.name} · half of its rate")
                self._attempt_half(each, workload)

    def _attempt_top(self, server: Running, workload: ReplayWorkload) -> None:
        try:
            if not self._found[server.name, workload]:
                self._ask(server, workload, Load(_WARM_UP_S))
            top = self._ask(server, workload, Load(self._plan.seconds))
        except ChildFailed as failure:
            self._runner.note(server.name, workload, failure)
            return
        self._found[server.name, workload].append(ReplayFigure(server.name, workload, top))

    def _attempt_half(self, server: Running, workload: ReplayWorkload) -> None:
        repeats = self._found[server.name, workload]
        if len(repeats) < self._plan.repeats:  # an answer was wrong, which is noted
            return
        figure = middle(repeats)
        try:
            figure = replace(figure, half=self._ask(server, workload, Load(self._plan.seconds, figure.per_s / 2)))
        except ChildFailed as failure:
            self._runner.note(server.name, f"{workload} at half of its rate", failure)
        self._outcome.figures.append(figure)

    def _ask(self, server: Running, workload: ReplayWorkload, load: Load) -> Answered:
        origin = server.server.origin_for(server.place, is_replay=workload not in _CONTROLS)
        paths = self._directory / f"{server.name}-{workload}.paths"
        if not paths.exists():
            lines = paths_of(workload, self._pages, server.server.collection)
            paths.write_text("\n".join(lines) + "\n", encoding="utf-8")
        before = server.cpu_s()
        answered = self._go_on(origin, paths, load)
        return replace(answered, cpu_s=server.cpu_s() - before)

    def _go_on(self, origin: str, paths: Path, load: Load) -> Answered:
        """Asks from where it was left off: to begin anew would find answers that are still kept."""
        answered = ask(origin, paths, replace(load, first=self._asked[paths]))
        self._asked[paths] += answered.requests
        return answered

    # -- a long life --------------------------------------------------------------------------------------------

    def _attempt_soak(self, ready: list[Running]) -> None:
        for server in ready:
            try:
                self._outcome.soak = self._soak(server)
            except ChildFailed as failure:
                self._runner.note(server.name, f"{self._plan.requests:,} requests", failure)

    def _soak(self, server: Running) -> Soak:
        """Half of the requests rewritten pages, half of them raw ones."""
        paths = self._directory / "soak.paths"
        lines = mixed_paths(self._pages, server.server.collection)
        paths.write_text("\n".join(lines) + "\n", encoding="utf-8")
        origin = server.server.origin_for(server.place, is_replay=True)
        part = max(1, self._plan.requests // SOAK_PARTS)
        memory, start = [], time.perf_counter()
        for number in range(1, SOAK_PARTS + 1):
            self._runner.announce(f"requests up to {number * part:,}")
            while self._asked[paths] < number * part:
                self._go_on(origin, paths, Load(self._plan.seconds))
            memory.append(server.memory_bytes())
        return Soak(self._asked[paths], time.perf_counter() - start, tuple(memory))
