"""Traps: endless sites, intended or not, and where they are cut off.

    refusal     of one URL: too long, too deep, the same path segments again and again, a calendar that leaves our times
    budgets     of many: URLs of a host, hosts of a registered domain, queries of a path; the frontier counts
    seen_form   the URL without session ids: URLs that differ in them alone are one. What is fetched keeps them

A refusal is a short reason for logs and people. The limits are those of `TrapSettings`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import Final, NamedTuple

from holdfast.crawl.job.job import TrapSettings
from holdfast.urls import registered_domain

_YEAR_S: Final = 365.2425 * 86400
_CENTURY: Final = 100  # years beyond the allowed ones in which bare numbers are taken for years

_MONTH = "(?:0[1-9]|1[0-2])"
_DAY = "(?:0[1-9]|[12][0-9]|3[01])"
# Dates that can be nothing else.
_SURE_DATES = (
    re.compile(rf"(?<![0-9])([0-9]{{4}})([-_]){_MONTH}\2{_DAY}(?![0-9])"),
    re.compile(r"[?&;](?:[a-z]{1,12}[_-])?(?:year|yr|jahr|annee|ano|anno)=([0-9]{4,6})(?![0-9a-z])", re.I),
)
# Those that may be numbers of something else, so taken for dates near our times only.
_LIKELY_DATES = (
    re.compile(rf"/([0-9]{{4}})/{_MONTH}(?=[/?.]|$)"),
    re.compile(rf"[/=]([0-9]{{4}})-{_MONTH}(?=[/?&.]|$)"),
    re.compile(rf"[/=]([0-9]{{4}}){_MONTH}{_DAY}(?=[/?&.]|$)"),
    re.compile(rf"(?:date|month)=([0-9]{{4}}){_MONTH}(?=&|$)", re.I),
    re.compile(r"[?&]y=([0-9]{4})&m=", re.I),
    re.compile(
        r"(?:calend|kalend|event|agenda|month|date|day)[^?#]{0,80}?/([0-9]{4})/(?:[1-9]|1[0-2])(?=[/?.]|$)", re.I
    ),
)
_YEARS = re.compile(r"(?<![0-9])[0-9]{4}")

_HINTS = ("sess", "sid=", "cftoken=", "cfid=", "zenid=", "(s(")
_SESSION_NAMES = frozenset(
    (
        *("jsessionid", "phpsessid", "phpsessionid", "aspsessionid", "asp.net_sessionid"),
        *("cfid", "cftoken", "oscsid", "zenid", "xtcsid", "mscsid"),
    )
)
# Names that others use, too: a session id only if the value looks like one.
_SESSION_LIKE = frozenset(("sid", "session", "sessionid", "session_id", "session-id", "sess", "sessid", "sess_id"))
_ASP_NAME = re.compile(r"aspsessionid[a-z]{8}")
_SESSION_VALUE = re.compile(r"(?=[^0-9]*[0-9])[0-9a-z_.,!~*-]{16,256}", re.I)
_ASPX_SEGMENT = re.compile(r"/\((?:[a-z]\([0-9a-z]{16,64}\)){1,4}\)(?=/)", re.I)


class HostBudget(NamedTuple):
    """A counter of the frontier, and how far it may go."""

    counter: str
    limit: int
    reason: str  # for refusing URLs beyond it


class Traps:
    """For one thread; URLs are canonical. `now`, the epoch's seconds, is what calendars are compared with."""

    def __init__(self, settings: TrapSettings, now: float | None = None) -> None:
        self._settings = settings
        this_year = 1970 + int((time.time() if now is None else now) / _YEAR_S)
        self._first_year = this_year - settings.calendar_years
        self._last_year = this_year + settings.calendar_years

    def refusal(self, url: str) -> str:
        """Why `url` looks like part of a trap; empty if it does not."""
        settings = self._settings
        if len(url) > settings.url_length_max:
            return f"URL of {len(url)} characters, more than {settings.url_length_max}"
        address, mark, query = url.partition("?")
        segments = address.split("/")[3:]
        if len(segments) > settings.path_segments_max:
            return f"path of {len(segments)} segments, more than {settings.path_segments_max}"
        if len(segments) - len(set(segments)) >= settings.segment_repeats_max and (reason := self._repeated(segments)):
            return reason
        if mark and query.count("&") >= settings.segment_repeats_max and (reason := self._repeated_pairs(query)):
            return reason
        return self._calendar(url) if self._has_far_year(url) else ""

    def seen_form(self, url: str) -> str:
        """`url` without session ids, which the seen set compares. The same for its own result."""
        small = url.lower()
        for hint in _HINTS:
            if hint in small:
                return _without_sessions(url)
        return url

    def budgets(self, url: str, new_host: bool = True) -> tuple[HostBudget, ...]:
        """What queueing `url` counts for. A host counts for its domain once: when it is new."""
        settings = self._settings
        address, mark, _ = url.partition("?")
        authority = address.split("/", 3)[2] if address.count("/") > 1 else ""
        limit = settings.host_urls_max
        found = [HostBudget(f"host {authority}", limit, f"more than {limit} URLs of the host '{authority}'")]
        if new_host:
            domain = registered_domain(_host(authority))
            limit = settings.hosts_max
            found.append(HostBudget(f"domain {domain}", limit, f"more than {limit} hosts of the domain '{domain}'"))
        if mark:
            limit = settings.query_variants_max
            found.append(HostBudget(f"path {address}", limit, f"more than {limit} queries of the path '{address}'"))
        return tuple(found)

    def _repeated(self, segments: list[str]) -> str:
        """Segments that come again anywhere; of numbers, which may mean something else each time, only in a row."""
        limit = self._settings.segment_repeats_max
        for segment, times in Counter(segments).items():
            if times > limit and segment and not segment.isdigit():
                return f"path repeats '{segment[:40]}' {times} times, more than {limit}"
        return self._repeated_group(segments)

    def _repeated_group(self, segments: list[str]) -> str:
        """`/a/b/a/b/a/b/a/b`: the same group of segments too often in a row."""
        limit = self._settings.segment_repeats_max
        for length in range(1, len(segments) // (limit + 1) + 1):
            equal = 0  # segments in a row that are the same as those one length before
            for one, other in zip(segments, segments[length:], strict=False):
                equal = equal + 1 if one == other else 0
                if equal >= length * limit:
                    return f"path repeats a group of segments in a row, more than {limit} times"
        return ""

    def _repeated_pairs(self, query: str) -> str:
        limit = self._settings.segment_repeats_max
        for pair, times in Counter(query.split("&")).items():
            if times > limit:
                return f"query repeats '{pair[:40]}' {times} times, more than {limit}"
        return ""

    def _has_far_year(self, url: str) -> bool:
        """Whether it pays to look for dates: most URLs have no such number, or only those of our times."""
        return any(not self._first_year <= int(year) <= self._last_year for year in _YEARS.findall(url))

    def _calendar(self, url: str) -> str:
        for pattern in _SURE_DATES:
            for date in pattern.finditer(url):
                year = int(date[1])
                if not self._first_year <= year <= self._last_year:
                    return self._far(year)
        for pattern in _LIKELY_DATES:
            for date in pattern.finditer(url):
                year = int(date[1])
                if self._first_year - _CENTURY <= year < self._first_year or (
                    self._last_year < year <= self._last_year + _CENTURY
                ):
                    return self._far(year)
        return ""

    def _far(self, year: int) -> str:
        return f"date in the year {year}, more than {self._settings.calendar_years} years from now"


def _host(authority: str) -> str:
    server = authority.rpartition("@")[2]
    return server if server.endswith("]") else server.rpartition(":")[0] or server


def _without_sessions(url: str) -> str:
    address, mark, query = url.partition("?")
    scheme, separator, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    if slash:
        path = slash + "/".join(_kept(segment, ";") for segment in path.split("/"))
        path = _ASPX_SEGMENT.sub("", path)
    if mark:
        query = _kept(query, "&")
    return f"{scheme}{separator}{authority}{path}{'?' if query else ''}{query}"


def _kept(text: str, separator: str) -> str:
    """What remains of the parameters in `text`."""
    return separator.join(part for part in text.split(separator) if not _is_session(part))


def _is_session(parameter: str) -> bool:
    name, equals, value = parameter.partition("=")
    name = name.lower()
    if not equals:
        return False
    if name in _SESSION_NAMES or _ASP_NAME.fullmatch(name):
        return True
    return name in _SESSION_LIKE and _SESSION_VALUE.fullmatch(value) is not None
