"""Queries in the words of CDX servers: the parameters of pywb, OutbackCDX and the Internet Archive.

    url matchType from to limit offset sort closest filter fl collapse page pageSize resumeKey showDupeCount
    showSkipCount resolveRevisits fastLatest, and `toUrl`, the end of a range
    reverse        as sort=reverse; a time `closest` wins over it
    collapseTime   as collapse=timestamp:n+status

`filter`, `collapse` and `fl` may come several times; `fl` also takes a list parted by commas. `output`, `gzip`,
`showResumeKey`, `showNumPages` and `allowFuzzy` are for those who answer: `parse_query` leaves them alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.catalog.query.fields import nearest
from holdfast.catalog.query.query import CaptureQuery
from holdfast.errors import MalformedQuery

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
    """The query that the parameters mean. Raises MalformedQuery; an unknown parameter is named with the nearest one."""
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
