"""Nodes that ask for permits, in simulated time: clocks differ, messages are late or lost, nodes die, owners change.

Authority, client and politeness are the real ones; network, owners and transfers are played.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise
from random import Random
from typing import NamedTuple

from holdfast.cluster.crawl.permits import (
    PATIENCE_LEASES,
    PermitAuthority,
    PermitClient,
    partition_of_address,
)
from holdfast.crawl.fetch.politeness import FetchTurn, Politeness, Rules, TransferEnd

LEASE_S = 2.0
TICK_S = 0.02
DELAY_S = 0.8
RULES = Rules(per_host=1, per_address=2, adaptive=0.0)
GAP_S = DELAY_S / RULES.per_address
LIMIT = RULES.per_host * RULES.per_address
PARTITIONS = 64
ADDRESSES = ("192.0.2.1", "192.0.2.2")
NODES = 4
HOSTS = 2  # of each node at each address
FETCHES = 6  # from each host
_RIGHT_LEASES = 0.9


class Transfer(NamedTuple):
    """A request as the server sees it."""

    node: str
    host: str
    address: str
    began_s: float
    ended_s: float


@dataclass(eq=False)
class _Running:
    turn: FetchTurn
    began_s: float
    ends_s: float


@dataclass(eq=False)
class _Node:
    name: str
    offset_s: float
    rate: float
    authority: PermitAuthority
    client: PermitClient
    politeness: Politeness
    claims: dict[int, float] = field(default_factory=dict)  # by its own clock
    cut_until_s: float = 0.0  # from the service
    dead_until_s: float = 0.0
    right_until_s: float = 0.0
    running: list[_Running] = field(default_factory=list)
    fetcher: int = 0  # counts the fetchers: messages to and from earlier ones are void
    can_fetch: bool = True
    last_arrival_s: float = 0.0  # messages of one connection keep their order
    left: dict[str, int] = field(default_factory=dict)  # fetches by host

    def clock(self, now_s: float) -> float:
        return self.offset_s + self.rate * now_s


class PermitWorld:
    """`run`, then look at `transfers`."""

    def __init__(self, seed: int, client: type[PermitClient] = PermitClient, *, trouble: bool = True) -> None:
        self.random = random = Random(seed)
        self.now_s = 0.0
        self.trouble = trouble
        self.transfers: list[Transfer] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._client = client
        self._parties = count(1)
        self.address_of: dict[str, str] = {}
        self.nodes = [self._node(f"n{number + 1}") for number in range(NODES)]
        self.owners: dict[int, _Node] = {}
        self._seen_owners: dict[tuple[str, int], str] = {}
        for partition in {partition_of_address(address, PARTITIONS) for address in ADDRESSES}:
            self._claim(partition, random.choice(self.nodes))

    def _node(self, name: str) -> _Node:
        random = self.random
        node = _Node(
            name,
            random.uniform(0.0, 10_000.0),
            random.uniform(0.97, 1.03),
            PermitAuthority(PARTITIONS, LEASE_S),
            self._new_client(name),
            Politeness(RULES, needs_permits=True),
        )
        for number, address in enumerate(ADDRESSES):
            for each in range(HOSTS):
                host = f"{name}-{number}-{each}.example"
                self.address_of[host] = address
                node.left[host] = FETCHES
        self._queue(node)
        return node

    def _new_client(self, name: str) -> PermitClient:
        def owner(partition: int) -> str | None:
            return self._seen_owners.get((name, partition))

        return self._client(f"{name}/{next(self._parties)}", LIMIT, PARTITIONS, LEASE_S, owner)

    def _queue(self, node: _Node) -> None:
        """Gives a new fetcher all that is left."""
        now = node.clock(self.now_s)
        for host, left in node.left.items():
            for number in range(left):
                node.politeness.add(host, (host, number), DELAY_S, now)
            node.politeness.locate(host, self.address_of[host], now)

    # -- who owns what ------------------------------------------------------------------------------------------

    def _claim(self, partition: int, node: _Node) -> None:
        before = self.owners.get(partition)
        if before is not None:
            before.claims.pop(partition, None)
        self.owners[partition] = node
        node.claims[partition] = node.clock(self.now_s)
        for each in self.nodes:
            self._at(self.random.uniform(0.0, 0.5), self._saw(each.name, partition, node))

    def _saw(self, name: str, partition: int, owner: _Node) -> Callable[[], None]:
        def saw() -> None:
            if self.owners[partition] is owner:  # else a later value is on its way, or there
                self._seen_owners[name, partition] = owner.name

        return saw

    def _at(self, delay_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_s + delay_s, next(self._order), call))

    # -- the run ------------------------------------------------------------------------------------------------

    def run(self, duration_s: float = 240.0) -> None:
        """Until all is fetched, or the time is over."""
        while self.now_s < duration_s and any(each for node in self.nodes for each in node.left.values()):
            self.now_s += TICK_S
            while self._events and self._events[0][0] <= self.now_s:
                heapq.heappop(self._events)[2]()
            if self.trouble and self.now_s < duration_s / 3:
                self._make_trouble()
            for node in self.nodes:
                self._step(node)
        for node in self.nodes:
            self._end_fetcher(node)

    def left(self) -> int:
        """URLs that were not fetched."""
        return sum(each for node in self.nodes for each in node.left.values())

    def _make_trouble(self) -> None:
        random = self.random
        if random.random() < 0.002:  # a planned hand-over
            self._claim(random.choice(list(self.owners)), random.choice(self.nodes))
        if random.random() < 0.001:
            node = random.choice(self.nodes)
            node.cut_until_s = self.now_s + random.uniform(0.5, 3.0) * LEASE_S
        if random.random() < 0.0005:
            node = random.choice(self.nodes)
            node.dead_until_s = self.now_s + random.uniform(1.5, 4.0) * LEASE_S
            self._end_fetcher(node)
            node.authority = PermitAuthority(PARTITIONS, LEASE_S)
            node.claims.clear()
            node.client = self._new_client(node.name)

    def _step(self, node: _Node) -> None:
        is_connected = self.now_s >= max(node.cut_until_s, node.dead_until_s)
        if is_connected:
            node.right_until_s = self.now_s + _RIGHT_LEASES * LEASE_S
        elif self.now_s >= max(node.right_until_s, 0.0) + (1 - _RIGHT_LEASES) * LEASE_S:
            self._lose(node)
        if self.now_s < node.dead_until_s:
            return
        if self.now_s >= node.right_until_s:
            if node.can_fetch:
                self._end_fetcher(node)
                node.client.restarted(node.clock(self.now_s))
            return
        if not node.can_fetch:
            node.can_fetch = True
            node.politeness = Politeness(RULES, needs_permits=True)
            self._queue(node)
        self._fetch(node)
        self._talk(node, is_connected=is_connected)

    def _lose(self, node: _Node) -> None:
        """Its lease has ended: others claim its partitions."""
        others = [each for each in self.nodes if self.now_s < each.right_until_s and each is not node]
        for partition, owner in list(self.owners.items()):
            if owner is node and others:
                self._claim(partition, self.random.choice(others))

    # -- fetching -----------------------------------------------------------------------------------------------

    def _end_fetcher(self, node: _Node) -> None:
        """The fetcher is gone, and its transfers with it."""
        for each in node.running:
            self._note(node, each, min(self.now_s, each.ends_s))
        node.running.clear()
        node.fetcher += 1
        node.can_fetch = False

    def _note(self, node: _Node, running: _Running, ended_s: float) -> None:
        host = running.turn.host.name
        self.transfers.append(Transfer(node.name, host, self.address_of[host], running.began_s, ended_s))

    def _fetch(self, node: _Node) -> None:
        now = node.clock(self.now_s)
        for each in [each for each in node.running if each.ends_s <= self.now_s]:
            node.running.remove(each)
            node.left[each.turn.host.name] -= 1
            self._note(node, each, self.now_s)
            node.politeness.ended(each.turn, TransferEnd(0.1, 200), now)
        while (turn := node.politeness.next(now)) is not None:
            is_long = self.random.random() < 0.03
            length_s = self.random.uniform(1.0, 4.0) * LEASE_S if is_long else self.random.uniform(0.02, 0.6)
            node.running.append(_Running(turn, self.now_s, self.now_s + length_s))

    def _talk(self, node: _Node, *, is_connected: bool) -> None:
        fetcher = node.fetcher
        uses = node.politeness.uses(node.clock(self.now_s))

        def report() -> None:
            if node.fetcher == fetcher:
                node.client.used(uses)

        if uses:
            self._at(0.05, report)
        sent = node.client.due(node.clock(self.now_s))
        for owner, request in sent:
            self._send(node, owner, request, is_lost=not is_connected or self.random.random() < 0.05)

    def _send(self, node: _Node, owner: str, request: object, *, is_lost: bool) -> None:
        client, random = node.client, self.random
        state = {"is_over": False}
        authority = next(each for each in self.nodes if each.name == owner)

        def end(response: object) -> None:
            if state["is_over"] or node.client is not client:
                return
            state["is_over"] = True
            permits = client.answered(owner, response, node.clock(self.now_s))  # type: ignore[arg-type]
            fetcher = node.fetcher
            if permits:

                def permit() -> None:
                    if node.fetcher == fetcher:
                        for each in permits:
                            node.politeness.permit(each, node.clock(self.now_s))

                self._at(random.uniform(0.0, 0.1), permit)

        def arrive() -> None:
            if self.now_s < max(authority.cut_until_s, authority.dead_until_s):
                return
            until_s = authority.clock(authority.right_until_s)
            response = authority.authority.respond(
                request,  # type: ignore[arg-type]
                authority.claims,
                until_s,
                authority.clock(self.now_s),
            )
            if response is not None and random.random() > 0.05:
                self._at(random.uniform(0.0, 0.3), lambda: end(response))

        self._at(LEASE_S / 2, lambda: end(None))
        if not is_lost:
            arrival_s = max(self.now_s + random.uniform(0.0, 0.3), node.last_arrival_s)
            node.last_arrival_s = arrival_s
            self._at(arrival_s - self.now_s, arrive)

    # -- what the servers saw -----------------------------------------------------------------------------------

    def violations(self) -> list[tuple[Transfer, Transfer]]:
        """Requests of one node that came too soon after another's began, or ended.

        The end of a request counts only if others had to wait for it.
        """
        found = []
        gap_s = GAP_S - 2 * TICK_S
        for address in ADDRESSES:
            ours = sorted((each for each in self.transfers if each.address == address), key=lambda each: each.began_s)
            for one in ours:
                for other in ours:
                    if one.node == other.node or other.began_s < one.began_s:
                        continue
                    is_short = one.ended_s - one.began_s < PATIENCE_LEASES * LEASE_S * 0.9
                    if other.began_s < (one.ended_s if is_short else one.began_s) + gap_s:
                        found.append((one, other))
        return found

    def most_at_once(self) -> int:
        changes = {
            address: sorted(
                change
                for each in self.transfers
                if each.address == address
                for change in ((each.began_s, 1), (each.ended_s, -1))
            )
            for address in ADDRESSES
        }
        most = 0
        for rows in changes.values():
            active = 0
            for _, change in rows:
                active += change
                most = max(most, active)
        return most

    def handovers(self) -> int:
        """How often one node followed another at an address."""
        total = 0
        for address in ADDRESSES:
            ours = sorted((each for each in self.transfers if each.address == address), key=lambda each: each.began_s)
            total += sum(one.node != other.node for one, other in pairwise(ours))
        return total
