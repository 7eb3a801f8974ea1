"""The copies of a node: one server that answers other members, and threads that pull, compare, repair and drop.

    with Copies(archive, settings, links, options) as copies:
        copies.wait_safe(record)          a capture that so many nodes have
        copies.in_sync()                  partitions of which this node has all that live members have
        copies.remove(selection, ...)     from every node

Threads: one applies removals, sees what is new here, and notifies; one for each live member pulls page after page; one
compares, scrubs and drops. So a member that is slow holds up nobody but itself, and comparisons for a fifth of the time
at most: one that fails is left alone for a while, the longer the later it did so.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any, Self

from holdfast.archive.archive import Archive
from holdfast.archive.ingest.writer import Copy
from holdfast.archive.removal import Removal, RemovalOptions
from holdfast.batches.batch import bare
from holdfast.batches.entry import JournalEntry
from holdfast.cluster.copies.acknowledgements import Acknowledgements
from holdfast.cluster.copies.blocks import LocalBlocks
from holdfast.cluster.copies.holders import HolderMap
from holdfast.cluster.copies.origins import OriginRow, OriginTable
from holdfast.cluster.copies.partitions import PartitionRule
from holdfast.cluster.copies.protocol.handlers import NodeRequests
from holdfast.cluster.copies.protocol.peers import NodeIdentity, NodeServer, Peer
from holdfast.cluster.copies.pull import PIECES, CopyCounts, Outdated, Puller
from holdfast.cluster.copies.removal.removals import ClusterRemoval, RemovalLog, Removals
from holdfast.cluster.copies.repair import PeerComparison, RateLimit, Repairer, held_by
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.settings import PROTOCOLS, ClusterSettings
from holdfast.env import paths
from holdfast.errors import CaptureNotFound, ClusterDown, HoldfastError, UsageError
from holdfast.model import RecordId
from holdfast.records.selection import ChosenUrls, Selection

log = logging.getLogger("holdfast.cluster")

_BACK_OFF_S = 0.2  # after a failure of a member; doubled with each
_BACK_OFF_MAX_S = 30.0
_BACK_OFF_SHARE = 4  # a failure is followed by a pause of so many times what it took
_RESERVED_TOGETHER = 8  # members that are asked at a time, at start
_WARN_S = 60.0
_MEASURED_S = 2.0  # for which captures are counted at least
_NEWS, _UPKEEP = ".news", ".upkeep"  # threads that are not of a member
_URL_BYTES_MAX = 128 << 10  # of URLs in one removal; JSON may need six times as many


@dataclass(frozen=True, slots=True)
class CopyLinks:
    """What a node's copies need of the rest of the node."""

    node: str  # this node's name
    server_tls: ssl.SSLContext  # demands certificates of the cluster's CA
    client_tls: ssl.SSLContext  # verifies by the cluster's CA, not by names, and has the node's certificate
    members: Callable[[], MemberList]  # of the present epoch
    alive: Callable[[], frozenset[str]]  # the names of members that have a lease
    notify: Callable[[frozenset[int]], None]  # tells the other members of new records in these partitions
    removals: RemovalLog


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How a node copies."""

    address: str = "127.0.0.1:0"  # where it listens
    protocols: tuple[int, int] = PROTOCOLS
    look_s: float = 2.0  # between two rounds without a notification
    compare_s: float = 3600.0  # between two comparisons with a member
    scrub_s: float = 7 * 86400.0  # between two scrubs
    drop_s: float = 3600.0  # between two looks for records that other nodes hold
    repair_bytes_s: float = 32 << 20  # received by comparisons and scrubs; 0: no limit


class Copies:
    """Any thread may call any method."""

    def __init__(
        self, archive: Archive, settings: ClusterSettings, links: CopyLinks, options: CopyOptions = CopyOptions()
    ) -> None:
        """Begins to listen, but answers nobody before `start`. Raises UsageError."""
        _require_settings(archive, settings, links.node)
        self._archive = archive
        self._settings = settings
        self._links = links
        self._options = options
        rule = PartitionRule(settings.partitions, links.members().splits)
        self.origins = OriginTable(archive, rule)
        self.holders = HolderMap(links.members, settings.partitions, settings.copies)
        self._blocks = LocalBlocks(archive)
        self.removals = Removals(archive, self.origins, links.removals, links.node)
        self.acknowledgements = Acknowledgements(
            links.node, settings.ack_copies, self.origins, self.holders.of, lambda: self.holders.epoch
        )
        shutil.rmtree(archive.path / paths.CLUSTER / PIECES, ignore_errors=True)
        self._pullers: dict[str, Puller] = {}  # by member
        self._repair_puller = self._new_puller(".repair")
        self._repairer = Repairer(archive, self.origins, self._repair_puller, self.holders, links.node, self._elsewhere)
        self.identity = self._identified(rule)
        requests = NodeRequests(
            archive, self.origins, self._blocks, self.acknowledgements, self.removals.applied, self._status
        )
        try:
            self._server = NodeServer(requests, self.identity, links.server_tls, links.members, options.address)
        except BaseException:
            self.origins.close()
            raise
        self._peers: dict[str, Peer] = {}
        self._lock = threading.Lock()  # of peers and threads
        self._agreed: dict[str, frozenset[int]] = {}  # by member: partitions that were compared since it is alive
        self._compared_s: dict[str, float] = {}  # when all partitions were compared last
        self._back_off: dict[str, tuple[float, float]] = {}  # by member: until when, and for how long
        self._work: Generator[None] | None = None
        self._comparison: PeerComparison | None = None
        self._limit = RateLimit(options.repair_bytes_s)
        self._scrubbed_s: float | None = None
        self._dropped_s = time.monotonic()
        self._departures = 0  # how often a member went away
        self._compared_departures = 0  # the same, as repair knows it
        self._reserving = threading.Lock()
        self._behind_s: dict[str, float] = {}  # by member: since when this node has not all that it should pull
        self._measured = time.monotonic(), 0  # when captures were counted last, and how many there were
        self._pages_per_s = 0.0
        self._warned: dict[str, float] = {}
        self._woken: dict[str, threading.Event] = {}  # by thread
        self._stopping = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self.removes = ClusterRemover(self)

    # -- life ---------------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.port

    def start(self) -> None:
        """Applies removals, sees to it that no serial number is given twice, and begins to answer and to pull.

        Raises ClusterDown if the log of removals cannot be read.
        """
        self.removals.apply()
        self.origins.catch_up()
        self._server.start()
        with ThreadPoolExecutor(_RESERVED_TOGETHER, "reserve") as pool:
            list(pool.map(self._reserve, self._links.alive() - {self._links.node}))
        self._archive.everywhere = self.removes
        self._begin(_NEWS, self._look)
        self._begin(_UPKEEP, self._keep_up)

    def stop(self) -> None:
        """Ends requests under way. Idempotent."""
        self._archive.everywhere = None
        self._stopping.set()
        self.wake()
        self.acknowledgements.close()
        self._server.stop()
        with self._lock:  # from here on no peer is made, and no thread begun
            peers, threads = list(self._peers.values()), list(self._threads.values())
        for peer in peers:
            peer.close()
        for thread in threads:
            thread.join()
        if self._work is not None:  # it may be in the middle of the catalog
            self._work.close()
            self._work = None
        self.origins.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wake(self) -> None:
        """There is something new, here or at another member: looks at once."""
        for event in list(self._woken.values()):
            event.set()

    # -- for the node -------------------------------------------------------------------------------------------

    @property
    def may_serve(self) -> bool:
        """Whether this node knows of all removals up to a minute ago: if not, it answers nobody (N2)."""
        return self.removals.is_current

    def held(self) -> frozenset[int]:
        """The partitions that this node holds."""
        return self.holders.held_by(self._links.node)

    def in_sync(self) -> frozenset[int]:
        """The partitions that this node holds, and of which it has everything that live members had."""
        if self._links.members().splits != self.origins.rule.splits:
            return frozenset()
        found = self.held()
        for name in self._others():
            found &= self._agreed.get(name, frozenset())
        return found

    def safe_up_to(self, batch: str) -> int:
        """The last serial number of a batch of this node up to which all is safe: on `ack_copies` nodes."""
        self.origins.catch_up()
        return self.acknowledgements.safe_up_to(batch)

    def wait_safe(self, record: RecordId, timeout_s: float) -> bool:
        """Whether a record of this node, and all before it in its batch, are safe; waits for that."""
        self.origins.catch_up()
        self.wake()
        return self.acknowledgements.wait(record, timeout_s)

    def wait_all_safe(self, timeout_s: float) -> bool:
        """The same of all records that this node has recorded until now."""
        end_s = time.monotonic() + timeout_s
        self.origins.catch_up()
        return all(self.drain(each, max(0.0, end_s - time.monotonic())) for each in self.origins.held())

    def is_safe(self, record: RecordId) -> bool:
        """Whether a record of this archive is on `ack_copies` nodes. Raises CaptureNotFound if it is not here.

        Holders acknowledge what this node has recorded. Of a copy, which they have got elsewhere, they are asked.
        """
        self.origins.catch_up()
        rows = [row for row in self.origins.find_all(self.origins.origins_of(record)) if row is not None]
        if not rows:
            raise CaptureNotFound(f"record '{record}' is not here: it was removed, or the node has lost it")
        wanted = self._settings.ack_copies
        if rows[0].origin == record:
            return self.acknowledgements.copies_of(record, rows[0].partition) >= wanted
        holders = self.holders.of(rows[0].partition)
        return 1 + sum(self._has(name, rows) for name in self._others() if name in holders) >= wanted

    def _has(self, name: str, rows: Sequence[OriginRow]) -> bool:
        """Whether a member has a record, under one of its origins."""
        try:
            return any(held_by(self._repair_puller, self._peer(name), row.origin.batch, [row]) for row in rows)
        except (HoldfastError, Outdated) as error:
            log.debug("node '%s' does not say whether it has record '%s': %s", name, rows[0].record, error)
            return False

    def is_held(self, record: RecordId, partition: int) -> bool:
        """Whether all holders of a partition have a record that was recorded here. If not, they are notified."""
        self.origins.catch_up()
        holders = self.holders.of(partition)
        if self._links.node in holders and self.acknowledgements.copies_of(record, partition) >= len(holders):
            return True
        self.wake()
        return False

    def drain(self, partition: int, timeout_s: float) -> bool:
        """Whether everything that this node has recorded of a partition is safe; waits for that, before a hand-over."""
        self.origins.catch_up()
        self.wake()
        own = [name for name in self._archive.journal.names() if name.endswith(f".{self._links.node}")]
        return self.acknowledgements.wait_partition(partition, own, timeout_s)

    def remove(self, selection: Selection, options: RemovalOptions, who: str = "") -> ClusterRemoval:
        """Removes captures from all nodes; those that are away remove them before they serve again."""
        found = self.removals.remove(selection, options, who)
        self.notify_all()
        return found

    def notify_all(self) -> None:
        """There is something new for all other members."""
        self._links.notify(frozenset())

    def counts(self) -> dict[str, Any]:
        """For the table of nodes."""
        held, in_sync = self.held(), self.in_sync()
        return {
            "held": len(held),
            "in_sync": len(in_sync),
            "behind": len(held - in_sync),
            "removals": self.removals.position,
            "odd": dict(self._repairer.odd),
            "connections": self._server.connections,
            "pages_per_s": self._pages_per_s,
            "lag_s": max((time.monotonic() - each for each in list(self._behind_s.values())), default=0.0),
            "copies": self._copied(),
            "repair": asdict(self._repairer.counts),
        }

    def _copied(self) -> dict[str, int]:
        """What all threads have received."""
        pullers = [self._repair_puller, *self._pullers.values()]
        return {each.name: sum(getattr(one.counts, each.name) for one in pullers) for each in fields(CopyCounts)}

    def _status(self) -> dict[str, Any]:
        """What other members get to know."""
        return {"node": self._links.node, "epoch": self.holders.epoch}

    # -- other members ------------------------------------------------------------------------------------------

    def _others(self) -> list[str]:
        """The other members that are alive."""
        alive = self._links.alive()
        return [each.name for each in self._links.members() if each.name in alive and each.name != self._links.node]

    def _peer(self, name: str) -> Peer:
        member = self._links.members().get(name)
        with self._lock:
            known = self._peers.get(name)
            if known is None or known.member != member:
                if known is not None:
                    known.close()
                if self._stopping.is_set():
                    raise ClusterDown("the node stops")
                known = self._peers[name] = Peer(member, self.identity, self._links.client_tls)
        return known

    def _new_puller(self, name: str) -> Puller:
        return Puller(self._archive, self.origins, self._blocks, self.removals, self._elsewhere, name)

    def _live_peer(self, name: str) -> Peer | None:
        return self._peer(name) if name in self._others() else None

    def _elsewhere(self, puller: Puller, signatures: Sequence[bytes], but: str) -> dict[bytes, bytes]:
        """Contents that other live members have, `but` for one that was asked already. Slow members are asked last."""
        found: dict[bytes, bytes] = {}
        left = list(signatures)
        for name in sorted(self._others(), key=self._pause_of):
            if left and name != but:
                try:
                    found.update(puller.contents(self._peer(name), left))
                except HoldfastError as error:
                    self._warn(f"contents from {name}", f"cannot ask node '{name}' for contents: {error}")
                left = [each for each in signatures if each not in found]
        return found

    def _reserve(self, name: str) -> None:
        """Takes the serial numbers of this node's batches that another knows: after a loss none is given again."""
        try:
            known = self._new_puller(f".{name}").batches(self._peer(name))
        except (HoldfastError, Outdated) as error:
            log.info("node '%s' does not say which serial numbers it knows: %s", name, error)
            return
        with self._reserving:
            self._take_serials(known)

    def _take_serials(self, known: Mapping[str, int]) -> None:
        for batch, last in known.items():
            if not batch.endswith(f".{self._links.node}"):
                continue
            tail = self._archive.writer.ends().get(batch, 1)
            if last >= tail:
                log.warning("records of batch %r up to %d are lost here; other nodes have them", batch, last)
                taken = bare(JournalEntry("", "", "", b"", serial=last))
                self._archive.writer.restore(batch, [Copy(taken, ())], lambda _: None)

    # -- the threads --------------------------------------------------------------------------------------------

    def _begin(self, name: str, work: Callable[[], float | None]) -> None:
        """Runs a thread, unless it runs. `work` returns how long to wait before it is called again; None: no more."""
        with self._lock:
            if self._stopping.is_set() or ((known := self._threads.get(name)) is not None and known.is_alive()):
                return
            self._woken.setdefault(name, threading.Event())
            thread = self._threads[name] = threading.Thread(target=self._run, args=(name, work), name=f"copies {name}")
            thread.daemon = True
            thread.start()

    def _run(self, name: str, work: Callable[[], float | None]) -> None:
        woken = self._woken[name]
        while not self._stopping.is_set():
            woken.clear()
            wait_s: float | None = self._options.look_s
            try:
                wait_s = work()
            except Outdated:
                wait_s = 0.0
            except HoldfastError as error:
                self._warn(type(error).__name__, f"copies of node '{self._links.node}': {error}")
            except Exception:  # the edge of the thread: it must go on
                if self._stopping.is_set():
                    return
                log.exception("copies of node '%s' failed", self._links.node)
            if wait_s is None:
                return
            if wait_s:
                woken.wait(wait_s)

    def _look(self) -> float:
        """Applies removals, and looks what is new here and which members there are."""
        self.removals.apply()
        self._follow_splits()
        new = self.origins.catch_up()
        if new:
            self._links.notify(new)
        self._measure()
        self._forget_the_gone()
        for name in self._others():
            self._begin(name, partial(self._pull_from, name))
        return self._options.look_s

    def _measure(self) -> None:
        """How fast this node records captures of its own."""
        (begun_s, before), now_s, count = self._measured, time.monotonic(), self.origins.recorded
        if now_s - begun_s >= _MEASURED_S:
            self._pages_per_s = (count - before) / (now_s - begun_s)
            self._measured = now_s, count

    def _follow_splits(self) -> None:
        """Domains have been split otherwise: their records belong to other partitions, of other holders."""
        rule = PartitionRule(self._settings.partitions, self._links.members().splits)
        if rule == self.origins.rule:
            return
        log.info("node '%s' moves records of split domains to their partitions", self._links.node)
        concerned = self.origins.change_rule(rule)
        self.identity = self._identified(rule)
        self._server.identify(self.identity)
        self._departures += 1  # a comparison under way does not count
        with self._lock:
            peers = list(self._peers.values())
            self._peers.clear()
        for peer in peers:
            peer.close()
        for name in list(self._agreed):
            self._agreed[name] -= concerned

    def _identified(self, rule: PartitionRule) -> NodeIdentity:
        common = hashlib.blake2b(self._settings.to_json() + rule.text(), digest_size=16).digest()
        return NodeIdentity(self._links.node, self._settings.cluster, common, self._options.protocols)

    def _pull_from(self, name: str) -> float | None:
        """A page of each batch of a member; None once it is not alive any more."""
        if name not in self._others():
            self._behind_s.pop(name, None)
            return None
        if (pause_s := self._pause_of(name)) > 0:
            return pause_s
        puller = self._pullers.get(name)
        if puller is None:
            puller = self._pullers[name] = self._new_puller(name)
        pull = partial(puller.pull, held=self.held(), agreed=self._agreed.get(name, frozenset()))
        self._behind_s.setdefault(name, time.monotonic())
        if self._guarded(name, pull):
            return 0.0
        if name not in self._back_off:
            self._behind_s.pop(name, None)
        return self._options.look_s

    def _keep_up(self) -> float:
        """A step of the work that is under way: a comparison, a scrub or a drop."""
        if self._limit.wait_s:
            return min(self._limit.wait_s, self._options.look_s)
        return 0.0 if self._step() else self._options.look_s

    def _forget_the_gone(self) -> None:
        """When a member goes away, what it had given to others and not to this node is looked for at the others."""
        names = set(self._others())
        if not self._agreed.keys() <= names:
            self._departures += 1
            self._agreed.clear()
            self._compared_s.clear()
        members = {each.name for each in self._links.members()}
        with self._lock:
            gone = {name: self._peers.pop(name) for name in self._peers.keys() - members}
        for name, peer in gone.items():
            peer.close()
            self.acknowledgements.forget(name)
        self._server.drop_strangers()

    def _guarded(self, name: str, ask: Callable[[Peer], bool]) -> bool:
        """What `ask` returns. A member that fails is left alone for a while."""
        begun_s = time.monotonic()
        try:
            found = ask(self._peer(name))
        except Outdated:
            self.removals.apply()
            return True
        except HoldfastError as error:
            self._fail(name, error, begun_s)
            return False
        self._back_off.pop(name, None)
        return found

    def _pause_of(self, name: str) -> float:
        """For how long a member is to be left alone."""
        return max(0.0, self._back_off.get(name, (0.0, 0.0))[0] - time.monotonic())

    def _fail(self, name: str, error: HoldfastError, begun_s: float) -> None:
        pause_s = min(2 * self._back_off.get(name, (0.0, _BACK_OFF_S / 2))[1], _BACK_OFF_MAX_S)
        pause_s = max(pause_s, _BACK_OFF_SHARE * (time.monotonic() - begun_s))
        self._back_off[name] = time.monotonic() + pause_s, pause_s
        if not self._stopping.is_set():
            self._warn(name, f"node '{self._links.node}' cannot pull from node '{name}': {error}")

    # -- comparisons, scrubs and drops --------------------------------------------------------------------------

    def _step(self) -> bool:
        """One step of the work that is under way, or begins the next; False if there is none."""
        if self._work is None:
            self._work = self._next_work()
        if self._work is None:
            return False
        counts = self._repair_puller.counts
        before = counts.block_bytes + counts.entry_bytes
        begun_s = time.monotonic()
        try:
            next(self._work)
        except StopIteration:
            self._work = None
            self._finish_comparison()
            if self._repairer.has_lost:
                self._repairer.has_lost = False
                self._agreed.clear()
                self._compared_s.clear()
        except Outdated:
            self._work = self._comparison = None
            self.removals.apply()
        except HoldfastError as error:
            comparison, self._work, self._comparison = self._comparison, None, None
            if comparison is None:
                raise
            self._fail(comparison.peer, error, begun_s)
        self._limit.spend(counts.block_bytes + counts.entry_bytes - before)
        return True

    def _next_work(self) -> Generator[None] | None:
        now_s = time.monotonic()
        live = frozenset((*self._others(), self._links.node))
        for name in sorted(self._others(), key=lambda each: self._compared_s.get(each, 0.0)):
            if self._pause_of(name) > 0:
                continue
            is_due = now_s - self._compared_s.get(name, float("-inf")) >= self._options.compare_s
            partitions = self.held() if is_due else self.held() - self._agreed.get(name, frozenset())
            if partitions:
                if is_due:
                    self._compared_s[name] = now_s
                if self._compared_departures != self._departures:
                    self._compared_departures = self._departures
                    self._repairer.forget()
                self._comparison = PeerComparison(name, self._departures, partitions)
                return self._repairer.compare(self._peer(name), self._comparison, live)
        if self._scrubbed_s is None or now_s - self._scrubbed_s >= self._options.scrub_s:
            is_first, self._scrubbed_s = self._scrubbed_s is None, now_s
            return self._repairer.scrub(deep=not is_first)
        if now_s - self._dropped_s >= self._options.drop_s:
            self._dropped_s = now_s
            return self._repairer.drop(self._live_peer, self._settings.copies)
        return None

    def _finish_comparison(self) -> None:
        comparison, self._comparison = self._comparison, None
        if comparison is None:
            return
        if comparison.lacking:
            error = ClusterDown(f"contents of {len(comparison.lacking)} partitions are lacking")
            self._fail(comparison.peer, error, time.monotonic())
        if comparison.peer in self._others() and comparison.departures == self._departures:
            self._agreed[comparison.peer] = (
                self._agreed.get(comparison.peer, frozenset()) - comparison.lacking | comparison.agreed
            )

    def repair(self, *, deep: bool = True) -> None:
        """Has everything compared, scrubbed and dropped as soon as possible, whatever the schedule says."""
        self._compared_s.clear()
        self._dropped_s = float("-inf")
        self._scrubbed_s = float("-inf") if deep else None
        self.wake()

    def _warn(self, subject: str, message: str) -> None:
        """At most once a minute for each subject."""
        now_s = time.monotonic()
        if now_s - self._warned.get(subject, float("-inf")) >= _WARN_S:
            self._warned[subject] = now_s
            log.warning("%s", message)


class ClusterRemover:
    """`Archive.remove` on a node that runs: what crawls let expire and what is superseded goes from all nodes (N2)."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies

    def remove(self, selection: Selection, options: RemovalOptions) -> Removal:
        copies = self._copies
        if type(selection) not in (Selection, ChosenUrls):
            removal = copies.removals.remove_records(selection, options)
            copies.notify_all()
            return removal
        removal = copies.removals.count(selection)
        for part in _parts(selection):
            copies.remove(part, options)
        return removal

    def completeness(self) -> Callable[[str], bool]:
        in_sync, rule = self._copies.in_sync(), self._copies.origins.rule
        return lambda url: rule.of_url(url) in in_sync


def _parts(selection: Selection) -> Iterator[Selection]:
    """Selections that fit into messages of the log."""
    if not isinstance(selection, ChosenUrls):
        yield selection
        return
    urls: list[str] = []
    size = 0
    for url in selection.urls:
        if urls and size + len(url) > _URL_BYTES_MAX:
            yield replace(selection, urls=tuple(urls))
            urls, size = [], 0
        urls.append(url)
        size += len(url)
    if urls:
        yield replace(selection, urls=tuple(urls))


def _require_settings(archive: Archive, settings: ClusterSettings, node: str) -> None:
    """Raises UsageError unless the archive is one of this node, with the settings of the cluster."""
    if archive.settings.records.node != node:
        raise UsageError(
            f"the archive '{archive.path}' is not of node '{node}': its setting 'records.node' is "
            f"{archive.settings.records.node!r}"
        )
    if archive.settings.store.signature != settings.signature:
        raise UsageError(
            f"the archive '{archive.path}' has signatures {archive.settings.store.signature!r}, the cluster "
            f"{settings.signature!r}: fingerprints would differ"
        )
