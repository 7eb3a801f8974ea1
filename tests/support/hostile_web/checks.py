"""Was a crawl polite? Answered from the server's own log.

`tolerance_s` is what clocks may differ by. The server notes the time of an answer before its last bytes go out, and
that of a request after it has arrived: a client that waits long enough never looks wrong, however busy the machine is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hostile_web.exchange import LogEntry

if TYPE_CHECKING:
    from hostile_web.generator import Web

ROBOTS = "/robots.txt"


def too_soon(
    log: Iterable[LogEntry], host: str, delay_s: float, *, tolerance_s: float = 0.001
) -> list[tuple[LogEntry, LogEntry]]:
    """Pairs of requests to `host` where the second came less than `delay_s` after the end of the first's answer."""
    ours = _to(log, host)
    last: LogEntry | None = None
    pairs = []
    for entry in ours:
        if last is not None and entry.received - last.answered < delay_s - tolerance_s:
            pairs.append((last, entry))
        if last is None or entry.answered > last.answered:
            last = entry
    return pairs


def at_once(log: Iterable[LogEntry], host: str) -> int:
    """How many requests to `host` were being answered at the same time, at most."""
    return _most_at_once(_to(log, host))


def at_once_at(log: Iterable[LogEntry], address: str) -> int:
    """The same for all hosts of an address."""
    return _most_at_once([entry for entry in log if entry.address == address])


def during_pause(log: Iterable[LogEntry], *, tolerance_s: float = 0.001) -> list[tuple[LogEntry, LogEntry]]:
    """Answers with a Retry-After, each with a request to the same host that came before its time was over.

    A request that came before the answer was there does not count: nobody could know yet. That is sure only of a crawl
    that asks a host for one thing at a time; `tolerance_s` does not make up for more.
    """
    entries = sorted(log, key=lambda entry: entry.received)
    return [
        (pause, entry)
        for pause in entries
        if pause.pause_until
        for entry in _to(entries, pause.host)
        if pause.answered < entry.received < pause.pause_until - tolerance_s
    ]


def disallowed(log: Iterable[LogEntry], web: Web) -> list[LogEntry]:
    """Requests that robots.txt forbids."""
    names = {name for name, _ in web.resolve}
    return [
        entry
        for entry in log
        if entry.path != ROBOTS and entry.host in names and not web.allowed(web.graph.url(entry.host, entry.target))
    ]


def without_robots(log: Iterable[LogEntry], web: Web) -> list[LogEntry]:
    """Requests to hosts whose robots.txt had not been answered when they came."""
    known: dict[str, float] = {}
    early = []
    for entry in sorted(log, key=lambda entry: entry.received):
        if entry.path == ROBOTS:
            known.setdefault(entry.host, entry.answered)
        elif known.get(entry.host, float("inf")) > entry.received and entry.target not in _rules_elsewhere(web):
            early.append(entry)
    return early


def _rules_elsewhere(web: Web) -> set[str]:
    return {"/" + url.split("/", 3)[3] for url in web.robots_urls}


def repeated(log: Iterable[LogEntry]) -> list[LogEntry]:
    """Requests for what had been asked for before with success."""
    seen: set[tuple[str, str]] = set()
    again = []
    for entry in log:
        if (entry.host, entry.target) in seen:
            again.append(entry)
        elif entry.status in range(200, 500) and entry.status != 429:
            seen.add((entry.host, entry.target))
    return again


def bytes_sent(log: Iterable[LogEntry]) -> int:
    return sum(entry.sent for entry in log)


def _to(log: Iterable[LogEntry], host: str) -> list[LogEntry]:
    return sorted((entry for entry in log if entry.host == host), key=lambda entry: entry.received)


def _most_at_once(entries: Sequence[LogEntry]) -> int:
    events = sorted(event for entry in entries for event in ((entry.received, 1), (entry.answered, -1)))
    most = now = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most
