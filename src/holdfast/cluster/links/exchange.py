"""The exchange of links: appends the outbox to the log, and reads what others have appended for this node's partitions.

A notification tells the other nodes which partitions have news; whoever owns one reads its log after its position. The
count of messages, from the server that orders all writes, shows whether something was missed: a partition that was
claimed is *ready* when this node has read as many as there are.

One thread, beside the crawl's: the crawl puts rows into its outbox and takes messages from `inbox`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from holdfast.cluster.copies.removal_log import OnBus
from holdfast.cluster.links.job import topic_of
from holdfast.cluster.links.log import LogMessage, pack_message, unpack_message
from holdfast.cluster.links.outbox import LineKind, LogPosition, Outbox, OutboxRow
from holdfast.cluster.membership.bus import Bus, KeyValue
from holdfast.errors import ClusterDown, HoldfastError, MalformedInput

log = logging.getLogger("holdfast.cluster")

FLUSH_S = 1.0  # a row is published at this age, or as soon as the crawl has nothing else to do
LOOK_S = 1.0  # between two looks at the counts
_ROUND_S = 0.05
_RETRY_S = 0.3
_ROWS_MAX = 2000  # published at a time
_MESSAGE_BYTES_MAX = 256 << 10  # of lines
_MESSAGES_AT_ONCE = 64
_INBOX_MAX = 500  # messages that the crawl has not taken; then none are read
_WARN_S = 60.0


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


@dataclass(slots=True)
class LinkExchange:
    """Of one crawl and one node. `start` and `stop` once."""

    name: str  # of the crawl
    on_bus: OnBus
    notify: Callable[[bytes], None]
    outbox: Outbox
    positions: dict[int, LogPosition]
    work: Callable[[], None]  # done in every round, by this thread: reports, credits, the end
    inbox: deque[Received | Caught | NewService] = field(default_factory=deque)
    total: int | None = (
        None  # messages of this crawl's log, if nothing of them is missing here and all of ours are there
    )
    is_idle: bool = False  # the crawl has nothing else to do: publish at once
    _followed: set[int] = field(default_factory=set)
    _catching: set[int] = field(default_factory=set)  # followed, and not ready
    _hinted: set[int] = field(default_factory=set)
    _looked_s: float = 0.0
    _token: str = ""
    _warned_s: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _woken: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._token = f"{self.outbox.id}-{time.time_ns():x}"
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
            self._followed.add(partition)
            self._catching.add(partition)
            self.total = None
            self._looked_s = 0.0
        self._woken.set()

    def leave(self, partition: int) -> None:
        with self._lock:
            self._followed.discard(partition)
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
            if is_last:
                return
            self._woken.wait(wait_s)
            self._woken.clear()

    def _round(self, *, flush: bool) -> None:
        number = self.on_bus(_incarnation)
        if number != self.outbox.incarnation:
            if not any(isinstance(each, NewService) for each in self.inbox):
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
        topic, token = self._topic(first.partition), f"{self._token}-{first.number}-{rows[-1].number}"
        position = self.positions.get(first.partition, LogPosition()) if first.partition in self._followed else None
        if first.kind != LineKind.SENT and position is not None and first.partition not in self._catching:
            before = LogPosition(position.sequence, position.count)
            sequence = await bus.append(topic, data, token, after=before.sequence)
            if sequence is not None and position.sequence == before.sequence and sequence > before.sequence:
                # nobody else was between: it need not be read
                after = self.positions[first.partition] = LogPosition(sequence, before.count + 1)
                self.inbox.append(Received(first.partition, after, None))
                return sequence
            if sequence is not None:
                return sequence
        sequence = await bus.append(topic, data, f"{token}-again")
        assert sequence is not None
        return sequence

    def _topic(self, partition: int) -> str:
        return f"{topic_of(self.name)}.{partition}"

    def _tell(self, partitions: set[int]) -> None:
        if partitions:
            self.notify(b"links" + json.dumps({"crawl": self.name, "partitions": sorted(partitions)}).encode())

    # -- reading --------------------------------------------------------------------------------------------------

    def _read_hinted(self) -> None:
        with self._lock:
            hinted, self._hinted = self._hinted & self._followed, set()
        for partition in hinted:
            self._read(partition)

    def _look(self) -> None:
        """Compares the counts of the log with what was read."""
        if len(self.inbox) > _INBOX_MAX:
            return
        with self._lock:
            followed, catching = frozenset(self._followed), frozenset(self._catching)
        topic = topic_of(self.name)
        counts = {
            int(name.rpartition(".")[2]): count
            for name, count in self.on_bus(lambda bus: bus.count_log(f"{topic}.*")).items()
        }
        behind = False
        for partition in followed:
            if counts.get(partition, 0) > self._position(partition).count:
                self._read(partition)
            if counts.get(partition, 0) > self._position(partition).count:
                behind = True  # a replica answered that is behind
            elif partition in catching:
                with self._lock:
                    self._catching.discard(partition)
                self.inbox.append(Caught(partition))
        if not behind and self.outbox.is_empty:
            with self._lock:
                if followed == self._followed:
                    self.total = sum(counts.values())
        self._looked_s = time.monotonic() if not behind else 0.0

    def _position(self, partition: int) -> LogPosition:
        return self.positions.get(partition) or LogPosition()

    def _read(self, partition: int) -> None:
        position = self._position(partition)
        found: list[KeyValue] = self.on_bus(lambda bus: bus.read_log(self._topic(partition), position.sequence))
        for each in found:
            position = self.positions[partition] = LogPosition(each.revision, position.count + 1)
            try:
                message: LogMessage | None = unpack_message(each.value)
            except MalformedInput as error:
                log.error("partition %d of the crawl '%s', message %d: %s", partition, self.name, each.revision, error)
                message = None
            self.inbox.append(Received(partition, position, message))


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


async def _incarnation(bus: Bus) -> int:
    return bus.access.service.number
