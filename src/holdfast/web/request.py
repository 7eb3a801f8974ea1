"""The request: its target, parsed so that every byte of the archived URL is kept, and its headers.

    /<coll>/<timestamp><modifier>/<url>     a capture; without a timestamp the newest
    /<coll>/*/<url>   /<coll>/2024*/<url>   the calendar of a URL, or of a year of it
    /<coll>/<url>   /<coll>/timegate/<url>  the TimeGate
    /<coll>/timemap/<form>/[<page>/]<url>   the TimeMap: link, json, cdxj; without a form it is link
    /<coll>/timemap/<form>?url=             the CDX server, as the Internet Archive has it there
    /<coll>/cdx   /<coll>/index?            the CDX server
    /<coll>/delete                          lines of CDX to delete are posted here
    /<coll>/record/<id>   /<coll>/warc      downloads
    /<coll>/stream                          captures in bulk
    /<coll>                                 the collection itself
    /<coll>/<pick>/...                      a capture, or the TimeGate, by that rule: nearest, not-newer
    /<coll>/record/<id>/<timestamp>...      of several captures of a URL in one second, that one

`web` is the default collection, `all` is all of them as one.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import NamedTuple
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from holdfast.errors import MalformedInput, TooLarge, UsageError
from holdfast.model import Pick, RecordId

READING = ("GET", "HEAD")  # methods
DOCUMENTS = frozenset(("document", "iframe", "frame", "embed", "object"))  # destinations that are pages
SERVICE_WORKER = "serviceworker"  # a destination; some browsers send another header instead
PICK = "x-holdfast-pick"  # a header: nearest, not-newer
_PICK_FIELD = PICK.encode()
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII | re.IGNORECASE)
KEYED_BODY_BYTES_MAX = 1 << 20  # of a request whose body is part of the key


class RequestInfo(NamedTuple):
    """The headers of a request that replay looks at, as text; '' where there is none."""

    method: str
    dest: str  # what the browser will do with the response
    accept: str
    encodings: str  # that the client accepts
    range: str
    etag: str  # of what the client has
    referrer: str
    content_type: str
    host: str
    pick: str  # the rule that picks a capture for a time

    @property
    def wants_page(self) -> bool:
        """True for a person: browsers accept HTML first, programs anything."""
        return "text/html" in self.accept

    def understands(self, encoding: str) -> bool:
        return bool(encoding) and all(each.strip() in self.encodings for each in encoding.split(","))


def request_info(scope: Scope) -> RequestInfo:
    fields = {name: value.decode("latin-1") for name, value in scope["headers"]}
    text = fields.get
    return RequestInfo(
        scope["method"],
        SERVICE_WORKER
        if b"service-worker" in fields
        else _destination(text(b"x-holdfast-worker", ""), text(b"sec-fetch-dest", "")),
        text(b"accept", ""),
        text(b"accept-encoding", "").lower(),
        text(b"range", ""),
        text(b"if-none-match", ""),
        text(b"referer", ""),
        text(b"content-type", ""),
        text(b"host", ""),
        text(_PICK_FIELD, ""),
    )


def _destination(of_worker: str, of_request: str) -> str:
    """A service worker sends the destination itself: the browser treats all its requests alike."""
    return of_worker if of_worker in DOCUMENTS else of_request


def pick_of(request: Request) -> Pick | None:
    """The parameter `pick`, or the header; None if neither is given. Raises UnknownName."""
    text = request.query_params.get("pick") or request.headers.get(PICK, "")
    return Pick.parse(text.strip()) if text.strip() else None


def require_reading(request: Request, what: str) -> None:
    """Raises UsageError unless the method is GET or HEAD."""
    if request.method not in READING:
        raise UsageError(f"{what} takes GET or HEAD, not {request.method}")


async def body_parts(request: Request, bytes_max: int) -> AsyncIterator[bytes]:
    """The body as it arrives. Raises TooLarge as early as that is known, and MalformedInput if it is cut off."""
    length = request.headers.get("content-length", "")
    size = int(length) if length.isascii() and length.isdigit() and len(length) < 19 else 0
    too_large = TooLarge(f"the body of the request is longer than {bytes_max} bytes")
    if size > bytes_max:
        raise too_large
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > bytes_max:
                raise too_large
            yield part
    except ClientDisconnect:
        raise MalformedInput("the body was cut off") from None


async def body_of(request: Request, bytes_max: int) -> bytes:
    """The whole body. Raises as `body_parts`."""
    return b"".join([part async for part in body_parts(request, bytes_max)])


def body_range(text: str, size: int) -> tuple[int, int] | bool | None:
    """Begin and end of the one range requested; None: all of it; False: there is no such range."""
    unit, _, spec = text.partition("=")
    first, dash, last = spec.strip().partition("-")
    if unit.strip().lower() != "bytes" or not dash or "," in spec:
        return None
    first, last = first.strip(), last.strip()
    if not all(part.isascii() and (part.isdigit() or not part) for part in (first, last)) or first == last == "":
        return None
    if not first:
        return (max(0, size - int(last)), size) if int(last) and size else False
    begin, end = int(first), min(int(last) + 1 if last else size, size)
    return (begin, end) if begin < end else False


class ContentRange(NamedTuple):
    """The range of bytes that a response holds, and the size of the whole."""

    begin: int
    end: int
    size: int  # of the whole; 0: unknown


def content_range(text: str) -> ContentRange | None:
    """The value of `Content-Range`; None if it names no bytes."""
    found = _CONTENT_RANGE.fullmatch(text.strip())
    if found is None or int(found[1]) > int(found[2]):
        return None
    return ContentRange(int(found[1]), int(found[2]) + 1, int(found[3]) if found[3] != "*" else 0)


CERTIFICATE = "holdfast.certificate"  # in an ASGI scope: what the client showed over TLS, as DER; None: nothing
EMPTY_QUERY = "holdfast.empty_query"  # in an ASGI scope: the address ends with `?`, which is part of a URL
MODIFIERS = frozenset(("", "id_", "mp_", "js_", "cs_", "im_", "if_", "fr_", "oe_"))
ALIASES = {"tf_": "", "bn_": "", "ir_": "id_"}  # pywb's modifiers for a page with its banner, and for unrewritten bytes
DEFAULT, ALL = "web", "all"
RESERVED = frozenset(  # first parts of addresses that name no collection
    (
        *("_hf", "api", "cdx", "collinfo.json", "compare", "crawls", "explore", "favicon.ico", "health", "metrics"),
        *("nodes", "openapi.json", "robots.txt", "search", "static", "status", "studies", "volumes"),
    )
)
FORMS = frozenset(("link", "json", "cdxj"))

_PICKS = tuple(f"{each}/" for each in Pick)
_PICKED = frozenset(("replay", "timegate", "odd"))
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_TIMED = re.compile(r"(\d{1,14})?([a-z]{2}_)?/(.*)", re.DOTALL)
_ODD = re.compile(
    r"(\d{15,})/|(?:\d+([a-z]{2,4}_)|\d+([a-z]{1,4})(?=/https?:)|([a-z]{2,4}_)(?=/https?:))/", re.IGNORECASE
)
_STARRED = re.compile(r"(\d{0,14})\*/(.*)", re.DOTALL)
_PAGED = re.compile(r"(\d{14})/(?=.)(.*)", re.DOTALL)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(/*)", re.IGNORECASE)
_ESCAPED_SCHEME = re.compile(r"https?%3a", re.IGNORECASE)
_HOST_AND_FRAGMENT = re.compile(r"((?:https?:/*)?(?:[^/?%:]|%(?!23))+(?::\d+)?)%23", re.IGNORECASE)
_LIKE_URL = re.compile(r"[^/?]*[.:%]")
_UNFIT = re.compile(rb'[^!-~]|[<>"]')  # would end the angle brackets, the line, or the header
_FIT = re.compile(r"[!#-;=?-~]*")


class RequestTargetPath(NamedTuple):
    """One request for something archived. `collection` is the name as it was given."""

    kind: str  # replay, calendar, timegate, timemap, cdx, record, warc, stream, delete, collection; odd: malformed
    collection: str
    timestamp: str = ""
    modifier: str = ""
    url: str = ""  # or the id of a record
    form: str = ""  # of a TimeMap, also of one that the CDX server returns
    page: int = 0  # of a TimeMap: its first timestamp; 0: none given
    pick: Pick | None = None  # None: as the settings say
    record: RecordId | None = None  # of several captures of one second, the one that is meant

    @property
    def place(self) -> str:
        """The collection, and the record or pick if there is one, as addresses name them."""
        if self.record is not None:
            return f"{self.collection}/record/{self.record}"
        return self.collection if self.pick is None else f"{self.collection}/{self.pick}"

    @property
    def prefix(self) -> str:
        """The beginning of addresses of the same place."""
        return f"/{self.place}/"

    @property
    def fault(self) -> str:
        """What is wrong with an address that is `odd`."""
        if self.modifier:
            return f"unknown modifier {self.modifier!r}: known are {', '.join(sorted(MODIFIERS - {''}))}, or none"
        return f"bad time {self.timestamp[:40]!r}: give 1 to 14 digits, such as 2020 or 20200102030405"


def raw_target(scope: Scope) -> bytes:
    """Path and query of an ASGI request, as they were sent."""
    path: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    return path + b"?" + query if query or scope.get(EMPTY_QUERY) else path


def parse_target(raw: bytes) -> RequestTargetPath | None:
    """None if it is not about a collection. An `odd` target has the unknown time or modifier."""
    text = raw.decode("utf-8", "surrogateescape")
    name, slash, rest = text[1:].partition("/")
    if not slash or "?" in name:  # a query may contain slashes
        name, _, query = text[1:].partition("?")
        return RequestTargetPath("collection", name, url=query) if _is_collection(name) else None
    if not _is_collection(name):
        return None
    if rest.startswith(_PICKS):
        pick, _, rest = rest.partition("/")
        target = _within(name, rest)
        return target._replace(pick=Pick(pick)) if target is not None and target.kind in _PICKED else None
    return _within(name, rest)


def _within(name: str, rest: str) -> RequestTargetPath | None:
    timed = _TIMED.match(rest)
    if timed is not None and (timed[2] or "") in MODIFIERS and (timed[1] or timed[2]):
        return RequestTargetPath("replay", name, timed[1] or "", timed[2] or "", archived_url(timed[3]))
    return _special(name, rest, timed)


def _is_collection(name: str) -> bool:
    return name not in RESERVED and _NAME.fullmatch(name) is not None


def _special(name: str, rest: str, timed: re.Match[str] | None) -> RequestTargetPath | None:
    if timed is not None and timed[2] in ALIASES:
        return RequestTargetPath("replay", name, timed[1] or "", ALIASES[timed[2]], archived_url(timed[3]))
    word, slash, tail = rest.partition("/")
    bare, mark, query = rest.partition("?")
    if bare in ("cdx", "warc", "stream", "delete") or (bare == "index" and mark):
        return RequestTargetPath("cdx" if bare == "index" else bare, name, url=query)
    if not bare:
        return RequestTargetPath("collection", name, url=query if mark else "")
    if slash and word == "record":
        return _of_record(name, tail) or RequestTargetPath("record", name, url=tail)
    if slash and word == "timegate":
        return RequestTargetPath("timegate", name, url=archived_url(tail))
    if slash and word == "timemap":
        return _timemap(name, tail)
    if starred := _STARRED.match(rest):
        return RequestTargetPath("calendar", name, starred[1], url=archived_url(starred[2]))
    if name == "wayback" and bare == "available":  # the Internet Archive's API
        return None
    if odd := _ODD.match(rest):
        return RequestTargetPath("odd", name, odd[1] or "", odd[2] or odd[3] or odd[4] or "")
    return RequestTargetPath("timegate", name, url=archived_url(rest))


def _of_record(name: str, rest: str) -> RequestTargetPath | None:
    """A capture that is named by its record, too; None if it is not."""
    record, _, tail = rest.partition("/")
    timed = _TIMED.match(tail)
    if timed is None or not (timed[1] or timed[2]):
        return None
    modifier = ALIASES.get(timed[2] or "", timed[2] or "")
    if modifier not in MODIFIERS:
        return None
    try:
        named = RecordId.parse(record)
    except UsageError:
        return None
    return RequestTargetPath("replay", name, timed[1] or "", modifier, archived_url(timed[3]), record=named)


def _timemap(name: str, rest: str) -> RequestTargetPath | None:
    form, slash, tail = rest.partition("/")
    if not slash or form not in FORMS:
        return _formless(name, rest)
    paged = _PAGED.match(tail)
    if paged is not None:
        return RequestTargetPath("timemap", name, url=archived_url(paged[2]), form=form, page=int(paged[1]))
    return RequestTargetPath("timemap", name, url=archived_url(tail), form=form)


def _formless(name: str, rest: str) -> RequestTargetPath | None:
    """TimeMaps of other archives: links where no form is named; with the URL in the query, the CDX server's."""
    bare, mark, query = rest.partition("?")
    if mark and bare in (*FORMS, "cdx"):
        return RequestTargetPath("cdx", name, url=query, form=bare)
    return RequestTargetPath("timemap", name, url=archived_url(rest), form="link") if _LIKE_URL.match(rest) else None


def archived_url(text: str) -> str:
    """The URL in an address, also if it was escaped as a whole, lost slashes, or has no scheme.

    An escaped fragment is dropped where it must be one: in a URL that was escaped as a whole, and after a host. In a
    path, `%23` is part of the name.
    """
    if _ESCAPED_SCHEME.match(text):
        text = unquote(text, errors="surrogateescape").partition("#")[0]
    elif "%23" in text and (ended := _HOST_AND_FRAGMENT.match(text)):
        text = ended[1]
    scheme = _SCHEME.match(text)
    if scheme is None or "." in scheme[1]:  # a host and its port
        return f"http://{text.lstrip('/')}" if text else ""
    if scheme[1].lower() in ("http", "https") and len(scheme[2]) != 2:
        return f"{scheme[1]}://{text[scheme.end() :]}"
    return text


def uri(url: str) -> str:
    """The URL in ASCII, for `Link` headers, TimeMaps and redirects: nothing in it ends a link or a line."""
    if _FIT.fullmatch(url):
        return url
    return _UNFIT.sub(_escaped, url.encode("utf-8", "surrogateescape")).decode("ascii")


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]
