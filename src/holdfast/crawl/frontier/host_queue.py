"""The queue of one host, of which the next few URLs are held in memory.

Keys of the table: `q`, host, NUL, priority (1 byte), sequence number (8 bytes). Inside a priority the order is that of
arrival, so what was taken is always a prefix: a cursor for each priority skips it, without wading through the marks
that deleted keys leave in the table.

In which order URLs are fetched, and how far from the seeds they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from itertools import islice

from holdfast.crawl.frontier.rows import UrlRow
from holdfast.crawl.frontier.transaction import TableTransaction
from holdfast.crawl.processes.messages import FetchKind
from holdfast.formats.html.links.references import Hop

_HELD = 64


def place_key(host: bytes, place: str) -> bytes:
    """The key of a place, which is 18 hexadecimal digits, in a host's queue."""
    return b"q" + host + b"\0" + bytes.fromhex(place)


def place_of(priority: int, sequence: int) -> str:
    return f"{priority:02x}{sequence:016x}"


class HostQueue:
    """The queue of a host that is being visited."""

    def __init__(self, ledger: TableTransaction, host: str) -> None:
        self._ledger = ledger
        self._prefix = b"q" + host.encode() + b"\0"
        self._cursors: dict[int, bytes] = {}  # by priority: where the next key is looked for
        self._filled: set[int] = set()  # priorities that may hold something
        self._held: deque[bytes] = deque()  # keys of URLs, in their order
        self.is_given_back = False
        self._look()

    def _look(self) -> None:
        """Which priorities are there?"""
        start, end = self._prefix, self._prefix[:-1] + b"\1"
        while found := next(iter(self._ledger.scan(start, end)), None):
            priority = found[0][len(self._prefix)]
            self._cursors[priority] = found[0]
            self._filled.add(priority)
            start = self._prefix + bytes([priority]) + b"\xff" * 9

    def added(self, priority: int) -> None:
        """Something was put into the queue."""
        self._filled.add(priority)

    def take(self, count: int, passed_over: Container[bytes]) -> list[bytes]:
        """Keys of the next URLs, those of the lowest priority number first."""
        taken: list[bytes] = []
        while len(taken) < count and (self._held or self._fill()):
            key = self._held.popleft()
            if key not in passed_over:
                taken.append(key)
        self.is_given_back = False
        return taken

    def give_back(self, key: bytes) -> None:
        """What was taken, but cannot be fetched yet, comes first again."""
        self._held.appendleft(key)
        self.is_given_back = True

    @property
    def is_empty(self) -> bool:
        return not self._held and not self._filled

    def _fill(self) -> bool:
        for priority in sorted(self._filled):
            end = self._prefix + bytes([priority]) + b"\xff" * 9
            start = self._cursors.get(priority, self._prefix + bytes([priority]))
            rows = list(islice(self._ledger.scan(start, end), _HELD))
            if rows:
                self._cursors[priority] = rows[-1][0] + b"\0"
                self._held.extend(value for _, value in rows)
                return True
            self._filled.discard(priority)
        return False


_DEEP = 60  # levels of depth that are told apart
_LAST_PRIORITY = 2 + _DEEP


def link_depth(depth: int, hop: str) -> int:
    """Requisites and redirects are as far from the seeds as what they belong to."""
    return depth if hop in (Hop.EMBED, Hop.REDIRECT) else depth + 1


def priority_of(row: UrlRow) -> int:
    """Seeds first, then what completes a page, then by depth; guesses last."""
    if row.hop == Hop.SEED or (row.kind != FetchKind.PAGE and not row.hops):
        return 0
    if row.hop == Hop.EMBED:
        return 1
    near = 2 + min(row.depth, _DEEP)
    return near if row.hop not in (Hop.SPECULATIVE, Hop.FORM) else near + _LAST_PRIORITY
