"""Drives the duty of this node: the state machine of `duty`, the keys of the NATS service, and the boot-time clock.

The machine says what to swap, read, ask and drain; the agent does it and reports what became of it. Keys are watched,
and read now and then, since watches may miss a value. Others read the outcome from any thread: `rights`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.cluster.membership.bus import TIMEOUT_S, Bus, Message
from holdfast.cluster.membership.duty import (
    Action,
    Ask,
    Drain,
    Duty,
    Lease,
    Membership,
    PartitionOwner,
    Read,
    Swap,
    Value,
)
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.settings import ClusterSettings
from holdfast.errors import Busy, ClusterDown, HoldfastError, NotAMember

log = logging.getLogger("holdfast.cluster")

MEMBERS = "members"  # key of the list of members
_TICKS = 24  # in a lease
_TICK_MIN_S, _TICK_MAX_S = 0.02, 0.25
_LEASES_READ = 0.5  # of a lease, between two readings of all leases
_ALL_READ = 6.0  # leases, between two readings of all keys
_REQUESTS_MAX = 128  # under way at a time
_DRAIN_S = 30.0  # for transfers that are under way when this node leaves

Drained = Callable[[int], Awaitable[None]]


def boot_time_s() -> float:
    """Seconds of a clock that nobody sets, and that runs during suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Rights:
    """The right of this node to fetch, at one moment."""

    until_s: float = float("-inf")  # by `boot_time_s`; every fetch must have ended by then
    owned: frozenset[int] = frozenset()  # partitions
    generation: int = 0
    claims: Mapping[int, float] = field(default_factory=dict)  # those for which fetches may begin; when it was claimed


@dataclass(slots=True)
class DutyAgent:
    """The duty of one node with one incarnation of the service. For the event loop of its bus."""

    bus: Bus
    name: str
    settings: ClusterSettings
    drain: Drained  # returns when no fetch for the partition is under way, and all that was fetched is safe
    in_sync: Callable[[MemberList], frozenset[int]]  # of the partitions that this node holds
    on_members: Callable[[MemberList], None]
    waits: bool  # claims nothing for the length of a lease: an older service may have given rights
    process: str = field(default_factory=lambda: secrets.token_hex(8))
    members: MemberList = field(default_factory=MemberList)
    rights: Rights = field(default_factory=Rights)
    duty: Duty = field(init=False)
    failure: HoldfastError | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _drains: set[asyncio.Task[None]] = field(default_factory=set)  # among the tasks
    _limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_REQUESTS_MAX))
    _stopped: bool = False
    _read_leases_s: float = 0.0
    _read_all_s: float = 0.0
    _reading: asyncio.Task[None] | None = None
    _other: tuple[str, int, int] = ("", 0, 0)  # a process with our name, the last revision of its lease, renewals seen

    def __post_init__(self) -> None:
        empty = Membership(0, lambda _: (), range(self.settings.partitions), frozenset())
        self.duty = Duty(self.name, self.process, empty, self.settings.lease_s)

    # -- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reads all keys. Raises ClusterDown."""
        self.duty.connected(self.bus.access.service.incarnation, boot_time_s(), wait=self.waits)
        await self.bus.subscribe(f"ask.{self.name}.*", self._on_asked)
        await self.bus.watch(self._on_key)
        await self._read_keys(">")

    async def run(self) -> None:
        """Until `stop`. Raises what ends the node: Busy, NotAMember."""
        tick_s = min(max(self.settings.lease_s / _TICKS, _TICK_MIN_S), _TICK_MAX_S)
        while not self._stopped:
            self._step()
            if self.failure is not None:
                self.duty.resign(boot_time_s())  # gives up the rights; the lease is another's
                self._publish_rights()
                raise self.failure
            await asyncio.sleep(tick_s)

    async def stop(self, timeout_s: float = _DRAIN_S) -> bool:
        """Hands all partitions over, gives up the lease, ends. False if not all could be handed over in time."""
        self.duty.is_leaving = True
        end_s = boot_time_s() + timeout_s
        while boot_time_s() < min(end_s, self.rights.until_s) and self.failure is None:
            if not self.duty.owned and self._is_known_to_leave():
                break
            await asyncio.sleep(_TICK_MIN_S)
        self._stopped = True
        is_done = not self.duty.owned
        for drain in self._drains:
            drain.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        resigned = self.duty.resign(boot_time_s())
        if is_done:  # else transfers may be under way: others wait until the lease ends
            self._carry_out(resigned)
        self._publish_rights()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return is_done

    def _is_known_to_leave(self) -> bool:
        lease = self.duty.lease_of(self.name)
        return lease is None or lease.is_leaving

    def _step(self) -> None:
        now_s = boot_time_s()
        self.duty.in_sync = self.in_sync(self.members)
        self._carry_out(self.duty.tick(now_s))
        self._publish_rights()
        if self.bus.connected.is_set() and (self._reading is None or self._reading.done()):
            lease_s = self.settings.lease_s
            if now_s - self._read_all_s >= _ALL_READ * lease_s:
                self._read_all_s = self._read_leases_s = now_s
                self._reading = self._spawn(self._read_quietly(">"))
            elif now_s - self._read_leases_s >= _LEASES_READ * lease_s:
                self._read_leases_s = now_s
                self._reading = self._spawn(self._read_quietly("lease.*"))

    def _publish_rights(self) -> None:
        rights = Rights(self.duty.right_until_s, self.duty.owned, self.duty.generation, self.duty.claims)
        if rights != self.rights:
            self.rights = rights

    # -- actions ---------------------------------------------------------------------------------------

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Swap):
                self._spawn(self._swap(action))
            elif isinstance(action, Read):
                self._spawn(self._read(action))
            elif isinstance(action, Ask):
                self._spawn(self._ask(action))
            else:
                drain = self._spawn(self._drain(action))
                self._drains.add(drain)
                drain.add_done_callback(self._drains.discard)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def _timeout_s(self) -> float:
        """Of requests: who waits for a server that has died loses what comes after the next one leads."""
        return min(self.settings.lease_s / 2, TIMEOUT_S)

    async def _swap(self, swap: Swap) -> None:
        timeout_s = self._timeout_s
        is_lease = swap.key.startswith("lease.")
        try:
            if is_lease:  # never waits behind claims
                revision = await self.bus.swap(swap.key, packed(swap.value), swap.revision, timeout_s)
            else:
                async with self._limit:
                    revision = await self.bus.swap(swap.key, packed(swap.value), swap.revision, timeout_s)
        except ClusterDown as error:
            log.debug("%s", error)
            self.duty.failed(swap.request)
            return
        if revision is None:
            self.duty.refused(swap.request)
        else:
            self.duty.succeeded(swap.request, revision, boot_time_s())
        self._publish_rights()

    async def _read(self, read: Read) -> None:
        try:
            async with self._limit:
                entry = await self.bus.get(read.key, self._timeout_s)
        except ClusterDown as error:
            log.debug("%s", error)
            self.duty.failed(read.request)
            return
        if entry is None:
            self.duty.read(read.request, None, 0, boot_time_s())
        else:
            self.duty.read(read.request, unpacked(read.key, entry.value), entry.revision, boot_time_s())
            self._look(read.key, entry.value, entry.revision)

    async def _ask(self, ask: Ask) -> None:
        try:
            await self.bus.publish(f"ask.{ask.owner}.{self.name}", str(ask.partition).encode())
        except ClusterDown as error:
            log.debug("%s", error)

    async def _drain(self, drain: Drain) -> None:
        await self.drain(drain.partition)
        self.duty.drained(drain.partition)

    async def _on_asked(self, message: Message) -> None:
        partition = int(message.data)
        if not self._stopped and self.members.find(message.sender) is not None:
            self._carry_out(self.duty.asked(partition, message.sender))

    # -- keys ------------------------------------------------------------------------------------------

    async def _read_quietly(self, keys: str) -> None:
        try:
            await self._read_keys(keys, self._timeout_s)
        except ClusterDown as error:
            log.debug("%s", error)

    async def _read_keys(self, keys: str, timeout_s: float = TIMEOUT_S) -> None:
        entries = await self.bus.entries(keys, timeout_s)
        if MEMBERS in entries:  # before those that depend on it
            self._on_key(MEMBERS, entries[MEMBERS].value, entries[MEMBERS].revision)
        for key, entry in entries.items():
            self._on_key(key, entry.value, entry.revision)
        if keys == ">":
            for partition in range(self.settings.partitions):
                if f"own.{partition}" not in entries:
                    self.duty.saw(f"own.{partition}", None, 0, boot_time_s())

    def _on_key(self, key: str, value: bytes, revision: int) -> None:
        if self._stopped:
            return
        if key == MEMBERS:
            self._take_members(value)
        elif key.startswith(("lease.", "own.")):
            self.duty.saw(key, unpacked(key, value), revision, boot_time_s())
            self._look(key, value, revision)
            self._publish_rights()

    def _look(self, key: str, value: bytes, revision: int) -> None:
        """Another process with our name that renews our lease: a copy of this directory runs somewhere."""
        lease = unpacked(key, value) if key == f"lease.{self.name}" else None
        if not isinstance(lease, Lease) or lease.process == self.process or lease.revoked:
            return
        process, last, renewals = self._other
        if process != lease.process:
            last, renewals = revision, 0
        renewals += revision > last
        self._other = (lease.process, max(revision, last), renewals)
        if renewals > 1:  # one may have been under way when the process died
            self.failure = Busy(
                f"node '{self.name}' runs already, in another process: was its directory copied? "
                "Stop one of them; a new node needs a token of its own"
            )

    def _take_members(self, value: bytes) -> None:
        members = MemberList.from_json(value)
        if members.epoch <= self.members.epoch:
            return
        own = members.find(self.name)
        if own is None:
            self.failure = NotAMember(f"node '{self.name}' is no longer a member of the cluster")
            return
        self.members = members
        table = [members.holders(partition, self.settings.copies) for partition in range(self.settings.partitions)]
        names = frozenset(each.name for each in members)
        self.duty.membership = Membership(members.epoch, table.__getitem__, range(self.settings.partitions), names)
        self.on_members(members)


# -- values ----------------------------------------------------------------------------------------


def packed(value: Value) -> bytes:
    """The value of a key as JSON. Sets of partitions are numbers, a bit for each."""
    if value is None:
        return b"null"
    if isinstance(value, PartitionOwner):
        return json.dumps({"node": value.node, "generation": value.generation}).encode()
    bits = sum(1 << partition for partition in value.in_sync)
    return json.dumps(
        {
            "generation": value.generation,
            "process": value.process,
            "revoked": value.revoked,
            "in_sync": f"{bits:x}",
            "leaving": value.is_leaving,
            "epoch": value.epoch,
        }
    ).encode()


def unpacked(key: str, data: bytes) -> Value:
    """What `packed` made."""
    values = json.loads(data)
    if values is None:
        return None
    if key.startswith("own."):
        return PartitionOwner(values["node"], values["generation"])
    bits = int(values["in_sync"], 16)
    in_sync = frozenset(number for number in range(bits.bit_length()) if bits >> number & 1)
    return Lease(
        values["generation"], values["process"], values["revoked"], in_sync, values["leaving"], values["epoch"]
    )
