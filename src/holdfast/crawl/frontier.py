"""The frontier: the queues of URLs to fetch, and the state of every known URL and host, on disk (H5).

    find(links) ──▶ queued ──take──▶ in flight ──settle──▶ done, failed or refused
                      ▲                  │                          │
                      └──── postpone ────┘◀──────── next visit ─────┘

A URL stays in the queue of its host until it is settled: URLs in flight when the process dies are still queued.
Changes are collected and committed in one atomic, durable step, after the archive has the records. So a settled URL is
not fetched again, and its capture is safe.

Memory does not grow with the crawl: it holds a few dozen URLs of each live host, and a few thousand hosts; all others
are on disk.

The keys of the table, by their first letter:

s  key of a URL                           nothing: it was seen; small, so that millions of them fit into memory
u  key of a URL                           all that is known of it (UrlRow)
q  host NUL priority sequence             key of a URL that is to be fetched
h  host                                   HostRow
w  turn                                   a host that has something in its queue
o  scheme://host:port                     its robots.txt, with the time until which it holds
c  hash of a name                         a counter: of URLs per host, and the like
l  key of a URL                           the links of a page, where the depth of a crawl is limited
d  due time, key of a URL                 when it is to be visited again
r  URL                                    a root of the scope: a seed, or what a seed redirects to
t                                         Totals
x, y, z                                   in a cluster: what other nodes must know (`holdfast.cluster.crawl.outbox`)

Rows are texts with tabs between their fields, so that they can be read without Holdfast.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.processes.messages import FetchKind
from holdfast.crawl.share import LinkSink
from holdfast.env.table import Table, TableKind
from holdfast.errors import DamagedFrontier
from holdfast.formats.html.links.references import Hop

KEY_BYTES = 16
LIVE_HOSTS_MAX = 4096
GONE: Final = frozenset((404, 410))  # statuses of missing pages
_TABLE = TableKind("frontier", DamagedFrontier, "holdfast crawl SEED... --name ANOTHER", packed=True)
_CACHE_BYTES = 128 << 20
_HOSTS_HELD = 4 * LIVE_HOSTS_MAX  # rows of hosts in memory
_COUNTERS_HELD = 65_536
_URLS_HELD = 64  # of one host
_DOWN_FAILURES = 3  # in a row
_LOST_FAILURES = 10
_BREAKS = str.maketrans("\t\n\r", "   ")
_DEEP = 60  # levels of depth that priorities distinguish
_LAST_PRIORITY = 2 + _DEEP

Admit = Callable[["FoundUrl"], str]  # why a URL is not to be fetched; empty if it is


# -- rows --------------------------------------------------------------------------------------------------------------


class UrlState:
    """What became of a URL."""

    QUEUED: Final = "queued"
    DONE: Final = "done"  # there was a response
    FAILED: Final = "failed"  # there was none, after the last attempt
    REFUSED: Final = "refused"  # by robots.txt


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
    reached: int = 0  # when a response last said that it exists
    signature: str = ""  # of the content that was found there last, in hexadecimal digits
    digest: str = ""  # the same, as records give it
    date: str = ""  # of its capture
    etag: str = ""
    modified: str = ""
    history: str = ""  # see `holdfast.crawl.schedule.revisit`
    due: int = 0  # when it is to be visited again
    unreadable: int = 0  # a parse worker died of it
    repeated: int = 0  # fetched again in this visit, because a redirect led back to it with a cookie

    @property
    def is_gone(self) -> bool:
        """True if the last visit got 404 or 410."""
        return self.state == UrlState.DONE and self.status in GONE

    @property
    def is_unverified(self) -> bool:
        """True if the last visit got no response, or one that does not tell if the page exists."""
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
        """True if a host that responded before has stopped responding."""
        return self.failures >= _DOWN_FAILURES and self.fetched > 0

    def is_lost(self, outage_s: float) -> bool:
        """True if the crawl gives up on a host: it never responded, or has not for `outage_s`."""
        if not self.fetched:
            return self.failures >= _LOST_FAILURES
        return self.is_down and time.time() - self.failing_since >= outage_s


@dataclass(slots=True)
class Totals:
    """Kept as one JSON object, committed with every group."""

    visit: int = 0  # 0: not started
    finished: bool = False  # the visit came to its end
    requeued: str = ""  # while a new visit is being prepared: the last key that was read, in hexadecimal digits
    sequence: int = 0  # of the last URL that was queued
    turn: int = 0  # of the last host that began to wait
    queued: int = 0
    seen: int = 0
    reach: str = ""  # what decides where the crawl may go, in words, as it was for this visit
    thorough: bool = False  # it differs from that of the last visit: unchanged pages are parsed again
    allowance_from: int = 0  # URLs fetched when the limit of the job last began to count
    quota_from: int = 0  # bytes transferred when that of the job last began to count
    tally: CrawlTally = field(default_factory=CrawlTally)

    def encode(self) -> bytes:
        values = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(values | {"tally": self.tally.as_dict()}).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        values = json.loads(raw)
        known = {each.name for each in fields(CrawlTally)}
        tally = CrawlTally(**{name: value for name, value in values.pop("tally").items() if name in known})
        return cls(**values, tally=tally)


class FoundUrl(NamedTuple):
    """A URL that was found."""

    key: bytes
    url: str
    hop: str = Hop.SEED
    depth: int = 0
    hops: int = 0
    kind: str = FetchKind.PAGE


def host_of(url: str) -> str:
    """The unit of politeness, of a canonical URL: the host, with its port if that is not the default."""
    return url.split("/", 3)[2].rpartition("@")[2]


# -- keys --------------------------------------------------------------------------------------------------------------


def key_of(seen_form: str) -> bytes:
    """16 bytes that name a URL in the seen set."""
    return hashlib.blake2b(seen_form.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def place_key(host: bytes, place: str) -> bytes:
    """The key of a place, which is 18 hexadecimal digits, in a host's queue."""
    return b"q" + host + b"\0" + bytes.fromhex(place)


def place_of(priority: int, sequence: int) -> str:
    return f"{priority:02x}{sequence:016x}"


def turn_key(turn: int) -> bytes:
    return b"w" + turn.to_bytes(8, "big")


def due_key(due: int, key: bytes) -> bytes:
    return b"d" + due.to_bytes(8, "big") + key


def counter_key(name: str) -> bytes:
    return b"c" + hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def link_depth(depth: int, hop: str) -> int:
    """Requisites and redirects are as far from the seeds as the page they belong to."""
    return depth if hop in (Hop.EMBED, Hop.REDIRECT) else depth + 1


def priority_of(row: UrlRow) -> int:
    """Seeds first, then what completes a page, then by depth; guesses last."""
    if row.hop == Hop.SEED or (row.kind != FetchKind.PAGE and not row.hops):
        return 0
    if row.hop == Hop.EMBED:
        return 1
    near = 2 + min(row.depth, _DEEP)
    return near if row.hop not in (Hop.SPECULATIVE, Hop.FORM) else near + _LAST_PRIORITY


# -- the table ---------------------------------------------------------------------------------------------------------


class TableTransaction:
    """Collects changes and commits them in one atomic step. For one thread."""

    def __init__(self, path: Path, *, follow: bool = False) -> None:
        self._table = Table(path, _TABLE, cache_bytes=_CACHE_BYTES, follow=follow)
        self._changes: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        if key in self._changes:
            return self._changes[key]
        return self._table.get(key)

    def changed_value(self, key: bytes) -> bytes | None:
        """The value put since the last commit; None without one."""
        return self._changes.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        changes = self._changes
        unchanged = [key for key in keys if key not in changes]
        found = self._table.get_many(unchanged) if unchanged else []
        if len(unchanged) == len(keys):
            return found
        rest = iter(found)
        return [changes[key] if key in changes else next(rest) for key in keys]

    def put(self, key: bytes, value: bytes) -> None:
        self._changes[key] = value

    def delete(self, key: bytes) -> None:
        self._changes[key] = None

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Scans committed rows only."""
        return self._table.scan(start, end)

    @property
    def changed(self) -> int:
        return len(self._changes)

    def commit(self) -> None:
        """Durable on return."""
        if self._changes:
            changes = self._changes
            puts = ((key, value) for key, value in changes.items() if value is not None)
            self._table.write(puts, [key for key, value in changes.items() if value is None])
            self._table.sync()
            self._changes = {}

    def close(self) -> None:
        self._table.close()


class HostQueue:
    """The queue of a live host, of which the next few URLs are held in memory.

    Inside a priority the order is that of arrival, so what was taken is always a prefix: a cursor for each priority
    skips it, without reading through the marks that deleted keys leave in the table.
    """

    def __init__(self, ledger: TableTransaction, host: str) -> None:
        self._ledger = ledger
        self._prefix = b"q" + host.encode() + b"\0"
        self._cursors: dict[int, bytes] = {}  # by priority: where the next key is looked for
        self._filled: set[int] = set()  # priorities that may hold something
        self._held: deque[bytes] = deque()  # keys of URLs, in their order
        self.is_given_back = False
        self._look()

    def _look(self) -> None:
        """Finds the priorities in use."""
        start, end = self._prefix, self._prefix[:-1] + b"\1"
        while found := next(iter(self._ledger.scan(start, end)), None):
            priority = found[0][len(self._prefix)]
            self._cursors[priority] = found[0]
            self._filled.add(priority)
            start = self._prefix + bytes([priority]) + b"\xff" * 9

    def added(self, priority: int) -> None:
        """A URL of that priority was queued."""
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
        """Puts a taken URL that cannot be fetched yet back to the front."""
        self._held.appendleft(key)
        self.is_given_back = True

    @property
    def is_empty(self) -> bool:
        return not self._held and not self._filled

    def _fill(self) -> bool:
        for priority in sorted(self._filled):
            end = self._prefix + bytes([priority]) + b"\xff" * 9
            start = self._cursors.get(priority, self._prefix + bytes([priority]))
            rows = list(islice(self._ledger.scan(start, end), _URLS_HELD))
            if rows:
                self._cursors[priority] = rows[-1][0] + b"\0"
                self._held.extend(value for _, value in rows)
                return True
            self._filled.discard(priority)
        return False


# -- the frontier ------------------------------------------------------------------------------------------------------


class Frontier:
    """One thread, one process writes; others may follow. Nothing is durable before `commit`."""

    def __init__(self, path: Path, *, follow: bool = False) -> None:
        self._ledger = TableTransaction(path, follow=follow)
        raw = self._ledger.get(b"t")
        self.totals = Totals.decode(raw) if raw else Totals()
        self._hosts: dict[str, HostRow] = {}
        self._changed_hosts: set[str] = set()
        self._in_flight: dict[bytes, UrlRow] = {}  # rows that were taken and are not settled
        self._counters: dict[str, int] = {}
        self._changed_counters: set[str] = set()
        self._live: dict[str, HostQueue] = {}
        self._turn = 0  # of the last host that became live
        self.fed: set[str] = set()  # hosts whose queues have grown; for the feeder to take
        self._waiting = True  # whether there may be hosts that wait beyond that turn
        self.roots_added = 0  # since it was opened
        self.sink: LinkSink | None = None  # in a cluster: takes what other nodes must know

    # -- finding ------------------------------------------------------------------------------------------------

    def find(self, links: Sequence[FoundUrl], via: str, admit: Admit, *, deepen: bool = False) -> int:
        """Queues new URLs that `admit` accepts; returns how many.

        With `deepen`, a shorter path to a known URL reduces its depth, and the depth of the URLs it links to.
        """
        queued = 0
        if self.sink is not None:
            links = [link for link in links if not self.sink.diverts(link, via)]
        seen = self._ledger.get_many([b"s" + link.key for link in links])
        for link, known in zip(links, seen, strict=True):
            if known is not None or self._ledger.changed_value(b"s" + link.key) is not None:
                if deepen and link.hop != Hop.SEED:
                    queued += self._deepen(link, admit)
            elif not admit(link):
                self._enqueue(link, via)
                queued += 1
        return queued

    def _enqueue(self, link: FoundUrl, via: str) -> None:
        row = UrlRow(
            link.url,
            link.kind,
            UrlState.QUEUED,
            link.depth,
            link.hop,
            link.hops,
            via,
            int(time.time()),
            self.totals.visit,
        )
        self.see(link.key)
        self._queue(link.key, row, priority_of(row))
        if self.sink is not None:
            self.sink.queued(link, via)

    def see(self, key: bytes) -> None:
        """Marks a URL as seen."""
        self.totals.seen += 1
        self._ledger.put(b"s" + key, b"")

    def _queue(self, key: bytes, row: UrlRow, priority: int) -> None:
        totals = self.totals
        totals.sequence += 1
        totals.queued += 1
        place = place_of(priority, totals.sequence)
        host = host_of(row.url)
        self._put(key, row._replace(state=UrlState.QUEUED, place=place))
        self._ledger.put(place_key(host.encode(), place), key)
        known = self.host(host)
        if not known.turn:
            known = self._wait(host, known)
        self.set_host(host, known._replace(queued=known.queued + 1))
        if host in self._live:
            self._live[host].added(priority)
            self.fed.add(host)
        if self.sink is not None:
            self.sink.counted(host, 1)

    def _deepen(self, link: FoundUrl, admit: Admit) -> int:
        """Reduces the depth of a URL, and of the URLs behind it, if the new path is shorter."""
        queued = 0
        waiting = [link]
        while waiting:
            near = waiting.pop()
            known = self.row(near.key)
            if known is None or near.depth >= known.depth:
                continue
            if self.sink is not None:
                self.sink.queued(near, known.via)
            nearer = known._replace(depth=near.depth)
            if known.state == UrlState.QUEUED:
                self._unqueue(near.key, known)
                self._queue(near.key, nearer, priority_of(nearer))
                continue
            self._put(near.key, nearer)
            for each in self._links(near.key, near.depth):
                if self.sink is not None and self.sink.diverts(each, known.url):
                    continue
                if self._ledger.get(b"s" + each.key) is not None:
                    waiting.append(each)
                elif not admit(each):
                    self._enqueue(each, known.url)
                    queued += 1
        return queued

    def keep_links(self, key: bytes, links: Sequence[FoundUrl]) -> None:
        """Keeps the links of a page, so that their depth can be reduced later."""
        lines = [f"{link.key.hex()}\t{link.url}\t{link.hop}\t{link.hops}" for link in links]
        self._ledger.put(b"l" + key, "\n".join(lines).encode("utf-8", "surrogatepass"))

    def _links(self, key: bytes, depth: int) -> Iterator[FoundUrl]:
        raw = self._ledger.get(b"l" + key)
        for line in raw.decode("utf-8", "surrogatepass").split("\n") if raw else ():
            name, url, hop, hops = line.split("\t")
            yield FoundUrl(bytes.fromhex(name), url, hop, link_depth(depth, hop), int(hops))

    def linking_to(self, key: bytes) -> tuple[str, int] | None:
        """A page that links to a URL, with the depth of the link; the nearest, of pages whose links are kept."""
        wanted, nearest = key.hex().encode(), None
        for name, raw in self._ledger.scan(b"l", b"m"):
            page = self.row(name[1:]) if wanted in raw else None
            for link in self._links(name[1:], page.depth) if page is not None else ():
                if link.key == key and page is not None and (nearest is None or link.depth < nearest[1]):
                    nearest = page.url, link.depth
        return nearest

    # -- taking -------------------------------------------------------------------------------------------------

    def enliven(self) -> list[str]:
        """Makes waiting hosts live while there is room; returns them. Commit first."""
        enlivened = []
        while self._waiting and len(self._live) < LIVE_HOSTS_MAX:
            start = b"w" + (self._turn + 1).to_bytes(8, "big")
            row = next(iter(self._ledger.scan(start, b"x")), None)
            if row is None:
                self._waiting = False
                break
            self._turn = int.from_bytes(row[0][1:], "big")
            host = row[1].decode()
            if host not in self._live:
                self._live[host] = HostQueue(self._ledger, host)
                enlivened.append(host)
        return enlivened

    def take(self, host: str, count: int, passed_over: Container[bytes]) -> list[tuple[bytes, UrlRow]]:
        """The next URLs of a live host; they stay queued until they are settled. Commit first."""
        line = self._live[host]
        taken: dict[bytes, UrlRow] = {}
        while len(taken) < count and (keys := line.take(count - len(taken), passed_over)):
            for key, raw in zip(keys, self._ledger.get_many([b"u" + key for key in keys]), strict=True):
                row = UrlRow.decode(raw) if raw is not None else None
                if row is not None and row.state == UrlState.QUEUED:  # else it was held twice: its depth was reduced
                    taken[key] = self._in_flight[key] = row
        return list(taken.items())

    def give_back(self, host: str, key: bytes) -> None:
        """A URL that was taken, but cannot be fetched yet."""
        self.release(key)
        self._live[host].give_back(key)

    def release(self, key: bytes) -> None:
        """A URL that was taken is not fetched now; it is still queued."""
        self._in_flight.pop(key, None)

    def is_given_back(self, host: str) -> bool:
        """True if the next URL of a live host was given back."""
        return host in self._live and self._live[host].is_given_back

    def is_exhausted(self, host: str) -> bool:
        """True if a live host has nothing left to take."""
        return host not in self._live or self._live[host].is_empty

    def leave(self, host: str) -> None:
        """An exhausted live host makes room; it waits again when it has queued URLs."""
        self._live.pop(host, None)
        known = self.host(host)
        if known.turn:
            self._ledger.delete(turn_key(known.turn))
            known = known._replace(turn=0)
        self.set_host(host, self._wait(host, known) if known.queued else known)

    def sleep(self, host: str) -> None:
        """A paused host makes room until `wake`."""
        self._live.pop(host, None)
        known = self.host(host)
        if known.turn:
            self._ledger.delete(turn_key(known.turn))
            self.set_host(host, known._replace(turn=0))

    def wake(self, host: str) -> None:
        """The host waits for its turn again if it has queued URLs."""
        known = self.host(host)
        if known.queued and not known.turn:
            self.set_host(host, self._wait(host, known))

    @property
    def is_crowded(self) -> bool:
        """After `enliven`: true if hosts wait for room."""
        return self._waiting and len(self._live) >= LIVE_HOSTS_MAX

    def _wait(self, host: str, known: HostRow) -> HostRow:
        self.totals.turn += 1
        self._ledger.put(turn_key(self.totals.turn), host.encode())
        self._waiting = True
        return known._replace(turn=self.totals.turn)

    def is_live(self, host: str) -> bool:
        return host in self._live

    # -- settling -----------------------------------------------------------------------------------------------

    def row(self, key: bytes) -> UrlRow | None:
        if (known := self._in_flight.get(key)) is not None:
            return known
        raw = self._ledger.get(b"u" + key)
        return UrlRow.decode(raw) if raw is not None else None

    def _put(self, key: bytes, row: UrlRow) -> None:
        self._in_flight.pop(key, None)
        self._ledger.put(b"u" + key, row.encode())

    def settle(self, key: bytes, row: UrlRow, *, due: int = 0) -> None:
        """Removes a URL from the queue and stores its row; `due`: when it is to be visited again."""
        if row.place:
            self._unqueue(key, row)
        if row.due:
            self._ledger.delete(due_key(row.due, key))
        if due:
            self._ledger.put(due_key(due, key), b"")
        self._put(key, row._replace(place="", due=due))
        if self.sink is not None:
            self.sink.settled(key, row)

    def postpone(self, key: bytes, row: UrlRow) -> None:
        """Moves a URL to the end of its host's queue."""
        self._unqueue(key, row)
        self._queue(key, row, min(priority_of(row) + 1, 255))

    def queue_again(self, key: bytes, row: UrlRow) -> None:
        """Queues a settled URL again."""
        self._queue(key, row, priority_of(row))

    def forget(self, key: bytes, row: UrlRow) -> None:
        """Removes a URL as if it had never been found."""
        if row.place:
            self._unqueue(key, row)
        self._in_flight.pop(key, None)
        for each in (b"s" + key, b"u" + key, b"l" + key, *([due_key(row.due, key)] if row.due else [])):
            self._ledger.delete(each)
        self.totals.seen -= 1

    def _unqueue(self, key: bytes, row: UrlRow) -> None:
        host = host_of(row.url)
        self._ledger.delete(place_key(host.encode(), row.place))
        self.totals.queued -= 1
        known = self.host(host)
        self.set_host(host, known._replace(queued=known.queued - 1))
        if self.sink is not None:
            self.sink.counted(host, -1)

    # -- hosts --------------------------------------------------------------------------------------------------

    def host(self, host: str) -> HostRow:
        known = self._hosts.get(host)
        if known is None:
            raw = self._ledger.get(b"h" + host.encode())
            known = self._hosts[host] = HostRow.decode(raw) if raw else HostRow()
        return known

    def knows_host(self, host: str) -> bool:
        known = self._hosts.get(host)
        if known is not None and known.turn:
            return True
        return host in self._changed_hosts or self._ledger.get(b"h" + host.encode()) is not None

    def set_host(self, host: str, row: HostRow) -> None:
        self._hosts[host] = row
        self._changed_hosts.add(host)

    def hosts(self) -> Iterator[tuple[str, HostRow]]:
        """All committed rows."""
        for key, raw in self._ledger.scan(b"h", b"i"):
            yield key[1:].decode(), HostRow.decode(raw)

    def robots(self, origin: str) -> tuple[float, bytes] | None:
        """When the rules of an origin expire, and the packed rules."""
        raw = self._ledger.get(b"o" + origin.encode())
        if raw is None:
            return None
        until, _, rules = raw.partition(b"\n")
        return float(until), rules

    def set_robots(self, origin: str, until: float, rules: bytes) -> None:
        self._ledger.put(b"o" + origin.encode(), f"{until:.0f}\n".encode() + rules)

    # -- counters and roots -------------------------------------------------------------------------------------

    def counted(self, name: str) -> int:
        known = self._counters.get(name)
        if known is None:
            known = self._counters[name] = int(self._ledger.get(counter_key(name)) or 0)
        return known

    def count(self, name: str) -> None:
        self._counters[name] = self.counted(name) + 1
        self._changed_counters.add(name)

    def roots(self) -> list[str]:
        return [key[1:].decode() for key, _ in self._ledger.scan(b"r", b"s")]

    def add_root(self, url: str) -> None:
        self._ledger.put(b"r" + url.encode(), b"")
        self.roots_added += 1
        if self.sink is not None:
            self.sink.root_added(url)

    # -- visits -------------------------------------------------------------------------------------------------

    def begin_visit(self, visit: int = 0) -> None:
        """Begins a new visit, the next one unless it is given; `requeue` then queues known URLs."""
        totals = self.totals
        fresh = Totals(
            visit or totals.visit + 1,
            sequence=totals.sequence,
            turn=totals.turn,
            queued=totals.queued,
            seen=totals.seen,
        )
        fresh.requeued = "00" * KEY_BYTES if totals.visit else ""
        self.totals = fresh

    def requeue(self, wanted: Callable[[UrlRow], bool], count: int = 10_000) -> bool:
        """Queues some of the known URLs that `wanted` accepts; true if there are more. Commit after each call."""
        totals = self.totals
        if not totals.requeued:
            return False
        start = b"u" + bytes.fromhex(totals.requeued)
        totals.requeued = ""
        for number, (name, raw) in enumerate(self._ledger.scan(start, b"v")):
            key = name[1:]
            if number == count:
                totals.requeued = key.hex()
                return True
            row = UrlRow.decode(raw)
            if row.state != UrlState.QUEUED and row.visit < totals.visit and wanted(row):
                again = row._replace(visit=totals.visit, attempts=0, repeated=0)
                self._queue(key, again, priority_of(again))
                self._trust_again(host_of(row.url))
        return False

    def _trust_again(self, host: str) -> None:
        """A host that did not respond at the last visit may at this one."""
        known = self.host(host)
        if known.failures:
            self.set_host(host, known._replace(failures=0))

    def rows(self, start: bytes = b"") -> Iterator[tuple[bytes, UrlRow]]:
        """All committed rows, from a key on."""
        for key, raw in self._ledger.scan(b"u" + start, b"v"):
            yield key[1:], UrlRow.decode(raw)

    def shared(self, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The committed rows of the share in a cluster, of one of the letters x, y and z, without that letter."""
        for key, value in self._ledger.scan(kind, bytes([kind[0] + 1])):
            yield key[1:], value

    # -- life ---------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Makes all changes durable in one atomic step."""
        for host in self._changed_hosts:
            self._ledger.put(b"h" + host.encode(), self._hosts[host].encode())
        self._changed_hosts.clear()
        for name in self._changed_counters:
            self._ledger.put(counter_key(name), b"%d" % self._counters[name])
        self._changed_counters.clear()
        if len(self._counters) > _COUNTERS_HELD:
            self._counters.clear()
        if len(self._hosts) > _HOSTS_HELD:
            self._hosts = {host: row for host, row in self._hosts.items() if host in self._live}
        self._ledger.put(b"t", self.totals.encode())
        for key, value in self.sink.changes() if self.sink is not None else ():
            self._ledger.put(key, value) if value is not None else self._ledger.delete(key)
        self._ledger.commit()

    @property
    def is_changed(self) -> bool:
        """True if there are changes to commit."""
        is_shared = self.sink is not None and self.sink.is_changed
        return bool(is_shared or self._ledger.changed or self._changed_hosts or self._changed_counters)

    def close(self) -> None:
        """Drops uncommitted changes."""
        self._ledger.close()
