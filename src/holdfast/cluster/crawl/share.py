"""A node's share of a crawl: the partitions that it owns, as the crawl sees them.

    claimed ──log read──▶ caught ──captures copied──▶ ready ──asked for, or the lease is lost──▶ left
                                                        │
                                           its hosts are fed, its links are queued here

The links of all other partitions go into the outbox. A partition that comes back is read from where it was left.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import groupby, islice
from typing import Any, NamedTuple

from holdfast.archive import Archive
from holdfast.cluster.copies.partitions import PartitionRule
from holdfast.cluster.crawl.checkpoint import CheckpointStore
from holdfast.cluster.crawl.credits import Amount, Credits
from holdfast.cluster.crawl.exchange import Caught, LinkExchange, NewService, Received
from holdfast.cluster.crawl.job import SharedJob
from holdfast.cluster.crawl.log import (
    LogMessage,
    done_line,
    finished_line,
    found_line,
    host_line,
    read_found,
    root_line,
    unpacked_key,
)
from holdfast.cluster.crawl.outbox import LineKind, LogPosition, Outbox
from holdfast.cluster.crawl.permits import PermitExchange
from holdfast.cluster.crawl.reports import CrawlReport, end_of, sum_of
from holdfast.cluster.membership.agent import boot_time_s
from holdfast.cluster.node import NodeContext
from holdfast.crawl.frontier import FoundUrl, Frontier, UrlRow, UrlState
from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.policy.admission import Admission
from holdfast.crawl.processes.feeder import Feeder
from holdfast.crawl.processes.messages import FetchOutcome
from holdfast.crawl.report.crawls import CrawlState
from holdfast.errors import MalformedInput
from holdfast.formats.html.links.references import Hop
from holdfast.model import RecordId
from holdfast.urls import canonical

log = logging.getLogger("holdfast.cluster")

_MESSAGES_AT_ONCE = 200
_ROWS_DUMPED = 2000
_SENT_HELD = 500_000
_WORK_S = 0.2
_REPORT_S = 1.0
_COPIES_LOOK_S = 0.2
_COPIES_S = 60.0  # that a partition waits for the captures of a node that is alive
_COPIES_UNKNOWN_S = 10.0  # the same if nobody knows which node has them


class _Uncopied(NamedTuple):
    """A URL that another node has fetched, and whose capture has not come here."""

    visited: int
    sender: str  # id of the frontier that says so


class PartitionShare:
    """A `CrawlShare`. The crawl's thread calls, except where it says otherwise."""

    def __init__(
        self,
        context: NodeContext,
        shared: SharedJob,
        revision: int,
        archive: Archive,
        left: dict[int, float],
        is_held: Callable[[RecordId, int], bool],
        end: Callable[[SharedJob, int], None],
        add_roots: Callable[[str, list[str]], None],
    ) -> None:
        """`left`: claims of partitions that were given up. `is_held`: whether all holders of a partition have a record
        of this node.

        `end` writes the value of a job that has ended if its revision is the given one; `add_roots` adds to it.
        """
        self._context = context
        self._shared = shared
        self._revision = revision
        self._archive = archive
        self._checkpoints = CheckpointStore(archive, self._is_owned, is_held)
        self._end = end
        self._add_roots = add_roots
        self._job = shared.crawl_job()
        self._collection = self._job.collection or archive.settings.records.collection
        self._run = shared.run
        self._rule = PartitionRule(context.settings.partitions)  # a host has one owner, also of a split domain
        self._began_s = time.monotonic()
        self._claimed: dict[int, float] = {}  # by partition: when it was claimed, by the boot-time clock
        self._caught: dict[int, float] = {}  # partitions whose log is read, and since when
        self._uncopied: dict[int, dict[bytes, _Uncopied]] = {}  # by partition and key
        self._copies_looked_s = 0.0
        self._ready: set[int] = set()
        self._left = left
        self._drains: dict[int, threading.Event] = {}
        self._queued: Counter[int] = Counter()  # URLs by partition
        self._sent: dict[bytes, int] = {}  # keys of links that others got, with the least depth
        self._delays: dict[str, float] = {}  # that hosts asked for
        self._pauses: dict[str, float] = {}
        self._applying = False
        self._dumped: bytes | None = None  # while the frontier is written to a new log: the next key
        self._positions: dict[int, int] = {}  # applied, committed or not
        self._new_roots: list[str] = []
        self._reports: dict[str, CrawlReport] = {}  # by node; any thread
        self._news: deque[CrawlReport] = deque()  # that the outbox has not seen
        self._report = CrawlReport(shared.name)
        self._worked_s = self._reported_s = 0.0
        self._was_idle = False
        self._errors: dict[str, int] = {}
        self._permits: PermitExchange | None = None
        if self._job.fetch.delay > 0:  # else addresses do not rest either
            fetch, settings = self._job.fetch, context.settings
            self._permits = PermitExchange(
                context.address.name,
                fetch.per_host * fetch.per_address,
                settings.partitions,
                settings.lease_s,
                context.owner,
                context.on_bus,
            )

    @property
    def name(self) -> str:
        return self._shared.name

    @property
    def visit(self) -> int:
        return self._shared.visit

    @property
    def permits(self) -> PermitExchange | None:
        return self._permits

    # -- life ---------------------------------------------------------------------------------------------------

    def attach(self, frontier: Frontier, admission: Admission, feeder: Feeder) -> None:
        self._frontier, self._admission, self._feeder = frontier, admission, feeder
        for host, known in frontier.hosts():
            self._queued[self._partition(host)] += known.queued
        self._outbox = Outbox(frontier)
        positions = self._outbox.load()
        self._positions = {partition: each.sequence for partition, each in positions.items()}
        context = self._context
        self._credits = Credits(
            self._shared.name,
            self._run,
            context.address.name,
            self._outbox.id,
            (self._job.limit, self._job.bytes_max),
            context.live,
            context.on_bus,
        )
        self._exchange = LinkExchange(
            *(self._shared.name, context.on_bus, context.notify, self._outbox, positions, self._checkpoints),
            self._work,
            self._shared.service,
        )
        frontier.sink = self
        self._seeds = [canonical(each) for each in self._job.seeds]
        for root in self._shared.roots:
            admission.add_root(root)
        self._exchange.start()

    def close(self) -> None:
        """After the crawl's run: publishes what it committed last."""
        if hasattr(self, "_exchange"):
            self._outbox.committed()
            self._exchange.stop()
        if self._permits is not None:
            self._permits.close()
        for event in list(self._drains.values()):
            event.set()

    # -- for the service, from any thread -----------------------------------------------------------------------

    def take_job(self, shared: SharedJob, revision: int) -> None:
        """The job as it is now."""
        self._shared, self._revision = shared, revision

    def take_report(self, sender: str, report: CrawlReport) -> None:
        if report.run == self._run:
            self._reports[sender] = report
            self._news.append(report)

    def owns(self, url: str) -> bool:
        return self._partition_of(url) in self._ready

    def hint(self, partitions: list[int]) -> None:
        if hasattr(self, "_exchange"):
            self._exchange.hint(partitions)

    def drain(self, partition: int, timeout_s: float) -> None:
        """Returns when nothing is fetched for the partition any more, and the log has all that was found."""
        event = self._drains.setdefault(partition, threading.Event())
        if not event.wait(timeout_s):
            log.warning(
                "partition %d of the crawl '%s' is given up with transfers under way", partition, self._job.name
            )
        self._drains.pop(partition, None)

    # -- the right to fetch -------------------------------------------------------------------------------------

    @property
    def until_s(self) -> float:
        return self._context.rights().until_s

    def _is_owned(self, partition: int) -> bool:
        """Whether this node has the right to a partition now. Any thread."""
        rights = self._context.rights()
        return partition in rights.claims and boot_time_s() < rights.until_s

    def is_ours(self, host: str) -> bool:
        return self._partition(host) in self._ready

    def not_before(self, host: str, delay_s: float) -> float:
        claimed_s = self._claimed.get(self._partition(host))
        pause = self._pauses.get(host, 0.0)
        if claimed_s is None:
            return pause
        owed_s = claimed_s + max(delay_s, self._delays.get(host, 0.0)) - boot_time_s()
        return max(pause, time.time() + owed_s)

    def kept(self, row: UrlRow) -> str:
        """Whoever made the capture died before the log said so, or with the log: its links may be lost."""
        if row.repeated:
            return ""
        capture = self._archive.catalog.closest(row.url, "", self._collection)
        is_kept = (
            capture is not None
            and (capture.type, capture.url) == ("response", row.url)
            and capture.timestamp >= time.strftime("%Y%m%d%H%M%S", time.gmtime(self._shared.began))
        )
        return str(capture.record) if capture is not None and is_kept else ""

    def _partition(self, host: str) -> int:
        found = self._rule.of_url(f"http://{host}/")
        return found if found is not None else 0

    def _partition_of(self, url: str) -> int:
        return self._partition(url.split("/", 3)[2].rpartition("@")[2])

    # -- links --------------------------------------------------------------------------------------------------

    def diverts(self, link: FoundUrl, via: str) -> bool:
        if self._applying:
            return False
        if link.hop == Hop.SEED:  # planted by whoever owns it
            return True
        partition = self._partition_of(link.url)
        if partition in self._claimed:
            return False
        known = self._sent.get(link.key)
        if known is not None and known <= link.depth:
            return True
        if not self._admission.explain(link):
            if len(self._sent) >= _SENT_HELD:
                self._sent.clear()
            self._sent[link.key] = link.depth
            self._outbox.add(partition, LineKind.SENT, self._found_line(link, via))
        return True

    def _found_line(self, link: FoundUrl, via: str) -> str:
        return found_line(link, via, self._admission.found(link.url, link.hop, link.depth, link.hops).key)

    def queued(self, link: FoundUrl, via: str) -> None:
        if not self._applying:
            self._outbox.add(self._partition_of(link.url), LineKind.FOUND, self._found_line(link, via))

    def counted(self, host: str, change: int) -> None:
        self._queued[self._partition(host)] += change

    def settled(self, key: bytes, row: UrlRow) -> None:
        if self._applying:
            return
        line = done_line(key, row) if row.state == UrlState.DONE else finished_line(key, row)
        self._outbox.add(self._partition_of(row.url), LineKind.FINISHED, line)

    def root_added(self, url: str) -> None:
        if self._applying or url in self._job.seeds or url in self._shared.roots or url in self._seeds:
            return
        partition = self._partition_of(url)
        self._new_roots.append(url)
        self._outbox.add(partition, LineKind.FOUND if partition in self._claimed else LineKind.SENT, root_line(url))

    def host_changed(self, host: str, paused_until: float, delay_s: float) -> None:
        self._outbox.add(self._partition(host), LineKind.FINISHED, host_line(host, paused_until, delay_s))

    @property
    def is_changed(self) -> bool:
        return self._outbox.is_changed

    def changes(self) -> Iterable[tuple[bytes, bytes | None]]:
        return self._outbox.changes(self._frontier.totals.visit)

    # -- one round ----------------------------------------------------------------------------------------------

    def step(self, *, is_busy: bool) -> list[str]:
        self._outbox.committed()
        recalled = self._compare_claims()
        self._take_messages()
        self._dump_some()
        for root in self._shared.roots:
            if not self._admission.is_root(root):
                self._apply_root(root)
        while self._news:
            report = self._news.popleft()
            self._outbox.passed(report.incarnation, {int(key): value for key, value in report.positions.items()})
        is_idle = self._is_idle(is_busy=is_busy)
        self._exchange.is_idle = is_idle or bool(self._drains) or not self._feeder.flights
        self._spend(is_idle=is_idle)
        self._finish_drains(is_busy=is_busy)
        self._report = self._own_report(is_idle=is_idle and self._outbox.is_empty, is_busy=is_busy)
        return recalled

    def _compare_claims(self) -> list[str]:
        """Follows what this node owns now; returns the hosts of what it gave up."""
        claims = self._context.rights().claims
        gone = {
            partition
            for partition, claimed_s in self._claimed.items()
            if claims.get(partition) != claimed_s or partition in self._drains
        }
        for partition in gone:
            self._left[partition] = self._claimed.pop(partition)
            self._forget(partition)
            self._exchange.leave(partition)
        for partition, claimed_s in claims.items():
            if partition not in self._claimed and self._left.get(partition) != claimed_s:
                self._claimed[partition] = claimed_s
                self._plant(partition)
                self._exchange.follow(partition)
        if not gone:
            return []
        flights = self._feeder.flights.values()
        return sorted({flight.job.host for flight in flights if self._partition(flight.host) in gone})

    def _forget(self, partition: int) -> None:
        self._ready.discard(partition)
        self._caught.pop(partition, None)
        self._uncopied.pop(partition, None)

    def _plant(self, partition: int) -> None:
        """Queues the seeds of a partition, before its log says which of them are done."""
        if seeds := [each for each in self._seeds if self._partition_of(each) == partition]:
            self._applying = True
            try:
                found = [self._admission.found(seed, Hop.SEED, 0, 0) for seed in seeds]
                self._frontier.find(found, "", self._admission.refusal)
            finally:
                self._applying = False

    def _is_idle(self, *, is_busy: bool) -> bool:
        return (
            not is_busy
            and not self._feeder.flights
            and not self._exchange.inbox
            and self._dumped is None
            and self._ready == self._claimed.keys()
            and not any(self._queued[partition] for partition in self._ready)
        )

    def _finish_drains(self, *, is_busy: bool) -> None:
        """A partition is drained when none of its transfers is under way, and the log has everything."""
        if not self._drains or is_busy or not self._outbox.is_empty:
            return
        under_way = {self._partition(flight.host) for flight in self._feeder.flights.values()}
        for partition, event in list(self._drains.items()):
            if partition not in under_way and partition not in self._claimed:
                event.set()

    # -- messages -----------------------------------------------------------------------------------------------

    def _take_messages(self) -> None:
        inbox = self._exchange.inbox
        for _ in range(_MESSAGES_AT_ONCE):
            if not inbox:
                break
            item = inbox.popleft()
            if isinstance(item, Received):
                self._apply(item)
            elif isinstance(item, Caught):
                if item.partition in self._claimed:
                    self._caught[item.partition] = time.monotonic()
            else:
                self._begin_service(item)
        if self._caught:
            self._look_for_copies()
        if copied := {partition for partition in self._caught if not self._uncopied.get(partition)}:
            self._make_ready(copied)

    def _begin_service(self, service: NewService) -> None:
        """The log is empty: this node writes down all that it knows. Positions begin again.

        What others said to be done is looked at again: they may be gone, and with them the links that they found.
        """
        is_first = not self._outbox.incarnation
        self._positions.clear()
        self._exchange.positions.clear()
        for partition in self._claimed:
            self._forget(partition)
        self._claimed.clear()  # they are claimed again
        self._sent.clear()
        self._outbox.begin(service.number)
        self._dumped = None if is_first else b""

    def _dump_some(self) -> None:
        if self._dumped is None:
            return
        rows = list(islice(self._frontier.rows(self._dumped), _ROWS_DUMPED + 1))
        for key, row in rows[:_ROWS_DUMPED]:
            partition = self._partition_of(row.url)
            link = FoundUrl(key, row.url, row.hop, row.depth, row.hops, row.kind)
            self._outbox.add(partition, LineKind.FOUND, self._found_line(link, row.via))
            if row.state == UrlState.DONE and row.visit == self.visit and not row.signature:
                self._frontier.queue_again(key, row)
            elif row.state == UrlState.DONE and row.visit == self.visit:
                self._outbox.add(partition, LineKind.FINISHED, done_line(key, row))
            elif row.state != UrlState.QUEUED and row.visit == self.visit:
                self._outbox.add(partition, LineKind.FINISHED, finished_line(key, row))
        self._dumped = rows[_ROWS_DUMPED][0] if len(rows) > _ROWS_DUMPED else None

    def _make_ready(self, partitions: set[int]) -> None:
        """Their hosts are woken."""
        for partition in partitions:
            self._forget(partition)
        self._ready |= partitions
        for host, _ in self._frontier.hosts():
            if self._partition(host) in partitions:
                self._frontier.wake(host)

    def _look_for_copies(self) -> None:
        """What other nodes have fetched and is still on its way here need not be fetched again."""
        now_s = time.monotonic()
        if now_s - self._copies_looked_s < _COPIES_LOOK_S:
            return
        self._copies_looked_s = now_s
        self._applying = True
        try:
            for partition, since_s in self._caught.items():
                uncopied = self._uncopied.get(partition, {})
                for key, each in list(uncopied.items()):
                    if self._settle_copied(key, each) or now_s - since_s > self._patience_s(each.sender):
                        del uncopied[key]
        finally:
            self._applying = False

    def _patience_s(self, sender: str) -> float:
        """For how long to wait for the captures of a node."""
        names = {name for name, report in self._reports.items() if report.sender == sender}
        if not names:
            return _COPIES_UNKNOWN_S
        return _COPIES_S if names & self._context.live() else 0.0

    def _apply(self, received: Received) -> None:
        message = received.message
        position: LogPosition = received.position
        if message is None or position.sequence:  # else it is of a checkpoint that is not the last one
            self._positions[received.partition] = position.sequence
            self._outbox.set_position(received.partition, position)
        if message is None or (message.is_applied and message.sender == self._outbox.id):
            return
        self._applying = True
        try:
            self._apply_lines(message)
        except (ValueError, IndexError, MalformedInput) as error:
            log.error("a message of the crawl '%s' cannot be read: %s", self._job.name, error)
        finally:
            self._applying = False

    def _apply_lines(self, message: LogMessage) -> None:
        for kind, lines in groupby((line.split("\t") for line in message.lines), key=lambda fields: fields[0]):
            if kind == "f":
                self._apply_found(list(lines))
                continue
            for fields in lines:
                match kind:
                    case "d" if message.visit == self.visit:
                        self._apply_done(unpacked_key(fields[1]), _Uncopied(int(fields[2]), message.sender))
                    case "e" if message.visit == self.visit:
                        self._apply_finished(unpacked_key(fields[1]), fields[2:])
                    case "h":
                        self._apply_host(fields[1], float(fields[2]), float(fields[3]))
                    case "r":
                        self._apply_root(fields[1])

    def _apply_found(self, lines: list[list[str]]) -> None:
        found = [read_found(fields[1:], self._admission.found(fields[1], "", 0, 0).key) for fields in lines]
        deepen = self._job.depth is not None
        for via, links in groupby(found, key=lambda each: each[1]):
            self._frontier.find([link for link, _ in links], via, self._admission.refusal, deepen=deepen)

    def _apply_done(self, key: bytes, uncopied: _Uncopied) -> None:
        """A URL that another node has fetched is done if its capture has come here."""
        row = self._waiting(key)
        partition = self._partition_of(row.url) if row is not None else -1
        if not self._settle_copied(key, uncopied) and partition not in self._ready:
            self._uncopied.setdefault(partition, {})[key] = uncopied

    def _settle_copied(self, key: bytes, uncopied: _Uncopied) -> bool:
        """Whether the URL need not be fetched: its capture is here, or it does not wait any more."""
        row = self._waiting(key)
        if row is None:
            return True
        date = time.strftime("%Y%m%d%H%M%S", time.gmtime(uncopied.visited))
        capture = self._archive.catalog.closest(row.url, date, self._collection)
        if capture is None or capture.timestamp != date:
            return False
        status = int(capture.status) if capture.status.isdigit() else 0
        done = row._replace(state=UrlState.DONE, outcome=FetchOutcome.OK, status=status, visited=uncopied.visited)
        self._frontier.settle(key, done)
        return True

    def _apply_finished(self, key: bytes, fields: list[str]) -> None:
        row = self._waiting(key)
        if row is not None:
            state, outcome, status, visited = fields
            finished = row._replace(state=state, outcome=outcome, status=int(status), visited=int(visited))
            self._frontier.settle(key, finished)

    def _waiting(self, key: bytes) -> UrlRow | None:
        """The row of a URL that is queued and not in flight here."""
        row = self._frontier.row(key)
        return row if row is not None and row.state == UrlState.QUEUED and key not in self._feeder.keys else None

    def _apply_host(self, host: str, until: float, delay_s: float) -> None:
        if until > self._pauses.get(host, 0.0):
            self._pauses[host] = until
        if delay_s:
            self._delays[host] = delay_s

    def _apply_root(self, url: str) -> None:
        applying, self._applying = self._applying, True
        try:
            self._admission.add_root(url)
        finally:
            self._applying = applying

    # -- limits -------------------------------------------------------------------------------------------------

    def _used(self) -> Amount:
        tally, (run, urls, size) = self._frontier.totals.tally, self._outbox.run
        if run != self._run:
            self._outbox.begin_run(self._run, tally.fetched, tally.transferred_bytes)
            return Amount()
        return Amount(tally.fetched - urls, tally.transferred_bytes - size)

    @property
    def allowance(self) -> int | None:
        if not self._credits.is_limited:
            return None
        used, drawn = self._used(), self._credits.drawn
        if self._job.bytes_max is not None and used.size >= drawn.size:
            return 0
        return None if self._job.limit is None else max(drawn.urls - used.urls, 0)

    def _spend(self, *, is_idle: bool) -> None:
        """Draws credit when there is something to fetch, and gives it back when there is not."""
        if not self._credits.is_limited:
            return
        allowance, used = self.allowance, self._used()
        if is_idle:
            if self._credits.drawn != used:
                self._credits.drawn, self._credits.unneeded = used, True
            self._credits.wanted = False
        elif allowance is not None and allowance <= len(self._feeder.keys):
            self._credits.wanted = True

    # -- reports and the end ------------------------------------------------------------------------------------

    def whole(self, tally: CrawlTally, errors: dict[str, int]) -> tuple[dict[str, Any], dict[str, int]]:
        self._errors = errors
        own = self._context.address.name
        others = [report for name, report in self._reports.items() if name != own]
        whole = sum_of([self._of_own(tally), *(each.tally for each in others)])
        return whole, sum_of([errors, *(each.errors for each in others)])

    def ended(self) -> tuple[CrawlState, str] | None:
        shared = self._shared
        if shared.run != self._run:
            return CrawlState.STOPPED, "it was started again"
        return None if shared.is_running else (shared.state, shared.reason)

    def _own_report(self, *, is_idle: bool, is_busy: bool) -> CrawlReport:
        total = self._exchange.total if is_idle else None
        drawn, used = self._credits.drawn, self._used()
        is_spent = not is_busy and not self._feeder.flights and not self._credits.unneeded
        is_spent = is_spent and (self.allowance == 0 or drawn == used)
        return CrawlReport(
            self._job.name,
            self._run,
            self._context.members().epoch,
            self._revision,
            self._outbox.incarnation,
            sum(1 << partition for partition in self._ready),
            is_idle,
            total if total is not None else -1,
            is_spent,
            self._credits.revision,
            self._exchange.safe_positions(self._ready),
            self._of_own(self._frontier.totals.tally),
            self._errors,
            self._outbox.id,
        )

    def _of_own(self, tally: CrawlTally) -> dict[str, Any]:
        """What is queued for a partition is counted by its owner: a former one may have it in its frontier, too."""
        return tally.as_dict() | {"queued": sum(self._queued[partition] for partition in self._claimed)}

    def _work(self) -> None:
        """For the exchange's thread: reports, credits, roots, the end."""
        now_s = time.monotonic()
        if now_s - self._worked_s < _WORK_S:
            return
        self._worked_s = now_s
        report, own = self._report, self._context.address.name
        self._reports[own] = report
        if now_s - self._reported_s >= _REPORT_S or report.is_idle != self._was_idle:
            self._reported_s, self._was_idle = now_s, report.is_idle
            self._context.notify(b"crawl" + report.to_json())
        if self._credits.is_limited:
            self._credits.step(self._outbox.incarnation)
        if self._new_roots:
            roots, self._new_roots = self._new_roots, []
            self._add_roots(self._shared.name, roots)
        shared, revision = self._shared, self._revision
        if not shared.is_running or report.job != revision:
            return
        if self._job.time_s is not None and now_s - self._began_s >= self._job.time_s:
            self._end(shared.ended(CrawlState.LIMIT, "the time is over"), revision)
            return
        is_spent = self._credits.is_spent and self._credits.revision == report.credit
        found = end_of(self._reports, self._context.live(), self._context.settings.partitions, is_spent=is_spent)
        if found is not None:
            self._end(shared.ended(*found), revision)
