"""What a request asks for, read from its raw target: the archived URL must come through with every byte it has.

    /<coll>/<timestamp><modifier>/<url>     a capture; without a timestamp the newest
    /<coll>/*/<url>   /<coll>/2024*/<url>   the calendar of a URL, or of a year of it
    /<coll>/<url>   /<coll>/timegate/<url>  the TimeGate
    /<coll>/timemap/<form>/[<page>/]<url>   the TimeMap: link, json, cdxj
    /<coll>/cdx                             the CDX server; what it is asked stands in the query
    /<coll>/record/<id>   /<coll>/warc      downloads
    /<coll>                                 the collection itself

`web` is the default collection, `all` is all of them as one.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from starlette.types import Scope

MODIFIERS = frozenset(("", "id_", "mp_", "js_", "cs_", "im_", "if_", "fr_", "oe_"))
DEFAULT, ALL = "web", "all"
RESERVED = frozenset(
    (
        *("", "_hf", "api", "cdx", "compare", "crawls", "explore", "favicon.ico", "health", "metrics", "openapi.json"),
        *("robots.txt", "search", "static", "status"),
    )
)
FORMS = frozenset(("link", "json", "cdxj"))

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_TIMED = re.compile(r"(\d{1,14})?([a-z]{2}_)?/(.*)", re.DOTALL)
_STARRED = re.compile(r"(\d{0,14})\*/(.*)", re.DOTALL)
_PAGED = re.compile(r"(\d{14})/(?=.)(.*)", re.DOTALL)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(/*)", re.IGNORECASE)
_ESCAPED_SCHEME = re.compile(r"https?%3a", re.IGNORECASE)


class Target(NamedTuple):
    """One request for something archived. `collection` is the name as it was given."""

    kind: str  # replay, calendar, timegate, timemap, cdx, record, warc, collection
    collection: str
    timestamp: str = ""
    modifier: str = ""
    url: str = ""  # or the id of a record
    form: str = ""  # of a TimeMap
    page: int = 0  # of a TimeMap: the timestamp that it begins with; 0: none was named

    @property
    def prefix(self) -> str:
        """What stands before the timestamp in addresses of the same collection."""
        return f"/{self.collection}/"


def raw_target(scope: Scope) -> bytes:
    """Path and query of an ASGI request, as they were sent."""
    path: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


def parse_target(raw: bytes) -> Target | None:
    """None if it is not about a collection."""
    text = raw.decode("utf-8", "surrogateescape")
    name, slash, rest = text[1:].partition("/")
    if not slash or "?" in name:  # a query may have slashes of its own
        name, _, query = text[1:].partition("?")
        return Target("collection", name, url=query) if _is_collection(name) else None
    if not _is_collection(name):
        return None
    timed = _TIMED.match(rest)
    if timed is not None and (timed[2] or "") in MODIFIERS and (timed[1] or timed[2]):
        return Target("replay", name, timed[1] or "", timed[2] or "", archived_url(timed[3]))
    return _special(name, rest)


def _is_collection(name: str) -> bool:
    return name not in RESERVED and _NAME.fullmatch(name) is not None


def _special(name: str, rest: str) -> Target | None:
    word, slash, tail = rest.partition("/")
    bare, mark, query = rest.partition("?")
    if bare in ("cdx", "warc"):
        return Target(bare, name, url=query)
    if not bare:
        return Target("collection", name, url=query if mark else "")
    if slash and word == "record":
        return Target("record", name, url=tail)
    if slash and word == "timegate":
        return Target("timegate", name, url=archived_url(tail))
    if slash and word == "timemap":
        return _timemap(name, tail)
    if starred := _STARRED.match(rest):
        return Target("calendar", name, starred[1], url=archived_url(starred[2]))
    return Target("timegate", name, url=archived_url(rest))


def _timemap(name: str, rest: str) -> Target | None:
    form, slash, tail = rest.partition("/")
    if not slash or form not in FORMS:
        return None
    paged = _PAGED.match(tail)
    if paged is not None:
        return Target("timemap", name, url=archived_url(paged[2]), form=form, page=int(paged[1]))
    return Target("timemap", name, url=archived_url(tail), form=form)


def archived_url(text: str) -> str:
    """A URL as it stands in an address: escaped as a whole, with lost slashes or without a scheme it is understood."""
    if _ESCAPED_SCHEME.match(text):
        text = unquote(text, errors="surrogateescape")
    scheme = _SCHEME.match(text)
    if scheme is None or "." in scheme[1]:  # a host and its port
        return f"http://{text.lstrip('/')}" if text else ""
    if scheme[1].lower() in ("http", "https") and len(scheme[2]) != 2:
        return f"{scheme[1]}://{text[scheme.end() :]}"
    return text
