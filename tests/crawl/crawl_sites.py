"""Small webs whose every answer a test decides, and what a test reads out of archive and frontier afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostile_web import LogEntry
from hostile_web.exchange import Answer, Request, plain
from hostile_web.server import Server, serving

import holdfast
from holdfast import Archive
from holdfast.catalog import CaptureQuery
from holdfast.crawl.frontier import Frontier
from holdfast.crawl.paths import FRONTIER
from holdfast.crawl.report.crawls import crawl_directory
from holdfast.crawl.schedule.revisit import History
from holdfast.model import RecordId
from holdfast.records.stored_record import StoredRecord

Made = Answer | Callable[[Request], Answer]
ADDRESS = "127.0.0.1"
HOST = "little.test"
DAY_S = 86400


def page(text: str, *fields: tuple[str, str], status: int = 200) -> Answer:
    return plain(status, f"<!doctype html>{text}\n", *fields, kind="text/html; charset=utf-8")


def linking(*urls: str) -> str:
    return "".join(f'<a href="{url}">{url}</a>\n' for url in urls)


class LittleWeb:
    """A plan and a world of the test web's server, which runs on a thread: `pages` may be changed at any time.

    Pages are named by path, or by host and path; what is not there is not found.
    """

    tls = False
    port = 0

    def __init__(self, pages: dict[str, Made], latency_s: float = 0.0) -> None:
        self.pages = {name if not name.startswith("/") else HOST + name: made for name, made in pages.items()}
        self.latency_s = latency_s
        self._server: Server | None = None

    # for the server

    @property
    def addresses(self) -> tuple[str, ...]:
        return (ADDRESS,)

    def built(self, port: int, tls_port: int) -> LittleWeb:
        return self

    def change(self, share: float) -> None:
        """Tests change `pages`."""

    def answer(self, request: Request) -> Answer:
        made = self.pages.get(request.host + request.target)
        if made is None:
            return page("not here", status=404)
        return made(request) if callable(made) else made

    # for the test

    @contextmanager
    def serving(self) -> Iterator[LittleWeb]:
        with serving(self, thread=True) as server:
            self._server = server
            yield self

    def url(self, name: str) -> str:
        assert self._server is not None
        host, slash, path = (HOST + name if name.startswith("/") else name).partition("/")
        return f"http://{host}:{self._server.port}{slash}{path}"

    def set(self, name: str, made: Made | None) -> None:
        name = HOST + name if name.startswith("/") else name
        self.pages.pop(name, None)
        if made is not None:
            self.pages[name] = made

    @property
    def seeds(self) -> tuple[str, ...]:
        return (self.url("/"),)

    @property
    def resolve(self) -> tuple[tuple[str, str], ...]:
        return (("*.test", ADDRESS), ("*.example", ADDRESS))

    def log(self) -> list[LogEntry]:
        assert self._server is not None
        return self._server.log()

    def clear_log(self) -> None:
        assert self._server is not None
        self._server.clear_log()

    def asked(self, *, robots: bool = False) -> list[str]:
        """Targets, in their order."""
        return [entry.target for entry in self.log() if robots or entry.target not in ("/robots.txt", "/sitemap.xml")]


# -- the archive -------------------------------------------------------------------------------------------------------


def records_of(archive: Archive, kind: str = "", url: str = "") -> list[StoredRecord]:
    """All records, or those of a type or of a URL, in the order of the batches."""
    found = [
        archive.records.stored(RecordId(batch, entry.serial), entry)
        for batch in archive.journal.names()
        for entry in archive.records.entries_from(RecordId(batch, 0))
    ]
    return [each for each in found if kind in ("", each.entry.type) and url in ("", each.entry.url)]


def captures_of(path: Path, url: str) -> list[Any]:
    """The rows of the catalog for just this URL, by time."""
    with holdfast.open(path, read_only=True) as archive:
        rows = [row.capture for row in archive.search(CaptureQuery(url=url, match="exact"))]
    return [row for row in rows if row.url == url]


def blocks(path: Path) -> int:
    """Contents in the store."""
    with holdfast.open(path, read_only=True) as archive:
        return sum(report.stat.blocks for report in archive.volumes() if report.stat is not None)


def references(path: Path) -> list[int]:
    """The counters of all contents that somebody holds, ascending."""
    with holdfast.open(path, read_only=True) as archive:
        return sorted(stat.references for stats in archive.contents.listing() for stat in stats if stat.references)


# -- time --------------------------------------------------------------------------------------------------------------


def let_pass(path: Path, name: str, seconds: float, urls: Iterable[str] = ()) -> None:
    """Makes all that a crawl knows, or the URLs given, so much older: as if the clock had gone on."""
    chosen = set(urls)
    frontier = Frontier(crawl_directory(path, name) / FRONTIER)
    try:
        for key, row in list(frontier.rows()):
            if chosen and row.url not in chosen:
                continue
            moments = {each: max(getattr(row, each) - int(seconds), 0) for each in ("found", "visited", "reached")}
            history = History.decode(row.history)
            if history.visits:
                changed = history.changed - seconds if history.changed else 0.0
                history = history._replace(first=history.first - seconds, last=history.last - seconds, changed=changed)
                moments["history"] = history.encode()
            frontier.settle(key, row._replace(**moments), due=max(row.due - int(seconds), 1))
        frontier.commit()
    finally:
        frontier.close()
