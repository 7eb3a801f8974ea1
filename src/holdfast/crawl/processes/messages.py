"""What the processes of a crawl tell each other.

    conductor ──Job──▶ fetcher ──Fetched──▶ reader ──Reading──▶ conductor

All are made of plain values, so that they can be marshalled, which is an order of magnitude faster than pickling.
A frame is a length of 8 bytes, the lowest first, and so many bytes.
"""

from __future__ import annotations

import marshal
from typing import Any, Final, NamedTuple

from holdfast.env.child_process import packed_frame
from holdfast.formats.html.links.references import Hop


class FetchKind:
    """What a URL is fetched for."""

    PAGE: Final = "page"
    ROBOTS: Final = "robots"
    SITEMAP: Final = "sitemap"


class FetchOutcome:
    """How a fetch ended."""

    OK: Final = "ok"  # there is a response, of whatever status; perhaps cut off
    DNS: Final = "dns"  # the host has no address
    CONNECT: Final = "connect"  # nobody answers there
    TLS: Final = "tls"
    TIMEOUT: Final = "timeout"  # before the head was there
    PROTOCOL: Final = "protocol"  # what came is no HTTP response
    DROPPED: Final = "dropped"  # the connection ended before the head was there
    PRIVATE: Final = "private"  # an address that must not be asked
    INVALID: Final = "invalid"  # a URL that cannot be fetched
    NO_RULES: Final = "no rules"  # robots.txt cannot be had, so that nothing may be asked for
    EXPIRED: Final = "expired"  # its lifetime was over, and its captures were removed
    CRASHED: Final = "crashed"  # a process of ours died over it
    NO_SPACE: Final = "no space"  # what came could not be written here: our trouble, not the page's


class FetchJob(NamedTuple):
    """A URL to be fetched."""

    id: int
    url: str  # canonical
    host: str  # politeness is owed to: host name, and port where it is not the usual one
    kind: str = FetchKind.PAGE
    hop: str = Hop.SEED
    depth: int = 0
    hops: int = 0  # redirects, or requisites of requisites, in a row
    via: str = ""  # the URL that it was found on; sent as Referer
    delay: float = 0.0  # seconds that this host is to be left alone after each fetch
    etag: str = ""  # for a conditional request, both as the server gave them
    modified: str = ""
    known: bytes = b""  # signature of the content that was found there last
    known_digest: str = ""  # its payload digest, as records give it
    known_date: str = ""  # 14 digits; of the capture that holds it
    browse: bool = False  # load it in a browser
    no_links: bool = False  # keep it, but do not look into it: a reader died over it
    roots: int = 0  # that the scope had when it was sent: with more of them, links are told of again
    # what a page in a browser asks for
    method: str = ""  # empty: GET
    content: bytes = b""  # of the request
    fields: tuple[tuple[str, str], ...] = ()  # of the request; they go before ours of the same name


class Fetched(NamedTuple):
    """What a server answered."""

    job: FetchJob
    outcome: str
    detail: str = ""  # what went wrong, for people
    started: float = 0.0  # seconds since the epoch
    elapsed: float = 0.0
    request: bytes = b""  # the whole message as sent; HTTP/2 written as HTTP/1.1
    head: bytes = b""  # status line and fields as sent, with the blank line; HTTP/2 written as HTTP/1.1
    body: bytes = b""  # transfer-encoding removed, content-encoding kept
    spool: str = ""  # the file that holds the body, if it was large; then `body` is empty
    size: int = 0  # of the body
    ip: str = ""
    protocols: tuple[str, ...] = ()  # 'h2', 'tls/1.3', ...
    facts: tuple[tuple[str, str], ...] = ()  # further WARC fields: of TLS
    truncated: str = ""  # 'length', 'time', 'disconnect'
    transferred: int = 0  # bytes on the wire, as curl counts them
    part: bool = False  # fetched on the way for a page in a browser: `job.url` is the part's, `job.id` the page's
    resource: str = ""  # a content type: not from a server, but made of a page: screenshot, rendered page, text
    links: tuple[tuple[str, str], ...] = ()  # URL and hop, as a browser found them in the rendered page


class ParsedPage(NamedTuple):
    """What a reader made of it."""

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
    unchanged: bool = False  # the same as at the last visit
    part: bool = False
    resource: str = ""
    drafts: tuple[tuple[Any, ...], ...] = ()  # of records, see `holdfast.crawl.parse.records`
    links: tuple[tuple[bytes, str, str], ...] = ()  # key in the seen set, URL, hop
    sitemaps: tuple[tuple[bytes, str], ...] = ()  # likewise; named by a sitemap index
    body: bytes = b""  # of a robots.txt
    location: str = ""  # where a redirect leads
    sets_cookie: bool = False  # so that the same request may be answered otherwise
    method: str = ""  # as in Job
    withheld: bool = False  # not kept, for the page asks for that, and the crawl obeys


def pack(message: tuple[Any, ...]) -> bytes:
    """A frame of plain values."""
    return packed_frame(marshal.dumps(message))


def pack_fetched(fetched: Fetched) -> bytes:
    job, *rest = fetched
    return pack((tuple(job), *rest))


def unpack_fetched(body: bytes | memoryview) -> Fetched:
    job, *rest = marshal.loads(body)
    return Fetched(FetchJob._make(job), *rest)


def unpack_reading(body: bytes | memoryview) -> ParsedPage:
    return ParsedPage._make(marshal.loads(body))
