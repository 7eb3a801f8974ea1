"""Access rules: which captures may be seen (`[[access]]` in `holdfast.toml`).

    capture ──► the rules of its collection, in their order ──► the first that fits decides ──► allow, block, exclude

A blocked capture is listed but not shown (451). An excluded one appears nowhere (404): not in lists, calendars, counts
or neighbours, because the catalog first drops what `permits` refuses.

A rule matches by URL (exact, prefix or domain, on the catalog's keys: http and https are one, and so are hosts with and
without `www`), by capture time, and by age (embargo). A revisit is judged by its own URL and time: its payload is shown
even if the original is excluded.

Rules are compiled: a verdict costs about the same with ten and with ten thousand rules. The file is checked once a
second at most, and new rules take effect at once. If it cannot be read, the old rules stay in force.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from holdfast.catalog.access_rules import Verdict, dated, prefix_key
from holdfast.config import AccessRule, SettingsWatch, load
from holdfast.env import paths
from holdfast.formats.dates import timestamp_at
from holdfast.model import Capture
from holdfast.query.access_filter import AccessFilter, RuleFilter
from holdfast.urls import host_key, url_key

LOOK_EVERY_S = 1.0
ANY = "*"


class Access:
    """The rules of an archive. Any thread may call it."""

    def __init__(
        self,
        rules: Sequence[AccessRule] = (),
        clock: Callable[[], float] = time.time,
        watch: SettingsWatch | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `watch`, the rules are those of its settings, whatever they become."""
        self._clock = clock
        self._watch = watch
        self._monotonic = monotonic
        self._look_at_s = monotonic() + LOOK_EVERY_S
        self._filter: tuple[object, AccessFilter | None] = (None, None)  # and the rules that it was made of
        self._use(rules if watch is None else watch.settings.access)

    @classmethod
    def following(
        cls, root: Path, clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> Access:
        """The rules of the archive in the directory, as they are from second to second. Raises InvalidSetting."""
        path = root / paths.SETTINGS
        return cls((), clock, SettingsWatch(lambda: load(path), lambda _: [path]), monotonic)

    @property
    def is_open(self) -> bool:
        """True without any rules."""
        self.refresh()
        return self._is_open

    @property
    def rules(self) -> tuple[AccessRule, ...]:
        self.refresh()
        return self._rules

    def verdict(self, capture: Capture) -> Verdict:
        """What the rules say of a capture."""
        self.refresh()
        if self._is_open:
            return Verdict.ALLOW
        key = url_key(capture.url) if '"method"' in capture.extra else capture.urlkey
        return self._of(capture.collection).verdict(key, capture.timestamp, self._clock)

    def permits(self, capture: Capture) -> bool:
        """True unless the capture is excluded. For `Catalog.search`."""
        return self.verdict(capture) is not Verdict.EXCLUDE

    def verdict_of_url(self, url: str) -> Verdict:
        """The verdict on a URL at any time: that of the first matching rule without a time."""
        self.refresh()
        if self._is_open:
            return Verdict.ALLOW
        return self._of(ANY).verdict(url_key(url), "", self._clock)

    def index_filter(self) -> AccessFilter | None:
        """The filter of index queries for the current rules; None without rules.

        The same object until the rules change: it caches results.
        """
        if self.is_open:
            return None
        rules, found = self._filter
        if rules is not self._rules:
            rules = self._rules
            found = RuleFilter(rules)
            self._filter = rules, found
        return found

    def _of(self, collection: str) -> _Compiled:
        return self._compiled.get(collection) or self._compiled[ANY]

    def _use(self, rules: Sequence[AccessRule]) -> None:
        names = {ANY, *(rule.collection for rule in rules)}
        compiled = {name: _Compiled([each for each in rules if each.collection in (ANY, name)]) for name in names}
        self._rules = tuple(rules)
        self._compiled = compiled
        self._is_open = not rules

    def refresh(self) -> None:
        """Reloads the file if it has changed and a check is due. Verdicts do it by themselves."""
        if self._watch is None or (now := self._monotonic()) < self._look_at_s:
            return
        self._look_at_s = now + LOOK_EVERY_S
        settings = self._watch.poll()
        if settings is not None and settings.access != self._rules:
            self._use(settings.access)


class _Compiled:
    """Rules for one collection, found by URL key."""

    def __init__(self, rules: Sequence[AccessRule]) -> None:
        self._rules = [dated(rule) for rule in rules]
        self._has_embargo = any(rule.embargo for rule in rules)
        self._all: list[int] = []
        self._exact: dict[str, list[int]] = {}
        self._hosts: dict[str, list[int]] = {}
        prefixes: dict[str, list[int]] = {}
        for index, rule in enumerate(rules):
            if rule.url:
                self._exact.setdefault(url_key(rule.url), []).append(index)
            elif rule.prefix:
                key, ends = prefix_key(rule.prefix)
                for end in ends:
                    prefixes.setdefault(key + end, []).append(index)
                if "" not in ends:  # the page whose key has lost its last slash
                    self._exact.setdefault(key, []).append(index)
            elif rule.domain:
                self._hosts.setdefault(host_key(rule.domain.removeprefix("*.")), []).append(index)
            else:
                self._all.append(index)
        self._prefixes = sorted(prefixes)
        self._of_prefix = [prefixes[prefix] for prefix in self._prefixes]
        self._shorter = _nested(self._prefixes)

    def verdict(self, key: str, timestamp: str, clock: Callable[[], float]) -> Verdict:
        """Without a timestamp, rules that need one do not fit."""
        now = timestamp_at(clock()) if self._has_embargo else ""
        for index in sorted(self._fitting(key)):
            rule = self._rules[index]
            if rule.fits(timestamp, now) if timestamp else not rule.asks_time:
                return rule.verdict
        return Verdict.ALLOW

    def _fitting(self, key: str) -> Iterator[int]:
        yield from self._all
        if self._exact:
            yield from self._exact.get(key, ())
        if self._hosts:
            yield from self._by_host(key)
        if self._prefixes:
            yield from self._by_prefix(key)

    def _by_host(self, key: str) -> Iterator[int]:
        host = key.partition(")")[0]
        if ":" in host:  # a port, or an address of IPv6
            yield from self._hosts.get(host, ())
            host = host.rpartition(":")[0]
        while host:
            yield from self._hosts.get(host, ())
            host = host.rpartition(",")[0]

    def _by_prefix(self, key: str) -> Iterator[int]:
        """Prefixes of the key sort before it, and the last of them contains the others."""
        at = bisect_right(self._prefixes, key) - 1
        while at >= 0:
            if key.startswith(self._prefixes[at]):
                yield from self._of_prefix[at]
            at = self._shorter[at]


def _nested(prefixes: Sequence[str]) -> list[int]:
    """For each sorted prefix the index of the longest other prefix of it; -1: none."""
    above: list[int] = []
    found: list[int] = []
    for index, prefix in enumerate(prefixes):
        while above and not prefix.startswith(prefixes[above[-1]]):
            above.pop()
        found.append(above[-1] if above else -1)
        above.append(index)
    return found
