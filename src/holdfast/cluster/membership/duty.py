"""Which partitions this node may fetch for: leases, generations, claims and hand-overs, as a pure state machine.

The store that all nodes share holds two kinds of keys. It changes a key only if the revision that the writer has seen
is still the last one. Nothing else is assumed: reads may be stale, watches may stop, answers may be late or lost.

    lease.<node>    {generation, process, revoked, in sync, ...}    renewed every third of a lease
    own.<p>         {node, generation}, or nothing                  who may fetch for partition p

1. A node renews its lease by a swap on its last revision. Its right to fetch ends 0.9 of a lease after the last
   successful renewal was *sent*. One request for the lease is under way at a time, and late answers are dropped.
2. Whoever has seen one revision of a lease unchanged for a whole lease may swap `revoked` onto exactly that revision. A
   revoked node comes back with the next generation and owns nothing. A refused renewal is read back: the lease is still
   ours only if the process matches, and the right is not extended.
3. A partition is claimed by a swap when it is free, or when the generation that owns it is revoked.
4. A new owner sends no request to a host before the claim plus that host's delay.

So two nodes never have the right to the same partition, whatever their clocks say, as long as the rates of these differ
by less than a tenth. A planned hand-over needs no wait: the first choice asks the owner, the owner finishes its fetches
and frees the partition, and the first choice claims it.

The machine does no I/O and has no clock. Whoever drives it passes the time in (of a clock that runs during suspend),
carries out the actions that it returns, and reports what became of them. For one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import count

LEASE_S = 10.0
_RIGHT = 0.9  # of a lease: clocks may run at rates that differ by a tenth
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Lease:
    """Value of `lease.<node>`."""

    generation: int
    process: str  # random: tells apart two processes that run with one node's directory
    revoked: bool = False
    in_sync: frozenset[int] = frozenset()  # partitions whose records agree with those of every live holder
    is_leaving: bool = False  # wants no partitions
    epoch: int = 0  # of the membership that it knows


@dataclass(frozen=True, slots=True)
class PartitionOwner:
    """Value of `own.<p>`; None stands for a partition that is free."""

    node: str
    generation: int


Value = Lease | PartitionOwner | None


@dataclass(frozen=True, slots=True)
class Swap:
    """Write the value if the key's last revision is this one; 0 if it does not exist. Report the outcome."""

    request: int
    key: str
    value: Value
    revision: int


@dataclass(frozen=True, slots=True)
class Read:
    """Read the key from the store. Report the outcome."""

    request: int
    key: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the owner for a partition. The request may get lost: it is repeated."""

    partition: int
    owner: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Start no more fetches for the partition. When the last one has ended, and its log is flushed, report it."""

    partition: int


Action = Swap | Read | Ask | Drain


@dataclass(slots=True)
class _Known:
    """A key as it was seen last."""

    value: Value
    revision: int
    since_s: float  # when this revision was first seen
    is_stale: bool = False  # a swap failed: there may be a later revision, to be read before the next swap


@dataclass(slots=True)
class _Held:
    """A partition that this node owns."""

    claimed_s: float
    draining: bool = False


@dataclass(slots=True)
class Membership:
    """What placement depends on: the same on every node that knows the epoch."""

    epoch: int
    holders: Callable[[int], tuple[str, ...]]  # of a partition, the first choice first
    partitions: Collection[int]
    nodes: frozenset[str]


@dataclass(slots=True)
class _Pending:
    action: Swap | Read
    sent_s: float


@dataclass(slots=True)
class Duty:
    """The duty of one node. Every process chooses a random `process`."""

    node: str
    process: str
    membership: Membership
    lease_s: float = LEASE_S
    in_sync: frozenset[int] = frozenset()  # set by whoever compares digests; goes out with the next renewal
    is_leaving: bool = False  # hands over everything and claims nothing

    _generation: int = 0  # of the lease that this process holds; 0: it holds none
    _right_until_s: float = _NEVER
    _renew_after_s: float = _NEVER
    _claims_from_s: float = _NEVER
    _incarnation: str = ""
    _known: dict[str, _Known] = field(default_factory=dict)
    _leases: set[str] = field(default_factory=set)  # keys of known leases, also of nodes that are members no longer
    _owned: dict[int, _Held] = field(default_factory=dict)
    _freeing: set[int] = field(default_factory=set)  # given up here, perhaps not in the store yet
    _ask_after_s: dict[int, float] = field(default_factory=dict)
    _pending: dict[int, _Pending] = field(default_factory=dict)
    _busy: set[str] = field(default_factory=set)  # keys with a pending request
    _requests: Iterator[int] = field(default_factory=lambda: count(1))

    # -- the right to fetch -------------------------------------------------------------------------------------

    def fetch_deadline(self, partition: int, delay_s: float, now_s: float) -> float | None:
        """When a fetch that starts now must have ended, for a host with this delay; None if it may not start."""
        held = self._owned.get(partition)
        if held is None or held.draining or now_s < self._first_fetch_s(held, delay_s):
            return None
        return self.deadline(partition, now_s)

    def deadline(self, partition: int, now_s: float) -> float | None:
        """When fetches that are under way must have ended; None if they must end at once."""
        return self._right_until_s if partition in self._owned and now_s < self._right_until_s else None

    def _first_fetch_s(self, held: _Held, delay_s: float) -> float:
        return held.claimed_s + delay_s

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that this node owns, draining ones included."""
        return frozenset(self._owned)

    @property
    def claims(self) -> dict[int, float]:
        """The partitions for which fetches may begin, and when each was claimed."""
        return {partition: held.claimed_s for partition, held in self._owned.items() if not held.draining}

    @property
    def generation(self) -> int:
        """Of the lease that is held; 0 for none."""
        return self._generation

    def lease_of(self, node: str) -> Lease | None:
        """The lease of a node as it was seen last."""
        known = self._known.get(f"lease.{node}")
        return known.value if known is not None and isinstance(known.value, Lease) else None

    def owner_of(self, partition: int) -> str | None:
        """Who owns a partition, as far as is known; None for nobody."""
        known = self._known.get(f"own.{partition}")
        is_owned = known is not None and isinstance(known.value, PartitionOwner) and not self._is_free(known.value)
        return known.value.node if is_owned and known is not None and isinstance(known.value, PartitionOwner) else None

    @property
    def right_until_s(self) -> float:
        """When the right to fetch ends, unless the lease is renewed; minus infinity without one."""
        return self._right_until_s

    # -- what happens -------------------------------------------------------------------------------------------

    def connected(self, incarnation: str, now_s: float, *, wait: bool) -> None:
        """The store is reached. If it is another one than before, everything known is forgotten.

        `wait` unless nobody can have a right from an older store: then nothing is claimed for the length of a lease.
        """
        if incarnation == self._incarnation:
            return
        self._lose()
        self._known.clear()
        self._leases.clear()
        self._pending.clear()
        self._busy.clear()
        self._incarnation = incarnation
        self._renew_after_s = _NEVER
        self._claims_from_s = now_s + self.lease_s if wait else _NEVER

    def saw(self, key: str, value: Value, revision: int, now_s: float) -> None:
        """A key was read or watched. Older revisions than the known one are ignored."""
        known = self._known.get(key)
        if known is not None and (revision < known.revision or (revision == known.revision and not known.is_stale)):
            return
        since_s = known.since_s if known is not None and revision == known.revision else now_s
        self._known[key] = _Known(value, revision, since_s)
        if key.startswith("lease."):
            self._leases.add(key)
        if key == self._lease_key:
            self._read_lease(value)
        elif key.startswith("own."):
            self._read_ownership(int(key[4:]), value, now_s)

    def succeeded(self, request: int, revision: int, now_s: float) -> None:
        """A swap was made, and gave the key this revision."""
        pending = self._take(request)
        if pending is None or not isinstance(pending.action, Swap):
            return
        swap = pending.action
        self.saw(swap.key, swap.value, revision, now_s)
        is_renewal = isinstance(swap.value, Lease) and swap.value.process == self.process and not swap.value.revoked
        if is_renewal and self._generation and self._known[swap.key].revision == revision:
            self._right_until_s = self._right_end_s(pending.sent_s, now_s)

    def refused(self, request: int) -> None:
        """A swap was not made: the key has another revision."""
        pending = self._take(request)
        if pending is not None:
            self._doubt(pending.action.key)

    def failed(self, request: int) -> None:
        """No answer came: a swap may have been made or not."""
        self.refused(request)

    def read(self, request: int, value: Value, revision: int, now_s: float) -> None:
        """What a read returned; revision 0 if there is no such key."""
        pending = self._take(request)
        if pending is not None:
            self.saw(pending.action.key, value, revision, now_s)

    def asked(self, partition: int, by: str) -> list[Action]:
        """Another node wants a partition of ours. It gets it if it comes before us."""
        held = self._owned.get(partition)
        if held is None or held.draining or self._choice(partition) != by:
            return []
        held.draining = True
        return [Drain(partition)]

    def drained(self, partition: int) -> None:
        """No fetch for the partition is under way, and all that was fetched is durable and copied."""
        held = self._owned.get(partition)
        if held is not None and held.draining:
            del self._owned[partition]
            self._freeing.add(partition)

    def resign(self, now_s: float) -> list[Action]:
        """Gives up the lease and all rights at once, so that others need not wait. `tick` is not called after it."""
        known = self._known.get(self._lease_key)
        held, generation = known is not None and self._generation > 0, self._generation
        self._lose()
        if not held or known is None or self._lease_key in self._busy:
            return []
        return self._sent(
            [
                Swap(
                    next(self._requests), self._lease_key, Lease(generation, self.process, revoked=True), known.revision
                )
            ],
            now_s,
        )

    def tick(self, now_s: float) -> list[Action]:
        """What is to be done now. Call it several times in a third of a lease."""
        actions: list[Action] = []
        self._tick_lease(now_s, actions)
        self._revoke_stale(now_s, actions)
        for partition in sorted(self._freeing):
            self._free(partition, actions)
        if self._generation and now_s < self._right_until_s and now_s >= self._claims_from_s:
            if self.is_leaving:
                actions += [Drain(partition) for partition in self._start_draining()]
            else:
                self._claim_wanted(now_s, actions)
        return self._sent(actions, now_s)

    def _sent(self, actions: list[Action], now_s: float) -> list[Action]:
        for action in actions:
            if isinstance(action, Swap | Read):
                self._pending[action.request] = _Pending(action, now_s)
                self._busy.add(action.key)
        return actions

    # -- the lease ----------------------------------------------------------------------------------------------

    @property
    def _lease_key(self) -> str:
        return f"lease.{self.node}"

    def _right_end_s(self, sent_s: float, answered_s: float) -> float:
        return sent_s + _RIGHT * self.lease_s

    def _next_generation(self, lease: Lease) -> int:
        return lease.generation + 1

    def _tick_lease(self, now_s: float, actions: list[Action]) -> None:
        if self._lease_key in self._busy:
            return
        known = self._known.get(self._lease_key)
        if known is None or known.is_stale:
            actions.append(Read(next(self._requests), self._lease_key))
        elif self._generation:
            leaves = self.is_leaving and isinstance(known.value, Lease) and not known.value.is_leaving
            if now_s >= self._renew_after_s or leaves:
                self._swap_lease(self._generation, known, now_s, actions)
        elif known.value is None:
            self._swap_lease(1, known, now_s, actions)
        elif isinstance(known.value, Lease) and known.value.revoked:
            self._swap_lease(self._next_generation(known.value), known, now_s, actions)
        # else another process holds it: `_revoke_stale` waits for it

    def _swap_lease(self, generation: int, known: _Known, now_s: float, actions: list[Action]) -> None:
        lease = Lease(generation, self.process, False, self.in_sync, self.is_leaving, self.membership.epoch)
        actions.append(Swap(next(self._requests), self._lease_key, lease, known.revision))
        self._renew_after_s = now_s + self.lease_s / 3

    def _read_lease(self, value: Value) -> None:
        """Our own lease as the store has it. It is lost unless this very process holds it."""
        is_ours = (
            isinstance(value, Lease)
            and value.process == self.process
            and value.generation >= self._generation
            and not value.revoked
        )
        if not is_ours:
            self._lose()
        elif isinstance(value, Lease) and value.generation > self._generation:
            self._generation = value.generation  # the answer to our request got lost: we hold it, without a right yet

    def _lose(self) -> None:
        """Gives up all rights."""
        self._generation = 0
        self._right_until_s = _NEVER
        self._owned.clear()
        self._freeing.clear()
        self._ask_after_s.clear()
        for request in [each for each, pending in self._pending.items() if pending.action.key.startswith("own.")]:
            self.failed(request)

    def _revoke_stale(self, now_s: float, actions: list[Action]) -> None:
        for key in self._leases:
            known = self._known[key]
            if (
                isinstance(known.value, Lease)
                and not known.is_stale
                and not known.value.revoked
                and now_s - known.since_s >= self.lease_s
                and known.value.process != self.process
                and key not in self._busy
            ):
                revoked = Lease(known.value.generation, known.value.process, revoked=True)
                actions.append(Swap(next(self._requests), key, revoked, known.revision))

    # -- partitions ---------------------------------------------------------------------------------------------

    def _choice(self, partition: int) -> str | None:
        """The first holder that is alive and in sync; without any, the first that is alive."""
        alive = [node for node in self.membership.holders(partition) if self._is_alive(node)]
        return next((node for node in alive if self._is_in_sync(node, partition)), alive[0] if alive else None)

    def _is_alive(self, node: str) -> bool:
        """As far as is known here: only who fetches depends on it, never whether two do."""
        if node == self.node:
            return bool(self._generation) and not self.is_leaving
        lease = self.lease_of(node)
        return lease is not None and not lease.revoked and not lease.is_leaving

    def _is_in_sync(self, node: str, partition: int) -> bool:
        if node == self.node:
            return partition in self.in_sync
        lease = self.lease_of(node)
        return lease is not None and partition in lease.in_sync

    def _claim_wanted(self, now_s: float, actions: list[Action]) -> None:
        for partition in self.membership.partitions:
            key = f"own.{partition}"
            if partition in self._owned or key in self._busy or partition in self._freeing:
                continue
            if self._choice(partition) != self.node:
                continue
            known = self._known.get(key)
            if known is None or known.is_stale:
                actions.append(Read(next(self._requests), key))
            elif self._is_free(known.value):
                ownership = PartitionOwner(self.node, self._generation)
                actions.append(Swap(next(self._requests), key, ownership, known.revision))
            elif isinstance(known.value, PartitionOwner) and now_s >= self._ask_after_s.get(partition, _NEVER):
                self._ask_after_s[partition] = now_s + self.lease_s / 3
                actions.append(Ask(partition, known.value.node))

    def _is_free(self, value: Value) -> bool:
        """Nobody owns the partition, or a generation that is revoked."""
        if not isinstance(value, PartitionOwner):
            return True
        if value.node == self.node:
            return value.generation < self._generation
        lease = self.lease_of(value.node)
        return lease is not None and (
            lease.generation > value.generation or (lease.revoked and lease.generation == value.generation)
        )

    def _read_ownership(self, partition: int, value: Value, now_s: float) -> None:
        is_ours = self._generation > 0 and value == PartitionOwner(self.node, self._generation)
        if not is_ours:
            self._owned.pop(partition, None)
            self._freeing.discard(partition)
        elif partition not in self._owned and partition not in self._freeing:
            self._owned[partition] = _Held(now_s)

    def _start_draining(self) -> list[int]:
        started = [partition for partition, held in self._owned.items() if not held.draining]
        for partition in started:
            self._owned[partition].draining = True
        return started

    def _free(self, partition: int, actions: list[Action]) -> None:
        key = f"own.{partition}"
        if key in self._busy:
            return
        known = self._known.get(key)
        if known is None or known.is_stale:
            actions.append(Read(next(self._requests), key))
        else:
            actions.append(Swap(next(self._requests), key, None, known.revision))

    # -- requests -----------------------------------------------------------------------------------------------

    def _take(self, request: int) -> _Pending | None:
        """None for an answer that is late: its request was given up."""
        pending = self._pending.pop(request, None)
        if pending is not None:
            self._busy.discard(pending.action.key)
        return pending

    def _doubt(self, key: str) -> None:
        """The store may have a later revision. The known one stays, so that older ones are still ignored."""
        known = self._known.get(key)
        if known is not None:
            known.is_stale = True
