"""A crawl from its seeds to its end, on one thread.

    frontier ──feeder──▶ pipeline (fetcher, parse workers) ──▶ ingest ──▶ archive, frontier, log

Each round sends what may be fetched, waits for results and ingests them. All state is in the frontier: a crawl that is
killed at any moment resumes where it was (H5).
"""

from __future__ import annotations

import logging
import shutil
import time
from calendar import timegm
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Self

from holdfast.archive import Archive
from holdfast.crawl.frontier import FoundUrl, Frontier, UrlRow
from holdfast.crawl.ingest.ingest import CrawlIngest
from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.job.credentials import bound
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.parse.records import describe
from holdfast.crawl.paths import FRONTIER, LOG, PROGRESS, SPOOL
from holdfast.crawl.policy.admission import Admission
from holdfast.crawl.policy.limits import CrawlLimits
from holdfast.crawl.policy.private_networks import private_networks
from holdfast.crawl.policy.robots_gate import RobotsGate
from holdfast.crawl.policy.traps import Traps
from holdfast.crawl.processes.children import CrawlChildren
from holdfast.crawl.processes.feeder import Feeder
from holdfast.crawl.processes.messages import (
    DECODED_BYTES_MAX,
    AddressUse,
    Fetched,
    FetcherStart,
    FetchJob,
    FetchOutcome,
    ParsedPage,
    ParseWorkerStart,
)
from holdfast.crawl.processes.pipeline import Pipeline, ProcessDied
from holdfast.crawl.report.crawls import CrawlState, CrawlStatus, crawl_directory, crawl_status, keep_job, write_status
from holdfast.crawl.report.log import CrawlLog
from holdfast.crawl.report.progress import ProgressFile, ProgressSample
from holdfast.crawl.schedule.retention import Retention, expired_events, remove_superseded
from holdfast.crawl.share import CrawlShare
from holdfast.errors import Damaged, HoldfastError, NotFound, VolumeDown
from holdfast.formats.html.links.references import Hop
from holdfast.index.updater import IndexUpdater
from holdfast.storage.store.encoder import ContentEncoding
from holdfast.urls import canonical

log = logging.getLogger("holdfast.crawl")

_GROUP = 256  # results ingested at a time
_WAIT_S = 0.1
_PROGRESS_S = 0.25
_STATUS_S = 1.0
_SILENCE_S = 60.0  # without a result of parse workers that are to end, after which the crawl stops waiting
_DEATHS_MAX = 20  # of child processes, without a result in between


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

    def __init__(
        self,
        archive: Archive,
        job: CrawlJob,
        *,
        began: float | None = None,
        updater: IndexUpdater | None = None,
        children: CrawlChildren | None = None,
        share: CrawlShare | None = None,
    ) -> None:
        """The job's time limit counts from `began`, by the monotonic clock; without it, from now.

        `updater` receives the text extracted from each page, so that the index need not parse it again. `children` are
        processes that were started in advance. `share`: of a crawl that the nodes of a cluster run together.
        """
        began = time.monotonic() if began is None else began
        job = bound(job)
        self._archive = archive
        self._updater = updater
        self._children = children
        self._share = share
        self._job = job
        self._collection = job.collection or archive.settings.records.collection
        self._closing = ExitStack()
        self._directory = crawl_directory(archive.path, job.name)
        keep_job(archive.path, job)
        self._empty_spool()  # left by a killed process
        before = crawl_status(archive.path, job.name)
        self._frontier = Frontier(self._directory / FRONTIER)
        self._compare(before)
        self._closing.callback(self._frontier.close)
        crawl_log = CrawlLog(self._directory / LOG)
        self._closing.callback(crawl_log.close)
        self._gate = RobotsGate(self._frontier, job)
        is_ours = share.is_ours if share is not None else lambda host: True
        kept = share.kept if share is not None else lambda row: ""
        self._feeder = Feeder(self._frontier, self._gate, job, self._is_held, is_ours, kept)
        self._admission = Admission(job, self._frontier, Traps(job.traps))
        self._retention = Retention(archive, self._frontier, job)
        self._ingest = CrawlIngest(
            *(archive, job, self._frontier, self._gate, self._feeder, self._admission, self._retention, crawl_log),
            updater,
            self._pause,
            self._note_delay,
        )
        self._closing.callback(self._ingest.close)
        self._progress = ProgressFile(self._directory / PROGRESS)
        if share is not None:
            share.attach(self._frontier, self._admission, self._feeder)
        self._limits = CrawlLimits(job, self._frontier, began, share=share)
        self._pipeline: Pipeline | None = None
        self._encoding: ContentEncoding | None = None  # that the parse workers use
        self._deaths = 0
        self._was_before = False  # processes that are gone may have sent requests a moment ago
        self._owed_from = 0.0  # the latest time of those requests
        self._right_s = 0.0  # until when the fetcher knows that it may fetch
        self._started = time.time()
        self._before_s = self._frontier.totals.tally.seconds  # that earlier runs of this visit took

    def _compare(self, before: CrawlStatus) -> None:
        """Warns of a frontier that lost commits: RocksDB silently falls back to the last sound state."""
        if before.shared:  # its tally is that of all nodes
            return
        totals, fetched = self._frontier.totals, int(before.tally.get("fetched", 0))
        if (before.visit, fetched) > (totals.visit, totals.tally.fetched):
            log.warning(
                "the frontier of the crawl '%s' is damaged or outdated: it lists %d fetched URLs of %d. "
                "No capture is lost; the others are fetched again",
                *(self._job.name, totals.tally.fetched, fetched),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all child processes. URLs without an ingested result stay queued in the frontier."""
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
        """Crawls until the queue is empty, a limit is reached, or `stopping` returns true."""
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
        self._start_pipeline()  # the children start while we prepare
        self._prepare()
        try:
            self._send(self._asked_for_sitemaps())
        except ProcessDied as died:
            self._revive(died)
        shown = written = 0.0
        while True:
            assert self._pipeline is not None
            ended = self._limits.reached(self._pipeline.unsettled)
            ended = ended or (self._share.ended() if self._share is not None else None)
            ended = ended or ((CrawlState.STOPPED, "asked to") if stopping() else None)
            if ended:
                self._drain(on_progress)
                return ended
            if self._share is not None and not self._has_right():
                self._wait_for_right(on_progress, stopping)
                continue
            self._step()
            now = time.monotonic()
            if now - shown >= _PROGRESS_S:
                shown = now
                on_progress(self.tally())
            if now - written >= _STATUS_S:
                written = now
                self._write_status(CrawlState.RUNNING)
            if self._share is None and self._is_done(on_progress):
                return CrawlState.FINISHED, "nothing is left to fetch"

    def _is_done(self, on_progress: Callable[[CrawlTally], None]) -> bool:
        """True if nothing is left to fetch, nor to arrive: a browser delivers late parts after their page."""
        if not self._has_nothing():
            return False
        if not self._job.browser.enabled:
            return True
        self._drain(on_progress)
        if self._has_nothing():
            return True
        self._stop_pipeline()  # a late part has links
        self._was_before = True
        self._start_pipeline()
        return False

    def _has_nothing(self) -> bool:
        """True if no URL is queued or in flight."""
        return self._feeder.idle and not self._frontier.totals.queued

    def _step(self) -> None:
        """One round."""
        try:
            assert self._pipeline is not None
            if self._share is not None:
                for host in self._share.step(is_busy=self._ingest.is_busy):
                    self._pipeline.recall(host)
                self._extend_right()
                self._exchange_permits()
                self._ingest.commit()
            self._send(self._feeder.feed(self._limits.allowance, self._ingest.refuse, self._ingest.abandon))
            self._ingest.commit()
            waits = (self._feeder.waits or self._share is not None) and not self._ingest.is_busy
            pages = self._pipeline.receive(_WAIT_S if waits else 0, _GROUP, self._ingest.gatherable)
            self._note_pauses()
            if pages or self._ingest.is_busy:
                self._send(self._take(pages))
                self._deaths = 0
            if self._retention.is_due:
                self._send(self._take([]))
                self._ingest.events(expired_events(self._retention.remove_noted()))
        except ProcessDied as died:
            self._revive(died)

    # -- the right to fetch, in a cluster ----------------------------------------------------------------------

    def _has_right(self) -> bool:
        assert self._share is not None
        return time.clock_gettime(time.CLOCK_BOOTTIME) < self._share.until_s

    def _extend_right(self) -> None:
        assert self._share is not None and self._pipeline is not None
        until_s = self._share.until_s
        if until_s != self._right_s and until_s > 0:
            self._right_s = until_s
            self._pipeline.extend_right(until_s)

    def _exchange_permits(self) -> None:
        """Passes on what the fetcher does with addresses that hosts of other nodes may share."""
        assert self._share is not None
        permits, pipeline = self._share.permits, self._pipeline
        if permits is None:
            return
        uses: list[AddressUse] = []
        if pipeline is not None and pipeline.uses:
            count = len(pipeline.uses)  # another thread appends
            uses = pipeline.uses[:count]
            del pipeline.uses[:count]
        given = permits.step(uses)
        if given and pipeline is not None:
            pipeline.permit(given)

    def _wait_for_right(self, on_progress: Callable[[CrawlTally], None], stopping: Callable[[], bool]) -> None:
        """This node may not fetch: responses that have arrived are kept, the rest waits until it may fetch again."""
        assert self._share is not None
        self._drain(on_progress, grace_s=0.0)
        self._stop_pipeline()
        self._feeder.release_all()
        self._ingest.commit()
        while not self._has_right() and self._share.ended() is None and not stopping():
            self._share.step(is_busy=False)
            self._exchange_permits()
            self._ingest.commit()
            self._write_status(CrawlState.RUNNING)
            time.sleep(_WAIT_S)
        self._was_before = True
        self._start_pipeline()

    # -- results -------------------------------------------------------------------------------------------------

    def _take(self, pages: list[ParsedPage]) -> list[FetchJob]:
        """Ingests results. On return the group before them is committed, and as many new requests may begin."""
        assert self._pipeline is not None
        before = self._ingest.settled
        jobs = self._ingest.take(pages)
        encoding = self._archive.contents.encoding()
        if encoding is not None and self._encoding is not None and encoding != self._encoding:  # one was trained
            self._encoding = encoding
            self._pipeline.encode_with(encoding.dictionary)
        self._limits.settled(self._ingest.settled - before)
        self._pipeline.settled(behind=len(pages))
        return jobs

    def _drain(self, on_progress: Callable[[CrawlTally], None], grace_s: float | None = None) -> None:
        """Starts no new request, grants running ones the grace period, and ingests everything that was fetched.

        There is no time limit for ingesting: `Fetcher.set_unsettled` bounds the amount.
        """
        pipeline = self._pipeline
        assert pipeline is not None
        pipeline.stop(self._limits.grace_s if grace_s is None else grace_s)
        heard = time.monotonic()
        while not pipeline.has_ended:
            pages = pipeline.receive(_WAIT_S, _GROUP)
            self._note_pauses()
            if pages or self._ingest.is_busy:
                self._take(pages)
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE_S:
                log.warning("the processes of the crawl do not end; their pages are fetched again")
                break
            on_progress(self.tally())
        else:
            for name in pipeline.failures() if grace_s is None else ():
                log.warning("the %s of the crawl died; its pages are fetched again", name)
        self._take([])

    def _end(self, state: CrawlState, reason: str) -> Summary:
        totals = self._frontier.totals
        totals.finished = state is CrawlState.FINISHED
        totals.tally = replace(self.tally(), in_flight=0)
        removed = self._retention.remove_all() if totals.finished else self._retention.remove_noted()
        self._ingest.events(expired_events(removed))
        if totals.finished and (superseded := remove_superseded(self._archive)):
            self._ingest.event("superseded", captures=superseded)
        self._frontier.commit()
        self._ingest.event("stop", state=state.value, reason=reason)
        self._ingest.commit()
        self._write_status(state, reason)
        return Summary(
            self._job.name, totals.visit, state, reason, totals.tally, dict(self._ingest.errors), self._ingest.trouble
        )

    # -- before the first fetch ---------------------------------------------------------------------------------

    def _begin_visit(self) -> None:
        """Begins a visit, or continues one that was cut short."""
        frontier = self._frontier
        totals = frontier.totals
        self._was_before = bool(totals.visit)
        if self._share is not None:
            if totals.visit < self._share.visit:
                frontier.begin_visit(self._share.visit)
                self._before_s = 0.0
        elif totals.finished or not totals.visit:
            frontier.begin_visit()
            self._before_s = 0.0
        totals, before = frontier.totals, totals
        totals.finished = False
        totals.reach = reach_of(self._job)
        totals.thorough = before.thorough if before is totals else False
        totals.thorough |= bool(before.reach) and before.reach != totals.reach
        self._limits.renew()

    def _prepare(self) -> None:
        """Queues the URLs of this visit."""
        frontier, totals = self._frontier, self._frontier.totals
        for host, known in frontier.hosts():
            if known.queued and not known.turn:  # it was asleep when the process ended
                frontier.wake(host)
        self._plant()
        self._ingest.event("start", visit=totals.visit, queued=totals.queued, seeds=len(self._job.seeds))
        self._ingest.commit()
        while frontier.requeue(self._is_wanted):
            frontier.commit()
        frontier.commit()
        if not totals.tally.fetched:
            self._archive.add_drafts([describe(self._job, totals.visit, self._collection)])

    def _plant(self) -> None:
        seeds = [canonical(seed) for seed in self._job.seeds]
        for seed in seeds:
            self._admission.add_root(seed)
        found = [self._admission.found(seed, Hop.SEED, 0, 0) for seed in seeds]
        self._frontier.find(found, "", self._admission.refusal)

    def _is_wanted(self, row: UrlRow) -> bool:
        """True if a known URL is visited again."""
        if self._retention.is_removed(row):
            return False
        if self._admission.explain(FoundUrl(b"", row.url, row.hop, row.depth, row.hops, row.kind)):
            return False  # the scope has changed
        if self._job.revisit.only == "all" or self._frontier.totals.thorough:
            return True
        return min(row.due, self._retention.lifetimes.look(row)) <= time.time()

    def _is_held(self, row: UrlRow) -> bool:
        """True if the archive still has the capture that a 304 response would refer to."""
        capture = self._archive.catalog.closest(row.url, row.date, self._collection) if row.date else None
        return capture is not None and capture.digest == row.digest and capture.type == "response"

    def _asked_for_sitemaps(self) -> list[FetchJob]:
        """Requests for robots.txt where it is not obeyed: it may name sitemaps."""
        if self._job.fetch.robots or not self._job.sitemap:
            return []
        return [job for seed in self._job.seeds for job in self._feeder.ask_robots(canonical(seed))]

    # -- the processes ------------------------------------------------------------------------------------------

    def _start_pipeline(self) -> None:
        job, settings = self._job, self._archive.settings
        children, self._children = self._children or CrawlChildren(job.readers), None
        self._right_s = self._share.until_s if self._share is not None else 0.0
        until_s = self._right_s if self._share is not None else None
        needs_permits = self._share is not None and self._share.permits is not None
        fetcher = FetcherStart(
            job, self._directory, job.fetch.private, private_networks(job), until_s, needs_permits=needs_permits
        )
        worker = ParseWorkerStart(
            job,
            self._collection,
            settings.store.signature,
            self._frontier.totals.thorough,
            self._updater is not None,
            self._archive.contents.encoding(),
        )
        self._encoding = worker.encoding
        self._pipeline = Pipeline(children, fetcher, worker)
        now = time.time()
        self._owed_from = now if self._was_before else 0.0
        for host, known in self._frontier.hosts():
            if known.paused_until > now:
                self._pause(host, known.paused_until, "asked before the restart")

    def _stop_pipeline(self) -> None:
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.close()
            if self._share is not None and self._share.permits is not None:
                self._share.permits.restarted()

    def _revive(self, died: ProcessDied) -> None:
        """Restarts all processes and sends them the jobs that were in flight."""
        while True:
            if self._share is not None and self._right_s <= time.clock_gettime(time.CLOCK_BOOTTIME):
                self._right_s = 0.0  # the fetcher ended with its right
                return
            self._deaths += 1
            if self._deaths > _DEATHS_MAX:
                raise HoldfastError(f"{died} {self._deaths} times in a row; see above for why") from died
            log.warning("%s; starting again", died)
            try:
                return self._start_again(died)
            except ProcessDied as again:
                died = again

    def _start_again(self, died: ProcessDied) -> None:
        self._ingest.take([])  # responses that have arrived are not sent again
        self._note_pauses()
        self._ingest.commit()
        self._stop_pipeline()
        self._was_before = True
        self._start_pipeline()
        if died.suspect is not None and self._feeder.suspect(died.suspect):
            self._give_up(died.suspect)
        self._send([flight.job for flight in self._feeder.flights.values()])

    def _give_up(self, job_id: int) -> None:
        """Fails a page that kills parse workers even without being parsed."""
        job = self._feeder.flights[job_id].job
        crashed = ParsedPage(job_id, job.url, FetchOutcome.CRASHED, "parse workers died of it", started=time.time())
        self._ingest.take([crashed])
        self._ingest.take([])

    def _send(self, jobs: list[FetchJob]) -> None:
        if not jobs or self._pipeline is None:
            return
        jobs, stored = [job for job in jobs if not job.record], [job for job in jobs if job.record]
        for job in stored:
            try:
                self._pipeline.read(self._read(job))
            except (NotFound, Damaged, VolumeDown) as error:  # removed meanwhile, or damaged
                log.warning("'%s' is fetched again: %s", job.url, error)
                jobs.append(self._feeder.fetch_anyway(job))
        now = time.time()
        for job in jobs:  # a process that is gone may have sent a request to the host a moment ago
            if self._owed_from + job.delay > now:
                self._pause(job.host, self._owed_from + job.delay, "asked before the restart")
            if self._share is not None and (owed := self._share.not_before(job.host, job.delay)) > now:
                self._pause(job.host, owed, "another node may have asked before")
        self._pipeline.send(jobs)

    def _read(self, job: FetchJob) -> Fetched:
        """The response of a capture that this visit has made. Raises what reading a record may."""
        record = self._archive.records.read(job.record)
        entry = record.entry
        body = b"".join(_beginning(record.stream(), DECODED_BYTES_MAX))
        started = timegm(time.strptime(entry.timestamp, "%Y%m%d%H%M%S"))
        head = record.http_bytes()
        return Fetched(job, FetchOutcome.OK, "", started, 0.0, b"", head, body, size=entry.size, ip=entry.ip)

    def _pause(self, host: str, until: float, reason: str) -> None:
        if self._pipeline is not None:
            self._pipeline.pause(host, until, reason)

    def _note_delay(self, host: str, delay_s: float) -> None:
        if self._share is not None:
            self._share.host_changed(host, 0.0, delay_s)

    def _note_pauses(self) -> None:
        """Pauses that servers asked for hold after a restart, too."""
        assert self._pipeline is not None
        while self._pipeline.pauses:  # another thread appends
            host, until, reason = self._pipeline.pauses.pop(0)
            self._frontier.set_host(host, self._frontier.host(host)._replace(paused_until=until))
            self._ingest.event("pause", host=host, until=until, note=reason)
            if self._share is not None:
                self._share.host_changed(host, until, 0.0)
        now = time.time()
        while self._pipeline.recalled:
            host, job_ids = self._pipeline.recalled.pop(0)
            flights = [self._feeder.flights[each] for each in job_ids if each in self._feeder.flights]
            owed = now + max((flight.job.delay for flight in flights), default=0.0)
            self._feeder.recall(host, job_ids, max(owed, self._frontier.host(host).paused_until))
        self._feeder.wake(now)

    # -- reports ------------------------------------------------------------------------------------------------

    def tally(self) -> CrawlTally:
        """As of now."""
        totals = self._frontier.totals
        in_flight = len(self._feeder.flights)
        if self._pipeline is not None:  # most wait for their hosts
            in_flight = min(in_flight, int(self._pipeline.stats.get("active", in_flight)))
        tally = totals.tally
        tally.seconds = self._before_s + time.time() - self._started
        tally.queued, tally.seen, tally.in_flight = totals.queued, totals.seen, in_flight
        tally.hosts = self._feeder.hosts
        return tally

    def _write_status(self, state: CrawlState, reason: str = "") -> None:
        tally, errors = self.tally().as_dict(), dict(self._ingest.errors)
        if self._share is not None:
            tally, errors = self._share.whole(self.tally(), errors)
        status = CrawlStatus(
            self._job.name,
            state,
            self._frontier.totals.visit,
            self._started,
            reason=reason,
            tally=tally,
            errors=errors,
            shared=self._share is not None,
        )
        write_status(self._archive.path, status)
        sample = ProgressSample(status.visit, *(tally[name] for name in ProgressSample._fields[1:]))
        self._progress.note(sample, is_last=not status.running)


def _beginning(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """As many of the pieces as are parsed."""
    for piece in pieces:
        if size <= 0:
            return
        yield piece
        size -= len(piece)


def reach_of(job: CrawlJob) -> str:
    """Everything that decides which links are followed."""
    return repr((job.scope.value, job.depth, job.include, job.exclude, job.traps, sorted(job.seeds)))
