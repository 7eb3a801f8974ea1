"""The rows of a frontier: texts with tabs between their fields, so that anybody can read them.

Keys of the table that are more than a letter and a text.

What there is one of in a frontier: its visit, its counters, its tally.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, NamedTuple, Self

from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.processes.messages import FetchKind
from holdfast.formats.html.links.references import Hop

KEY_BYTES = 16
_DOWN_FAILURES = 3  # in a row
_LOST_FAILURES = 10
GONE: Final = frozenset((404, 410))  # statuses that say that there is no such page
_BREAKS = str.maketrans("\t\n\r", "   ")


class UrlState:
    """What became of a URL."""

    QUEUED: Final = "queued"
    DONE: Final = "done"  # there was a response
    FAILED: Final = "failed"  # there was none, after the last attempt
    REFUSED: Final = "refused"  # by robots.txt


def key_of(seen_form: str) -> bytes:
    """16 bytes that name a URL in the seen set."""
    return hashlib.blake2b(seen_form.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


class UrlRow(NamedTuple):
    """All that a crawl knows of a URL."""

    url: str
    kind: str = FetchKind.PAGE
    state: str = UrlState.QUEUED
    depth: int = 0
    hop: str = Hop.SEED
    hops: int = 0
    via: str = ""
    found: int = 0  # seconds since the epoch
    visit: int = 1  # the last for which it was queued
    place: str = ""  # in the queue of its host: priority and sequence number, in hexadecimal digits
    attempts: int = 0  # of this visit that failed
    outcome: str = ""  # of the last fetch
    status: int = 0
    visited: int = 0  # when it was fetched last
    reached: int = 0  # when there was last an answer that it exists
    signature: str = ""  # of the content that was found there last, in hexadecimal digits
    digest: str = ""  # the same, as records give it
    date: str = ""  # of the capture that holds it
    etag: str = ""
    modified: str = ""
    history: str = ""  # see `holdfast.crawl.schedule.revisit`
    due: int = 0  # when it is to be visited again
    unreadable: int = 0  # a reader died over it
    repeated: int = 0  # fetched once more in this visit, because a redirect led back to it with a cookie

    @property
    def is_gone(self) -> bool:
        """Whether the server said at the last visit that there is no such page."""
        return self.state == UrlState.DONE and self.status in GONE

    @property
    def is_unverified(self) -> bool:
        """Whether the last visit could not tell if the page is there: no response, or one that says neither."""
        return self.state != UrlState.DONE or (self.status not in GONE and not 200 <= self.status < 400)

    def encode(self) -> bytes:
        text = "\t".join(map(str, self))
        if text.count("\t") != len(self) - 1 or "\n" in text or "\r" in text:
            text = "\t".join(str(value).translate(_BREAKS) for value in self)
        return text.encode("utf-8", "surrogatepass")

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        values: list[Any] = raw.decode("utf-8", "surrogatepass").split("\t")
        for index in _NUMBERS:
            values[index] = int(values[index])
        return cls._make(values)


_NUMBERS = tuple(
    index for index, name in enumerate(UrlRow._fields) if isinstance(UrlRow._field_defaults.get(name), int)
)


class HostRow(NamedTuple):
    """All that a crawl knows of a host."""

    queued: int = 0
    fetched: int = 0
    failures: int = 0  # in a row
    paused_until: float = 0.0  # seconds since the epoch
    turn: int = 0  # its place among the hosts that wait; 0: it does not wait
    failing_since: int = 0  # when the failures in a row began
    trouble: str = ""  # outcome of the last of them

    def encode(self) -> bytes:
        return "\t".join(map(str, self)).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        queued, fetched, failures, paused_until, turn, since, *more = raw.decode().split("\t")
        trouble = more[0] if more else ""  # frontiers of earlier versions have none
        return cls(int(queued), int(fetched), int(failures), float(paused_until), int(turn), int(since), trouble)

    @property
    def is_down(self) -> bool:
        """Whether a host that has answered does so no longer."""
        return self.failures >= _DOWN_FAILURES and self.fetched > 0

    def is_lost(self, outage_s: float) -> bool:
        """Whether a host is given up: it never answered, or has not for so long."""
        if not self.fetched:
            return self.failures >= _LOST_FAILURES
        return self.is_down and time.time() - self.failing_since >= outage_s


def turn_key(turn: int) -> bytes:
    return b"w" + turn.to_bytes(8, "big")


def due_key(due: int, key: bytes) -> bytes:
    return b"d" + due.to_bytes(8, "big") + key


def counter_key(name: str) -> bytes:
    return b"c" + hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


@dataclass(slots=True)
class Totals:
    """Kept as one JSON object, committed with every group."""

    visit: int = 0  # how often the crawl went round; 0: not begun
    finished: bool = False  # the visit came to its end
    requeued: str = ""  # while a new visit is being prepared: the last key, in hexadecimal digits, that was looked at
    sequence: int = 0  # of the last URL that was queued
    turn: int = 0  # of the last host that began to wait
    queued: int = 0
    seen: int = 0
    reach: str = ""  # what decides where the crawl may go, in words, as it was for this visit
    thorough: bool = False  # that is not what it was for the last: unchanged pages are looked into again
    allowance_from: int = 0  # URLs fetched when the limit of the job last began to count
    quota_from: int = 0  # bytes transferred when that of the job last began to count
    tally: CrawlTally = field(default_factory=CrawlTally)

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        values = json.loads(raw)
        known = {each.name for each in fields(CrawlTally)}
        tally = CrawlTally(**{name: value for name, value in values.pop("tally").items() if name in known})
        return cls(**values, tally=tally)
