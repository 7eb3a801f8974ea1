"""Politeness: which fetch may begin now.

    add ─▶ a host's queue ─▶ [host rests] ─▶ [address rests] ─▶ next ─▶ the fetch ─▶ ended

A host whose address is not known yet is held until `locate`. All hosts that become ready at some time stand in
one heap by that time; a host that found its address busy queues at the address, and the address is in the heap.
So a decision costs O(log hosts). In a cluster an address also rests while this node has no permit for it: hosts of
other nodes may be there. A server that responds with 429 or 503 is paused; for how long, and what happens after a
failure, is in `crawl.schedule.retry`. Times are seconds since the epoch, always passed in; nothing here reads a clock.
One thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from holdfast.crawl.processes.messages import AddressPermit, AddressUse
from holdfast.crawl.schedule.retry import RATE_LIMITED, refusal_pause_s, retry_after_s

URGENT_PER_HOST = 6  # as in browsers
_REPORT_S = 1.0  # between two reports about an address while its permit is there
_REMEMBERED_S = 600.0  # after its pause, that a host refused requests


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits; see `FetchSettings`."""

    per_host: int = 1
    per_address: int = 4
    delay_max: float = 60.0
    adaptive: float = 2.0


@dataclass(eq=False, slots=True)
class Address:
    """State of one address."""

    name: str
    active: int = 0
    rested_at: float = 0.0  # by the ends of fetches
    spaced_at: float = 0.0  # by their beginnings
    hosts: int = 0  # that are known to be there
    line: deque[HostTurns] = field(default_factory=deque)  # hosts that are ready and wait for the address
    in_heap: bool = False
    permit: AddressPermit | None = None
    seen: int = 0  # number of its last permit
    gap: float = 0.0  # the longest rest of the address so far
    reported: AddressUse | None = None
    reported_at: float = 0.0


@dataclass(eq=False, slots=True)
class HostTurns:
    """State of one host."""

    name: str
    queue: deque[tuple[Any, float]] = field(default_factory=deque)  # jobs, and the delay after each
    urgent: deque[tuple[Any, float]] = field(default_factory=deque)  # ignores the delay, but not a pause
    active: int = 0
    rested_at: float = 0.0  # by the ends of fetches
    spaced_at: float = 0.0  # by their beginnings
    paused_until: float = 0.0
    reason: str = ""
    strikes: int = 0
    address: Address | None = None
    located: bool = False
    heap_at: float = -1.0  # its time in the heap; -1: not in it
    in_line: bool = False


@dataclass(eq=False, slots=True)
class FetchTurn:
    """A fetch that may begin now; `Politeness.ended` must follow."""

    item: Any
    delay: float
    host: HostTurns
    address: Address | None
    before: tuple[float, float]  # previous `spaced_at` of host and address
    spaced_at: tuple[float, float]
    is_urgent: bool = False


@dataclass(frozen=True, slots=True)
class TransferEnd:
    """How a fetch ended, as far as politeness is concerned."""

    elapsed: float = 0.0
    status: int = 0
    retry_after: str | None = None  # the field's value
    contacted: bool = True  # False: it did not reach the server


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a host's queue waits."""

    count: int = 0
    active: int = 0  # fetches that run
    until: float = 0.0
    reason: str = ""


class Politeness:
    """Decides which fetch may begin, and when the next one may."""

    def __init__(self, rules: Rules, *, needs_permits: bool = False) -> None:
        """With `needs_permits`, fetches that are not urgent begin only with a `permit` for their address."""
        self._rules = rules
        self._needs_permits = needs_permits
        self._watched: dict[str, Address] = {}  # those that want a permit, have one, or had one a moment ago
        self._hosts: dict[str, HostTurns] = {}
        self._addresses: dict[str, Address] = {}
        self._heap: list[tuple[float, int, HostTurns | Address]] = []
        self._pushes = 0
        self.waiting = 0  # added and not started

    @property
    def hosts(self) -> int:
        """Hosts with state: those with work, at rest, or recently refusing."""
        return len(self._hosts)

    def add(self, host_name: str, item: Any, delay: float, now: float, *, urgent: bool = False) -> bool:
        """Appends a fetch to its host's queue. True if the host's address must be looked up for `locate`."""
        host = self._host(host_name)
        (host.urgent if urgent else host.queue).append((item, delay))
        self.waiting += 1
        if not host.located:
            return len(host.queue) + len(host.urgent) == 1
        if urgent:
            host.in_line = False  # its place in an address's queue is void
        self._enter(host, now)
        return False

    def locate(self, host_name: str, address: str, now: float) -> None:
        """Sets a host's address; '' if it has none, or a proxy resolves it."""
        host = self._host(host_name)
        host.located = True
        if host.address is None or host.address.name != address:
            self._leave(host, now)
            host.in_line = False
            if address:
                host.address = self._addresses.get(address) or self._watched.get(address) or Address(address)
                host.address.hosts += 1
                self._addresses[address] = host.address
        self._enter(host, now)

    def pause(self, host_name: str, until: float, reason: str, now: float) -> None:
        """No request to the host before `until`; a longer pause stays."""
        host = self._host(host_name)
        if until > host.paused_until:
            host.paused_until, host.reason = until, reason
        self._enter(host, now)

    def recall(self, host_name: str, may: Callable[[Any], bool]) -> list[Any]:
        """Removes the waiting jobs of a host that `may` accepts; urgent ones stay."""
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
        return taken  # heap and queues correct themselves: a host without work has no turn

    def recall_all(self, may: Callable[[Any], bool]) -> None:
        """As `recall`, for all hosts; the jobs are dropped."""
        for name in self._hosts:
            self.recall(name, may)

    def waits(self, host_name: str) -> Wait:
        """How much waits for the host's next turn, and how long."""
        host = self._hosts.get(host_name)
        if host is None:
            return Wait()
        paused = host.paused_until >= max(host.rested_at, host.spaced_at)
        until = max(host.rested_at, host.spaced_at, host.paused_until)
        return Wait(len(host.queue), host.active, until, host.reason if paused else "its delay")

    def next(self, now: float) -> FetchTurn | None:
        """The fetch to begin now; None if there is none before `wake`."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, _, who = heappop(heap)
            turn = self._turn_of_host(who, at, now) if isinstance(who, HostTurns) else self._turn_at(who, now)
            if turn is not None:
                return turn
        return None

    def wake(self) -> float | None:
        """When to call `next` again, if nothing is added, located or ended before."""
        return self._heap[0][0] if self._heap else None

    # -- permits ------------------------------------------------------------------------------------------------

    def permit(self, permit: AddressPermit, now: float) -> None:
        """Allows fetches from an address. Its times are of the same clock as all others here."""
        name = permit.address
        address = self._watched.get(name) or self._addresses.get(name) or Address(name)
        if permit.number < address.seen or (permit.number == address.seen and address.permit is None):
            return  # it was given back meanwhile
        address.permit, address.seen = permit, permit.number
        self._watched[name] = address
        self._enter_address(address, max(now, permit.from_s))

    def is_permitted(self, turn: FetchTurn, address: str, now: float) -> bool:
        """Whether a fetch that has its turn may contact this address now."""
        known = turn.address
        if not self._needs_permits or turn.is_urgent:
            return True
        return known is not None and known.name == address and self._has_permit(known, now)

    def uses(self, now: float) -> list[AddressUse]:
        """What has changed about the addresses that need permits; gives back those that are over, or not needed."""
        changed = []
        for address in list(self._watched.values()):
            permit = address.permit
            if permit is not None and self._is_over(permit, address, now):
                permit = address.permit = None
            owed = max(address.rested_at, address.spaced_at)
            wants = permit is None and bool(address.line)
            use = AddressUse(address.name, address.seen, permit is not None, wants, address.active, owed, address.gap)
            if use != address.reported and (permit is None or self._is_due(use, address, now)):
                address.reported, address.reported_at = use, now
                changed.append(use)
            if permit is None and not wants and not address.active and owed <= now:
                address.reported = None
                del self._watched[address.name]
        return changed

    def _is_over(self, permit: AddressPermit, address: Address, now: float) -> bool:
        is_unneeded = not address.hosts or (permit.yields and not address.line)
        return now >= permit.until_s or (is_unneeded and now >= permit.from_s)

    def _is_due(self, use: AddressUse, address: Address, now: float) -> bool:
        before = address.reported
        return before is None or before.seen != use.seen or now - address.reported_at >= _REPORT_S

    def _has_permit(self, address: Address, now: float) -> bool:
        permit = address.permit
        return permit is not None and permit.from_s <= now < permit.until_s

    def _may_turn_to(self, address: Address, now: float) -> bool:
        """Whether there is a permit now; otherwise the address waits for it."""
        if self._has_permit(address, now):
            return True
        permit = address.permit
        self._watched[address.name] = address
        if permit is not None and now < permit.from_s and not address.in_heap:
            address.in_heap = True
            self._push(permit.from_s, address)
        return False

    # -- the end of a fetch -------------------------------------------------------------------------------------

    def ended(self, turn: FetchTurn, end: TransferEnd, now: float) -> tuple[float, str] | None:
        """Ends a fetch. Returns until when its server asked to pause, and why, if it did."""
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
        """Sets the rest of host and address after a fetch."""
        host, delay, rules = turn.host, turn.delay, self._rules
        asked = None
        if end.status in RATE_LIMITED:
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
        """Undoes the spacing of a fetch that reached no server, unless a later one has changed it."""
        if turn.host.spaced_at == turn.spaced_at[0]:
            turn.host.spaced_at = turn.before[0]
        if turn.address is not None and turn.address.spaced_at == turn.spaced_at[1]:
            turn.address.spaced_at = turn.before[1]

    def _refused(self, host: HostTurns, end: TransferEnd, delay: float, now: float) -> tuple[float, str]:
        wait = None if end.retry_after is None else retry_after_s(end.retry_after, now)
        host.strikes += 1
        if wait is None:
            wait = refusal_pause_s(delay, host.strikes, self._rules.delay_max)
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
        """When the host's next fetch may begin by its own rules, or its state may be dropped; None: wait."""
        if host.urgent and host.active < URGENT_PER_HOST:
            return host.paused_until
        if host.active >= self._rules.per_host:
            return None
        rested = max(host.rested_at, host.spaced_at, host.paused_until)
        if not host.queue and host.strikes:
            return rested + _REMEMBERED_S
        return rested

    def _enter(self, host: HostTurns, now: float) -> None:
        """Puts the host into the heap if it waits for a time."""
        if host.in_line or (not host.located and (host.queue or host.urgent)):
            return
        ready_at = self._ready_at(host)
        if ready_at is None:
            return
        at = max(ready_at, now)
        if host.heap_at < 0 or at < host.heap_at:  # an entry that is too early is corrected when it is popped
            host.heap_at = at
            self._push(at, host)

    def _enter_address(self, address: Address, now: float) -> None:
        """Puts the address into the heap if hosts wait for it and it is not full."""
        if not address.in_heap and address.line and address.active < self._limit(address):
            address.in_heap = True
            self._push(max(address.rested_at, address.spaced_at, now), address)

    def _leave(self, host: HostTurns, now: float) -> None:
        """Separates a host from its address; an address without hosts is dropped."""
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
        limit = self._most(address)
        return max(limit, URGENT_PER_HOST) if address.line and address.line[0].urgent else limit

    def _most(self, address: Address) -> int:
        limit = self._rules.per_host * self._rules.per_address
        return limit if address.permit is None else min(limit, address.permit.room)

    def _turn_of_host(self, host: HostTurns, at: float, now: float) -> FetchTurn | None:
        if at != host.heap_at:
            return None  # replaced by an earlier entry
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
        """Whether a host may begin at once: nobody waits for the address, or the fetch is urgent."""
        limit = self._most(address)
        if host.urgent:
            return address.active < max(limit, URGENT_PER_HOST)
        is_free = not address.line and address.active < limit and max(address.rested_at, address.spaced_at) <= now
        return is_free and (not self._needs_permits or self._may_turn_to(address, now))

    def _turn_at(self, address: Address, now: float) -> FetchTurn | None:
        """The turn of the first host in an address's queue that is still ready."""
        address.in_heap = False
        if max(address.rested_at, address.spaced_at) > now:
            self._enter_address(address, now)
            return None
        if self._needs_permits and not self._may_turn_to(address, now):
            return None
        while address.line and address.active < self._limit(address):
            host = address.line.popleft()
            if not host.in_line or host.address is not address:
                continue  # went ahead, or moved
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
        is_urgent = bool(host.urgent) and host.active < URGENT_PER_HOST and host.paused_until <= now
        if is_urgent:
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
            address.gap = max(address.gap, delay / rules.per_address)
            spaced_at = (host.spaced_at, address.spaced_at)
        if host.queue or host.urgent:
            self._enter(host, now)
        return FetchTurn(item, delay, host, address, before, spaced_at, is_urgent)
