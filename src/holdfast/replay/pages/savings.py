"""How much an archive holds, and how much less it takes than it captured.

What is kept once is kept once for all collections, so a single one has no such figures. Where rules of access hide
something, nothing is counted for anybody: a figure would tell of what is hidden.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.replay.site import Site


class Savings(NamedTuple):
    """Bytes of all payloads, of those bytes once, and as they rest on disk."""

    captures: int
    captured: int
    kept: int
    stored: int

    @property
    def saved_share(self) -> float:
        """From 0 to 1: what did not have to be kept."""
        return max(0.0, 1 - self.stored / self.captured) if self.captured else 0.0


class Collection(NamedTuple):
    """A collection as the home page lists it."""

    name: str
    captures: int | None  # None: this is not told
    payload_bytes: int | None


def savings(site: Site) -> Savings | None:
    """Of the whole archive; None if this is not told."""
    if not site.access.is_open:
        return None
    totals = site.archive.catalog.totals()[0].values()
    stats = [report.stat for report in site.archive.volumes() if report.stat is not None]
    return Savings(
        sum(total.captures for total in totals),
        max(sum(total.payload_bytes for total in totals), sum(stat.referenced_bytes for stat in stats)),
        sum(stat.content_bytes for stat in stats),
        sum(stat.stored_bytes for stat in stats),
    )


def collections(site: Site) -> list[Collection]:
    """All that have captures."""
    totals = site.archive.catalog.totals()[0]
    if not site.access.is_open:
        return [Collection(name, None, None) for name in sorted(totals)]
    return [Collection(name, total.captures, total.payload_bytes) for name, total in sorted(totals.items())]
