"""The conductor: one crawl from its seeds to its end, on one thread.

    frontier ──feeder──▶ pipeline (fetcher, readers) ──▶ intake ──▶ archive, frontier, log

It goes round: send what may be fetched, wait for what was read, take it in. All that it knows is in the frontier, so it
can be killed at any moment and goes on where it was (H5).
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Self

from holdfast.archive import Archive
from holdfast.crawl.crawls import CrawlState, CrawlStatus, crawl_directory, crawl_status, keep_job, write_status
from holdfast.crawl.frontier import FoundUrl, Frontier, UrlRow
from holdfast.crawl.ingest.ingest import CrawlIngest, IngestParts
from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.job.credentials import bound
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.log import CrawlLog
from holdfast.crawl.parse.warcinfo import describe
from holdfast.crawl.paths import FRONTIER, LOG, SPOOL
from holdfast.crawl.policy.admission import Admission
from holdfast.crawl.policy.limits import CrawlLimits
from holdfast.crawl.policy.private_networks import private_networks
from holdfast.crawl.policy.robots_gate import RobotsGate
from holdfast.crawl.policy.traps import Traps
from holdfast.crawl.processes.feeder import Feeder
from holdfast.crawl.processes.messages import FetchJob, FetchOutcome, ParsedPage
from holdfast.crawl.processes.pipeline import Pipeline, PipelineStart, ProcessDied
from holdfast.crawl.schedule.retention import Retention, expired_events, remove_superseded
from holdfast.errors import HoldfastError
from holdfast.formats.html.links.references import Hop
from holdfast.urls import canonical

log = logging.getLogger("holdfast.crawl")

_GROUP = 256  # readings that are taken in at a time
_WAIT_S = 0.1
_PROGRESS_S = 0.25
_STATUS_S = 1.0
_SILENCE_S = 60.0  # without anything from readers that are to end, after which they are given up
_DEATHS_MAX = 20  # of processes, without anything that was taken in since


@dataclass(frozen=True, slots=True)
class Summary:
    """How a run of a crawl ended."""

    name: str
    visit: int
    state: CrawlState
    reason: str
    tally: CrawlTally
    errors: dict[str, int] = field(default_factory=dict)
    trouble: str = ""  # the last error, in full


class Crawl:
    """A crawl of an archive that is open for writing. One thread; `run` once."""

    def __init__(self, archive: Archive, job: CrawlJob, *, began: float | None = None) -> None:
        """The time that a run may take counts from `began`, by the monotonic clock, or from now on."""
        began = time.monotonic() if began is None else began
        job = bound(job)
        self._archive = archive
        self._job = job
        self._closing = ExitStack()
        self._directory = crawl_directory(archive.path, job.name)
        keep_job(archive.path, job)
        self._empty_spool()  # of what a process that was killed has left
        before = crawl_status(archive.path, job.name)
        self._frontier = Frontier(self._directory / FRONTIER)
        self._compare(before)
        self._closing.callback(self._frontier.close)
        crawl_log = CrawlLog(self._directory / LOG)
        self._closing.callback(crawl_log.close)
        self._gate = RobotsGate(self._frontier, job)
        self._feeder = Feeder(self._frontier, self._gate, job, self._is_held)
        self._admission = Admission(job, self._frontier, Traps(job.traps))
        self._retention = Retention(archive, self._frontier, job)
        parts = IngestParts(
            *(archive, job, self._frontier, self._gate, self._feeder, self._admission, crawl_log, self._pause),
            self._retention,
        )
        self._intake = CrawlIngest(parts)
        self._closing.callback(self._intake.close)
        self._limits = CrawlLimits(job, self._frontier, began)
        self._pipeline: Pipeline | None = None
        self._deaths = 0
        self._was_before = False  # whether processes that are gone may have asked hosts a moment ago
        self._owed_from = 0.0  # when they can have asked last
        self._started = time.time()
        self._before_s = self._frontier.totals.tally.seconds  # that earlier runs of this visit took

    def _compare(self, before: CrawlStatus) -> None:
        """A frontier that knows less than it did is damaged: RocksDB goes back to where it is sound, and is silent."""
        totals, fetched = self._frontier.totals, int(before.tally.get("fetched", 0))
        if (before.visit, fetched) > (totals.visit, totals.tally.fetched):
            log.warning(
                "the frontier of the crawl '%s' is damaged, or an older one: it knows %d URLs as fetched, there were "
                "%d. No capture is lost; what it does not know is fetched again",
                *(self._job.name, totals.tally.fetched, fetched),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes of the crawl. What was not taken in is still in the frontier."""
        self._stop_pipeline()
        self._closing.close()
        self._empty_spool()

    def _empty_spool(self) -> None:
        spool = self._directory / SPOOL
        spool.mkdir(exist_ok=True)
        for left in spool.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)

    # -- a run --------------------------------------------------------------------------------------------------

    def run(
        self, on_progress: Callable[[CrawlTally], None] = lambda _: None, stopping: Callable[[], bool] = lambda: False
    ) -> Summary:
        """Crawls until nothing is left, a limit is reached, or it is told to stop."""
        try:
            with self:
                state, reason = self._run(on_progress, stopping)
                return self._end(state, reason)
        except BaseException as error:
            self._write_status(
                CrawlState.FAILED if isinstance(error, HoldfastError) else CrawlState.STOPPED, str(error)
            )
            raise

    def _run(self, on_progress: Callable[[CrawlTally], None], stopping: Callable[[], bool]) -> tuple[CrawlState, str]:
        self._write_status(CrawlState.RUNNING)
        self._begin_visit()
        self._start_pipeline()  # which takes its time; we have something to do meanwhile
        self._prepare()
        try:
            self._send(self._asked_for_sitemaps())
        except ProcessDied as died:
            self._revive(died)
        shown = written = 0.0
        while True:
            assert self._pipeline is not None
            ended = self._limits.reached(self._pipeline.unsettled)
            ended = ended or ((CrawlState.STOPPED, "asked to") if stopping() else None)
            if ended:
                self._drain(on_progress)
                return ended
            self._step()
            now = time.monotonic()
            if now - shown >= _PROGRESS_S:
                shown = now
                on_progress(self.tally())
            if now - written >= _STATUS_S:
                written = now
                self._write_status(CrawlState.RUNNING)
            if self._feeder.idle and not self._frontier.totals.queued:
                return CrawlState.FINISHED, "nothing is left to fetch"

    def _step(self) -> None:
        """One round."""
        try:
            self._send(self._feeder.feed(self._limits.allowance, self._intake.refuse, self._intake.abandon))
            self._intake.commit()
            assert self._pipeline is not None
            waits = self._feeder.waits and not self._intake.is_busy
            readings = self._pipeline.receive(_WAIT_S if waits else 0, _GROUP)
            self._note_pauses()
            if readings or self._intake.is_busy:
                self._send(self._take(readings))
                self._deaths = 0
            if self._retention.is_due:
                self._send(self._take([]))
                self._intake.events(expired_events(self._retention.remove_noted()))
        except ProcessDied as died:
            self._revive(died)

    def _take(self, readings: list[ParsedPage]) -> list[FetchJob]:
        """Takes readings in; when this returns, those before them are settled, and as many requests may begin."""
        assert self._pipeline is not None
        before = self._intake.settled
        jobs = self._intake.take(readings)
        self._limits.settled(self._intake.settled - before)
        self._pipeline.settled(behind=len(readings))
        return jobs

    def _drain(self, on_progress: Callable[[CrawlTally], None]) -> None:
        """No request begins any more; those under way may end, for a while; all that was fetched is taken in.

        That takes as long as it takes: how much there can be is bounded, see `Fetcher.set_unsettled`.
        """
        pipeline = self._pipeline
        assert pipeline is not None
        pipeline.stop(self._limits.grace_s)
        heard = time.monotonic()
        while not pipeline.has_ended:
            readings = pipeline.receive(_WAIT_S, _GROUP)
            self._note_pauses()
            if readings or self._intake.is_busy:
                self._take(readings)
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE_S:
                log.warning("the processes of the crawl do not end; what they have is fetched again")
                break
            on_progress(self.tally())
        else:
            for name in pipeline.failures():
                log.warning("the %s of the crawl died; what it had is fetched again", name)
        self._take([])

    def _end(self, state: CrawlState, reason: str) -> Summary:
        totals = self._frontier.totals
        totals.finished = state is CrawlState.FINISHED
        totals.tally = replace(self.tally(), in_flight=0)
        removed = self._retention.remove_all() if totals.finished else self._retention.remove_noted()
        self._intake.events(expired_events(removed))
        if totals.finished and (superseded := remove_superseded(self._archive)):
            self._intake.event("superseded", captures=superseded)
        self._frontier.commit()
        self._intake.event("stop", state=state.value, reason=reason)
        self._intake.commit()
        self._write_status(state, reason)
        return Summary(
            self._job.name, totals.visit, state, reason, totals.tally, dict(self._intake.errors), self._intake.trouble
        )

    # -- before the first fetch ---------------------------------------------------------------------------------

    def _begin_visit(self) -> None:
        """A first visit, the rest of one that was cut short, or a new one."""
        frontier = self._frontier
        totals = frontier.totals
        self._was_before = bool(totals.visit)
        if totals.finished or not totals.visit:
            frontier.begin_visit()
            self._before_s = 0.0
        totals, before = frontier.totals, totals
        totals.finished = False
        totals.reach = reach_of(self._job)
        totals.thorough = before.thorough if before is totals else False
        totals.thorough |= bool(before.reach) and before.reach != totals.reach
        self._limits.renew()

    def _prepare(self) -> None:
        """What is to be visited is queued."""
        frontier, totals = self._frontier, self._frontier.totals
        for host, known in frontier.hosts():
            if known.queued and not known.turn:  # it was asleep when the process ended
                frontier.wake(host)
        self._plant()
        self._intake.event("start", visit=totals.visit, queued=totals.queued, seeds=len(self._job.seeds))
        self._intake.commit()
        while frontier.requeue(self._is_wanted):
            frontier.commit()
        frontier.commit()
        if not totals.tally.fetched:
            self._archive.add_drafts([describe(self._job, totals.visit, self._archive)])

    def _plant(self) -> None:
        seeds = [canonical(seed) for seed in self._job.seeds]
        for seed in seeds:
            self._admission.add_root(seed)
        found = [self._admission.found(seed, Hop.SEED, 0, 0) for seed in seeds]
        self._frontier.find(found, "", self._admission.refusal)

    def _is_wanted(self, row: UrlRow) -> bool:
        """Whether a URL that is known is visited again."""
        if self._retention.is_removed(row):
            return False
        if self._admission.explain(FoundUrl(b"", row.url, row.hop, row.depth, row.hops, row.kind)):
            return False  # the scope is not what it was
        if self._job.revisit.only == "all" or self._frontier.totals.thorough:
            return True
        return min(row.due, self._retention.lifetimes.look(row)) <= time.time()

    def _is_held(self, row: UrlRow) -> bool:
        """Whether the archive still has what the server may say was not modified: it may have been removed."""
        collection = self._job.collection or self._archive.settings.records.collection
        capture = self._archive.catalog.closest(row.url, row.date, collection) if row.date else None
        return capture is not None and capture.digest == row.digest and capture.type == "response"

    def _asked_for_sitemaps(self) -> list[FetchJob]:
        """Where robots.txt is not obeyed, it is still asked for sitemaps."""
        if self._job.fetch.robots or not self._job.sitemap:
            return []
        return [job for seed in self._job.seeds for job in self._feeder.ask_robots(canonical(seed))]

    # -- the processes ------------------------------------------------------------------------------------------

    def _start_pipeline(self) -> None:
        settings = self._archive.settings
        start = PipelineStart(
            self._job,
            self._directory,
            self._job.collection or settings.records.collection,
            settings.store.signature,
            private_networks(self._job),
            self._frontier.totals.thorough,
        )
        self._pipeline = Pipeline(start)
        now = time.time()
        self._owed_from = now if self._was_before else 0.0
        for host, known in self._frontier.hosts():
            if known.paused_until > now:
                self._pause(host, known.paused_until, "asked before the restart")

    def _stop_pipeline(self) -> None:
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.close()

    def _revive(self, died: ProcessDied) -> None:
        """All processes start again, with what was under way."""
        while True:
            self._deaths += 1
            if self._deaths > _DEATHS_MAX:
                raise HoldfastError(f"{died} {self._deaths} times in a row; see above for why") from died
            log.warning("%s; starting again", died)
            try:
                return self._start_again(died)
            except ProcessDied as again:
                died = again

    def _start_again(self, died: ProcessDied) -> None:
        self._intake.take([])  # what has come back is not sent again
        self._note_pauses()
        self._intake.commit()
        self._stop_pipeline()
        self._was_before = True
        self._start_pipeline()
        if died.suspect is not None and self._feeder.suspect(died.suspect):
            self._give_up(died.suspect)
        self._send([flight.job for flight in self._feeder.flights.values()])

    def _give_up(self, job_id: int) -> None:
        """A page over which readers die, whatever is left out."""
        job = self._feeder.flights[job_id].job
        crashed = ParsedPage(job_id, job.url, FetchOutcome.CRASHED, "readers died over it", started=time.time())
        self._intake.take([crashed])
        self._intake.take([])

    def _send(self, jobs: list[FetchJob]) -> None:
        if not jobs or self._pipeline is None:
            return
        now = time.time()
        for job in jobs:  # whose host may have been asked a moment ago, by a process that is gone
            if self._owed_from + job.delay > now:
                self._pause(job.host, self._owed_from + job.delay, "asked before the restart")
        self._pipeline.send(jobs)

    def _pause(self, host: str, until: float, reason: str) -> None:
        if self._pipeline is not None:
            self._pipeline.pause(host, until, reason)

    def _note_pauses(self) -> None:
        """What servers asked for holds after a restart, too."""
        assert self._pipeline is not None
        while self._pipeline.pauses:  # another thread adds
            host, until, reason = self._pipeline.pauses.pop(0)
            self._frontier.set_host(host, self._frontier.host(host)._replace(paused_until=until))
            self._intake.event("pause", host=host, until=until, note=reason)
        now = time.time()
        while self._pipeline.recalled:
            host, job_ids = self._pipeline.recalled.pop(0)
            flights = [self._feeder.flights[each] for each in job_ids if each in self._feeder.flights]
            owed = now + max((flight.job.delay for flight in flights), default=0.0)
            self._feeder.recall(host, job_ids, max(owed, self._frontier.host(host).paused_until))
        self._feeder.wake(now)

    # -- what is told -------------------------------------------------------------------------------------------

    def tally(self) -> CrawlTally:
        """As of now."""
        totals = self._frontier.totals
        in_flight = len(self._feeder.flights)
        if self._pipeline is not None:  # most of them wait for their hosts
            in_flight = min(in_flight, int(self._pipeline.stats.get("active", in_flight)))
        tally = totals.tally
        tally.seconds = self._before_s + time.time() - self._started
        tally.queued, tally.seen, tally.in_flight = totals.queued, totals.seen, in_flight
        tally.hosts = self._feeder.hosts
        return tally

    def _write_status(self, state: CrawlState, reason: str = "") -> None:
        status = CrawlStatus(
            self._job.name,
            state,
            self._frontier.totals.visit,
            self._started,
            reason=reason,
            tally=self.tally().as_dict(),
            errors=dict(self._intake.errors),
        )
        write_status(self._archive.path, status)


def reach_of(job: CrawlJob) -> str:
    """All that decides which links are followed."""
    return repr((job.scope.value, job.depth, job.include, job.exclude, job.traps, sorted(job.seeds)))
