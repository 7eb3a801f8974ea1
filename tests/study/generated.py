"""Generated archives whose truth is known: what was added is kept beside them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import holdfast
from holdfast.archive import Archive
from holdfast.archive.ingest.exchange import Exchange

MIMES = {"text/html": "html", "image/png": "image", "application/pdf": "pdf", "text/css": "css"}


@dataclass(frozen=True)
class Fact:
    """One capture, as it was added."""

    batch: str
    url: str
    timestamp: str
    body: bytes
    mime: str = "text/html"
    status: int = 200
    collection: str = "main"
    modified: str = ""  # as HTTP writes it

    @property
    def host(self) -> str:
        return self.url.split("/")[2]

    @property
    def type(self) -> str:
        return MIMES[self.mime]

    def exchange(self) -> Exchange:
        fields = f"Content-Type: {self.mime}\r\n"
        if self.modified:
            fields += f"Last-Modified: {self.modified}\r\n"
        head = f"HTTP/1.1 {self.status} OK\r\n{fields}Content-Length: {len(self.body)}\r\n\r\n"
        return Exchange(self.url, head.encode(), self.body, self.timestamp)


def made(path: Path) -> Archive:
    """An empty archive, open for writing."""
    holdfast.init(path)
    return holdfast.open(path)


def add(archive: Archive, facts: Iterable[Fact]) -> None:
    """Adds the captures, those of a batch and collection together."""
    parts: dict[tuple[str, str], list[Exchange]] = {}
    for fact in facts:
        parts.setdefault((fact.batch, fact.collection), []).append(fact.exchange())
    for (batch, collection), exchanges in parts.items():
        archive.add(exchanges, batch=batch, collection=collection)


def when(start: datetime, days: float) -> str:
    return (start + timedelta(days=days)).strftime("%Y%m%d%H%M%S")


def crawls_with_duplicates(seed: int, batches: int = 4, urls: int = 60) -> list[Fact]:
    """Crawls in which contents repeat: within one, from the one before, and from earlier ones."""
    chance = random.Random(seed)
    contents = [chance.randbytes(chance.choice((90, 700, 5000, 9000))) for _ in range(urls)]
    facts = []
    for number in range(batches):
        start = datetime(2003, 1 + number, 1)
        for url in chance.sample(range(urls), urls * 2 // 3):
            mime = list(MIMES)[url % len(MIMES)]
            body = contents[chance.randrange(urls // 2 + number * urls // (2 * batches))]
            address = f"http://site{url % 7}.example/{url}"
            status = 404 if chance.random() < 0.1 else 200
            facts.append(Fact(f"crawl-{number}", address, when(start, chance.random() * 20), body, mime, status))
            if chance.random() < 0.1:
                facts.append(Fact(f"crawl-{number}", address, when(start, 21 + chance.random()), body, mime, status))
    return facts


@dataclass
class BruteForce:
    """The figures of the study of duplicates, computed by comparing bytes."""

    facts: Sequence[Fact]
    groups: list[str] = field(init=False)

    def __post_init__(self) -> None:
        first: dict[str, str] = {}
        for fact in self.facts:
            first[fact.batch] = min(first.get(fact.batch, "9"), fact.timestamp)
        self.groups = sorted(first, key=lambda name: (first[name], name))

    def of(self, group: str) -> list[Fact]:
        return [fact for fact in self.facts if fact.batch == group]

    def row(self, group: str) -> dict[str, object]:
        """The row of the main table."""
        own = self.of(group)
        before = self.groups[: self.groups.index(group)]
        bodies = {name: {fact.body for fact in self.of(name)} for name in before}
        urls = {name: {fact.url for fact in self.of(name)} for name in before}
        mine = {fact.url for fact in own}

        def share(count: int, total: int) -> float | None:
            return count / total if before else None

        return {
            "group": group,
            "captures": len(own),
            "urls": len(mine),
            "documents": len(own),
            "contents": len({fact.body for fact in own}),
            "within": (len(own) - len({fact.body for fact in own})) / len(own),
            "previous": share(sum(bool(before) and fact.body in bodies[before[-1]] for fact in own), len(own)),
            "earlier": share(sum(any(fact.body in bodies[name] for name in before) for fact in own), len(own)),
            "urls_previous": share(sum(bool(before) and url in urls[before[-1]] for url in mine), len(mine)),
            "urls_earlier": share(sum(any(url in urls[name] for name in before) for url in mine), len(mine)),
            "bytes": sum(len(fact.body) for fact in own),
            "unique_bytes": sum(len(body) for body in {fact.body for fact in own}),
            "new_bytes": sum(
                len(body) for body in {fact.body for fact in own} if not any(body in bodies[name] for name in before)
            ),
        }

    def pair(self, group: str, earlier: str) -> tuple[int, int]:
        """Documents and URLs of a group that are in another."""
        bodies, urls = {fact.body for fact in self.of(earlier)}, {fact.url for fact in self.of(earlier)}
        own = self.of(group)
        return sum(fact.body in bodies for fact in own), len({fact.url for fact in own} & urls)

    def shares(self, column: str) -> dict[str, tuple[int, int]]:
        """Documents and duplicates by host or type; the first capture of a content is its original."""
        places = {name: number for number, name in enumerate(self.groups)}
        ordered = sorted(
            self.facts, key=lambda fact: (fact.timestamp, places[fact.batch], fact.host, fact.type, fact.url)
        )
        seen: set[bytes] = set()
        found: dict[str, tuple[int, int]] = {}
        for fact in ordered:
            documents, duplicates = found.get(getattr(fact, column), (0, 0))
            found[getattr(fact, column)] = documents + 1, duplicates + (fact.body in seen)
            seen.add(fact.body)
        return found


def revisit(url: str, date: str, body: bytes) -> bytes:
    from holdfast.formats.warc.compose import digest_of

    head = (
        f"WARC/1.1\r\nWARC-Type: revisit\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\n"
        f"WARC-Date: {date}\r\nWARC-Target-URI: {url}\r\nWARC-Payload-Digest: {digest_of([body])}\r\n"
        "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\nContent-Length: 0\r\n\r\n"
    )
    return head.encode() + b"\r\n\r\n"


def undated_warc(url: str, body: bytes) -> bytes:
    """A WARC file of one response without a readable date."""
    text = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000009>\r\n"
        f"WARC-Target-URI: {url}\r\nWARC-Date: never\r\n"
        f"Content-Type: application/http;msgtype=response\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text + b"\r\n\r\n"
