"""Permits for addresses that hosts of several nodes share: who may begin requests to an address, and until when.

    fetcher ──AddressUse──▶ PermitClient ──PermitRequest──▶ PermitAuthority, at the owner of hash("ip:" + address)
            ◀─AddressPermit─             ◀─PermitResponse─

One node at a time has the permit of an address. It keeps to the delays there as on one machine, and gives the permit
back when its time is over, or as soon as none of its hosts is ready if others wait. It says how many of its requests
are still under way, and until when the address rests: the next permit begins after both, or counts the requests that
take long towards the limit of the address.

No clocks are compared. The authority grants [its time + a, its time + b]. It read its clock between the moments when
the request was sent and when the response came, so the requester uses [receipt + a, time sent + b], by its own clock.
If that is empty, it asks again. A tenth is left for clocks that run at different rates. Requests are repeated until
they are answered; of two, the later one counts.

The owner of a partition may change, and the next one knows nothing. The last one grants nothing beyond its right, no
permit lasts longer than 1.5 leases, and the next one grants nothing for three leases after its claim. By then all who
use an address have told it. A node that says nothing for three leases has lost its right to fetch, and all its requests
have ended.

Both ends are state machines without I/O and without a clock; `PermitExchange` drives the client. For one thread each.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from secrets import token_hex
from typing import Any, NamedTuple

from holdfast.cluster.copies.removal.removal_log import OnBus
from holdfast.cluster.membership.agent import boot_time_s
from holdfast.cluster.membership.bus import Bus
from holdfast.cluster.membership.placement import partition_of
from holdfast.crawl.processes.messages import AddressPermit, AddressUse
from holdfast.errors import ClusterDown

log = logging.getLogger("holdfast.cluster")

SILENT_LEASES = 3.0  # of a new authority, and of a node after which it is forgotten
TERM_LEASES = 1.0  # how long a permit lasts
EARLY_LEASES = 0.5  # a permit is granted at most so long before it begins
PATIENCE_LEASES = 1.0  # with requests of the last node that has had the permit
RATE = 1.1  # clocks may run at rates that differ by a tenth
BEATS = 10  # reports in a lease, about each address that is used
_LOOKS = 4  # in a beat, for what is due
_LOOKS_CHANGED = 20  # while something has changed
_USES_MAX = 2000  # addresses in a request: a message of NATS has 1 MiB
_QUEUE_BEATS = 5  # a node that does not ask again for so long loses its place in the queue
_CLOSE_S = 2.0
_LOOK_S = 0.02


def partition_of_address(address: str, partitions: int) -> int:
    """Its owner grants the permits of the address."""
    return partition_of(f"ip:{address}", partitions)


class NodeUse(NamedTuple):
    """What one node does with an address."""

    address: str
    permit: int  # number of the permit that it has; 0 for none
    wants: bool
    active: int  # requests under way
    owed_s: float  # from the moment of sending: for so long nobody should begin a request
    gap_s: float  # the longest time between two requests, so far


@dataclass(frozen=True, slots=True)
class PermitRequest:
    """What a node says to an authority. Its number becomes that of the permits that it gets."""

    party: str  # random, for each run of a crawl on each node
    number: int
    limit: int  # requests to an address at a time
    uses: Sequence[NodeUse]

    def to_values(self) -> dict[str, Any]:
        return {"party": self.party, "number": self.number, "limit": self.limit, "uses": self.uses}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> PermitRequest:
        uses = [NodeUse(*each) for each in values["uses"]]
        return cls(values["party"], values["number"], values["limit"], uses)


@dataclass(frozen=True, slots=True)
class PermitResponse:
    """What the authority says; about other addresses there is nothing to say."""

    granted: Mapping[str, tuple[float, float, int]] = field(default_factory=dict)  # begin, end, requests at a time
    yields: Sequence[str] = ()  # others wait for these
    refused: Sequence[str] = ()  # it is not their authority

    def to_values(self) -> dict[str, Any]:
        return {"granted": self.granted, "yields": self.yields, "refused": self.refused}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> PermitResponse:
        granted = {name: (float(a), float(b), int(room)) for name, (a, b, room) in values["granted"].items()}
        return cls(granted, values["yields"], values["refused"])


# -- the authority -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Place:
    """An address, as its authority knows it."""

    claimed_s: float  # of its partition
    free_s: float  # no permit begins before
    idle_s: float  # since when nobody has the permit
    holder: str = ""  # party
    number: int = 0  # of its permit
    end_s: float = 0.0  # of its permit
    gap_s: float = 0.0  # of the holder
    active: dict[str, int] = field(default_factory=dict)  # requests under way, by party
    waiting: dict[str, None] = field(default_factory=dict)  # parties, the first one first
    heard_s: dict[str, float] = field(default_factory=dict)  # by party


class PermitAuthority:
    """Grants the permits of the addresses whose partitions this node owns."""

    def __init__(self, partitions: int, lease_s: float) -> None:
        self._partitions = partitions
        self._lease_s = lease_s
        self._silent_s = SILENT_LEASES * lease_s
        self._places: dict[str, _Place] = {}
        self._parties: dict[str, tuple[int, float]] = {}  # number of the last request, and when it came
        self._swept_s = float("-inf")

    def __len__(self) -> int:
        """Addresses that somebody uses."""
        return len(self._places)

    def respond(
        self, request: PermitRequest, claims: Mapping[int, float], until_s: float, now_s: float
    ) -> PermitResponse | None:
        """None for a request that is older than one that came before.

        `claims`: this node's partitions, and when each was claimed; `until_s`: the end of its right to them.
        """
        last, _ = self._parties.get(request.party, (0, 0.0))
        if request.number <= last:
            return None
        self._parties[request.party] = request.number, now_s
        if now_s - self._swept_s >= self._silent_s:
            self._sweep(claims, now_s)
        granted: dict[str, tuple[float, float, int]] = {}
        yields, refused = [], []
        for use in request.uses:
            claimed_s = claims.get(partition_of_address(use.address, self._partitions))
            if claimed_s is None or now_s >= until_s:
                refused.append(use.address)
                continue
            place = self._place(use.address, claimed_s, now_s)
            self._take(place, request, use, now_s)
            found = self._grant(place, request, use, now_s)
            if found is not None:
                granted[use.address] = found
            elif place.holder == request.party and place.waiting:
                yields.append(use.address)
            self._drop_unused(use.address, place, now_s)
        return PermitResponse(granted, yields, refused)

    def _place(self, address: str, claimed_s: float, now_s: float) -> _Place:
        place = self._places.get(address)
        if place is None or place.claimed_s != claimed_s:  # what was granted under another claim is not known
            free_s = claimed_s + self._silent_s
            place = self._places[address] = _Place(claimed_s, free_s, max(now_s, free_s))
        return place

    def _take(self, place: _Place, request: PermitRequest, use: NodeUse, now_s: float) -> None:
        """Takes what a node says about its use of an address."""
        party = request.party
        self._forget_silent(place, now_s)
        place.heard_s[party] = now_s
        if place.holder == party:
            place.gap_s = max(place.gap_s, use.gap_s)
            if use.permit != place.number:  # given back, or never received
                self._release(place, now_s)
        if use.active:
            place.active[party] = use.active
        else:
            place.active.pop(party, None)
        place.free_s = max(place.free_s, now_s + RATE * use.owed_s)
        if not use.wants:
            place.waiting.pop(party, None)
        else:
            place.waiting.setdefault(party)

    def _grant(
        self, place: _Place, request: PermitRequest, use: NodeUse, now_s: float
    ) -> tuple[float, float, int] | None:
        party, lease_s = request.party, self._lease_s
        if place.holder or not use.wants or next(iter(place.waiting)) != party:
            return None
        others = sum(active for name, active in place.active.items() if name != party)
        room, wait_s = request.limit - others, max(place.free_s - now_s, 0.0)
        is_patient = others and now_s < place.idle_s + PATIENCE_LEASES * lease_s
        if is_patient or room <= 0 or wait_s > EARLY_LEASES * lease_s:
            return None
        end_s = wait_s + TERM_LEASES * lease_s
        place.holder, place.number, place.end_s, place.gap_s = party, request.number, now_s + end_s, use.gap_s
        del place.waiting[party]
        return wait_s, end_s, room

    def _release(self, place: _Place, now_s: float) -> None:
        place.holder, place.idle_s = "", now_s

    def _forget_silent(self, place: _Place, now_s: float) -> None:
        """Nodes that have lost their right meanwhile, and places in the queue that nobody asks for again."""
        for party, heard_s in list(place.heard_s.items()):
            if now_s - heard_s > _QUEUE_BEATS * self._lease_s / BEATS:
                place.waiting.pop(party, None)
            if now_s - heard_s <= self._silent_s:
                continue
            if place.holder == party:
                if now_s <= place.end_s:
                    continue
                place.free_s = max(place.free_s, place.end_s + place.gap_s)
                self._release(place, now_s)
            place.active.pop(party, None)
            del place.heard_s[party]

    def _drop_unused(self, address: str, place: _Place, now_s: float) -> None:
        if not place.holder and not place.active and not place.waiting and place.free_s <= now_s:
            self._places.pop(address, None)

    def _sweep(self, claims: Mapping[int, float], now_s: float) -> None:
        self._swept_s = now_s
        for address, place in list(self._places.items()):
            if claims.get(partition_of_address(address, self._partitions)) != place.claimed_s:
                del self._places[address]
                continue
            self._forget_silent(place, now_s)
            self._drop_unused(address, place, now_s)
        for party, (_, heard_s) in list(self._parties.items()):
            if now_s - heard_s > 2 * self._silent_s:
                del self._parties[party]


# -- the node that asks ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Known:
    """An address, as a node that fetches from it knows it."""

    use: AddressUse
    partition: int
    permit: AddressPermit | None = None  # the fetcher may use it, or does not know it yet
    sent_s: float = float("-inf")
    number: int = 0  # of the last request that told of it
    is_changed: bool = True
    is_unsaid: bool = False  # nobody has answered


class PermitClient:
    """Knows what a node does with addresses, and what it has to say to which authority."""

    def __init__(
        self, party: str, limit: int, partitions: int, lease_s: float, owner: Callable[[int], str | None]
    ) -> None:
        """`owner` of a partition, as far as this node knows."""
        self._party = party
        self._limit = limit
        self._partitions = partitions
        self._owner = owner
        self._lease_s = lease_s
        self._beat_s = lease_s / BEATS
        self._known: dict[str, _Known] = {}
        self._numbers = count(1)
        self._under_way: dict[str, tuple[PermitRequest, float]] = {}  # by authority, with the time sent
        self._looked_s = float("-inf")
        self._is_changed = False

    def __len__(self) -> int:
        """Addresses about which there is something to say."""
        return len(self._known)

    @property
    def is_pending(self) -> bool:
        """Whether something that has changed is not said yet, or not answered."""
        return bool(self._under_way) or any(known.is_changed or known.is_unsaid for known in self._known.values())

    def used(self, uses: Sequence[AddressUse]) -> None:
        """What the fetcher does."""
        for use in uses:
            known = self._known.get(use.address)
            if known is None:
                partition = partition_of_address(use.address, self._partitions)
                known = self._known[use.address] = _Known(use, partition)
            known.use, known.is_changed, self._is_changed = use, True, True
            if known.permit is not None and use.seen >= known.permit.number and not use.has_permit:
                known.permit = None

    def restarted(self, now_s: float) -> None:
        """The fetcher has ended, and its requests with it."""
        for known in self._known.values():
            use = known.use
            known.use = AddressUse(use.address, owed_s=now_s + use.gap_s, gap_s=use.gap_s)
            known.permit, known.is_changed, self._is_changed = None, True, True

    def due(self, now_s: float) -> list[tuple[str, PermitRequest]]:
        """Requests to be sent now, and to whom. One to an authority is under way at a time."""
        if now_s - self._looked_s < self._beat_s / (_LOOKS_CHANGED if self._is_changed else _LOOKS):
            return []
        self._looked_s, self._is_changed = now_s, False
        by_owner: dict[str, list[_Known]] = {}
        for known in self._known.values():
            if not known.is_changed and now_s - known.sent_s < self._beat_s:
                continue
            owner = self._owner(known.partition)
            if owner is not None and owner not in self._under_way and len(by_owner.get(owner, ())) < _USES_MAX:
                by_owner.setdefault(owner, []).append(known)
            elif known.is_changed:
                self._is_changed = True
        requests = []
        for owner, chosen in by_owner.items():
            number = next(self._numbers)
            uses = [self._said(known, number, now_s) for known in chosen]
            request = PermitRequest(self._party, number, self._limit, uses)
            self._under_way[owner] = request, now_s
            requests.append((owner, request))
        return requests

    def _said(self, known: _Known, said_in: int, now_s: float) -> NodeUse:
        use, permit = known.use, known.permit
        if permit is not None and use.seen < permit.number and now_s > permit.until_s + self._lease_s:
            permit = known.permit = None  # it never reached the fetcher
        known.number, known.sent_s, known.is_changed, known.is_unsaid = said_in, now_s, False, False
        number = permit.number if permit is not None else 0
        return NodeUse(
            use.address, number, use.wants and not number, use.active, max(use.owed_s - now_s, 0.0), use.gap_s
        )

    def answered(self, owner: str, response: PermitResponse | None, received_s: float) -> list[AddressPermit]:
        """What the fetcher must know of a response; None: there was none in time."""
        request, sent_s = self._under_way.pop(owner)
        if response is None:
            for said in request.uses:  # said again with the next beat
                if (unsaid := self._known.get(said.address)) is not None:
                    unsaid.is_unsaid = True
            return []
        permits = []
        refused = set(response.refused)
        for said in request.uses:
            known = self._known.get(said.address)
            if known is None or known.number != request.number or said.address in refused:
                continue  # the later one counts, which another authority has got
            if (grant := response.granted.get(said.address)) is not None:
                if not known.use.wants:  # any more: the next request says that there is no permit
                    continue
                begin_s, end_s, room = grant
                from_s, until_s = received_s + RATE * begin_s, sent_s + end_s / RATE
                permit = AddressPermit(said.address, request.number, from_s, until_s, room)
                if permit.from_s < permit.until_s:
                    known.permit = permit
                    permits.append(permit)
            elif said.address in response.yields and known.permit is not None and not known.permit.yields:
                known.permit = known.permit._replace(yields=True)
                permits.append(known.permit)
            elif not known.is_changed and _is_final(said) and known.permit is None:
                del self._known[said.address]
        return permits


def _is_final(use: NodeUse) -> bool:
    """Whether nothing is left to be said after this."""
    return not use.permit and not use.wants and not use.active and use.owed_s <= 0


# -- over the bus ------------------------------------------------------------------------------------------------------


class PermitExchange:
    """An `AddressPermits`: drives the client over the NATS service. For the crawl's thread."""

    def __init__(
        self,
        node: str,
        limit: int,
        partitions: int,
        lease_s: float,
        owner: Callable[[int], str | None],
        on_bus: OnBus,
    ) -> None:
        """`limit`: requests to an address at a time."""
        self._node = node
        self._on_bus = on_bus
        self._timeout_s = lease_s / 2
        self._client = PermitClient(token_hex(8), limit, partitions, lease_s, owner)
        self._answers: deque[tuple[str, PermitResponse | None, float]] = deque()  # the bus's thread appends
        self._tasks: set[asyncio.Task[None]] = set()  # of the bus's thread
        self._is_down = False

    def step(self, uses: Sequence[AddressUse]) -> list[AddressPermit]:
        permits: list[AddressPermit] = []
        if uses:
            self._client.used(uses)
        while self._answers:
            permits += self._client.answered(*self._answers.popleft())
        requests = self._client.due(boot_time_s())
        if requests:
            try:
                self._on_bus(lambda bus: self._send(bus, requests))
                self._is_down = False
            except ClusterDown as error:
                log.debug("permits: %s", error)
                self._is_down = True
                self._answers.extend((owner, None, 0.0) for owner, _ in requests)
        return permits

    def restarted(self) -> None:
        self._client.restarted(boot_time_s())

    def close(self) -> None:
        """After the fetcher's end: says so, that others need not wait."""
        end_s = time.monotonic() + _CLOSE_S
        self.restarted()
        self.step(())
        while self._client.is_pending and not self._is_down and time.monotonic() < end_s:
            time.sleep(_LOOK_S)
            self.step(())

    async def _send(self, bus: Bus, requests: list[tuple[str, PermitRequest]]) -> None:
        for owner, request in requests:
            task = asyncio.create_task(self._ask(bus, owner, request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, bus: Bus, owner: str, request: PermitRequest) -> None:
        data = json.dumps({"about": "permits", **request.to_values()}).encode()
        response: PermitResponse | None = None
        try:
            values = json.loads(await bus.request(f"crawl.{owner}.{self._node}", data, self._timeout_s))
            if "granted" in values:
                response = PermitResponse.from_values(values)
        except ClusterDown as error:
            log.debug("permits: %s", error)
        finally:
            self._answers.append((owner, response, boot_time_s()))
