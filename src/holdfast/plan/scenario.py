"""What is to be archived, and on which nodes: the inputs of a plan, and presets."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from holdfast.arguments import checked
from holdfast.errors import UnknownName, UsageError
from holdfast.plan.loss import COPIES_MAX

GB: Final = 1e9
TB: Final = 1e12
KBIT: Final = 125.0  # bytes
MBIT: Final = 125_000.0
NODES_MAX: Final = 10**12
_SHARES = ("uptime", "fill")  # more than 0, at most 1
_PORTIONS = ("changed_per_day", "new_per_day", "new_links")  # 0 to 1
_ABOVE_ZERO = ("pages", "page_bytes", "days", "disk_bytes", "bandwidth_bytes_s", "life_days", "outage_s", "partitions")


@dataclass(frozen=True, slots=True)
class Scenario:
    """Contents, time and nodes. Sizes in bytes, before compression unless they say `stored`."""

    name: str
    pages: float
    images_per_page: float
    page_bytes: float
    image_bytes: float
    page_stored: float  # stored bytes of a page to one that was fetched
    image_stored: float
    changed_per_day: float  # share of pages; images do not change
    new_per_day: float  # pages and images that appear, as a share of those that are there
    visits_per_day: float  # of each page and image, by conditional requests
    links_per_page: float
    link_bytes: float
    new_links: float  # share of the links of a changed page that its last version did not have
    request_bytes: float  # of a conditional request without news, each way
    days: float
    copies: int
    disk_bytes: float  # of a node
    fill: float  # share of it that may be used
    bandwidth_bytes_s: float  # of a node, each way
    life_days: float  # until a node leaves for good, with its disk
    uptime: float
    outage_s: float  # mean time that a node is away before it returns
    lost_after_s: float = 3600.0  # then it counts as lost, and data moves
    partitions: int = 1024
    nodes: int | None = None  # None: as many as are needed
    stored_bytes: float | None = None  # measured: instead of pages and their sizes
    growth_bytes_day: float | None = None  # measured, stored

    def changed(self, **values: Any) -> Scenario:
        """With other values; None changes nothing. Raises UsageError for values that cannot be."""
        known = {each.name for each in fields(self)}
        for name in values:
            if name not in known:
                raise UnknownName(f"a scenario has no {name!r}: it has {', '.join(sorted(known))}")
        made = replace(self, **{name: value for name, value in values.items() if value is not None})
        made.check()
        return made

    def check(self) -> None:
        """Raises UsageError for values that cannot be."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "name" or value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"bad {each.name}: {value!r} is not a number")
            if not math.isfinite(value) or value < 0:
                raise UsageError(f"bad {each.name}: {value:g} must be finite, and not negative")
            if each.name in _ABOVE_ZERO and value == 0:
                raise UsageError(f"bad {each.name}: it must be more than 0")
            if each.name in _SHARES and not 0 < value <= 1:
                raise UsageError(f"bad {each.name}: {value:g} must be more than 0 and at most 1")
            if each.name in _PORTIONS and value > 1:
                raise UsageError(f"bad {each.name}: {value:g} must be from 0 to 1")
        if not 1 <= self.copies <= COPIES_MAX:
            raise UsageError(f"bad copies: {self.copies} must be 1 to {COPIES_MAX}")
        if self.nodes is not None and self.nodes < self.copies:
            raise UsageError(f"cannot keep {self.copies} copies on {self.nodes} nodes: copies are on different nodes")
        if self.nodes is not None and self.nodes > NODES_MAX:
            raise UsageError(f"bad nodes: {self.nodes} is over {NODES_MAX:,}")

    # -- what follows of one copy ------------------------------------------------------------------------------------

    @property
    def first_bytes(self) -> float:
        """Stored at the beginning."""
        if self.stored_bytes is not None:
            return self.stored_bytes
        images = self.images_per_page * self.image_bytes * self.image_stored
        return self.pages * (self.page_bytes * self.page_stored + images)

    @property
    def new_bytes_day(self) -> float:
        """Stored in addition, each day."""
        if self.growth_bytes_day is not None:
            return self.growth_bytes_day
        pages = self.page_bytes * self.page_stored * (self.changed_per_day + self.new_per_day)
        images = self.images_per_page * self.image_bytes * self.image_stored * self.new_per_day
        return self.pages * (pages + images)

    @property
    def fetched_bytes_day(self) -> float:
        """Contents that are new, as they come from the web."""
        pages = self.page_bytes * (self.changed_per_day + self.new_per_day)
        return self.pages * (pages + self.images_per_page * self.image_bytes * self.new_per_day)

    @property
    def link_bytes_day(self) -> float:
        """Links that nodes send each other."""
        pages = self.pages * (self.changed_per_day * self.new_links + self.new_per_day)
        return pages * self.links_per_page * self.link_bytes

    @property
    def request_bytes_day(self) -> float:
        """Conditional requests, each way."""
        return self.pages * (1 + self.images_per_page) * self.visits_per_day * self.request_bytes

    @property
    def total_bytes(self) -> float:
        """One copy, at the end."""
        return self.first_bytes + self.days * self.new_bytes_day


# The whole web as volunteers would have kept it in 2002. The copy of the thesis at hand has lost its digits: these are
# round figures of that year's web, chosen to agree with what it says in words.
THESIS: Final = Scenario(
    name="thesis",
    pages=2e9,
    images_per_page=0.6,
    page_bytes=12_000,
    image_bytes=20_000,
    page_stored=0.25,
    image_stored=1.0,
    changed_per_day=0.1,
    new_per_day=0.005,
    visits_per_day=1,
    links_per_page=30,
    link_bytes=60,
    new_links=0.05,
    request_bytes=300,
    days=365,
    copies=6,
    disk_bytes=100 * GB,
    fill=1.0,
    bandwidth_bytes_s=1 * MBIT,
    life_days=365,
    uptime=0.8,
    outage_s=8 * 3600,
    lost_after_s=3 * 86400,
    partitions=1 << 20,
)

# The web of a country with a few million domains, on machines of its library: round figures, of no one archive.
NATIONAL: Final = Scenario(
    name="national",
    pages=1e9,
    images_per_page=1.5,
    page_bytes=70_000,
    image_bytes=60_000,
    page_stored=0.2,
    image_stored=0.97,
    changed_per_day=0.01,
    new_per_day=0.001,
    visits_per_day=0.1,
    links_per_page=60,
    link_bytes=80,
    new_links=0.1,
    request_bytes=600,
    days=1825,
    copies=3,
    disk_bytes=100 * TB,
    fill=0.8,
    bandwidth_bytes_s=1000 * MBIT,
    life_days=1825,
    uptime=0.999,
    outage_s=20 * 60,
    partitions=1024,
)

PRESETS: Final = {each.name: each for each in (THESIS, NATIONAL)}


@checked
def preset(name: str) -> Scenario:
    """Raises UnknownName."""
    if name not in PRESETS:
        raise UnknownName(f"no preset {name!r}: there are {', '.join(PRESETS)}")
    return PRESETS[name]
