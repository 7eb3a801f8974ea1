"""The log of a partition is cut off, and nothing of it is lost, wherever its owner is killed (H1, H5).

The exchange of links as nodes run it, on real archives and frontiers, round by round; the log is in memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

import holdfast
from holdfast.archive import Archive
from holdfast.batches.entry import CHECKPOINT
from holdfast.catalog import CaptureQuery
from holdfast.cluster.copies.partitions import PartitionRule
from holdfast.cluster.crawl import checkpoint as checkpoint_module
from holdfast.cluster.crawl import exchange as exchange_module
from holdfast.cluster.crawl.checkpoint import (
    Checkpoint,
    CheckpointStore,
    merged_messages,
    pack_checkpoint,
    unpack_checkpoint,
)
from holdfast.cluster.crawl.exchange import Caught, LinkExchange, Received
from holdfast.cluster.crawl.log import LogCut, LogMessage, cut_line, last_cut
from holdfast.cluster.crawl.outbox import LineKind, LogPosition, Outbox
from holdfast.cluster.membership.bus import KeyValue
from holdfast.crawl.frontier import Frontier
from holdfast.errors import ClusterDown, FormatTooNew, MalformedInput
from holdfast.model import RecordId
from holdfast.records.selection import Selection

T = TypeVar("T")
PARTITION = 3
EACH = 4  # messages of a checkpoint
MESSAGE = LogMessage("f00d", False, 1, ["f\thttp://example.com/\tL\t1\t0\tpage\t-"])


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Log:
    """The log of a service, in memory; at a chosen request the process that sends it is killed, before or after."""

    messages: list[tuple[int, str, bytes]] = field(default_factory=list)
    last: int = 0
    kill_at: str = ""  # name of a request, and when
    access: Any = field(default_factory=lambda: SimpleNamespace(service=SimpleNamespace(number=1)))

    def on_bus(self, call: Callable[[Any], Awaitable[T]]) -> T:
        async def run() -> T:
            return await call(self)

        return asyncio.run(run())

    @contextmanager
    def _killing(self, request: str) -> Iterator[None]:
        if self.kill_at == f"before {request}":
            raise Killed
        yield
        if self.kill_at == f"after {request}":
            raise Killed

    def _of(self, topic: str) -> list[tuple[int, bytes]]:
        return [(number, data) for number, name, data in self.messages if name == topic]

    async def append(self, topic: str, data: bytes, message_id: str, after: int | None = None) -> int | None:
        with self._killing("line" if "-cut-" in message_id else "append"):
            if after is not None and max((number for number, _ in self._of(topic)), default=0) != after:
                return None
            self.last += 1
            self.messages.append((self.last, topic, data))
        return self.last

    async def read_log(self, topic: str, after: int, count: int | None = None) -> list[KeyValue]:
        return [KeyValue(data, number) for number, data in self._of(topic) if number > after][:count]

    async def last_of_log(self, topic: str) -> int:
        return max((number for number, _ in self._of(topic)), default=0)

    async def cut_log(self, topic: str, last: int) -> None:
        with self._killing("purge"):
            self.messages = [each for each in self.messages if each[1] != topic or each[0] > last]

    async def count_log(self, topics: str) -> tuple[dict[str, int], int]:
        names = [name for _, name, _ in self.messages]
        return {name: names.count(name) for name in names}, self.last


class Node:
    """The exchange of one node, without its threads: what it appends, and what its crawl gets to know."""

    def __init__(self, path: Path, log: Log, archive: Archive) -> None:
        self.path, self.log, self.archive = path, log, archive
        self.has_right = True
        self.is_copied = True
        self.lines: list[str] = []
        self.is_ready = False
        self.frontier = Frontier(path)
        self.outbox = Outbox(self.frontier)
        positions = self.outbox.load()
        self.outbox.begin(log.access.service.number) if not self.outbox.incarnation else None
        self.frontier.sink = self  # type: ignore[assignment]
        self.checkpoints = CheckpointStore(
            archive, lambda _: self.has_right, lambda _record, _partition: self.is_copied
        )
        self.exchange = LinkExchange(
            "web", log.on_bus, lambda _: None, self.outbox, positions, self.checkpoints, lambda: None, is_idle=True
        )
        self.exchange._token = path.name

    is_changed = True

    def changes(self) -> Any:
        return self.outbox.changes(1)

    def claim(self) -> None:
        self.exchange.follow(PARTITION)
        while not self.is_ready:
            self.round()

    def round(self) -> None:
        """One round of the exchange, and one of the crawl, with its commit."""
        self.exchange._looked_s = 0.0
        self.exchange._round(flush=True)
        while self.exchange.inbox:
            item = self.exchange.inbox.popleft()
            if isinstance(item, Caught):
                self.is_ready = True
            elif isinstance(item, Received):
                self.outbox.set_position(item.partition, item.position)
                message = item.message
                if message is not None and not (message.is_applied and message.sender == self.outbox.id):
                    self.lines += [line for line in message.lines if not line.startswith("c\t")]
        self.frontier.commit()
        self.outbox.committed()

    def find(self, line: str) -> None:
        """A link that this node's crawl has found: it is applied here, and the log is to have it."""
        self.lines.append(line)
        self.outbox.add(PARTITION, LineKind.FOUND, line)
        self.frontier.commit()
        self.outbox.committed()
        self.round()

    @property
    def position(self) -> LogPosition:
        return self.exchange.positions[PARTITION]

    def close(self) -> None:
        self.frontier.close()


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module, "CHECKPOINT_MESSAGES", EACH)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """Of all nodes: they hold the same records."""
    with made(tmp_path / "archive") as archive:
        yield archive


def made(path: Path) -> Archive:
    holdfast.init(path)
    return Archive(path)


def lines(count: int, first: int = 0) -> list[str]:
    return [f"f\thttp://example.com/{number}\tL\t1\t0\tpage\t-" for number in range(first, first + count)]


def checkpoints_in(archive: Archive) -> int:
    names = archive.journal.names()
    entries = (each for name in names for each in archive.records.entries_from(RecordId(name, 1)))
    return sum(entry.type == CHECKPOINT for entry in entries)


def known_to_another(tmp_path: Path, log: Log, archive: Archive) -> list[str]:
    """What a node that knows nothing learns when it claims the partition, repeated messages once."""
    other = Node(tmp_path / f"other-{log.last}-{len(log.messages)}", log, archive)
    other.claim()
    other.close()
    return list(dict.fromkeys(other.lines))


# -- the format --------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_its_messages_after_a_line() -> None:
    checkpoint = Checkpoint(
        "web", 3, 1, 17, 9, "202611.a-0000000001", [MESSAGE, LogMessage("b", True, 2, ["r\tx", "r\ty"])]
    )
    head, payload = pack_checkpoint(checkpoint, "w")
    assert head == b"holdfast-checkpoint 1\tweb\t3\t1\t17\t9\t202611.a-0000000001\tw\n"
    assert payload.startswith(b"holdfast-log 1\tf00d\tsent\t1\nf\thttp://example.com/")
    assert unpack_checkpoint(head + payload) == checkpoint
    with pytest.raises(FormatTooNew):
        unpack_checkpoint(head.replace(b" 1\t", b" 2\t", 1) + payload)
    for bad in (b"", b"something else", head[:20], head + b"f\tx"):
        with pytest.raises(MalformedInput):
            unpack_checkpoint(bad)


def test_the_line_of_a_cut() -> None:
    cut = LogCut(17, 9, "202611.a-0000000001")
    assert cut_line(cut) == "c\t202611.a-0000000001\t17\t9"
    assert last_cut(LogMessage("a", True, 0, [cut_line(cut)])) == cut
    assert last_cut(MESSAGE) is None


def test_positions_keep_the_cut() -> None:
    for position in (LogPosition(7, 8), LogPosition(20, 12, LogCut(17, 9, "202611.a-0000000001"))):
        assert LogPosition.unpack(position.pack()) == position


# -- the record --------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_a_record_of_its_partition_that_nobody_lists(archive: Archive) -> None:
    store = CheckpointStore(archive, lambda _: True, lambda _record, _partition: True)
    checkpoint = Checkpoint("web", 3, 1, 17, 9, "-", [MESSAGE] * 10_000)
    record = store.write(checkpoint)
    assert store.load(str(record)) == checkpoint
    entry = archive.records.read(record).entry
    assert PartitionRule(1024, {"example.com": 4}).of_record(entry, b"any") == 3
    assert list(archive.search(CaptureQuery(url="*"))) == []
    assert list(Selection().entries(archive.journal)) == [], "nor exports or removes it"
    other = CheckpointStore(archive, lambda _: True, lambda _record, _partition: True)
    assert other.write(checkpoint) != record, "of another process: it may be a copy elsewhere"


# -- the cut -----------------------------------------------------------------------------------------------------------


def test_a_long_log_is_cut_off_again_and_again(tmp_path: Path, archive: Archive) -> None:
    log = Log()
    node = Node(tmp_path / "n1", log, archive)
    node.claim()
    for line in lines(50):
        node.find(line)
        node.round()
        node.round()
        assert len(log.messages) <= 2 * EACH
        assert node.exchange.total == log.last
    assert checkpoints_in(archive)
    assert known_to_another(tmp_path, log, archive) == lines(50)
    node.close()


def test_the_next_service_begins_with_the_checkpoints_of_the_last(tmp_path: Path, archive: Archive) -> None:
    """That a page is done does not count: what was found on it may be in no checkpoint."""
    log = Log()
    node = Node(tmp_path / "n1", log, archive)
    node.claim()
    written = [
        each for pair in zip(lines(20), [f"d\t{number}\t7" for number in range(20)], strict=True) for each in pair
    ]
    for line in written:
        node.find(line)
        node.round()
    node.close()
    log.messages.clear()
    log.access.service.number = 2
    other = Node(tmp_path / "n2", log, archive)
    other.claim()
    assert other.lines == [line for line in written[: 2 * len(other.lines)] if line.startswith("f")]
    assert len(other.lines) > 20 - EACH, "all but what is in no checkpoint"
    other.close()
    back = Node(tmp_path / "n2", log, archive)
    back.claim()
    assert back.lines == [], "its frontier has them"
    back.close()


def test_checkpoints_that_are_merged_are_removed(
    tmp_path: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (exchange_module, checkpoint_module):
        monkeypatch.setattr(module, "MERGED", 3)
    log = Log()
    node = Node(tmp_path / "n1", log, archive)
    node.claim()
    for line in lines(100):
        node.find(line)
        node.round()
        node.round()
        assert node.exchange.total == log.last
    assert checkpoints_in(archive) < 3 + 5, "of 24; three that wait, and one for each power of two"
    assert sorted(known_to_another(tmp_path, log, archive)) == sorted(lines(100))
    node.close()
    back = Node(tmp_path / "n1", log, archive)
    back.claim()
    assert back.position == node.position
    back.close()


def test_a_kill_beside_a_merger_loses_nothing(
    tmp_path: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (exchange_module, checkpoint_module):
        monkeypatch.setattr(module, "MERGED", 2)
    remove, merge = CheckpointStore.remove, CheckpointStore.merged
    for number, moment in enumerate(("before line", "after line", "before removal", "after removal")):
        log, path = Log(), tmp_path / str(number)

        def killed(store: CheckpointStore, records: Any, moment: str = moment) -> None:
            if moment == "after removal":
                remove(store, records)
            raise Killed

        def merged(store: CheckpointStore, cut: Any, log: Log = log, moment: str = moment) -> Any:
            log.kill_at = moment if "line" in moment else ""
            return merge(store, cut)

        with monkeypatch.context() as patched:
            patched.setattr(CheckpointStore, "merged", merged)
            patched.setattr(CheckpointStore, "remove", killed)
            node = Node(path, log, archive)
            node.claim()
            found = []
            with pytest.raises(Killed):
                for line in lines(50):
                    found.append(line)
                    node.find(line)
                    node.round()
            node.close()
        log.kill_at = ""
        assert len(found) < 50
        assert sorted(known_to_another(path, log, archive)) == sorted(found)
        back = Node(path, log, archive)
        back.claim()
        for line in lines(50, len(found)):
            found.append(line)
            back.find(line)
            back.round()
        assert sorted(known_to_another(path, log, archive)) == sorted(found)
        back.close()


def test_a_merger_keeps_each_url_once() -> None:
    one = LogMessage("a", True, 1, ["f\thttp://a/\tL\t2\t0\tpage\t-", "r\tx", "h\tb\t1\t2", "d\tk\t7", "c\tr\t1\t1"])
    two = LogMessage(
        "b", False, 2, ["f\thttp://a/\tL\t1\t0\tpage\t-", "r\tx", "h\tb\t3\t4", "d\tk\t9", "e\tl\tfailed\t-"]
    )
    three = LogMessage("b", False, 1, ["f\thttp://a/\tL\t3\t0\tpage\t-", "d\tm\t5"])
    assert merged_messages([one, two, three]) == [
        LogMessage("-", False, 0, ["r\tx", "h\tb\t3\t4", "f\thttp://a/\tL\t1\t0\tpage\t-"]),
        LogMessage("-", False, 1, ["d\tm\t5"]),
        LogMessage("-", False, 2, ["d\tk\t9", "e\tl\tfailed\t-"]),
    ]


def test_a_node_that_was_away_reads_what_it_missed(tmp_path: Path, archive: Archive) -> None:
    log = Log()
    away = Node(tmp_path / "away", log, archive)
    away.claim()
    for line in lines(10):
        away.find(line)
    away.exchange.leave(PARTITION)
    owner = Node(tmp_path / "owner", log, archive)
    owner.claim()
    for line in lines(30, 10):
        owner.find(line)
        owner.round()
    away.is_ready = False
    away.claim()
    assert sorted(set(away.lines)) == sorted(lines(40))
    assert away.position == owner.position
    away.close()
    away = Node(tmp_path / "away", log, archive)
    away.claim()
    assert away.lines == [], "its frontier has everything"
    for each in (away, owner):
        each.close()


def test_nothing_is_read_while_the_crawl_has_not_taken_what_was(
    tmp_path: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has news says so to all nodes; a crawl that is slow must not have to keep all of it in memory."""
    monkeypatch.setattr(exchange_module, "_INBOX_MAX", 2)
    log = Log()
    owner, sender = Node(tmp_path / "owner", log, archive), Node(tmp_path / "sender", log, archive)
    owner.claim()
    sent = 0
    for _ in range(4):
        for line in lines(3, sent):
            sender.outbox.add(PARTITION, LineKind.SENT, line)
            sender.frontier.commit()
            sender.outbox.committed()
            sender.round()
        sent += 3
        owner.exchange.hint([PARTITION])
        owner.exchange._round(flush=True)
    assert len(owner.exchange.inbox) == 3
    for _ in range(3):
        owner.round()
    assert owner.lines == lines(sent)
    owner.close()
    sender.close()


def test_a_round_that_fails_does_not_end_the_exchange(tmp_path: Path, archive: Archive) -> None:
    """Else the crawl would wait for ever for its partitions."""
    went_on = threading.Event()

    def fail_once() -> None:
        if not failures:
            failures.append(1)
            raise KeyError("something that nobody thought of")
        went_on.set()

    failures: list[int] = []
    node = Node(tmp_path / "n1", Log(), archive)
    node.exchange.work = fail_once
    node.exchange.start()
    assert went_on.wait(60.0)
    node.exchange.stop()
    node.close()


@pytest.mark.parametrize(
    "kill_at",
    [
        "before record",
        "after record",
        "before copies",
        *(f"{when} {what}" for when in ("before", "after") for what in ("line", "purge")),
    ],
)
def test_a_kill_at_any_point_loses_nothing(
    tmp_path: Path, archive: Archive, kill_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(kill_at=kill_at)
    node = Node(tmp_path / "n1", log, archive)
    node.is_copied = kill_at != "before copies"
    node.claim()
    write = CheckpointStore.write

    def killed_write(store: CheckpointStore, checkpoint: Checkpoint) -> RecordId:
        with log._killing("record"):
            return write(store, checkpoint)

    monkeypatch.setattr(CheckpointStore, "write", killed_write)
    found = []
    try:
        for line in lines(2 * EACH):
            found.append(line)
            node.find(line)
    except Killed:
        assert kill_at != "before copies"
    else:
        assert kill_at == "before copies", "it is killed on the way"
        assert len(log.messages) == len(found), "nothing is deleted before all holders have it"
    log.kill_at = ""
    node.close()
    assert known_to_another(tmp_path, log, archive) == found
    back = Node(tmp_path / "n1", log, archive)
    back.claim()
    for line in lines(3 * EACH, len(found)):
        found.append(line)
        back.find(line)
        back.round()
    assert len(log.messages) <= 2 * EACH, "it is cut off after all"
    assert known_to_another(tmp_path, log, archive) == found
    back.close()


def test_who_has_no_right_cuts_nothing_off(tmp_path: Path, archive: Archive) -> None:
    log = Log()
    node = Node(tmp_path / "n1", log, archive)
    node.claim()
    node.has_right = False
    for line in lines(20):
        node.find(line)
    assert checkpoints_in(archive) == 0
    assert len(log.messages) == 20
    node.close()


def test_a_right_that_ends_before_the_line_is_there_deletes_nothing(tmp_path: Path, archive: Archive) -> None:
    """The next owner finishes the cut before it counts: what the first one deletes late changes nothing."""
    log = Log()
    first = Node(tmp_path / "first", log, archive)
    first.claim()
    append = log.append

    async def slow_append(topic: str, data: bytes, message_id: str, after: int | None = None) -> int | None:
        number = await append(topic, data, message_id, after)
        first.has_right = "-cut-" not in message_id
        return number

    log.append = slow_append  # type: ignore[method-assign]
    for line in lines(EACH + 1):
        first.find(line)
    log.append = append  # type: ignore[method-assign]
    assert not first.has_right
    assert len(log.messages) == EACH + 2
    second = Node(tmp_path / "second", log, archive)
    second.claim()
    assert second.lines == lines(EACH + 1)
    assert len(log.messages) == 2
    log.on_bus(lambda bus: bus.cut_log(f"web.{PARTITION}", second.position.cut.sequence))
    for line in lines(2, EACH + 1):
        log.on_bus(
            lambda bus, line=line: bus.append(
                f"web.{PARTITION}", exchange_module.pack_message(MESSAGE._replace(lines=[line])), ""
            )
        )
    second.round()
    assert second.lines == lines(EACH + 3)
    for each in (first, second):
        each.close()


def test_a_checkpoint_that_has_not_come_yet_is_waited_for(
    tmp_path: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    node = Node(tmp_path / "n1", log, archive)
    node.claim()
    for line in lines(20):
        node.find(line)
        node.round()
    with made(tmp_path / "empty") as empty:
        other = Node(tmp_path / "n2", log, empty)
        other.exchange.follow(PARTITION)
        for _ in range(3):
            with pytest.raises(holdfast.errors.CaptureNotFound):
                other.round()
        assert not other.is_ready
        assert other.lines == []
        assert other.exchange.total is None
        other.close()
    node.close()


def test_a_service_that_refuses_to_delete_does_not_hold_up_the_crawl(tmp_path: Path, archive: Archive) -> None:
    """As one that knows the rights of an earlier release."""
    log = Log()

    async def refuse(topic: str, last: int) -> None:
        raise ClusterDown("permissions violation")

    log.cut_log = refuse  # type: ignore[method-assign]
    node = Node(tmp_path / "n1", log, archive)
    node.claim()
    for line in lines(20):
        node.find(line)
        node.round()
        assert node.exchange.total == log.last
    assert known_to_another(tmp_path, log, archive) == lines(20)
    node.close()
