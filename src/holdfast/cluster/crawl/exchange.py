"""The exchange of links: appends the outbox to the log, and reads what others have appended for this node's partitions.

A notification tells the other nodes which partitions have news; whoever owns one reads its log after its position. A
partition that was claimed is *ready* when this node has read the last message, by the server that orders all writes.
From then on, the count of messages shows whether something was missed: only the owner cuts the log off (`checkpoint`).

One thread, beside the crawl's: the crawl puts rows into its outbox and takes messages from `inbox`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby
from secrets import token_hex
from typing import Any

from holdfast.cluster.copies.removal.removal_log import OnBus
from holdfast.cluster.crawl.checkpoint import MERGED, Checkpoint, CheckpointStore
from holdfast.cluster.crawl.job import topic_of
from holdfast.cluster.crawl.log import LogCut, LogMessage, cut_line, last_cut, pack_message, unpack_message
from holdfast.cluster.crawl.outbox import LineKind, LogPosition, Outbox, OutboxRow
from holdfast.cluster.membership.bus import Bus, KeyValue
from holdfast.errors import ClusterDown, HoldfastError, MalformedInput
from holdfast.model import RecordId

log = logging.getLogger("holdfast.cluster")

FLUSH_S = 2.0  # a row is published at this age, or as soon as the crawl has nothing else to do
LOOK_S = 1.0  # between two looks at the counts
_ROUND_S = 0.05
_RETRY_S = 0.3
_ROWS_MAX = 2000  # published at a time
_MESSAGE_BYTES_MAX = 256 << 10  # of lines
_MESSAGES_AT_ONCE = 64
_READS_AT_ONCE = 64
_INBOX_MAX = 500  # messages that the crawl has not taken; then none are read
_WARN_S = 60.0
_PURGE_S = 60.0  # after a purge that failed
_CHECKPOINTS_AT_ONCE = 8  # that are read before the crawl takes what they have
CHECKPOINT_MESSAGES = 200  # so many of a log become a checkpoint
_CLAIMS = count(1)


@dataclass(frozen=True, slots=True)
class Received:
    """A message of a partition's log, or the news that the log has one of ours."""

    partition: int
    position: LogPosition
    message: LogMessage | None


@dataclass(frozen=True, slots=True)
class Caught:
    """All messages of a partition are read, as of its claim."""

    partition: int


@dataclass(frozen=True, slots=True)
class NewService:
    """Another service, which has no log yet."""

    number: int


@dataclass(frozen=True, slots=True)
class _Written:
    """A checkpoint that the log does not tell of yet."""

    claim: int
    record: RecordId
    cut: LogCut
    replaced: Sequence[RecordId] = ()


@dataclass(slots=True)
class LinkExchange:
    """Of one crawl and one node. `start` and `stop` once."""

    name: str  # of the crawl
    on_bus: OnBus
    notify: Callable[[bytes], None]
    outbox: Outbox
    positions: dict[int, LogPosition]
    checkpoints: CheckpointStore
    work: Callable[[], None]  # done in every round, by this thread: reports, credits, the end
    first_service: int = 0  # number of the one with which the crawl began
    inbox: deque[Received | Caught | NewService] = field(default_factory=deque)
    total: int | None = None  # number of the last message, if nothing is missing here and all of ours are there
    is_idle: bool = False  # the crawl has nothing else to do: publish at once
    _followed: dict[int, int] = field(default_factory=dict)  # partitions, and which claim of this node's it is
    _catching: set[int] = field(default_factory=set)  # followed, and not ready
    _counted: dict[int, int] = field(default_factory=dict)  # claims since which nobody else cuts the log off
    _written: dict[int, _Written] = field(default_factory=dict)  # by partition: waits for its copies
    _cuts: dict[int, tuple[int, int]] = field(default_factory=dict)  # by partition: claim, and cuts since a merger
    _replaced: list[RecordId] = field(default_factory=list)  # checkpoints that are to be removed
    _earlier: dict[int, list[RecordId]] | None = None  # by partition: checkpoints of earlier services, to be read
    _purge_again_s: float = 0.0
    _hinted: set[int] = field(default_factory=set)
    _looked_s: float = 0.0
    _token: str = ""
    _warned_s: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _woken: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._token = token_hex(6)  # short, since each message in the log has it
        self._thread = threading.Thread(target=self._run, name=f"links of {self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Publishes what is left, if the service answers."""
        self._stopping.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    # -- for the crawl's thread -----------------------------------------------------------------------------------

    def follow(self, partition: int) -> None:
        """Reads the log of a partition from now on; `Caught` comes when it is read."""
        with self._lock:
            self._followed[partition] = next(_CLAIMS)
            self._catching.add(partition)
            self.total = None
            self._looked_s = 0.0
        self._woken.set()

    def leave(self, partition: int) -> None:
        with self._lock:
            self._followed.pop(partition, None)
            self._catching.discard(partition)
            self.total = None

    def flush(self) -> None:
        """Publishes at once."""
        self.is_idle = True
        self._woken.set()

    def hint(self, partitions: Sequence[int]) -> None:
        """These have news. Any thread."""
        with self._lock:
            self._hinted.update(partitions)
        self._woken.set()

    def safe_positions(self, partitions: Collection[int]) -> dict[str, int]:
        """By partition: up to which message checkpoints have the log, that all holders have."""
        known = {partition: self._position(partition).cut.sequence for partition in partitions}
        return {str(partition): sequence for partition, sequence in known.items() if sequence}

    # -- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            is_last = self._stopping.is_set()
            wait_s = _ROUND_S
            try:
                self._round(flush=is_last)
            except ClusterDown as error:
                log.debug("links of the crawl '%s': %s", self.name, error)
                wait_s = _RETRY_S
            except (HoldfastError, ValueError) as error:
                wait_s = _RETRY_S
                if time.monotonic() - self._warned_s > _WARN_S:
                    self._warned_s = time.monotonic()
                    log.warning("links of the crawl '%s': %s", self.name, error)
            except Exception:  # the edge of the thread: it must go on
                wait_s = _RETRY_S
                if time.monotonic() - self._warned_s > _WARN_S:
                    self._warned_s = time.monotonic()
                    log.exception("links of the crawl '%s' failed", self.name)
            if is_last:
                return
            self._woken.wait(wait_s)
            self._woken.clear()

    def _round(self, *, flush: bool) -> None:
        number = self.on_bus(_incarnation)
        if number != self.outbox.incarnation:
            if not any(isinstance(each, NewService) for each in self.inbox):
                self._earlier = None
                self.inbox.append(NewService(number))  # the crawl's thread forgets the positions, and dumps
            return
        if flush or self.is_idle or self.outbox.age_s() >= FLUSH_S:
            self._publish(number)
        self._read_hinted()
        if time.monotonic() - self._looked_s >= LOOK_S:
            self._look()
        self.work()

    # -- appending ------------------------------------------------------------------------------------------------

    def _publish(self, incarnation: int) -> None:
        """Appends rows, those with links before those that say that a page is done."""
        while rows := self.outbox.take(_ROWS_MAX):
            self.total = None
            links = [row for row in rows if row.kind != LineKind.FINISHED]
            done = [row for row in rows if row.kind == LineKind.FINISHED]
            news: set[int] = set()
            failure: ClusterDown | None = None
            for each in (links, done):
                if failure is None:
                    failure = self._append(each, incarnation, news)
                else:
                    self.outbox.give_back(each)
            self._tell(news)
            if failure is not None:
                raise failure

    def _append(self, rows: list[OutboxRow], incarnation: int, news: set[int]) -> ClusterDown | None:
        messages = _messages(rows)
        for start in range(0, len(messages), _MESSAGES_AT_ONCE):
            chosen = messages[start : start + _MESSAGES_AT_ONCE]
            results = self.on_bus(self._appending(chosen))
            for message, result in zip(chosen, results, strict=True):
                if isinstance(result, int):
                    self.outbox.acknowledge(message, incarnation, result)
                    news.add(message[0].partition)
            failed = [
                row
                for message, result in zip(chosen, results, strict=True)
                if result.__class__ is not int
                for row in message
            ]
            if failed:
                self.outbox.give_back(
                    [*failed, *(row for each in messages[start + _MESSAGES_AT_ONCE :] for row in each)]
                )
                error = next(each for each in results if not isinstance(each, int))
                return error if isinstance(error, ClusterDown) else ClusterDown(str(error))
        return None

    def _appending(self, messages: list[list[OutboxRow]]) -> Callable[[Bus], Any]:
        async def append(bus: Bus) -> list[int | BaseException]:
            work = (self._append_one(bus, each) for each in messages)
            return await asyncio.gather(*work, return_exceptions=True)

        return append

    async def _append_one(self, bus: Bus, rows: list[OutboxRow]) -> int:
        first = rows[0]
        lines = [line for row in rows for line in row.text.split("\n")]
        data = pack_message(LogMessage(self.outbox.id, first.kind != LineKind.SENT, first.visit, lines))
        topic, token = (
            self._topic(first.partition),
            f"{self._token}-{first.number:x}-{rows[-1].number - first.number:x}",
        )
        position = self.positions.get(first.partition, LogPosition()) if first.partition in self._followed else None
        if first.kind != LineKind.SENT and position is not None and first.partition not in self._catching:
            sequence = await bus.append(topic, data, token, after=position.sequence)
            is_next = self.positions.get(first.partition, LogPosition()) == position
            if sequence is not None and is_next and sequence > position.sequence:
                # nobody else was between: it need not be read
                after = replace(position, sequence=sequence, count=position.count + 1)
                self.positions[first.partition] = after
                self.inbox.append(Received(first.partition, after, None))
                return sequence
            if sequence is not None:
                return sequence
        sequence = await bus.append(topic, data, f"{token}a")
        assert sequence is not None
        return sequence

    def _topic(self, partition: int) -> str:
        return f"{topic_of(self.name)}.{partition}"

    def _tell(self, partitions: set[int]) -> None:
        if partitions:
            self.notify(b"links" + json.dumps({"crawl": self.name, "partitions": sorted(partitions)}).encode())

    # -- reading --------------------------------------------------------------------------------------------------

    def _read_hinted(self) -> None:
        if len(self.inbox) > _INBOX_MAX:
            return
        with self._lock:
            hinted, self._hinted = self._hinted & self._followed.keys(), set()
        waiting = sorted(hinted)
        for start in range(0, len(waiting), _READS_AT_ONCE):
            self._read(*waiting[start : start + _READS_AT_ONCE])

    def _look(self) -> None:
        """Compares the end of the log with what was read."""
        if len(self.inbox) > _INBOX_MAX:
            return
        with self._lock:
            followed, catching = dict(self._followed), frozenset(self._catching)
        topic = topic_of(self.name)
        found, last = self.on_bus(lambda bus: bus.count_log(f"{topic}.*"))
        counts = {int(name.rpartition(".")[2]): number for name, number in found.items()}
        behind = False
        for partition, claim in followed.items():
            number = counts.get(partition, 0)
            if partition in catching and not self._has_earlier(partition):
                behind = True
                continue
            if not self._is_read(partition, claim, number):
                self._read(partition)
                if not self._is_read(partition, claim, number):
                    behind = True  # a replica answered that is behind, or there is more
                    continue
            self._finish_cut(partition, claim)
            if partition in catching:
                with self._lock:
                    if self._followed.get(partition) != claim:
                        continue
                    self._catching.discard(partition)
                self.inbox.append(Caught(partition))
        if not behind and self.outbox.is_empty:
            with self._lock:
                if followed == self._followed:
                    self.total = last
        if not behind:
            self._cut_off(followed)
        self._looked_s = time.monotonic() if not behind else 0.0

    def _is_read(self, partition: int, claim: int, number: int) -> bool:
        """Whether all messages of a partition are read, of which the log has this number now.

        The last message stays in the log, whatever is cut off.
        """
        position = self._position(partition)
        if self._counted.get(partition) == claim:
            return number + position.cut.count <= position.count
        return not number or self.on_bus(lambda bus: bus.last_of_log(self._topic(partition))) <= position.sequence

    def _position(self, partition: int) -> LogPosition:
        return self.positions.get(partition) or LogPosition()

    def _read(self, *partitions: int) -> None:
        after = [(self._topic(each), self._position(each).sequence) for each in partitions]

        async def read(bus: Bus) -> list[list[KeyValue]]:
            return await asyncio.gather(*(bus.read_log(*each) for each in after))

        for partition, found in zip(partitions, self.on_bus(read), strict=True):
            self._take_found(partition, found)

    def _take_found(self, partition: int, found: list[KeyValue]) -> None:
        position = self._position(partition)
        messages = [(each.revision, self._unpacked(partition, each)) for each in found]
        cuts = [(number, each) for number, message in messages if message is not None and (each := _cut_of(message))]
        if cuts:
            cut = cuts[-1][1]
            there = sum(number <= cut.sequence for number, _ in messages)
            if cut.sequence > position.sequence and position.count + there != cut.count:
                self._load(partition, cut)  # some are deleted
                return
        known = dict(cuts)
        for number, message in messages:
            position = LogPosition(number, position.count + 1, known.get(number, position.cut))
            self._take(partition, position, message)

    def _take(self, partition: int, position: LogPosition, message: LogMessage | None) -> None:
        if position.cut != self._position(partition).cut:
            self._counted.pop(partition, None)
        self.positions[partition] = position
        self.inbox.append(Received(partition, position, message))

    def _load(self, partition: int, cut: LogCut) -> None:
        """Reads checkpoints instead of the log, the first few after the position. Raises CaptureNotFound."""
        position = self._position(partition)
        for each in self.checkpoints.chain(cut, position.sequence)[:_CHECKPOINTS_AT_ONCE]:
            for message in self.checkpoints.load(each.record).messages:
                self.inbox.append(Received(partition, position, message))
            position = LogPosition(each.sequence, each.count, each)
            self._take(partition, position, None)

    def _has_earlier(self, partition: int) -> bool:
        """Whether the messages of earlier services are read, as far as checkpoints have them; reads a few of them.

        That a page is done counts only if whoever says so can still name the links that were found on it: not here.
        """
        if self.outbox.incarnation <= self.first_service or partition in self.positions:
            return True
        if self._earlier is None:
            self._earlier = self.checkpoints.before(self.name, self.outbox.incarnation)
        records = self._earlier.get(partition, [])
        for record in records[:_CHECKPOINTS_AT_ONCE]:
            for message in self.checkpoints.load(str(record)).messages:
                lines = [line for line in message.lines if not line.startswith("d\t")]
                self.inbox.append(Received(partition, LogPosition(), message._replace(lines=lines)))
        del records[:_CHECKPOINTS_AT_ONCE]
        if not records:
            self._take(partition, LogPosition(), None)
        return not records

    def _unpacked(self, partition: int, each: KeyValue) -> LogMessage | None:
        try:
            return unpack_message(each.value)
        except MalformedInput as error:
            log.error("partition %d of the crawl '%s', message %d: %s", partition, self.name, each.revision, error)
            return None

    # -- cutting off ----------------------------------------------------------------------------------------------

    def _cut_off(self, followed: dict[int, int]) -> None:
        """Writes checkpoints of long logs, and deletes what they have once all holders have them."""
        for partition, claim in followed.items():
            position = self._position(partition)
            if self._counted.get(partition) != claim or not self.checkpoints.is_ours(partition):
                continue
            written = self._written.get(partition)
            if written is not None and written.claim != claim:
                written = None
            if written is None and self._cuts_of(partition, claim) >= MERGED:
                record, replaced = self.checkpoints.merged(position.cut)
                written = _Written(claim, record, replace(position.cut, record=str(record)), replaced)
                self._written[partition] = written
            elif written is None and position.count - position.cut.count > CHECKPOINT_MESSAGES:
                written = self._write(partition, claim, position)
            if written is not None and self.checkpoints.is_held(written.record, partition):
                self._announce(partition, position, written)
                self._finish_cut(partition, claim)
        if self._replaced:
            self.checkpoints.remove(self._replaced)
            self._replaced.clear()

    def _cuts_of(self, partition: int, claim: int) -> int:
        known, cuts = self._cuts.get(partition, (claim, 0))
        return cuts if known == claim else 0

    def _write(self, partition: int, claim: int, position: LogPosition) -> _Written | None:
        """A checkpoint of the first messages after the last one."""
        cut = position.cut
        found: list[KeyValue] = self.on_bus(
            lambda bus: bus.read_log(self._topic(partition), cut.sequence, CHECKPOINT_MESSAGES)
        )
        messages = [self._unpacked(partition, each) for each in found]
        if len(found) < CHECKPOINT_MESSAGES or found[-1].revision >= position.sequence:
            return None  # of a replica that is behind
        last, number = found[-1].revision, cut.count + len(found)
        kept = [each for each in messages if each is not None]
        checkpoint = Checkpoint(self.name, partition, self.outbox.incarnation, last, number, cut.record or "-", kept)
        record = self.checkpoints.write(checkpoint)
        written = self._written[partition] = _Written(claim, record, LogCut(last, number, str(record)))
        return written

    def _announce(self, partition: int, position: LogPosition, written: _Written) -> None:
        """Tells of a checkpoint in the log, unless somebody has appended something that is not read yet."""
        cut = written.cut
        data = pack_message(LogMessage(self.outbox.id, True, 0, [cut_line(cut)]))
        token = f"{self._token}-cut-{partition}-{position.sequence}"
        sequence = self.on_bus(lambda bus: bus.append(self._topic(partition), data, token, after=position.sequence))
        if sequence is not None:
            self._written.pop(partition, None)
            cuts = 0 if written.replaced else self._cuts_of(partition, written.claim) + 1
            self._cuts[partition] = written.claim, cuts
            self._replaced += written.replaced
            self._take(partition, LogPosition(sequence, position.count + 1, cut), None)

    def _finish_cut(self, partition: int, claim: int) -> None:
        """Deletes what the last checkpoint has: from then on the number of messages is known.

        A node does so only while it has its right: then the log tells of the cut before any other node can claim the
        partition, and that node deletes the same messages itself before it counts.
        """
        cut = self._position(partition).cut
        if self._counted.get(partition) == claim or not self.checkpoints.is_ours(partition):
            return
        if cut.sequence:
            if time.monotonic() < self._purge_again_s:
                return
            try:
                self.on_bus(lambda bus: bus.cut_log(self._topic(partition), cut.sequence))
            except ClusterDown as error:
                self._purge_again_s = time.monotonic() + _PURGE_S
                log.warning("the log of partition %d of the crawl '%s' stays: %s", partition, self.name, error)
                return
        self._counted[partition] = claim


def _messages(rows: list[OutboxRow]) -> list[list[OutboxRow]]:
    """Rows of one partition, kind and visit together, up to a size."""
    messages: list[list[OutboxRow]] = []
    ordered = sorted(rows, key=lambda row: (row.partition, row.kind, row.visit, row.number))
    for _, group in groupby(ordered, key=lambda row: (row.partition, row.kind, row.visit)):
        size = _MESSAGE_BYTES_MAX
        for row in group:
            if size + len(row.text) > _MESSAGE_BYTES_MAX:
                messages.append([])
                size = 0
            messages[-1].append(row)
            size += len(row.text)
    return messages


def _cut_of(message: LogMessage) -> LogCut | None:
    try:
        return last_cut(message)
    except ValueError as error:
        raise MalformedInput(f"a cut of a crawl's log cannot be read: {error}") from error


async def _incarnation(bus: Bus) -> int:
    return bus.access.service.number
