"""Access rules (`[[access]]` in `holdfast.toml`): their decisions, and the URLs and times they apply to."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from holdfast.catalog.timestamps import digits, earliest, latest
from holdfast.config import AccessRule
from holdfast.urls import url_key

EVER = "99999999999999"
_DAYS = {"hour": 1 / 24, "day": 1, "week": 7, "month": 30, "year": 365}
_SPAN = re.compile(r"(\d+) ?([a-z]+?)s?", re.ASCII)


class Verdict(StrEnum):
    ALLOW = "allow"
    BLOCK = "block"
    EXCLUDE = "exclude"


class DatedRule(NamedTuple):
    """The decision of a rule, and its condition on the time."""

    verdict: Verdict
    first: str  # 14 digits, both ends included
    last: str
    span: timedelta | None  # younger than this
    until: str  # the rule holds until then

    def fits(self, timestamp: str, now: str) -> bool:
        if not self.first <= timestamp <= self.last:
            return False
        if self.span is not None:
            return timestamp > before(now, self.span)
        return not self.until or now < self.until

    @property
    def asks_time(self) -> bool:
        return self.first != "" or self.last != EVER or self.span is not None or self.until != ""


def dated(rule: AccessRule) -> DatedRule:
    first = earliest(digits(rule.from_, "from")) if rule.from_ else ""
    last = latest(digits(rule.to, "to")) if rule.to else EVER
    span = _SPAN.fullmatch(rule.embargo)
    if rule.embargo and span is None:
        return DatedRule(Verdict(rule.rule), first, last, None, earliest(digits(rule.embargo, "embargo")))
    length = timedelta(days=int(span[1]) * _DAYS[span[2]]) if span else None
    return DatedRule(Verdict(rule.rule), first, last, length, "")


@lru_cache(64)
def before(now: str, span: timedelta) -> str:
    """The moment that lies so far back; the first of all if the span is longer than time itself."""
    try:
        return (datetime.strptime(now, "%Y%m%d%H%M%S") - span).strftime("%Y%m%d%H%M%S").zfill(14)
    except OverflowError:
        return ""


def prefix_key(prefix: str) -> tuple[str, tuple[str, ...]]:
    """The key of a prefix, and what may follow it: a key leaves out the last slash, which a prefix means."""
    bare = prefix.removesuffix("*")
    key = url_key(bare)
    if bare.endswith("?") and not key.endswith("?"):
        return key, ("?",)
    if bare.endswith("/") and not key.endswith("/"):
        return key, ("/", "?")
    return key, ("",)
