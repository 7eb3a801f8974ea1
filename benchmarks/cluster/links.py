"""The exchange of links between two frontiers, over the NATS servers of three keepers.

    sender: rows of its frontier ──▶ messages of the log ──▶ receiver, in another process: lines, and its position
    the log again ──▶ an empty frontier

Processor time is that of sender, receiver and all servers.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sysconfig
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

from benchmarks.cluster.figure import ClusterFigure
from benchmarks.cluster.processes import PARTITIONS, NodeProcess, form, wait
from benchmarks.crawl.tree import cpu_of, family
from holdfast.cluster.copies.partitions import PartitionRule
from holdfast.cluster.crawl.checkpoint import CheckpointStore
from holdfast.cluster.crawl.exchange import LinkExchange, Received
from holdfast.cluster.crawl.job import SharedJob
from holdfast.cluster.crawl.log import LogMessage, found_line, pack_message
from holdfast.cluster.crawl.outbox import LineKind, LogPosition, Outbox
from holdfast.cluster.crawl.share import PartitionShare
from holdfast.cluster.directory import NodeDirectory
from holdfast.cluster.membership.agent import Rights
from holdfast.cluster.membership.bus import Bus, Message
from holdfast.crawl.frontier import FoundUrl, Frontier, key_of
from holdfast.crawl.job.job import CrawlJob, ScopeKind
from holdfast.crawl.policy.admission import Admission
from holdfast.crawl.policy.traps import Traps
from holdfast.formats.html.links.references import Hop

T = TypeVar("T")
_KEEPERS = ("n1", "n2", "n3")
_FEW, _SOME, _MANY = 10, 30, 100  # links of a message
_SAME_PAGE = 3  # links in a row that one page has
_LOOK_S = 0.005


def link_exchange(directory: Path, links: int) -> list[ClusterFigure]:
    """CPU and bytes of a link, links per second, and how fast a frontier is made of the log."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    nodes = {name: NodeProcess(directory / name) for name in _KEEPERS}
    try:
        form(nodes, "--copies", "3", keepers=_KEEPERS)
        servers = [pid for node in nodes.values() for pid in family(node.pid) if _is_server(pid)]
        few, _ = _exchanged(directory, "few", links // 4, _FEW, servers)
        many, rate = _exchanged(directory, "many", links, _MANY, servers)
        rebuilt = _rebuilt(directory, "many")
    finally:
        for node in nodes.values():
            node.kill()
    return [
        ClusterFigure("links", f"CPU of a link, {_FEW} a message", few, "µs, all processes"),
        ClusterFigure("links", f"CPU of a link, {_MANY} a message", many, "µs, all processes"),
        ClusterFigure("links", f"end to end, {_MANY} a message", rate, "links/s"),
        *(
            ClusterFigure("links", f"bytes of a link, {each} a message", _bytes(each), "bytes")
            for each in (_FEW, _SOME)
        ),
        *rebuilt,
    ]


def _is_server(pid: int) -> bool:
    return b"nats-server" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]


# -- links -------------------------------------------------------------------------------------------------------------


def _found(count: int) -> Iterator[tuple[int, str]]:
    """Partition and line of so many links, as documentation has them: each partition in turn."""
    library = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(str(each.relative_to(library).with_suffix(".html")) for each in library.rglob("*.py"))
    Random(7).shuffle(paths)
    rule, sites = PartitionRule(PARTITIONS), dict[int, str]()
    for number in range(100 * PARTITIONS):
        sites.setdefault(rule.of_url(f"https://site{number}.org/") or 0, f"https://docs.site{number}.org")
    places = sorted(sites.items())
    for number in range(count):
        round_, at = divmod(number, len(places))
        edition, path = divmod(round_, len(paths))
        partition, site = places[at]
        url = f"{site}/{edition}/library/{paths[path]}"
        near = paths[path - path % _SAME_PAGE]
        link = FoundUrl(key_of(url), url, Hop.LINK, 2)
        yield partition, found_line(link, f"https://docs.example.org/{edition}/library/{near}", link.key)


def _bytes(together: int) -> float:
    """Of one link in the log, without what NATS adds."""
    lines = [line for partition, line in _found(100 * together * PARTITIONS) if partition == 0]
    messages = [lines[at : at + together] for at in range(0, len(lines), together)]
    return sum(len(pack_message(LogMessage("f00d", False, 1, each))) for each in messages) / len(lines)


# -- the two ends ------------------------------------------------------------------------------------------------------


class _Service:
    """A connection with the rights of a node, for any thread."""

    def __init__(self, node: Path) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._node = NodeDirectory(node)
        self._bus = self._run(self._opened())

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _opened(self) -> Bus:
        bus = Bus(self._node.identity().access(self._node.service()))
        await bus.open()
        return bus

    def on_bus(self, call: Callable[[Bus], Awaitable[T]]) -> T:
        async def run() -> T:
            return await call(self._bus)

        found: T = self._run(run())
        return found

    def notify(self, data: bytes) -> None:
        asyncio.run_coroutine_threadsafe(self._bus.publish("notify.n1", data), self._loop)

    def close(self) -> None:
        self._run(self._bus.close())
        self._loop.call_soon_threadsafe(self._loop.stop)


class _End:
    """One end of an exchange: a frontier that commits an outbox."""

    is_changed = True

    def __init__(self, directory: Path, name: str, crawl: str) -> None:
        self.service = _Service(directory / "n1")
        self.frontier = Frontier(directory / f"{name}-{crawl}")
        self.outbox = Outbox(self.frontier)
        positions = self.outbox.load()
        self.outbox.begin(self.service.on_bus(_number))
        self.frontier.sink = self  # type: ignore[assignment]
        nothing = CheckpointStore(None, lambda _: False, lambda *_: False)  # type: ignore[arg-type]
        self.exchange = LinkExchange(
            *(crawl, self.service.on_bus, self.service.notify, self.outbox, positions, nothing, lambda: None),
            first_service=self.outbox.incarnation,
            is_idle=True,
        )

    def changes(self) -> Any:
        return self.outbox.changes(1)

    def commit(self) -> None:
        self.frontier.commit()
        self.outbox.committed()

    def close(self) -> None:
        self.exchange.stop()
        self.frontier.close()
        self.service.close()


async def _number(bus: Bus) -> int:
    return bus.access.service.number


def _exchanged(directory: Path, crawl: str, links: int, together: int, servers: list[int]) -> tuple[float, float]:
    """Sends links: processor time of one in microseconds, and links per second."""
    context = get_context("spawn")
    here, there = context.Pipe()
    receiver = context.Process(target=_receive, args=(there, directory, crawl, links))
    receiver.start()
    sender = _End(directory, "sender", crawl)
    try:
        here.recv()
        lines = list(_found(links))
        before, begun, began_s = cpu_of(servers), time.process_time(), time.monotonic()
        sender.exchange.start()
        for at in range(0, len(lines), together * PARTITIONS):
            for partition, line in lines[at : at + together * PARTITIONS]:
                sender.outbox.add(partition, LineKind.SENT, line)
            sender.commit()
            sender.exchange.flush()
            wait(lambda: sender.outbox.is_empty, "the log has the links")
        used_s = time.process_time() - begun
        ended_s, received_s = here.recv()
        used_s += received_s + cpu_of(servers) - before
    finally:
        sender.close()
        receiver.join()
    return used_s / links * 1e6, links / (ended_s - began_s)


def _receive(connection: Connection, directory: Path, crawl: str, links: int) -> None:
    """The other end: reports when it has all links, and its processor time."""
    end = _End(directory, "receiver", crawl)

    async def notified(message: Message) -> None:
        if message.data.startswith(b"links"):
            end.exchange.hint(json.loads(message.data[5:])["partitions"])

    end.service.on_bus(lambda bus: bus.subscribe("notify.*", notified))
    for partition in range(PARTITIONS):
        end.exchange.follow(partition)
    end.exchange.start()
    begun, found = time.process_time(), 0
    connection.send("ready")
    while found < links:
        time.sleep(_LOOK_S)
        while end.exchange.inbox:
            item = end.exchange.inbox.popleft()
            if isinstance(item, Received) and item.message is not None:
                end.outbox.set_position(item.partition, LogPosition(item.position.sequence, item.position.count))
                found += len([line.split("\t") for line in item.message.lines])
        end.commit()
    connection.send((time.monotonic(), time.process_time() - begun))
    end.close()


# -- a frontier of the log ---------------------------------------------------------------------------------------------


def _rebuilt(directory: Path, crawl: str) -> list[ClusterFigure]:
    """A node that knows nothing claims all partitions."""
    service = _Service(directory / "n1")
    job = CrawlJob(seeds=("https://docs.example.org/",), name=crawl, scope=ScopeKind.ANY)
    rights = Rights(float("inf"), frozenset(range(PARTITIONS)), 1, dict.fromkeys(range(PARTITIONS), 0.0))
    context: Any = SimpleNamespace(
        settings=SimpleNamespace(partitions=PARTITIONS, lease_s=10.0),
        address=SimpleNamespace(name="n1"),
        owner=lambda partition: None,
        members=lambda: SimpleNamespace(epoch=1),
        live=frozenset,
        rights=lambda: rights,
        notify=lambda data: None,
        on_bus=service.on_bus,
    )
    archive: Any = SimpleNamespace(settings=SimpleNamespace(records=SimpleNamespace(collection="main")))
    number = service.on_bus(_number)
    frontier, feeder = Frontier(directory / "rebuilt"), SimpleNamespace(flights={}, keys=frozenset())
    frontier.begin_visit(1)
    shared = SharedJob.started(job, None, number)
    share = PartitionShare(context, shared, 0, archive, {}, lambda *_: False, lambda *_: None, lambda *_: None)
    begun, began_s = time.process_time(), time.monotonic()
    share.attach(frontier, Admission(job, frontier, Traps(job.traps)), feeder)  # type: ignore[arg-type]
    urls = [line.split("\t")[1] for _, line in _found(PARTITIONS)]
    while not all(map(share.owns, urls)):
        share.step(is_busy=False)
        frontier.commit()
    seconds, used_s = time.monotonic() - began_s, time.process_time() - begun
    links = frontier.totals.seen
    share.close()
    frontier.close()
    service.close()
    return [
        ClusterFigure("links", "frontier made of the log", links / seconds, "links/s"),
        ClusterFigure("links", "frontier made of the log, CPU", used_s / links * 1e6, "µs a link"),
    ]
