"""The parts of a shared crawl by themselves: the log's format, the outbox, the end, credits (H1, H4, H5)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import zstandard

from holdfast.cluster.crawl.credits import Amount, Credits, CreditValue
from holdfast.cluster.crawl.job import SharedJob, keep_shared, kept_shared, topic_of
from holdfast.cluster.crawl.log import (
    LogMessage,
    done_line,
    finished_line,
    found_line,
    host_line,
    pack_message,
    read_found,
    root_line,
    unpack_message,
    unpacked_key,
)
from holdfast.cluster.crawl.outbox import LineKind, LogPosition, Outbox
from holdfast.cluster.crawl.reports import CrawlReport, end_of, sum_of
from holdfast.cluster.membership.bus import KeyValue
from holdfast.crawl.frontier import FoundUrl, Frontier, UrlRow, UrlState, key_of
from holdfast.crawl.job.job import CrawlJob, Credential, FetchSettings
from holdfast.crawl.report.crawls import CrawlState
from holdfast.errors import Busy, FormatTooNew, MalformedInput, UsageError

T = TypeVar("T")
URL = "http://example.com/a"
LINK = FoundUrl(key_of(URL), URL, "L", 2, 0, "page")


# -- the log -----------------------------------------------------------------------------------------------------------


def test_the_lines_are_those_of_the_format() -> None:
    row = UrlRow(URL, state=UrlState.FAILED, outcome="timeout", visited=1700000000)
    key = b"\0" * 15 + b"\1"
    assert found_line(LINK, "http://example.com/", LINK.key) == f"f\t{URL}\tL\t2\t0\tpage\thttp://example.com/"
    assert found_line(LINK._replace(key=key), "", LINK.key).endswith("\t00000000000000000001")
    assert done_line(key, row) == "d\t00000000000000000001\t1700000000"
    assert finished_line(key, row) == "e\t00000000000000000001\tfailed\ttimeout\t0\t1700000000"
    assert host_line("example.com", 1700000000.4, 2.5) == "h\texample.com\t1700000000\t2.5"
    assert root_line(URL) == f"r\t{URL}"


def test_a_message_is_zstd_of_lines() -> None:
    message = LogMessage("f00d", True, 3, [found_line(LINK, "http://example.com/", LINK.key)])
    packed = pack_message(message)
    text = zstandard.ZstdDecompressor().decompress(packed).decode()
    assert text == f"holdfast-log 1\tf00d\tapplied\t3\nf\t{URL}\tL\t2\t0\tpage\thttp://example.com/"
    assert unpack_message(packed) == message
    assert read_found(message.lines[0].split("\t")[1:], LINK.key) == (LINK, "http://example.com/")


def test_a_url_with_a_key_of_its_own_keeps_it() -> None:
    odd = LINK._replace(key=bytes(range(16)))
    fields = found_line(odd, "", LINK.key).split("\t")[1:]
    assert read_found(fields, LINK.key)[0] == odd


def test_breaks_in_urls_do_not_break_lines() -> None:
    line = found_line(LINK._replace(url="http://a.example/\t\n\r"), "", LINK.key)
    assert line.count("\t") == 6
    assert "\n" not in line


@pytest.mark.parametrize(
    "text", ["", "something else\ta\tsent\t1", "holdfast-log 1\tonly", "holdfast-log x\ta\tsent\t1"]
)
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(MalformedInput):
        unpack_message(zstandard.compress(text.encode()))
    with pytest.raises(MalformedInput):
        unpack_message(text.encode())


def test_a_later_format_is_refused() -> None:
    with pytest.raises(FormatTooNew):
        unpack_message(zstandard.compress(b"holdfast-log 2\ta\tsent\t1"))


def test_a_key_has_16_bytes() -> None:
    with pytest.raises(ValueError, match=r"\d bytes"):
        unpacked_key("00000")


# -- the outbox --------------------------------------------------------------------------------------------------------


class Sink:
    """The part of a share that commits an outbox."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox

    is_changed = True

    def changes(self) -> Any:
        return self.outbox.changes(1)


def opened(path: Path) -> tuple[Frontier, Outbox, dict[int, LogPosition]]:
    frontier = Frontier(path)
    outbox = Outbox(frontier)
    positions = outbox.load()
    frontier.sink = Sink(outbox)  # type: ignore[assignment]
    return frontier, outbox, positions


def test_rows_are_published_after_their_commit_and_kept_until_they_are_passed(tmp_path: Path) -> None:
    frontier, outbox, _ = opened(tmp_path / "frontier")
    outbox.begin(1)
    outbox.add(3, LineKind.SENT, "one")
    outbox.add(4, LineKind.FOUND, "two")
    assert outbox.take(10) == []
    frontier.commit()
    outbox.committed()
    sent, found = outbox.take(10)
    assert (sent.text, found.text) == ("one", "two")
    outbox.acknowledge([sent], 1, 17)
    outbox.acknowledge([found], 1, 18)
    outbox.set_position(3, LogPosition(17, 2))
    frontier.commit()
    frontier.close()

    frontier, outbox, positions = opened(tmp_path / "frontier")
    assert positions == {3: LogPosition(17, 2)}
    assert outbox.is_empty
    assert len(list(frontier.shared(b"x"))) == 1, "what another node needs is kept"
    outbox.passed(1, {3: 16})
    frontier.commit()
    assert len(list(frontier.shared(b"x"))) == 1
    outbox.passed(1, {3: 17})
    frontier.commit()
    assert list(frontier.shared(b"x")) == list(frontier.shared(b"y")) == []
    frontier.close()


def test_an_uncommitted_row_is_lost_and_a_committed_one_is_not(tmp_path: Path) -> None:
    frontier, outbox, _ = opened(tmp_path / "frontier")
    outbox.add(1, LineKind.SENT, "committed")
    frontier.commit()
    outbox.add(1, LineKind.SENT, "lost")
    frontier.close()
    frontier, outbox, _ = opened(tmp_path / "frontier")
    assert [row.text for row in outbox.take(10)] == ["committed"]
    frontier.close()


def test_another_service_gets_all_that_is_kept(tmp_path: Path) -> None:
    frontier, outbox, _ = opened(tmp_path / "frontier")
    outbox.begin(1)
    for text in ("kept", "acknowledged"):
        outbox.add(1, LineKind.SENT, text)
        frontier.commit()
        outbox.committed()
        outbox.acknowledge(outbox.take(1), 1, 5)
        if text == "kept":
            frontier.commit()
    outbox.set_position(1, LogPosition(5, 5))
    frontier.commit()
    outbox.begin(2)
    assert [row.text for row in outbox.take(10)] == ["kept", "acknowledged"]
    frontier.commit()
    frontier.close()
    frontier, outbox, positions = opened(tmp_path / "frontier")
    assert outbox.incarnation == 2
    assert positions == {}
    frontier.close()


# -- the end -----------------------------------------------------------------------------------------------------------

IDLE = CrawlReport("web", 1, 1, 1, 1, 0b01, True, 9)
OTHER = replace(IDLE, owned=0b10)
BOTH = frozenset({"a", "b"})


def end(one: CrawlReport, other: CrawlReport, *, is_spent: bool = False) -> CrawlState | None:
    found = end_of({"a": one, "b": other}, BOTH, 2, is_spent=is_spent)
    return found[0] if found is not None else None


def test_a_crawl_ends_when_all_agree() -> None:
    assert end(IDLE, OTHER) is CrawlState.FINISHED


@pytest.mark.parametrize(
    "change",
    [
        {"total": 10},  # somebody has appended meanwhile
        {"total": -1},
        {"is_idle": False},
        {"owned": 0b01},  # partition 1 has no owner
        {"epoch": 2},
        {"job": 2},  # more seeds
        {"run": 2},
        {"incarnation": 2},
    ],
)
def test_it_does_not_end_while_something_differs(change: dict[str, Any]) -> None:
    assert end(IDLE, replace(OTHER, **change)) is None


def test_it_does_not_end_without_a_report_of_each_live_node() -> None:
    assert end_of({"a": replace(IDLE, owned=3)}, BOTH, 2, is_spent=False) is None
    assert end_of({}, frozenset(), 2, is_spent=False) is None


def test_it_ends_at_its_limit_when_all_credit_is_used() -> None:
    spent = replace(IDLE, is_idle=False, is_spent=True, credit=7)
    assert end(spent, replace(spent, owned=0b10), is_spent=True) is CrawlState.LIMIT
    assert end(spent, replace(spent, owned=0b10)) is None
    assert end(spent, replace(spent, owned=0b10, credit=8), is_spent=True) is None
    assert end(spent, replace(spent, owned=0b10, is_spent=False), is_spent=True) is None


def test_reports_and_tallies() -> None:
    report = replace(IDLE, owned=1 << 1023, positions={"7": 8}, tally={"fetched": 2, "seconds": 3.0}, errors={"dns": 1})
    assert CrawlReport.from_json(report.to_json()) == report
    assert sum_of([report.tally, {"fetched": 5, "seconds": 2.0}]) == {"fetched": 7, "seconds": 3.0}


# -- credits -----------------------------------------------------------------------------------------------------------


class Store:
    """Keys that are swapped, in memory; another may come first by chance."""

    def __init__(self, chance: random.Random) -> None:
        self.values: dict[str, KeyValue] = {}
        self.chance = chance
        self.revision = 0

    async def get(self, key: str) -> KeyValue | None:
        return self.values.get(key)

    async def swap(self, key: str, value: bytes, revision: int) -> int | None:
        known = self.values.get(key)
        if (known.revision if known else 0) != revision or self.chance.random() < 0.2:
            return None
        self.revision += 1
        self.values[key] = KeyValue(value, self.revision)
        return self.revision

    def on_bus(self, call: Callable[[Any], Awaitable[T]]) -> T:
        async def run() -> T:
            return await call(self)

        return asyncio.run(run())


@pytest.mark.parametrize("seed", range(5))
def test_credits_are_never_exceeded_and_reached(seed: int) -> None:
    """I1: nodes fetch what they have drawn, die with what they have drawn, and come back with another frontier."""
    chance = random.Random(seed)
    store, limit = Store(chance), 100
    names = [f"n{number}" for number in range(4)]
    live = frozenset(names)
    frontiers = {name: f"f-{name}" for name in names}
    used: dict[str, int] = {}
    lost = 0
    incarnation = 1

    def credits_of(name: str) -> Credits:
        return Credits("web", 1, name, frontiers[name], (limit, None), lambda: live, store.on_bus)

    nodes = {name: credits_of(name) for name in names}
    deaths = 2
    for _ in range(4000):
        name = chance.choice(names)
        node, frontier = nodes[name], frontiers[name]
        mine = used.get(frontier, 0)
        node.wanted = mine >= node.drawn.urls
        node.step(incarnation)
        if mine < node.drawn.urls:
            used[frontier] = mine + 1
        if chance.random() < 0.01 and not node.wanted:
            node.drawn, node.unneeded = Amount(used.get(frontier, 0)), True
        if deaths and chance.random() < 0.002:
            deaths -= 1
            lost += node.drawn.urls - used.get(frontier, 0)
            frontiers[name] += "-new"
            nodes[name] = credits_of(name)
        if chance.random() < 0.0005:
            incarnation += 1
            store.values.clear()  # all data of NATS is lost
        assert sum(used.values()) <= limit
    assert sum(used.values()) >= limit - lost - len(names)


def test_nobody_draws_before_all_live_nodes_have_said_what_they_know() -> None:
    store = Store(random.Random(0))
    live = frozenset({"a", "b"})
    first = Credits("web", 1, "a", "fa", (10, None), lambda: live, store.on_bus, wanted=True)
    second = Credits("web", 1, "b", "fb", (10, None), lambda: live, store.on_bus)
    for _ in range(20):
        first.step(1)
    assert first.drawn == Amount()
    for _ in range(20):
        second.step(1)
        first.step(1)
    assert first.drawn == Amount(1)
    assert CreditValue.from_json(store.values["credit.web"].value).left((10, None)) == (9, None)


# -- the job -----------------------------------------------------------------------------------------------------------


def test_a_job_is_started_ended_and_started_again(tmp_path: Path) -> None:
    job = CrawlJob(seeds=(URL,), name="a.b")
    shared = SharedJob.started(job, None)
    assert shared.key == "crawl.a=b"
    assert topic_of("a.b") == "a=b"
    assert shared.crawl_job() == job
    with pytest.raises(Busy):
        SharedJob.started(job, shared)
    stopped = SharedJob.started(job, shared.ended(CrawlState.STOPPED, "asked to"))
    assert (stopped.visit, stopped.run) == (1, 2)
    finished = SharedJob.started(job, stopped.ended(CrawlState.FINISHED, "nothing is left to fetch"))
    assert (finished.visit, finished.run) == (2, 3)
    keep_shared(tmp_path, finished)
    assert kept_shared(tmp_path) == {"a.b": finished}


def test_a_job_that_cannot_be_shared_is_refused() -> None:
    secret = Credential("https://example.com", "Authorization", "Bearer x")
    for fetch in (
        FetchSettings(credentials=(secret,)),
        FetchSettings(headers=(("Authorization", "Bearer x"),)),
        FetchSettings(proxy="http://user:x@proxy.example:3128"),
    ):
        with pytest.raises(UsageError, match="holdfast import"):
            SharedJob.started(CrawlJob(seeds=(URL,), name="a", fetch=fetch), None)
    seeds = tuple(f"http://example.com/{number}/{'x' * 80}" for number in range(10_000))
    with pytest.raises(UsageError, match="bytes"):
        SharedJob.started(CrawlJob(seeds=seeds, name="a"), None)
