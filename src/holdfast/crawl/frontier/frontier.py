"""The frontier itself. The table's keys, by their first letter:

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
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.crawl.frontier.host_queue import HostQueue, link_depth, place_key, place_of, priority_of
from holdfast.crawl.frontier.rows import KEY_BYTES, HostRow, Totals, UrlRow, UrlState, counter_key, due_key, turn_key
from holdfast.crawl.frontier.transaction import TableTransaction
from holdfast.crawl.processes.messages import FetchKind
from holdfast.formats.html.links.references import Hop

LIVE_HOSTS_MAX = 4096
_HOSTS_HELD = 4 * LIVE_HOSTS_MAX  # rows of hosts in memory

Admit = Callable[["FoundUrl"], str]  # why a URL is not to be fetched; empty if it is


class FoundUrl(NamedTuple):
    """A URL that was found."""

    key: bytes
    url: str
    hop: str = Hop.SEED
    depth: int = 0
    hops: int = 0
    kind: str = FetchKind.PAGE


def host_of(url: str) -> str:
    """To whom politeness is owed, of a canonical URL: the host, with its port where that is not the usual one."""
    return url.split("/", 3)[2].rpartition("@")[2]


class Frontier:
    """One thread, one process writes; others may follow. Nothing is durable before `commit`."""

    def __init__(self, path: Path, *, follow: bool = False) -> None:
        self._ledger = TableTransaction(path, follow=follow)
        raw = self._ledger.get(b"t")
        self.totals = Totals.decode(raw) if raw else Totals()
        self._hosts: dict[str, HostRow] = {}
        self._changed_hosts: set[str] = set()
        self._live: dict[str, HostQueue] = {}
        self._turn = 0  # of the last host that became live
        self.fed: set[str] = set()  # hosts whose queues have grown; for those who feed the fetcher to take
        self._waiting = True  # whether there may be hosts that wait beyond that turn
        self.roots_added = 0  # since it was opened

    # -- finding ------------------------------------------------------------------------------------------------

    def find(self, links: Sequence[FoundUrl], via: str, admit: Admit, *, deepen: bool = False) -> int:
        """Queues those that are new and admitted; returns how many were queued.

        With `deepen`, what was found already, but farther from the seeds, comes nearer, and what it links to with it.
        """
        queued = 0
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

    def see(self, key: bytes) -> None:
        """The URL is known from now on."""
        self.totals.seen += 1
        self._ledger.put(b"s" + key, b"")

    def _queue(self, key: bytes, row: UrlRow, priority: int) -> None:
        totals = self.totals
        totals.sequence += 1
        totals.queued += 1
        place = place_of(priority, totals.sequence)
        host = host_of(row.url)
        self._ledger.put(b"u" + key, row._replace(state=UrlState.QUEUED, place=place).encode())
        self._ledger.put(place_key(host.encode(), place), key)
        known = self.host(host)
        if not known.turn:
            known = self._wait(host, known)
        self.set_host(host, known._replace(queued=known.queued + 1))
        if host in self._live:
            self._live[host].added(priority)
            self.fed.add(host)

    def _deepen(self, link: FoundUrl, admit: Admit) -> int:
        """If a shorter way to a URL was found, all that lies behind it is nearer, too."""
        queued = 0
        waiting = [link]
        while waiting:
            near = waiting.pop()
            known = self.row(near.key)
            if known is None or near.depth >= known.depth:
                continue
            nearer = known._replace(depth=near.depth)
            if known.state == UrlState.QUEUED:
                self._unqueue(near.key, known)
                self._queue(near.key, nearer, priority_of(nearer))
                continue
            self._ledger.put(b"u" + near.key, nearer.encode())
            for each in self._links(near.key, near.depth):
                if self._ledger.get(b"s" + each.key) is not None:
                    waiting.append(each)
                elif not admit(each):
                    self._enqueue(each, known.url)
                    queued += 1
        return queued

    def keep_links(self, key: bytes, links: Sequence[FoundUrl]) -> None:
        """So that they can come nearer later."""
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
        """Hosts that waited and may now be visited; commit first."""
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
                if row is not None and row.state == UrlState.QUEUED:  # else it was held twice: it had come nearer
                    taken[key] = row
        return list(taken.items())

    def give_back(self, host: str, key: bytes) -> None:
        """A URL that was taken, but cannot be fetched yet."""
        self._live[host].give_back(key)

    def is_given_back(self, host: str) -> bool:
        """Whether what a live host would give next was given back."""
        return host in self._live and self._live[host].is_given_back

    def is_exhausted(self, host: str) -> bool:
        """Whether nothing is left to be taken from a live host."""
        return host not in self._live or self._live[host].is_empty

    def leave(self, host: str) -> None:
        """A live host that is exhausted, or whose turn is over, makes room; it comes back when it has more."""
        self._live.pop(host, None)
        known = self.host(host)
        if known.turn:
            self._ledger.delete(turn_key(known.turn))
            known = known._replace(turn=0)
        self.set_host(host, self._wait(host, known) if known.queued else known)

    def sleep(self, host: str) -> None:
        """A host that is not to be visited for a while; it does not come back before `wake`."""
        self._live.pop(host, None)
        known = self.host(host)
        if known.turn:
            self._ledger.delete(turn_key(known.turn))
            self.set_host(host, known._replace(turn=0))

    def wake(self, host: str) -> None:
        """It waits for its turn again, if it has something queued."""
        known = self.host(host)
        if known.queued and not known.turn:
            self.set_host(host, self._wait(host, known))

    @property
    def is_crowded(self) -> bool:
        """After `enliven`: whether hosts wait for one of those that are live to make room."""
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
        raw = self._ledger.get(b"u" + key)
        return UrlRow.decode(raw) if raw is not None else None

    def settle(self, key: bytes, row: UrlRow, *, due: int = 0) -> None:
        """The URL leaves the queue, and is due again some time."""
        if row.place:
            self._unqueue(key, row)
        if row.due:
            self._ledger.delete(due_key(row.due, key))
        if due:
            self._ledger.put(due_key(due, key), b"")
        self._ledger.put(b"u" + key, row._replace(place="", due=due).encode())

    def postpone(self, key: bytes, row: UrlRow) -> None:
        """To the end of the queue of its host."""
        self._unqueue(key, row)
        self._queue(key, row, min(priority_of(row) + 1, 255))

    def queue_again(self, key: bytes, row: UrlRow) -> None:
        """A URL that was settled is to be fetched once more."""
        self._queue(key, row, priority_of(row))

    def forget(self, key: bytes, row: UrlRow) -> None:
        """As if it had never been found."""
        if row.place:
            self._unqueue(key, row)
        for each in (b"s" + key, b"u" + key, b"l" + key, *([due_key(row.due, key)] if row.due else [])):
            self._ledger.delete(each)
        self.totals.seen -= 1

    def _unqueue(self, key: bytes, row: UrlRow) -> None:
        host = host_of(row.url)
        self._ledger.delete(place_key(host.encode(), row.place))
        self.totals.queued -= 1
        known = self.host(host)
        self.set_host(host, known._replace(queued=known.queued - 1))

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
        """All that were committed."""
        for key, raw in self._ledger.scan(b"h", b"i"):
            yield key[1:].decode(), HostRow.decode(raw)

    def robots(self, origin: str) -> tuple[float, bytes] | None:
        """Until when the rules of an origin hold, and the rules as they were packed."""
        raw = self._ledger.get(b"o" + origin.encode())
        if raw is None:
            return None
        until, _, rules = raw.partition(b"\n")
        return float(until), rules

    def set_robots(self, origin: str, until: float, rules: bytes) -> None:
        self._ledger.put(b"o" + origin.encode(), f"{until:.0f}\n".encode() + rules)

    # -- counters and roots -------------------------------------------------------------------------------------

    def counted(self, name: str) -> int:
        return int(self._ledger.get(counter_key(name)) or 0)

    def count(self, name: str) -> None:
        self._ledger.put(counter_key(name), b"%d" % (self.counted(name) + 1))

    def roots(self) -> list[str]:
        return [key[1:].decode() for key, _ in self._ledger.scan(b"r", b"s")]

    def add_root(self, url: str) -> None:
        self._ledger.put(b"r" + url.encode(), b"")
        self.roots_added += 1

    # -- visits -------------------------------------------------------------------------------------------------

    def begin_visit(self) -> None:
        """A new visit; what is known is queued again by `requeue`."""
        totals = self.totals
        fresh = Totals(
            totals.visit + 1, sequence=totals.sequence, turn=totals.turn, queued=totals.queued, seen=totals.seen
        )
        fresh.requeued = "00" * KEY_BYTES if totals.visit else ""
        self.totals = fresh

    def requeue(self, wanted: Callable[[UrlRow], bool], count: int = 10_000) -> bool:
        """Queues what is known and wanted, some of it; returns whether there is more. Commit after each call."""
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
        """A host that did not answer at the last visit may at this one."""
        known = self.host(host)
        if known.failures:
            self.set_host(host, known._replace(failures=0))

    def rows(self) -> Iterator[tuple[bytes, UrlRow]]:
        """All that were committed."""
        for key, raw in self._ledger.scan(b"u", b"v"):
            yield key[1:], UrlRow.decode(raw)

    # -- life ---------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Everything since the last commit becomes durable, in one step."""
        for host in self._changed_hosts:
            self._ledger.put(b"h" + host.encode(), self._hosts[host].encode())
        self._changed_hosts.clear()
        if len(self._hosts) > _HOSTS_HELD:
            self._hosts = {host: row for host, row in self._hosts.items() if host in self._live}
        self._ledger.put(b"t", self.totals.encode())
        self._ledger.commit()

    @property
    def is_changed(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._ledger.changed or self._changed_hosts)

    def close(self) -> None:
        """What was not committed is forgotten."""
        self._ledger.close()
