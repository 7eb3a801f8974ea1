"""What a page has become in the browser: its links, how it looks, what it consists of, what it says."""

from __future__ import annotations

import time
from typing import NamedTuple

from holdfast.crawl.messages import Fetched, Job, Outcome
from holdfast.formats.links import Document, links_of
from holdfast.formats.links.hops import Hop
from holdfast.formats.record import Headers
from holdfast.urls import canonical, parse

DOM_CHARACTERS_MAX = 16 << 20
LINKS_MAX = 20_000
PICTURE_BYTES_MAX = 32 << 20
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_PNG = "image/png"

VIEW = "urn:view:"
DOM = "urn:dom:"
TEXT = "urn:text:"


class Harvest(NamedTuple):
    """Of one page."""

    url: str = ""  # what the browser shows as its address; scripts may change it
    links: tuple[tuple[str, str], ...] = ()
    dom: str = ""
    text: str = ""
    picture: bytes = b""
    note: str = ""  # what is missing, and why


def resources(job: Job, harvest: Harvest) -> list[Fetched]:
    """The records that are made of a page."""
    made = [
        (VIEW, _PNG, harvest.picture if len(harvest.picture) <= PICTURE_BYTES_MAX else b""),
        (DOM, _HTML, harvest.dom.encode("utf-8", "replace")),
        (TEXT, _TEXT, harvest.text.encode("utf-8", "replace")),
    ]
    return [_resource(job, prefix + job.url, kind, body) for prefix, kind, body in made if body]


def _resource(job: Job, url: str, kind: str, body: bytes) -> Fetched:
    made_of = Job(job.id, url, job.host)
    return Fetched(made_of, Outcome.OK, started=time.time(), body=body, size=len(body), part=True, resource=kind)


def all_links(job: Job, harvest: Harvest, left_for: list[str]) -> tuple[tuple[str, str], ...]:
    """Where the page wanted to go, what its scripts made, and what the markup says in the end; each URL once."""
    found: dict[str, str] = {}
    for url in left_for:
        _add(found, url, Hop.REDIRECT)
    if harvest.url:
        _add(found, harvest.url, Hop.LINK)
    for url, hop in harvest.links:
        _add(found, url, hop)
    for url, hop in links_of(document_of(job, harvest, Headers([]))):
        _add(found, url, hop)
    found.pop(job.url, None)
    return tuple(found.items())


def document_of(job: Job, harvest: Harvest, headers: Headers) -> Document:
    """The page as it was in the end."""
    return Document(job.url, harvest.dom.encode("utf-8", "replace"), _HTML, headers, 200)


def _add(found: dict[str, str], url: str, hop: str) -> None:
    parsed = parse(url)
    if parsed is not None and parsed.scheme in ("http", "https"):
        found.setdefault(canonical(parsed.href), hop)
