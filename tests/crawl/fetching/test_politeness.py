"""Politeness (H5, P) in simulated time: never too many at a time, never too soon, and everybody gets a turn."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.crawl.fetch.politeness import (
    URGENT_PER_HOST,
    FetchTurn,
    Politeness,
    Rules,
    TransferEnd,
)

NOW = 1_700_000_000.0


@dataclass
class Fetch:
    host: str
    number: int
    elapsed: float
    delay: float
    status: int = 200
    retry_after: str | None = None
    arrives: float = 0.0
    contacted: bool = True
    urgent: bool = False


@dataclass
class World:
    """Runs fetches in simulated time and keeps what happened."""

    rules: Rules
    addresses: dict[str, str]
    workers: int = 1000
    log: list[tuple[float, str, Fetch]] = field(default_factory=list)  # time, 'start' or 'end', fetch

    def run(self, fetches: list[Fetch]) -> None:
        politeness, now, steps = Politeness(self.rules), NOW, 0
        events: list[tuple[float, int, str, object]] = []
        for count, fetch in enumerate(fetches):
            heapq.heappush(events, (NOW + fetch.arrives, count, "add", fetch))
        active = 0
        while True:
            steps += 1
            assert steps < 100 * (len(fetches) + 10), "it goes round in circles"
            while active < self.workers and (turn := politeness.next(now)) is not None:
                active += 1
                self.log.append((now, "start", turn.item))
                heapq.heappush(events, (now + turn.item.elapsed, len(fetches) + steps * 1000 + active, "end", turn))
            wake = politeness.wake() if active < self.workers else None
            if not events and wake is None:
                break
            if events and (wake is None or events[0][0] <= wake):
                now, _, kind, what = heapq.heappop(events)
                active -= kind == "end"
                self._happen(politeness, kind, what, now)
            else:
                assert wake is not None
                now = max(wake, now)
        assert politeness.waiting == 0
        assert politeness.hosts == 0, "hosts at rest are forgotten"

    def _happen(self, politeness: Politeness, kind: str, what: object, now: float) -> None:
        if isinstance(what, Fetch):
            if politeness.add(what.host, what, what.delay, now, urgent=what.urgent):
                politeness.locate(what.host, self.addresses.get(what.host, ""), now)
            return
        assert isinstance(what, FetchTurn) and kind == "end"
        fetch: Fetch = what.item
        self.log.append((now, "end", fetch))
        politeness.ended(what, TransferEnd(fetch.elapsed, fetch.status, fetch.retry_after, fetch.contacted), now)

    def most_at_once(self, key: dict[str, str] | None = None) -> dict[str, int]:
        active: dict[str, int] = {}
        most: dict[str, int] = {}
        for _, kind, fetch in self.log:
            name = fetch.host if key is None else key[fetch.host]
            active[name] = active.get(name, 0) + (1 if kind == "start" else -1)
            most[name] = max(most.get(name, 0), active[name])
        return most

    def started(self) -> list[Fetch]:
        return [fetch for _, kind, fetch in self.log if kind == "start"]


fetches = st.builds(
    Fetch,
    host=st.sampled_from("abcdef"),
    number=st.integers(0, 10),
    elapsed=st.sampled_from([0.0, 0.01, 0.3, 2.0, 50.0]),
    delay=st.just(1.0),
    status=st.sampled_from([200, 200, 200, 404, 503, 429]),
    retry_after=st.sampled_from([None, "0", "3", "nonsense"]),
    arrives=st.integers(0, 80).map(lambda eighths: eighths / 8),
    contacted=st.sampled_from([True, True, True, False]),
)
rules = st.builds(
    Rules,
    per_host=st.integers(1, 3),
    per_address=st.integers(1, 3),
    delay_max=st.just(10.0),
    adaptive=st.sampled_from([0.0, 2.0]),
)


@given(rules, st.lists(fetches, max_size=40), st.sampled_from([0.0, 1.0]), st.integers(1, 5))
def test_never_too_many_never_too_soon_and_all_get_their_turn(
    rules: Rules, wanted: list[Fetch], delay: float, workers: int
) -> None:
    for fetch in wanted:
        fetch.delay = delay
    addresses = {"a": "1", "b": "1", "c": "1", "d": "2", "e": "3", "f": ""}
    world = World(rules, addresses, workers)
    world.run(wanted)
    assert sorted(map(id, world.started())) == sorted(map(id, wanted))
    assert all(most <= rules.per_host for most in world.most_at_once().values())
    of_addresses = world.most_at_once(addresses)
    assert all(most <= rules.per_host * rules.per_address for name, most in of_addresses.items() if name)
    _nobody_is_asked_too_soon(world, rules, delay)
    for host in "abcdef":
        in_order = [fetch.arrives for fetch in world.started() if fetch.host == host]
        assert in_order == sorted(in_order)


def _nobody_is_asked_too_soon(world: World, rules: Rules, delay: float) -> None:
    host_free: dict[str, float] = {}
    address_free: dict[str, float] = {}
    for now, kind, fetch in world.log:
        address = world.addresses[fetch.host]
        if kind == "start":
            assert now >= host_free.get(fetch.host, 0.0)
            assert now >= address_free.get(address, 0.0) or not address
            rest = delay
        else:
            rest = max(delay, min(rules.adaptive * fetch.elapsed, rules.delay_max)) if delay else 0.0
        if not fetch.contacted:
            continue
        host_free[fetch.host] = max(host_free.get(fetch.host, 0.0), now + rest)
        address_free[address] = max(address_free.get(address, 0.0), now + delay / rules.per_address)
        if kind == "end" and fetch.status in (429, 503):
            least = 3.0 if fetch.retry_after == "3" else 0.0 if fetch.retry_after == "0" else 1.0
            host_free[fetch.host] = max(host_free[fetch.host], now + least)


def test_hosts_take_turns_when_there_is_no_delay() -> None:
    world = World(Rules(per_host=1), {}, workers=1)
    world.run([Fetch(host, number, 0.1, 0.0) for host in "abc" for number in range(3)])
    assert "".join(fetch.host for fetch in world.started()) == "abcabcabc"


def test_the_delay_counts_from_the_end_and_grows_with_the_time_taken() -> None:
    world = World(Rules(adaptive=2.0, delay_max=30.0), {})
    world.run([Fetch("a", 0, 0.1, 1.0), Fetch("a", 1, 5.0, 1.0), Fetch("a", 2, 100.0, 1.0), Fetch("a", 3, 1, 1.0)])
    starts = [now - NOW for now, kind, _ in world.log if kind == "start"]
    assert starts == pytest.approx([0, 0.1 + 1.0, 1.1 + 5.0 + 10.0, 16.1 + 100.0 + 30.0])


def test_a_thousand_subdomains_at_one_address_are_one_place() -> None:
    names = [f"h{number}.example.com" for number in range(1000)]
    world = World(Rules(per_host=1, per_address=4), dict.fromkeys(names, "192.0.2.1"))
    world.run([Fetch(name, 0, 0.5, 1.0) for name in names])
    assert max(world.most_at_once(dict.fromkeys(names, "one")).values()) <= 4
    starts = [now for now, kind, _ in world.log if kind == "start"]
    assert min(later - earlier for earlier, later in itertools.pairwise(starts)) >= 0.25 - 1e-6
    assert len({fetch.host for fetch in world.started()}) == 1000


def test_fetches_without_delay_keep_limits_and_pauses() -> None:
    world = World(Rules(per_host=1), {"a": "1"})
    world.run([Fetch("a", 0, 1.0, 10.0), *(Fetch("a", number, 1.0, 10.0, urgent=True) for number in range(1, 20))])
    assert world.most_at_once() == {"a": URGENT_PER_HOST}
    assert world.log[-1][0] - NOW < 10

    politeness = Politeness(Rules())
    politeness.pause("a", NOW + 5, "asked", NOW)
    assert politeness.add("a", "x", 1.0, NOW, urgent=True)
    politeness.locate("a", "1", NOW)
    assert politeness.next(NOW + 4.9) is None
    assert politeness.next(NOW + 5) is not None


def test_a_host_waits_until_its_address_is_known() -> None:
    politeness = Politeness(Rules())
    assert politeness.add("a", "first", 0.0, NOW)
    assert not politeness.add("a", "second", 0.0, NOW), "it is looked up once"
    politeness.pause("a", NOW + 1, "restart", NOW)
    assert politeness.next(NOW + 10) is None
    politeness.locate("a", "192.0.2.1", NOW + 10)
    turn = politeness.next(NOW + 10)
    assert turn is not None and turn.item == "first"


def test_refusals_are_waited_for_and_reported() -> None:
    politeness = Politeness(Rules(delay_max=60.0))

    def refused(status: int, value: str | None, now: float) -> tuple[float, str] | None:
        if politeness.add("a", "x", 1.0, now):
            politeness.locate("a", "", now)
        turn = politeness.next(now)
        assert turn is not None
        return politeness.ended(turn, TransferEnd(0.1, status, value), now)

    assert refused(200, None, NOW) is None
    assert refused(429, "120", NOW + 100) == (NOW + 220, "status 429, Retry-After: 120")
    assert refused(503, None, NOW + 1000) == (NOW + 1002, "status 503, back-off")
    assert refused(503, None, NOW + 1010) == (NOW + 1014, "status 503, back-off")
    assert refused(200, None, NOW + 1020) is None
    assert refused(503, None, NOW + 1030) == (NOW + 1034, "status 503, back-off")


def test_a_longer_pause_stays() -> None:
    politeness = Politeness(Rules())
    politeness.pause("a", NOW + 100, "long", NOW)
    politeness.pause("a", NOW + 10, "short", NOW)
    politeness.add("a", "x", 0.0, NOW)
    politeness.locate("a", "", NOW)
    assert politeness.next(NOW + 99) is None
    assert politeness.wake() == NOW + 100


def test_the_cost_of_a_decision_does_not_grow_with_the_hosts() -> None:
    politeness = Politeness(Rules())
    for number in range(20_000):
        name = f"h{number}"
        politeness.add(name, number, 1.0, NOW)
        politeness.locate(name, f"192.0.2.{number % 200}", NOW)
    given_out, now = 0, NOW
    while given_out < 20_000:
        turn = politeness.next(now)
        if turn is None:
            wake = politeness.wake()
            assert wake is not None
            now = wake
            continue
        given_out += 1
        politeness.ended(turn, TransferEnd(0.01), now + 0.01)
    assert len(politeness._heap) <= 40_000


def test_what_waits_can_be_taken_back_and_the_rest_goes_on() -> None:
    politeness = Politeness(Rules())
    for number in range(4):
        politeness.add("a", number, 10.0, NOW)
    politeness.add("a", "urgent", 0.0, NOW, urgent=True)
    politeness.add("b", "b", 10.0, NOW)
    assert politeness.recall("c", lambda item: True) == []
    assert politeness.recall("a", lambda item: item != 2) == [0, 1, 3]
    assert politeness.waiting == 3
    politeness.locate("a", "192.0.2.1", NOW)
    politeness.locate("b", "192.0.2.1", NOW)
    begun, now = [], NOW
    while (turn := politeness.next(now)) is not None or politeness.wake() is not None:
        if turn is None:
            now = max(politeness.wake() or now, now)
            continue
        begun.append(turn.item)
        politeness.ended(turn, TransferEnd(), now)
    assert sorted(map(str, begun)) == ["2", "b", "urgent"]
    assert (politeness.waiting, politeness.hosts) == (0, 0)


def test_a_host_whose_whole_queue_is_taken_back_is_forgotten_wherever_it_stood() -> None:
    """In the heap, in an address's line, or waiting for its address."""
    politeness = Politeness(Rules(per_address=1))
    for host in ("first", "in line", "in heap", "not located"):
        politeness.add(host, host, 10.0, NOW)
        if host != "not located":
            politeness.locate(host, "192.0.2.1", NOW)
    turn = politeness.next(NOW)
    assert turn is not None and politeness.next(NOW) is None
    politeness.pause("in heap", NOW + 5, "why", NOW)
    for host in ("in line", "in heap", "not located"):
        if host == turn.item:
            continue
        assert politeness.recall(host, lambda item: True) == [host]
    politeness.locate("not located", "192.0.2.2", NOW)
    politeness.ended(turn, TransferEnd(), NOW)
    now = NOW
    while (wake := politeness.wake()) is not None:
        now = max(now, wake)
        assert politeness.next(now) is None
    assert (politeness.waiting, politeness.hosts) == (0, 0)
