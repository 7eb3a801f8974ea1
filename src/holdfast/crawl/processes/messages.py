"""Messages between the processes of a crawl.

    crawl process ──FetchJob──▶ fetcher ──Fetched──▶ parse worker ──ParsedPage──▶ crawl process

All consist of plain values, so that they can be marshalled, which is an order of magnitude faster than pickling. The
first one to each child, its start, is pickled. A parse worker may get more of them: dictionaries, as plain bytes.
"""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.crawl.job.job import CrawlJob
from holdfast.env.child_process import packed_frame
from holdfast.formats.html.links.references import Hop
from holdfast.storage.store.encoder import ContentEncoding

DECODED_BYTES_MAX = 32 << 20  # of a decoded document; a longer one is kept unparsed


@dataclass(frozen=True, slots=True)
class FetcherStart:
    """The start message of the fetcher."""

    job: CrawlJob
    directory: Path  # of the crawl
    allow_private: bool = False  # any address
    private_networks: tuple[str, ...] = ()  # private networks that are allowed
    until_s: float | None = None  # in a cluster: when the right to fetch ends, by CLOCK_BOOTTIME; 'right' extends it
    needs_permits: bool = False  # in a cluster: a polite request begins only with a permit for its address


@dataclass(frozen=True, slots=True)
class ParseWorkerStart:
    """The start message of a parse worker."""

    job: CrawlJob
    collection: str
    signature: str  # algorithm
    thorough: bool = False  # parse unchanged pages, too
    index: bool = False  # extract for the index
    encoding: ContentEncoding | None = None  # of new contents; None: they are encoded when they are stored


class FetchKind:
    """What a URL is fetched for."""

    PAGE: Final = "page"
    ROBOTS: Final = "robots"
    SITEMAP: Final = "sitemap"


class FetchOutcome:
    """How a fetch ended."""

    OK: Final = "ok"  # a response of any status, perhaps truncated
    DNS: Final = "dns"  # the host has no address
    CONNECT: Final = "connect"  # no connection
    TLS: Final = "tls"
    TIMEOUT: Final = "timeout"  # before the head was there
    PROTOCOL: Final = "protocol"  # not an HTTP response
    DROPPED: Final = "dropped"  # the connection ended before the head was there
    PRIVATE: Final = "private"  # an address that must not be asked
    INVALID: Final = "invalid"  # a URL that cannot be fetched
    NO_RULES: Final = "no rules"  # robots.txt is unavailable, so nothing may be requested
    EXPIRED: Final = "expired"  # its lifetime ended, and its captures were removed
    CRASHED: Final = "crashed"  # a process of ours died of it
    NO_SPACE: Final = "no space"  # our disk is full


class FetchJob(NamedTuple):
    """A URL to be fetched."""

    id: int
    url: str  # canonical
    host: str  # unit of politeness: host name, with its port unless that is the default
    kind: str = FetchKind.PAGE
    hop: str = Hop.SEED
    depth: int = 0
    hops: int = 0  # redirects, or requisites of requisites, in a row
    via: str = ""  # the page it was found on; sent as Referer
    delay: float = 0.0  # seconds between two requests to the host
    etag: str = ""  # for a conditional request, as the server sent it; `modified` likewise
    modified: str = ""
    known: bytes = b""  # signature of the last content
    known_digest: str = ""  # its payload digest, as records give it
    known_date: str = ""  # 14 digits; of the capture that holds it
    browse: bool = False  # load it in a browser
    no_links: bool = False  # keep it without parsing: it has killed parse workers
    record: str = ""  # of a capture that this visit has made already: it is read instead
    roots: int = 0  # of the scope, so far; after an increase, workers report known links again
    # of requests by a page in a browser
    method: str = ""  # empty: GET
    content: bytes = b""  # of the request
    fields: tuple[tuple[str, str], ...] = ()  # of the request; they replace ours of the same name


class AddressPermit(NamedTuple):
    """The right of a fetcher to begin requests to an address; nobody else has it meanwhile."""

    address: str
    number: int  # later ones have higher numbers
    from_s: float  # by CLOCK_BOOTTIME
    until_s: float
    room: int  # requests that may be under way at a time
    yields: bool = False  # others wait: give it back as soon as no host here is ready


class AddressUse(NamedTuple):
    """What a fetcher does with an address for which it needs permits."""

    address: str
    seen: int = 0  # number of the last permit that has arrived
    has_permit: bool = False  # that permit is not given back yet
    wants: bool = False  # a host is ready and there is no permit
    active: int = 0  # requests under way
    owed_s: float = 0.0  # no request by anybody before this time, by CLOCK_BOOTTIME
    gap_s: float = 0.0  # the longest time between two requests to it, so far


class Fetched(NamedTuple):
    """The response of a server, or why there is none."""

    job: FetchJob
    outcome: str
    detail: str = ""  # the error, for people
    started: float = 0.0  # seconds since the epoch
    elapsed: float = 0.0
    request: bytes = b""  # the whole message as sent; HTTP/2 written as HTTP/1.1
    head: bytes = b""  # status line and fields as sent, with the blank line; HTTP/2 written as HTTP/1.1
    body: bytes = b""  # transfer-encoding removed, content-encoding kept
    spool: str = ""  # the file of a large body; then `body` is empty
    size: int = 0  # of the body
    ip: str = ""
    protocols: tuple[str, ...] = ()  # 'h2', 'tls/1.3', ...
    facts: tuple[tuple[str, str], ...] = ()  # further WARC fields: of TLS
    truncated: str = ""  # 'length', 'time', 'disconnect'
    transferred: int = 0  # bytes on the wire, as curl counts them
    part: bool = False  # loaded by a page in a browser: `job.url` is the part's, `job.id` the page's
    resource: str = ""  # content type of something made from a page: screenshot, rendered page, text
    links: tuple[tuple[str, str], ...] = ()  # URL and hop, found in the rendered page


class ParsedPage(NamedTuple):
    """A fetched page after parsing."""

    job_id: int
    url: str
    outcome: str
    detail: str = ""
    started: float = 0.0
    elapsed: float = 0.0
    status: int = 0
    mime: str = ""
    size: int = 0  # of the payload
    transferred: int = 0
    ip: str = ""
    truncated: str = ""
    signature: bytes = b""
    digest: str = ""
    date: str = ""  # 14 digits
    etag: str = ""
    modified: str = ""
    unchanged: bool = False  # since the last visit
    part: bool = False
    resource: str = ""
    drafts: tuple[tuple[Any, ...], ...] = ()  # of records, see `holdfast.crawl.parse.records`
    links: tuple[tuple[bytes, str, str], ...] = ()  # key in the seen set, URL, hop
    sitemaps: tuple[tuple[bytes, str], ...] = ()  # key and URL; named by a sitemap index
    body: bytes = b""  # of a robots.txt
    location: str = ""  # where a redirect leads
    sets_cookie: bool = False  # the same request may get another response now
    method: str = ""  # of the job
    withheld: bool = False  # not kept: the page asks for `noarchive`, and the crawl obeys
    extracted: bytes = b""  # for the index: `Extracted.pack`; empty: the index extracts by itself


def pack(message: tuple[Any, ...]) -> bytes:
    """A message of plain values as a frame."""
    return packed_frame(marshal.dumps(message))


def pack_fetched(fetched: Fetched) -> bytes:
    return pack(plain_fetched(fetched))


def unpack_fetched(body: bytes | memoryview) -> Fetched:
    return fetched_of(marshal.loads(body))


def plain_fetched(fetched: Fetched) -> tuple[Any, ...]:
    job, *rest = fetched
    return (tuple(job), *rest)


def fetched_of(values: tuple[Any, ...]) -> Fetched:
    job, *rest = values
    return Fetched(FetchJob._make(job), *rest)


def unpack_parsed(body: bytes | memoryview) -> ParsedPage:
    return ParsedPage._make(marshal.loads(body))
