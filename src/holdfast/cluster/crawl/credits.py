"""The limits of a crawl over all nodes, as credits: never exceeded (I1).

    key credit.<name>    {run, drawn: {frontier: [URLs, bytes]}, merged: [nodes]}

A node draws credit before it fetches: a part of what is left, by compare-and-swap. It gives back what it does not need.
What a frontier has drawn counts for good, even if its disk is lost. After a rebuild of the service every live node adds
what it knows before anybody draws.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.cluster.copies.removal.removal_log import OnBus
from holdfast.cluster.crawl.job import topic_of

_PARTS = 4  # of a node's share of what is left are drawn one at a time


class Amount(NamedTuple):
    """Of URLs and of bytes."""

    urls: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class CreditValue:
    """Value of the key."""

    run: int = 0
    drawn: dict[str, Amount] = field(default_factory=dict)
    merged: frozenset[str] = frozenset()  # nodes that have added what they know

    def left(self, limits: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
        """What nobody has drawn; None without a limit."""
        urls = sum(each.urls for each in self.drawn.values())
        size = sum(each.size for each in self.drawn.values())
        return (
            None if limits[0] is None else limits[0] - urls,
            None if limits[1] is None else limits[1] - size,
        )

    def to_json(self) -> bytes:
        return json.dumps({"run": self.run, "drawn": self.drawn, "merged": sorted(self.merged)}).encode()

    @classmethod
    def from_json(cls, data: bytes) -> CreditValue:
        values = json.loads(data)
        drawn = {name: Amount(*each) for name, each in values["drawn"].items()}
        return cls(values["run"], drawn, frozenset(values["merged"]))


@dataclass(slots=True)
class Credits:
    """The credit of one node. `wanted`, `unneeded` and `drawn` are shared with the crawl's thread."""

    crawl: str
    run: int
    node: str
    frontier: str  # its id
    limits: tuple[int | None, int | None]  # of URLs and bytes
    live: Callable[[], frozenset[str]]
    on_bus: OnBus
    drawn: Amount = field(default_factory=Amount)  # never more than the key says
    wanted: bool = False
    unneeded: bool = False  # `drawn` was lowered: the key is to follow
    revision: int = 0  # of the key, when it was read last
    left: tuple[int | None, int | None] = (None, None)
    _known: CreditValue = field(default_factory=CreditValue)
    _incarnation: int = 0

    @property
    def is_limited(self) -> bool:
        return self.limits != (None, None)

    @property
    def is_spent(self) -> bool:
        """True if nothing is left to draw, as of `revision`."""
        return self.revision > 0 and any(each is not None and each <= 0 for each in self.left)

    def step(self, incarnation: int) -> None:
        """Draws, gives back, and reads the key. For the exchange's thread. Raises ClusterDown."""
        if not self.is_limited:
            return
        if incarnation != self._incarnation:
            self.revision = 0
            self._incarnation = incarnation
        key = f"credit.{topic_of(self.crawl)}"
        found = self.on_bus(lambda bus: bus.get(key))
        known = CreditValue.from_json(found.value) if found is not None else CreditValue()
        revision = found.revision if found is not None else 0
        changed = self._changed(known)
        if changed != known:
            data = changed.to_json()
            written = self.on_bus(lambda bus: bus.swap(key, data, revision))
            if written is None:
                return  # another node was first: again in the next round
            known, revision = changed, written
        self._known = known
        self.left = known.left(self.limits)
        self.unneeded = False
        own = known.drawn.get(self.frontier, Amount())
        if own != self.drawn:
            self.drawn = own
            self.wanted = False
        self.revision = revision

    def _changed(self, known: CreditValue) -> CreditValue:
        """The value as this node wants it."""
        if known.run > self.run:
            return known
        if known.run < self.run:
            known = CreditValue(self.run)
            if self._known.run != self.run:
                self._known = known
        drawn, merged = dict(known.drawn), known.merged
        if self.node not in merged:
            for name, amount in self._known.drawn.items():
                drawn[name] = _most(amount, drawn.get(name, Amount()))
            merged |= {self.node}
        own = drawn.get(self.frontier, Amount())
        if self.unneeded:
            own = self.drawn
        elif self.wanted and self.live() <= merged:
            left = CreditValue(self.run, drawn).left(self.limits)
            own = Amount(own.urls + self._block(left[0]), own.size + self._block(left[1]))
        if own != drawn.get(self.frontier, Amount()):
            drawn[self.frontier] = own
        return CreditValue(self.run, drawn, merged)

    def _block(self, left: int | None) -> int:
        if left is None or left <= 0:
            return 0
        return max(1, left // (_PARTS * max(len(self.live()), 1)))


def _most(one: Amount, other: Amount) -> Amount:
    return Amount(max(one.urls, other.urls), max(one.size, other.size))
