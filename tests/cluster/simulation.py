"""A cluster in one thread: real `Duty` machines, a store, a network and clocks that all come from one seed.

Nodes crash, stall, are suspended and are cut off; requests and answers are late or lost; clocks are off and run at
other rates; the store is away for a while, or is replaced by an empty one. Every node fetches from one host for each
partition whenever its machine lets it. Afterwards the requests of all nodes together must have kept the host's delay,
and once all is well again, every host must be fetched from.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from holdfast.cluster.membership.duty import Ask, Drain, Duty, Membership, Read, Swap, Value
from holdfast.cluster.membership.placement import Member, holders

LEASE_S = 1.0
TICKS_S = (0.11, 0.11, 0.02)  # between two calls of `tick`, in a world
TIMEOUT_S = 0.3  # after which a request counts as failed
TROUBLE_S = 14.0
CALM_S = 7.0
RATE = 0.05  # how far the rate of a clock is off, at most
DELAYS_S = (0.01, 0.3, 0.9)  # of the hosts, one for each partition in turn


@dataclass
class Store:
    """Keys with revisions. One write at a time, and none once it is closed."""

    incarnation: str
    is_first: bool
    is_open: bool = True
    is_away: bool = False  # no quorum
    revision: int = 0
    values: dict[str, tuple[Value, int]] = field(default_factory=dict)

    @property
    def answers(self) -> bool:
        return self.is_open and not self.is_away

    def swap(self, swap: Swap) -> int | None:
        """The new revision; None if the key has another one."""
        if self.values.get(swap.key, (None, 0))[1] != swap.revision:
            return None
        self.revision += 1
        self.values[swap.key] = (swap.value, self.revision)
        return self.revision


@dataclass
class Fetch:
    """A request to the host of a partition, in real time."""

    partition: int
    node: str
    start_s: float
    end_s: float  # as far as is known; at most the deadline
    wanted_s: float  # the end without a deadline


class Node:
    """A machine with its clock; its process comes and goes."""

    def __init__(self, world: World, name: str) -> None:
        random = world.random
        self.world = world
        self.name = name
        self.offset_s = random.uniform(-1e5, 1e5)
        self.rate = 1 + RATE * random.choice((-1, 0, 1))
        self.store = world.store
        self.duty: Duty | None = None
        self.life = 0  # the process: what was meant for an older one is dropped
        self.asleep_until_s = 0.0
        self.is_cut_off = False  # from the store and the other nodes, not from the web
        self.stops = False  # hands over, gives up its lease, and ends
        self.fetches: dict[int, Fetch] = {}
        self.next_fetch_s: dict[int, float] = {}  # by its own clock

    def now(self) -> float:
        return self.offset_s + self.rate * self.world.now_s

    def real(self, clock_s: float) -> float:
        return (clock_s - self.offset_s) / self.rate

    def start(self) -> None:
        self.life += 1
        self.duty = self.world.make_duty(self.name, f"{self.name}/{self.life}", self.world.membership, LEASE_S)
        self.duty.in_sync = frozenset(self.world.membership.partitions)
        self.fetches.clear()
        self.next_fetch_s.clear()
        self._connect()
        self.later(self.world.random.uniform(0, self.world.tick_s), self._tick)

    def crash(self) -> None:
        """The process dies, and its connections with it."""
        for fetch in self.fetches.values():
            fetch.end_s = min(fetch.end_s, self.world.now_s)
        self.fetches.clear()
        self.duty = None
        self.life += 1
        self.stops = False

    def later(self, after_s: float, what: Callable[[], None]) -> None:
        """Calls the function unless the process is another by then; when it wakes up, if it sleeps."""
        life = self.life

        def run() -> None:
            if self.life != life:
                return
            if self.world.now_s < self.asleep_until_s:
                self.world.at(self.asleep_until_s + self.world.random.uniform(0, 0.01), run)
            else:
                what()

        self.world.at(self.world.now_s + after_s, run)

    def _connect(self) -> None:
        """Reaches the present store, unless cut off: then it may keep talking to the old one, which is closed."""
        if not self.is_cut_off and self.world.store.is_open:
            self.store = self.world.store
        assert self.duty is not None
        self.duty.connected(self.store.incarnation, self.now(), wait=self.world.waits_after_rebuild(self.store))

    def _tick(self) -> None:
        duty = self.duty
        assert duty is not None
        if not self.store.is_open:
            self._connect()
        self._fetch(duty)
        if self.stops and not duty.owned and not self.fetches:
            for action in duty.resign(self.now()):
                assert isinstance(action, Swap)
                self._request(action)
            self.crash()
            self.world.at(self.world.now_s + 0.3, lambda: self.start() if self.duty is None else None)
            return
        for action in duty.tick(self.now()):
            if isinstance(action, Swap | Read):
                self._request(action)
            elif isinstance(action, Ask):
                self.world.ask(self, action)
            else:
                self._drain(action)
        if self.world.random.random() < self.world.tick_s / 0.27:  # watches are lossy: all keys are read now and then
            self._poll()
        self.later(self.world.tick_s * self.world.random.uniform(0.5, 1.5), self._tick)

    # -- fetching -----------------------------------------------------------------------------------------------

    def _fetch(self, duty: Duty) -> None:
        now_s = self.now()
        for partition in duty.membership.partitions:
            fetch = self.fetches.get(partition)
            if fetch is not None:
                deadline_s = duty.deadline(partition, now_s)
                if deadline_s is not None:
                    fetch.end_s = min(fetch.wanted_s, self.real(deadline_s))
                if deadline_s is None or fetch.end_s <= self.world.now_s:
                    fetch.end_s = min(fetch.end_s, self.world.now_s)
                    self.next_fetch_s[partition] = now_s + self.world.delay_s(partition)
                    del self.fetches[partition]
                continue
            deadline_s = duty.fetch_deadline(partition, self.world.delay_s(partition), now_s)
            if deadline_s is None or now_s < self.next_fetch_s.get(partition, now_s):
                continue
            wanted_s = self.world.now_s + self.world.random.choice((0.01, 0.2, 1.5)) * LEASE_S
            end_s = min(wanted_s, self.real(deadline_s))
            self.fetches[partition] = fetch = Fetch(partition, self.name, self.world.now_s, end_s, wanted_s)
            self.world.fetches.append(fetch)

    def _drain(self, drain: Drain) -> None:
        """Reported when its fetch has ended."""

        def look() -> None:
            if self.duty is None:
                return
            self._fetch(self.duty)
            if drain.partition in self.fetches:
                self.later(self.world.tick_s, look)
            else:
                self.duty.drained(drain.partition)

        look()

    # -- the store ----------------------------------------------------------------------------------------------

    def _travel_s(self) -> float:
        """Most messages are fast, a few take longer than the sender waits."""
        random = self.world.random
        is_fast = self.world.now_s > TROUBLE_S or random.random() < 0.93
        return random.uniform(0.01, 0.5) * self.world.tick_s if is_fast else random.uniform(0.05, 1.3)

    def _is_lost(self) -> bool:
        return self.is_cut_off or (self.world.now_s < TROUBLE_S and self.world.random.random() < 0.03)

    def _request(self, action: Swap | Read) -> None:
        store = self.store
        self.later(TIMEOUT_S / self.rate, lambda: self.duty is not None and self.duty.failed(action.request))
        if not self._is_lost():
            life = self.life
            self.world.at(self.world.now_s + self._travel_s(), lambda: self._arrive(store, action, life))

    def _arrive(self, store: Store, action: Swap | Read, life: int) -> None:
        """The request takes effect, though the process that sent it may be gone."""
        if not store.answers:
            return
        answer: Callable[[], None]
        if isinstance(action, Read):
            value, revision = store.values.get(action.key, (None, 0))
            answer = lambda: self._machine().read(action.request, value, revision, self.now())  # noqa: E731
        else:
            made = store.swap(action)
            if made is None:
                answer = lambda: self._machine().refused(action.request)  # noqa: E731
            else:
                answer = lambda: self._machine().succeeded(action.request, made, self.now())  # noqa: E731
                self.world.notify(store, action.key)
        if not self._is_lost() and self.life == life:
            self.later(self._travel_s(), answer)

    def _machine(self) -> Duty:
        assert self.duty is not None
        return self.duty

    def _poll(self) -> None:
        if self.store.answers:
            self._deliver(self.store, list(self.store.values.items()))

    def see(self, store: Store, key: str) -> None:
        """A watch brings the key's value of now, later."""
        self._deliver(store, [(key, store.values[key])])

    def _deliver(self, store: Store, values: list[tuple[str, tuple[Value, int]]]) -> None:
        def seen() -> None:
            if self.store is store and self.duty is not None:
                for key, (value, revision) in values:
                    self.duty.saw(key, value, revision, self.now())

        if not self._is_lost():
            self.later(self._travel_s(), seen)


class World:
    """All nodes, and what happens to them. The seed decides everything."""

    def __init__(
        self, seed: int, make_duty: Callable[..., Duty] = Duty, *, waits: bool = True, tick_s: float | None = None
    ) -> None:
        self.random = Random(seed)
        self.tick_s = tick_s or self.random.choice(TICKS_S)
        self.make_duty = make_duty
        self.waits = waits
        self.now_s = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = count()
        self.fetches: list[Fetch] = []
        self.store = Store("1", is_first=True)
        names = [f"n{number}" for number in range(self.random.choice((2, 3, 3, 4)))]
        members = [Member(name, self.random.randbytes(16), self.random.choice((1.0, 2.0))) for name in names]
        self.membership = Membership(1, lambda p: holders(p, members, 3), range(3), frozenset(names))
        self.nodes = {name: Node(self, name) for name in names}

    def at(self, time_s: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, (time_s, next(self.order), what))

    def delay_s(self, partition: int) -> float:
        return DELAYS_S[partition % len(DELAYS_S)]

    def waits_after_rebuild(self, store: Store) -> bool:
        return self.waits and not store.is_first

    def notify(self, store: Store, key: str) -> None:
        for node in self.nodes.values():
            if node.store is store and node.duty is not None:
                node.see(store, key)

    def ask(self, sender: Node, ask: Ask) -> None:
        owner = self.nodes[ask.owner]
        if sender.is_cut_off or owner.is_cut_off or owner.duty is None:
            return

        def asked() -> None:
            for action in owner._machine().asked(ask.partition, sender.name):
                assert isinstance(action, Drain)
                owner._drain(action)

        owner.later(self.random.uniform(0.001, 0.1), asked)

    # -- trouble ------------------------------------------------------------------------------------------------

    def trouble(self) -> None:
        """Something happens to a node, or to the store, until the time of trouble is over."""
        if self.now_s >= TROUBLE_S:
            return
        node = self.random.choice(list(self.nodes.values()))
        long_s = self.random.uniform(0.2, 3.0) * LEASE_S
        match self.random.choice(
            ("crash", "sleep", "sleep", "cut", "cut", "leave", "stop", "store", "rebuild", "sync")
        ):
            case "crash" if node.duty is not None:
                node.crash()
                self.at(self.now_s + long_s, lambda: node.start() if node.duty is None else None)
            case "sleep":
                node.asleep_until_s = max(node.asleep_until_s, self.now_s + long_s)
            case "cut":
                node.is_cut_off = True
                self.at(self.now_s + long_s, lambda: setattr(node, "is_cut_off", False))
            case "leave" if node.duty is not None:
                node.duty.is_leaving = True
                self.at(self.now_s + long_s, lambda: node.duty and setattr(node.duty, "is_leaving", False))
            case "stop" if node.duty is not None:
                node.duty.is_leaving = node.stops = True
            case "store":
                store = self.store
                store.is_away = True
                self.at(self.now_s + long_s, lambda: setattr(store, "is_away", False))
            case "rebuild" if self.random.random() < 0.3:
                self.store.is_open = False
                self.store = Store(str(int(self.store.incarnation) + 1), is_first=False)
            case "sync" if node.duty is not None:
                some = [each for each in self.membership.partitions if self.random.random() < 0.7]
                node.duty.in_sync = frozenset(some)
        self.at(self.now_s + self.random.expovariate(1.4), self.trouble)

    def heal(self) -> None:
        self.store.is_away = False
        for node in self.nodes.values():
            node.is_cut_off = False
            node.asleep_until_s = 0.0
            node.stops = False
            if node.duty is None:
                node.start()
            node._machine().is_leaving = False
            node._machine().in_sync = frozenset(self.membership.partitions)

    def run(self) -> None:
        for node in self.nodes.values():
            node.start()
        self.at(self.random.uniform(0, 2), self.trouble)
        self.at(TROUBLE_S + 0.01, self.heal)
        while self.events and self.events[0][0] < TROUBLE_S + CALM_S:
            self.now_s, _, what = heapq.heappop(self.events)
            what()

    # -- what must hold -----------------------------------------------------------------------------------------

    def violations(self) -> list[str]:
        """Requests to a host that came sooner than its delay after the last one had ended, whoever sent them."""
        found = []
        last: dict[int, Fetch] = {}
        for fetch in sorted(self.fetches, key=lambda each: each.start_s):
            before = last.get(fetch.partition)
            if before is not None:
                gap_s = fetch.start_s - before.end_s
                if gap_s + 1e-6 < self.delay_s(fetch.partition) / (1 + 2 * RATE):
                    found.append(f"host {fetch.partition}: {before.node}, then {fetch.node} after {gap_s:.3f} s")
            if before is None or fetch.end_s > before.end_s:
                last[fetch.partition] = fetch
        return found

    def idle_hosts(self) -> list[int]:
        """Hosts that nobody fetched from lately, though all is well."""
        late_s = TROUBLE_S + CALM_S - 2.5 * LEASE_S
        fetched = {each.partition for each in self.fetches if each.start_s > late_s or each.end_s > late_s}
        return [partition for partition in self.membership.partitions if partition not in fetched]
