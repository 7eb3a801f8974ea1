"""Whose turn it is.

    add ─▶ a host's queue ─▶ [host rests] ─▶ [address rests] ─▶ next ─▶ the fetch ─▶ ended

A host whose address is not known yet is held until `locate` tells it. All hosts that could go on at some time stand in
one heap by that time; a host that found its address busy stands in the address's line, and the address in the heap.
So a decision costs O(log hosts). Times are seconds since the epoch, always passed in; nothing here looks at a clock.
One thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from holdfast.crawl.fetch.retry_after import ASKING_STATUSES, back_off, retry_after

URGENT_PER_HOST = 6  # what browsers open
_REMEMBERED_S = 600.0  # after its rest, that a host was refusing


@dataclass(frozen=True, slots=True)
class Rules:
    """How politeness is meant; see `FetchSettings`."""

    per_host: int = 1
    per_address: int = 4
    delay_max: float = 60.0
    adaptive: float = 2.0


@dataclass(eq=False, slots=True)
class Address:
    """What is known of one address."""

    name: str
    active: int = 0
    rested_at: float = 0.0  # by the ends of fetches
    spaced_at: float = 0.0  # by their beginnings
    hosts: int = 0  # that are known to be there
    line: deque[HostTurns] = field(default_factory=deque)  # hosts whose own turn has come
    in_heap: bool = False


@dataclass(eq=False, slots=True)
class HostTurns:
    """What is known of one host."""

    name: str
    queue: deque[tuple[Any, float]] = field(default_factory=deque)  # what to fetch, and the delay owed after it
    urgent: deque[tuple[Any, float]] = field(default_factory=deque)  # goes without delay, but not through a pause
    active: int = 0
    rested_at: float = 0.0  # by the ends of fetches
    spaced_at: float = 0.0  # by their beginnings
    paused_until: float = 0.0
    reason: str = ""
    strikes: int = 0
    address: Address | None = None
    located: bool = False
    heap_at: float = -1.0  # the time under which it stands in the heap; -1: it does not
    in_line: bool = False


@dataclass(eq=False, slots=True)
class FetchTurn:
    """A fetch that may begin now; `Politeness.ended` must follow."""

    item: Any
    delay: float
    host: HostTurns
    address: Address | None
    before: tuple[float, float]  # what its beginning has changed: the `spaced_at` of host and address
    spaced_at: tuple[float, float]


@dataclass(frozen=True, slots=True)
class TransferEnd:
    """How a fetch ended, as far as politeness goes."""

    elapsed: float = 0.0
    status: int = 0
    retry_after: str | None = None  # the field's value
    contacted: bool = True  # False: the server saw nothing of it


@dataclass(frozen=True, slots=True)
class Wait:
    """What a host's queue waits for."""

    count: int = 0
    active: int = 0  # fetches that run
    until: float = 0.0
    reason: str = ""


class Politeness:
    """Decides which fetch may begin, and when the next one may."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._hosts: dict[str, HostTurns] = {}
        self._addresses: dict[str, Address] = {}
        self._heap: list[tuple[float, int, HostTurns | Address]] = []
        self._pushes = 0
        self.waiting = 0  # added, and not given out yet

    @property
    def hosts(self) -> int:
        """Hosts of which something is known: those with work, at rest, or refusing of late."""
        return len(self._hosts)

    def add(self, host_name: str, item: Any, delay: float, now: float, *, urgent: bool = False) -> bool:
        """Puts a fetch last in its host's queue. True if the host's address is to be looked up and told by `locate`."""
        host = self._host(host_name)
        (host.urgent if urgent else host.queue).append((item, delay))
        self.waiting += 1
        if not host.located:
            return len(host.queue) + len(host.urgent) == 1
        if urgent:
            host.in_line = False  # its place in an address's line, if it had one, is void
        self._enter(host, now)
        return False

    def locate(self, host_name: str, address: str, now: float) -> None:
        """Tells a host's address; '' if it has none, or if who is asked there is not ours to know."""
        host = self._host(host_name)
        host.located = True
        if host.address is None or host.address.name != address:
            self._leave(host, now)
            host.in_line = False
            if address:
                host.address = self._addresses.get(address) or Address(address)
                host.address.hosts += 1
                self._addresses[address] = host.address
        self._enter(host, now)

    def pause(self, host_name: str, until: float, reason: str, now: float) -> None:
        """Nothing is asked of the host before `until`; a pause that is longer already stays."""
        host = self._host(host_name)
        if until > host.paused_until:
            host.paused_until, host.reason = until, reason
        self._enter(host, now)

    def recall(self, host_name: str, may: Callable[[Any], bool]) -> list[Any]:
        """Takes back what waits in the host's queue and may be; what is urgent, or has begun, stays."""
        host = self._hosts.get(host_name)
        if host is None:
            return []
        queue, host.queue = host.queue, deque()
        taken = []
        for item, delay in queue:
            if may(item):
                taken.append(item)
            else:
                host.queue.append((item, delay))
        self.waiting -= len(taken)
        return taken  # the heap and the lines put themselves right: a host without work has no turn

    def recall_all(self, may: Callable[[Any], bool]) -> None:
        """The same of all hosts; what is taken back is forgotten."""
        for name in self._hosts:
            self.recall(name, may)

    def waits(self, host_name: str) -> Wait:
        """What waits for the host's next turn, and how long it does."""
        host = self._hosts.get(host_name)
        if host is None:
            return Wait()
        paused = host.paused_until >= max(host.rested_at, host.spaced_at)
        until = max(host.rested_at, host.spaced_at, host.paused_until)
        return Wait(len(host.queue), host.active, until, host.reason if paused else "its delay")

    def next(self, now: float) -> FetchTurn | None:
        """The fetch that is to begin now; None if there is none before `wake`."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, _, who = heappop(heap)
            turn = self._turn_of_host(who, at, now) if isinstance(who, HostTurns) else self._turn_at(who, now)
            if turn is not None:
                return turn
        return None

    def wake(self) -> float | None:
        """When to ask `next` again, if nothing is added, located or ended before."""
        return self._heap[0][0] if self._heap else None

    def ended(self, turn: FetchTurn, end: TransferEnd, now: float) -> tuple[float, str] | None:
        """Takes a fetch's end. Returns until when its server asked to be left alone, and why, if it did."""
        host, address = turn.host, turn.address
        host.active -= 1
        if address is not None:
            address.active -= 1
        asked = None
        if end.contacted:
            asked = self._rest(turn, end, now)
        else:
            self._undo(turn)
        if address is not None:
            self._enter_address(address, now)
        self._enter(host, now)
        return asked

    def _rest(self, turn: FetchTurn, end: TransferEnd, now: float) -> tuple[float, str] | None:
        """Sets how long host and address are left alone after a fetch."""
        host, delay, rules = turn.host, turn.delay, self._rules
        asked = None
        if end.status in ASKING_STATUSES:
            asked = self._refused(host, end, delay, now)
        elif host.strikes and 200 <= end.status < 400:
            host.strikes -= 1  # which halves the next back-off
        if delay > 0:
            rest = max(delay, min(rules.adaptive * end.elapsed, rules.delay_max))
            host.rested_at = max(host.rested_at, now + rest)
            if turn.address is not None:
                turn.address.rested_at = max(turn.address.rested_at, now + delay / rules.per_address)
        return asked

    def _undo(self, turn: FetchTurn) -> None:
        """Takes back the spacing by a beginning that no server has seen, unless a later one has set it anew."""
        if turn.host.spaced_at == turn.spaced_at[0]:
            turn.host.spaced_at = turn.before[0]
        if turn.address is not None and turn.address.spaced_at == turn.spaced_at[1]:
            turn.address.spaced_at = turn.before[1]

    def _refused(self, host: HostTurns, end: TransferEnd, delay: float, now: float) -> tuple[float, str]:
        wait = None if end.retry_after is None else retry_after(end.retry_after, now)
        host.strikes += 1
        if wait is None:
            wait = back_off(delay, host.strikes, self._rules.delay_max)
            reason = f"status {end.status}, back-off"
        else:
            reason = f"status {end.status}, Retry-After: {end.retry_after}"
        until = now + wait
        if until > host.paused_until:
            host.paused_until, host.reason = until, reason
        return host.paused_until, host.reason

    def _host(self, name: str) -> HostTurns:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = HostTurns(name)
        return host

    def _ready_at(self, host: HostTurns) -> float | None:
        """When the host's next fetch may begin by the host's own rules, or when it may be forgotten; None: wait."""
        if host.urgent and host.active < URGENT_PER_HOST:
            return host.paused_until
        if host.active >= self._rules.per_host:
            return None
        rested = max(host.rested_at, host.spaced_at, host.paused_until)
        if not host.queue and host.strikes:
            return rested + _REMEMBERED_S
        return rested

    def _enter(self, host: HostTurns, now: float) -> None:
        """Puts the host into the heap if it has something to wait for there."""
        if host.in_line or (not host.located and (host.queue or host.urgent)):
            return
        ready_at = self._ready_at(host)
        if ready_at is None:
            return
        at = max(ready_at, now)
        if host.heap_at < 0 or at < host.heap_at:  # an entry that is too early is put right when it comes up
            host.heap_at = at
            self._push(at, host)

    def _enter_address(self, address: Address, now: float) -> None:
        """Puts the address into the heap if somebody stands in line and the address is not full."""
        if not address.in_heap and address.line and address.active < self._limit(address):
            address.in_heap = True
            self._push(max(address.rested_at, address.spaced_at, now), address)

    def _leave(self, host: HostTurns, now: float) -> None:
        """Parts a host and its address; an address without hosts has rested as long as they had, and is forgotten."""
        address, host.address = host.address, None
        if address is not None:
            address.hosts -= 1
            if not address.hosts:
                self._addresses.pop(address.name, None)
            else:
                self._enter_address(address, now)

    def _push(self, at: float, who: HostTurns | Address) -> None:
        self._pushes += 1
        heappush(self._heap, (at, self._pushes, who))

    def _limit(self, address: Address) -> int:
        limit = self._rules.per_host * self._rules.per_address
        return max(limit, URGENT_PER_HOST) if address.line and address.line[0].urgent else limit

    def _turn_of_host(self, host: HostTurns, at: float, now: float) -> FetchTurn | None:
        if at != host.heap_at:
            return None  # an entry that an earlier one has replaced
        host.heap_at = -1.0
        ready_at = self._ready_at(host)
        if ready_at is None or host.in_line:
            return None
        if ready_at > now:
            self._enter(host, now)
            return None
        if not host.queue and not host.urgent:
            if not host.active:
                self._leave(host, now)
                self._hosts.pop(host.name, None)
            return None
        if not host.located:
            return None
        address = host.address
        if address is None or self._free(address, host, now):
            return self._begin(host, now)
        host.in_line = True
        address.line.append(host)
        self._enter_address(address, now)
        return None

    def _free(self, address: Address, host: HostTurns, now: float) -> bool:
        """Whether a host may go on at once, past the line where that is empty or the fetch urgent."""
        limit = self._rules.per_host * self._rules.per_address
        if host.urgent:
            return address.active < max(limit, URGENT_PER_HOST)
        return not address.line and address.active < limit and max(address.rested_at, address.spaced_at) <= now

    def _turn_at(self, address: Address, now: float) -> FetchTurn | None:
        """The turn of the first in an address's line that is still ready."""
        address.in_heap = False
        if max(address.rested_at, address.spaced_at) > now:
            self._enter_address(address, now)
            return None
        while address.line and address.active < self._limit(address):
            host = address.line.popleft()
            if not host.in_line or host.address is not address:
                continue  # went past the line, or moved
            host.in_line = False
            ready_at = self._ready_at(host)
            if ready_at is not None and ready_at <= now and (host.queue or host.urgent):
                turn = self._begin(host, now)
                self._enter_address(address, now)
                return turn
            self._enter(host, now)
        return None

    def _begin(self, host: HostTurns, now: float) -> FetchTurn:
        rules, address = self._rules, host.address
        if host.urgent and host.active < URGENT_PER_HOST and host.paused_until <= now:
            item, delay = host.urgent.popleft()
            spacing = 0.0
        else:
            item, delay = host.queue.popleft()
            spacing = delay
        before = (host.spaced_at, address.spaced_at if address is not None else 0.0)
        self.waiting -= 1
        host.active += 1
        host.spaced_at = max(host.spaced_at, now + spacing)
        spaced_at = (host.spaced_at, 0.0)
        if address is not None:
            address.active += 1
            address.spaced_at = max(address.spaced_at, now + spacing / rules.per_address)
            spaced_at = (host.spaced_at, address.spaced_at)
        if host.queue or host.urgent:
            self._enter(host, now)
        return FetchTurn(item, delay, host, address, before, spaced_at)
