"""A node's share of a crawl that many nodes run: which URLs it may fetch, and where other links go (H1).

A host is fetched by one node. The crawl of a node asks its share which hosts are its own, and until when. What it finds
and finishes goes through the share, which writes it down in the same commit of the frontier and passes it on. A crawl
on one machine has no share. `holdfast.cluster.crawl` implements these protocols.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from holdfast.crawl.frontier import FoundUrl, Frontier, UrlRow
    from holdfast.crawl.ingest.tally import CrawlTally
    from holdfast.crawl.policy.admission import Admission
    from holdfast.crawl.processes.feeder import Feeder
    from holdfast.crawl.processes.messages import AddressPermit, AddressUse
    from holdfast.crawl.report.crawls import CrawlState


class FetchRight(Protocol):
    """Which hosts this node may send requests to, and until when. For the crawl's thread."""

    @property
    def until_s(self) -> float:
        """Every request must have ended by then, by CLOCK_BOOTTIME; minus infinity without a right."""

    def is_ours(self, host: str) -> bool:
        """True if new requests to the host may begin, as long as the right holds."""

    def not_before(self, host: str, delay_s: float) -> float:
        """No request to the host before this time, in seconds since the epoch."""


class LinkSink(Protocol):
    """Takes news for other nodes from the frontier; they become durable with its next commit."""

    def diverts(self, link: FoundUrl, via: str) -> bool:
        """True if the link is of another node, which will get it."""

    def queued(self, link: FoundUrl, via: str) -> None:
        """A link of this node was queued, or a shorter path to it was found."""

    def counted(self, host: str, change: int) -> None:
        """So many more URLs of a host are queued."""

    def settled(self, key: bytes, row: UrlRow) -> None:
        """A URL was fetched, failed or was refused."""

    def root_added(self, url: str) -> None:
        """The scope is wider."""

    @property
    def is_changed(self) -> bool:
        """True if there is something to commit."""

    def changes(self) -> Iterable[tuple[bytes, bytes | None]]:
        """Rows of the frontier's table to be written in this commit; None deletes."""


class AddressPermits(Protocol):
    """Asks for permits to fetch from addresses that hosts of other nodes may share. For the crawl's thread."""

    def step(self, uses: Sequence[AddressUse]) -> Sequence[AddressPermit]:
        """Takes what the fetcher reports; returns permits, and known ones that it should give back early."""

    def restarted(self) -> None:
        """The fetcher has ended: all its requests have, too, and its permits are given back."""


class CrawlShare(FetchRight, LinkSink, Protocol):
    """The share of one node in one run of a crawl. For the crawl's thread."""

    @property
    def visit(self) -> int:
        """Which visit of the whole crawl this is."""

    @property
    def permits(self) -> AddressPermits | None:
        """None if requests need no permits."""

    def attach(self, frontier: Frontier, admission: Admission, feeder: Feeder) -> None:
        """Before the first round."""

    def step(self, *, is_busy: bool) -> list[str]:
        """One round: takes what others have sent. `is_busy`: results are not committed yet.

        Returns hosts whose jobs must be recalled from the fetcher, since they are of another node now.
        """

    def kept(self, row: UrlRow) -> str:
        """The record of a capture that this visit has made already, by a node that is gone; empty without one."""

    def host_changed(self, host: str, paused_until: float, delay_s: float) -> None:
        """A host asked for a pause, or for a longer delay than the job's."""

    @property
    def allowance(self) -> int | None:
        """URLs that this node may still fetch; None without a limit."""

    def ended(self) -> tuple[CrawlState, str] | None:
        """How the whole crawl ended, and why, if it did."""

    def whole(self, tally: CrawlTally, errors: dict[str, int]) -> tuple[dict[str, Any], dict[str, int]]:
        """The tally and the errors of all nodes together, given those of this one."""
