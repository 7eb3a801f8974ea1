"""A query of the catalog: which captures, in which order, and how many.

A query is checked on creation; MalformedQuery is raised before anything is read.
The steps come in this order: keys and times, revisits resolved, filters, duplicates counted, collapses, order,
offset, limit. `sort="reverse"` returns the plain result backwards, `"closest"` sorts it by distance.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from holdfast.arguments import check_fields, checked, nearest, read_text_field
from holdfast.catalog.keys import after, encoded, place_of
from holdfast.catalog.query.collapse import parse_collapse
from holdfast.catalog.query.fields import Row, canonical_field
from holdfast.catalog.query.filters import FILTERS_MAX, parse_filter
from holdfast.catalog.timestamps import digits, earliest, latest
from holdfast.errors import MalformedQuery
from holdfast.model import batch_name
from holdfast.urls import completed, url_key

MATCHES = ("exact", "prefix", "host", "domain", "range", "all")
SORTS = ("default", "reverse", "closest")
PAGE_SIZE = 10
COLLAPSES_MAX = 8
_NUMBER_MAX = 10**12
_LAST = b"\xff" * 16  # above every key


class Resume(NamedTuple):
    """Where a result continues: after this place, with the tokens that the collapses last let through."""

    place: bytes
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureQuery:
    """A query. `*.example.com`, `example.com/*` and `example.com/a*` are short for their matches.

    A URL without a scheme is http: `example.com`, `example.com:8080/a`.
    """

    url: str = ""
    match: str | None = None  # one of MATCHES; None: as the shorthand in `url` says, or exact
    to_url: str = ""  # end of a range, exclusive
    from_: str = ""  # partial times are padded; both ends are inclusive
    to: str = ""
    filters: tuple[str, ...] = ()
    collapse: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()  # for output; none: all that fit the output
    limit: int | None = None  # negative: the last ones, in ascending order
    offset: int = 0
    sort: str = "default"
    closest: str = ""
    page: int | None = None
    page_size: int = PAGE_SIZE  # in blocks of about a thousand captures
    resume_key: str = ""
    dupe_count: bool = False
    skip_count: bool = False
    resolve_revisits: bool = False
    fast_latest: bool = False  # accepted and ignored: the last captures are always found fast and exactly
    collection: str | None = None  # None: all together

    def __post_init__(self) -> None:
        for name in ("filters", "collapse", "fields"):
            read_text_field(self, name, lambda text: (text,))
        check_fields(self)
        self._check_names()
        self._check_numbers()
        self._check_order()
        if self.match == "range" and not self.to_url:
            raise MalformedQuery("match 'range' needs the end of the range: give 'to_url'")
        if not self.url and self.match != "all":
            raise MalformedQuery("no URL given: give one, or ask for all with '*'")
        self.plain()
        if self.resume_key:
            self.resume()

    def _check_names(self) -> None:
        if self.match is not None and self.match not in MATCHES:
            raise MalformedQuery(f"unknown match {self.match!r}{nearest(self.match, MATCHES)}")
        if self.sort not in SORTS:
            raise MalformedQuery(f"unknown sort {self.sort!r}{nearest(self.sort, SORTS)}")
        if self.collection is not None:
            batch_name(self.collection)
        for what, given, most in (("filters", self.filters, FILTERS_MAX), ("collapses", self.collapse, COLLAPSES_MAX)):
            if len(given) > most:
                raise MalformedQuery(f"{len(given)} {what} in one query: at most {most} are taken")
        for name in self.fields:
            canonical_field(name)
        for text in self.filters:
            parse_filter(text)
        for text in self.collapse:
            parse_collapse(text)
        for name, text in (("from", self.from_), ("to", self.to), ("closest", self.closest)):
            if text:
                digits(text, name)

    def _check_numbers(self) -> None:
        for name, least in (("offset", 0), ("page", 0), ("page_size", 1)):
            value = getattr(self, name)
            if value is not None and not least <= value <= _NUMBER_MAX:
                raise MalformedQuery(f"bad {name} {value}: it must be between {least} and {_NUMBER_MAX}")
        if self.limit is not None and abs(self.limit) > _NUMBER_MAX:
            raise MalformedQuery(f"bad limit: it must be between {-_NUMBER_MAX} and {_NUMBER_MAX}")
        if (self.page or 0) * self.page_size > _NUMBER_MAX:
            raise MalformedQuery(f"page {self.page} of size {self.page_size} is beyond {_NUMBER_MAX} blocks")

    def _check_order(self) -> None:
        if (self.sort == "closest") != bool(self.closest):
            raise MalformedQuery("sort 'closest' and a time 'closest' go together: give both or none")
        plain = self.sort == "default" and (self.limit is None or self.limit >= 0)
        if self.page is not None and not plain:
            raise MalformedQuery("pages are in ascending order: leave out 'sort' and a negative 'limit'")
        if self.resume_key and (self.sort == "closest" or (self.limit or 0) < 0):
            raise MalformedQuery("a resume key goes with ascending or reverse order and without a negative 'limit'")
        if self.sort != "default" and (self.limit or 0) < 0:
            raise MalformedQuery(f"a negative 'limit' takes the last of the ascending order, not of {self.sort!r}")
        if self.sort == "closest" and self.limit is None and self.plain().match != "exact":
            raise MalformedQuery("sort 'closest' over several URLs needs a 'limit'")

    def plain(self) -> Self:
        """The same with its shorthand spelled out."""
        if self.match is not None:
            return self._without_star()
        if self.to_url:
            return replace(self, match="range")
        if self.url == "*":
            return replace(self, url="", match="all")
        if self.url.startswith("*."):
            return replace(self, url=self.url[2:].removesuffix("/*"), match="domain")
        if self.url.endswith("*"):
            return replace(self, url=self.url[:-1], match="prefix")
        return replace(self, match="exact")

    def _without_star(self) -> Self:
        """Drops a star that agrees with `match`; another one is an error, since nothing would be found."""
        bare = self.url
        if self.match in ("domain", "host"):
            bare = bare.removeprefix("*.") if self.match == "domain" else bare
            bare = bare.removesuffix("/*")
        elif self.match == "prefix":
            bare = bare.removesuffix("*")
        elif self.match == "all":
            bare = ""
        if self.match in ("exact", "range"):
            return self
        is_empty = not bare and self.url and self.match != "all"
        if is_empty or bare.startswith("*") or bare.endswith("*"):
            raise MalformedQuery(f"'{self.url}' does not go with match {self.match!r}: leave out one of the two")
        return self if bare == self.url else replace(self, url=bare)

    def ranges(self) -> list[tuple[bytes, bytes]]:
        """The range of places that can match."""
        query = self.plain()
        if query.match == "all":
            return [(b"", _LAST)]
        key = url_key(completed(query.url))
        if query.match == "exact":
            return [exact_range(key, earliest(self._from), latest(self._to))]
        if query.match == "range":
            return [(encoded(key), encoded(url_key(completed(query.to_url))))]
        if query.match == "prefix":
            prefix = encoded(_prefix(query.url, key))
            return [(prefix, after(prefix))]
        host = encoded(key.partition(")")[0].partition(":")[0])
        ends = b"),:" if query.match == "domain" else b"):"  # the path, a subdomain, a port
        return [(host + ends[i : i + 1], after(host + ends[i : i + 1])) for i in range(len(ends))]

    @property
    def _from(self) -> str:
        return digits(self.from_, "from") if self.from_ else ""

    @property
    def _to(self) -> str:
        return digits(self.to, "to") if self.to else ""

    def times(self) -> tuple[str, str] | None:
        """The first and last time that match, of 14 digits; None: all."""
        return (earliest(self._from), latest(self._to)) if self.from_ or self.to else None

    def resume(self) -> Resume | None:
        """The position in the resume key."""
        if not self.resume_key:
            return None
        try:
            place, *tokens = json.loads(base64.urlsafe_b64decode(self.resume_key))
            resume = Resume(encoded(str(place)), tuple(str(token) for token in tokens))
        except (ValueError, TypeError, binascii.Error) as error:
            raise MalformedQuery(
                f"malformed resume key {self.resume_key[:80]!r}: give it as it was received"
            ) from error
        if len(resume.tokens) != len(self.collapse) or resume.place.count(b" ") != 2:
            raise MalformedQuery(f"resume key {self.resume_key[:80]!r} is of another query: give it with the same one")
        return resume

    @checked
    def resume_key_after(self, row: Row) -> str:
        """The key that continues the result after the row."""
        place = place_of(row.capture).decode("utf-8", "surrogateescape")
        tokens = [parse_collapse(text)(row) for text in self.collapse]
        return base64.urlsafe_b64encode(json.dumps([place, *tokens]).encode()).decode()


def exact_range(key: str, first: str = "", last: str = "") -> tuple[bytes, bytes]:
    """The places of one URL key, between two times of 14 digits, both included."""
    start = encoded(key) + b" "
    return start + first.encode(), start + last.encode() + b"!" if last else after(start)


def _prefix(url: str, key: str) -> str:
    """A key leaves out the last slash and an empty query, which matter in a prefix."""
    for end in "/?":
        if url.endswith(end) and not key.endswith(end):
            return key + end
    return key


_TEXTS = {
    "url": "url",
    "toUrl": "to_url",
    "matchType": "match",
    "from": "from_",
    "from_ts": "from_",
    "to": "to",
    "sort": "sort",
    "closest": "closest",
    "resumeKey": "resume_key",
}
_NUMBERS = {"limit": "limit", "offset": "offset", "page": "page", "pageSize": "page_size"}
_FLAGS = {
    "showDupeCount": "dupe_count",
    "showSkipCount": "skip_count",
    "resolveRevisits": "resolve_revisits",
    "fastLatest": "fast_latest",
}
_LISTS = {"filter": "filters", "collapse": "collapse", "fl": "fields", "fields": "fields"}
PRINTING = ("output", "showResumeKey", "showNumPages", "showPagedIndex", "gzip", "lastSkipTimestamp", "allowFuzzy")
_PYWB = ("reverse", "collapseTime")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off", "")


def parse_query(params: Iterable[tuple[str, str]], collection: str | None = None) -> CaptureQuery:
    """The query of these parameters. Raises MalformedQuery, with the nearest name for an unknown parameter."""
    options: dict[str, object] = {"collection": collection}
    lists: dict[str, list[str]] = {}
    is_reverse = False
    for name, text in params:
        if name in _TEXTS:
            if text:
                options[_TEXTS[name]] = text
        elif name in _NUMBERS:
            if text:
                options[_NUMBERS[name]] = _number(name, text)
        elif name in _FLAGS:
            options[_FLAGS[name]] = flag(name, text)
        elif name in _LISTS:
            values = text.split(",") if _LISTS[name] == "fields" else [text]
            lists.setdefault(_LISTS[name], []).extend(value for value in values if value)
        elif name == "reverse":
            is_reverse = flag(name, text)
        elif name == "collapseTime":
            if text:
                lists.setdefault("collapse", []).append(f"timestamp:{_number(name, text)}+status")
        elif name not in PRINTING:
            known = [*_TEXTS, *_NUMBERS, *_FLAGS, *_LISTS, *_PYWB, *PRINTING]
            raise MalformedQuery(f"unknown parameter {name!r}{nearest(name, known)}")
    if options.get("closest"):
        options.setdefault("sort", "closest")
    elif is_reverse:
        options["sort"] = "reverse"
    return CaptureQuery(**options, **{name: tuple(values) for name, values in lists.items()})  # type: ignore[arg-type]


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise MalformedQuery(f"bad number {text[:40]!r} for {name!r}") from None


def flag(name: str, text: str) -> bool:
    """Raises MalformedQuery."""
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise MalformedQuery(f"bad value {text!r} for {name!r}: give true or false")
