"""Replay rules: which URLs count as the same, and which function a JSONP response calls.

A rule is a table of `rules.toml`: that of the package, then that of the archive.

    [[rule]]
    site = "example.com/api/"        host, with those below it, and the beginning of a path; without it all sites
    ignore = ["_", "utm_*"]          parameters of the query, and of a posted body, that do not count
    only = ["id"]                    or: the only ones that do
    alike = [['/v\\d+/', '/v/']]     RE2 expressions, and the replacement for all matches
    jsonp = ["callback"]             parameters that name the function which the response calls

All rules that fit a URL hold together. They are asked only where the archive has no capture of the URL itself.
Immutable: any thread may call it.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import re2

from holdfast.arguments import nearest
from holdfast.env.paths import RULES
from holdfast.errors import Denied, InvalidSetting
from holdfast.urls import url_key

_NAMES = ("ignore", "only", "jsonp")
_KEYS = ("site", "alike", *_NAMES)
_CALLBACK = re.compile(r"[\w$.\[\]]{1,200}", re.ASCII)
_CALL_BYTES = 500  # a JSONP response names its function at its beginning
_URLS_CACHED = 4096


class ReplayRule(NamedTuple):
    """One table of a file."""

    host: str = ""  # '': every site
    path: str = ""
    ignore: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    jsonp: tuple[str, ...] = ()
    alike: tuple[tuple[Any, str], ...] = ()  # compiled, and what replaces it

    def fits(self, host: str, path: str) -> bool:
        if self.host and host != self.host and not host.endswith(f".{self.host}"):
            return False
        return path.startswith(self.path)


class SiteRules(NamedTuple):
    """The rules for one URL."""

    ignored: re.Pattern[str]
    only: re.Pattern[str] | None
    jsonp: frozenset[str]  # in lower case
    alike: tuple[tuple[Any, str], ...]

    def counts(self, parameter: str) -> bool:
        """Whether `name=value` makes a difference."""
        name = parameter.partition("=")[0].lower()
        if name == "__wb_method":
            return True
        if self.only is not None:
            return self.only.fullmatch(name) is not None
        return name not in self.jsonp and self.ignored.fullmatch(name) is None


class ReplayRules:
    """All rules of an archive."""

    LOOK_AT = 1000  # captures whose URLs begin alike

    def __init__(self, rules: Sequence[ReplayRule] = ()) -> None:
        self._rules = tuple(rules)
        self._at = lru_cache(_URLS_CACHED)(self._find)

    @classmethod
    def load(cls, archive: Path) -> ReplayRules:
        """The rules of the package and of the archive in the directory. Raises InvalidSetting, Denied."""
        path = archive / RULES
        try:
            text = path.read_text()
        except (FileNotFoundError, NotADirectoryError):
            text = ""
        except PermissionError:
            raise Denied(f"not permitted to read '{path}'") from None
        except UnicodeDecodeError as error:
            raise InvalidSetting(f"cannot read '{path}': {error}") from None
        own, has_defaults = parse_rules(text, str(path))
        defaults = parse_rules(resources.files(__package__).joinpath(RULES).read_text(), RULES)[0]
        return cls([*(defaults if has_defaults else ()), *own])

    def same(self, url: str) -> str:
        """The key of the URL, equal for URLs that count as the same."""
        rules = self._of(url)
        text = url.partition("#")[0]
        for pattern, instead in rules.alike:
            text = pattern.sub(instead, text)
        path, _, query = text.partition("?")
        kept = [part for part in query.split("&") if part and rules.counts(part)]
        return url_key(f"{path}?{'&'.join(kept)}" if kept else path)

    def beginnings(self, url: str) -> Iterator[str]:
        """Prefixes of the URLs that may count as the same."""
        path, mark, _ = url.partition("?")
        yield path + "?"
        if mark:
            yield path
        found = [pattern.search(path) for pattern, _ in self._of(url).alike]
        starts = [match.start() for match in found if match]
        if starts:
            yield path[: min(starts)]

    def likeness(self, keyed: str, other: str) -> tuple[int, int]:
        """How well two URLs that were extended by method and body fit: equal parameters, and minus the others."""
        rules = self._of(keyed)
        one, two = ([part for part in _query(each) if rules.counts(part)] for each in (keyed, other))
        equal = sum(min(one.count(part), two.count(part)) for part in set(one))
        return equal, 2 * equal - len(one) - len(two)

    def callbacks(self, url: str, captured: str) -> tuple[str, str] | None:
        """The function that a captured JSONP response calls, and the one that it should; None if there is no such."""
        if "?" not in url or "?" not in captured:
            return None
        names = self._of(url).jsonp
        now, then = (
            {part.partition("=")[0]: part.partition("=")[2] for part in _query(each)} for each in (url, captured)
        )
        for name, value in now.items():
            old = then.get(name, "")
            if name.lower() in names and old != value and _CALLBACK.fullmatch(old) and _CALLBACK.fullmatch(value):
                return old, value
        return None

    def _of(self, url: str) -> SiteRules:
        try:
            parts = urlsplit(url)
            host, path = parts.hostname or "", parts.path
        except ValueError:  # not a URL: only rules for all sites apply
            host, path = "", ""
        return self._at(host.removeprefix("www."), path)

    def _find(self, host: str, path: str) -> SiteRules:
        rules = [rule for rule in self._rules if rule.fits(host, path)]
        only = [name for rule in rules for name in rule.only]
        return SiteRules(
            _names_pattern([name for rule in rules for name in rule.ignore]),
            _names_pattern(only) if only else None,
            frozenset(name.lower() for rule in rules for name in rule.jsonp),
            tuple(pair for rule in rules for pair in rule.alike),
        )


def renamed(script: bytes, names: tuple[str, str]) -> bytes:
    """A JSONP response that calls the second function instead of the first."""
    old, new = (name.encode() for name in names)
    call = re.compile(rb"(?<![\w$'\"])" + re.escape(old) + rb"(?=\s*(?:\(|\)|&&|[=!]=))")  # and where it asks for it
    return call.sub(lambda _: new, script[:_CALL_BYTES]) + script[_CALL_BYTES:]


def parse_rules(text: str, path: str) -> tuple[list[ReplayRule], bool]:
    """The rules of a file, and whether those of the package hold, too. Raises InvalidSetting."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"cannot read '{path}': {error}") from None
    _reject_unknown(table, ("defaults", "rule"), path)
    has_defaults, entries = table.get("defaults", True), table.get("rule", [])
    if not isinstance(has_defaults, bool):
        raise InvalidSetting(f"'{path}': defaults must be true or false, found {has_defaults!r}")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidSetting(f"'{path}': rule must be an array of tables: write [[rule]]")
    return [_rule(entry, path) for entry in entries], has_defaults


def _rule(entry: dict[str, Any], path: str) -> ReplayRule:
    _reject_unknown(entry, _KEYS, path)
    site = entry.get("site", "")
    if not isinstance(site, str):
        raise InvalidSetting(f"'{path}': site must be a string, found {site!r}")
    host, slash, rest = site.partition("://")[2 if "://" in site else 0].partition("/")
    lists: dict[str, tuple[str, ...]] = {}
    for name in _NAMES:
        lists[name] = tuple(entry.get(name, ()))
        if not isinstance(entry.get(name, []), list) or not all(isinstance(each, str) and each for each in lists[name]):
            raise InvalidSetting(f"'{path}': {name} must be a list of names, found {entry[name]!r}")
    return ReplayRule(host.lower().removeprefix("www."), slash + rest, **lists, alike=_alike(entry, path))


def _alike(entry: dict[str, Any], path: str) -> tuple[tuple[Any, str], ...]:
    pairs = entry.get("alike", [])
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise InvalidSetting(f"'{path}': alike must be a list of pairs of strings, found {pairs!r}")
    found = []
    for pattern, instead in pairs:
        try:
            compiled = re2.compile(pattern)
            compiled.sub(instead, "")
        except (re2.error, ValueError, IndexError) as error:
            raise InvalidSetting(f"'{path}': invalid expression {pattern!r}: {error}") from None
        found.append((compiled, instead))
    return tuple(found)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(each, str) for each in value)


def _reject_unknown(table: dict[str, Any], known: Sequence[str], path: str) -> None:
    for name in table:
        if name not in known:
            raise InvalidSetting(f"'{path}' has an unknown key {name!r}{nearest(name, known)}")


def _names_pattern(names: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(name.lower()) for name in names) or r"(?!)")


def _query(url: str) -> list[str]:
    return [part for part in url.partition("#")[0].partition("?")[2].split("&") if part]
