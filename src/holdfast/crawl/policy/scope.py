"""Scope: which found URLs belong to a crawl.

In this order, the first that applies:

    exclude matches      no      whatever else holds, seeds and requisites too
    a seed, robots.txt   yes
    a requisite          yes     on any host, up to `traps.embed_hops_max` requisites of requisites in a row
    beyond the depth     no
    include matches      yes
    by the kind          page    only the roots
                         prefix  everything in and below a root's directory: same host, path begins with that directory
                         host    the host of a root
                         domain  any host of the registered domain of a root
                         any     yes

Roots are the seeds and their redirects' targets. Hosts are the same with and without `www.`, over http and https; a
port that is not the usual one has to be the same, except for `domain`. Redirects, forms, sitemaps and what looks like a
URL in a script are judged as links are; what a requisite redirects to is a requisite.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from holdfast.crawl.job.job import CrawlJob, ScopeKind
from holdfast.errors import UsageError
from holdfast.formats.html.links.references import Hop
from holdfast.urls import registered_domain

_HOSTS_CACHED: Final = 65_536
_ALWAYS = frozenset((Hop.SEED, Hop.PREREQUISITE))
_EVERYWHERE: Final = ("",)
_NOWHERE: Final[tuple[str, ...]] = ()


class Scope:
    """For one thread. URLs are canonical."""

    def __init__(self, job: CrawlJob, roots: Iterable[str] = ()) -> None:
        self._kind = job.scope
        self._depth_max = job.depth
        self._embed_hops_max = job.traps.embed_hops_max
        self._include = _compiled(job.include, "include")
        self._exclude = _compiled(job.exclude, "exclude")
        self._outside = f"outside the scope '{job.scope}' of the seeds"
        self._places: dict[str, tuple[str, ...]] = {}  # by host or domain: how paths begin there
        self._roots: set[str] = set()
        self._paths: dict[str, tuple[str, ...]] = {}  # by authority as in URLs: the same, cached
        for root in roots:
            self.add_root(root)

    def add_root(self, url: str) -> None:
        """Widens the scope by the URLs that belong to `url`."""
        authority, path = _split(url)
        self._roots.add(_without_scheme(url))
        self._paths.clear()
        place = self._place(authority)
        begins = path.partition("?")[0].rpartition("/")[0] + "/" if self._kind == ScopeKind.PREFIX else ""
        known = self._places.get(place, _NOWHERE)
        if not begins.startswith(known):
            self._places[place] = (*(prefix for prefix in known if not prefix.startswith(begins)), begins)

    def refusal(self, url: str, hop: str, depth: int, hops: int) -> str:
        """Why `url` does not belong to the crawl, for logs and people; empty if it does.

        `depth` is its number of links from a seed, `hops` that of requisites in a row.
        """
        for expression in self._exclude:
            if expression.search(url):
                return f"excluded by '{expression.pattern}'"
        if hop in _ALWAYS:
            return ""
        if hop == Hop.EMBED:
            if hops <= self._embed_hops_max:
                return ""
            return f"more than {self._embed_hops_max} requisites of requisites in a row"
        if self._depth_max is not None and depth > self._depth_max:
            return f"more than {self._depth_max} links from a seed"
        for expression in self._include:
            if expression.search(url):
                return ""
        return "" if self._covers(url) else self._outside

    def touches(self, origin: str) -> bool:
        """True if URLs of that origin may be in scope, so that its sitemaps are worth reading."""
        if self._kind == ScopeKind.ANY or any(expression.search(f"{origin}/") for expression in self._include):
            return True
        return self._kind != ScopeKind.PAGE and self._place(_split(origin)[0]) in self._places

    def _covers(self, url: str) -> bool:
        if self._kind == ScopeKind.ANY:
            return True
        if self._kind == ScopeKind.PAGE:
            return _without_scheme(url) in self._roots
        authority, path = _split(url)
        prefixes = self._paths.get(authority)
        if prefixes is None:
            if len(self._paths) >= _HOSTS_CACHED:
                self._paths.clear()
            prefixes = self._paths[authority] = self._places.get(self._place(authority), _NOWHERE)
        return prefixes == _EVERYWHERE or path.startswith(prefixes)

    def _place(self, authority: str) -> str:
        """The host, or domain, that `authority` stands for."""
        server = authority.rpartition("@")[2]
        if self._kind != ScopeKind.DOMAIN:
            return _without_www(server)
        host = server if server.endswith("]") else server.rpartition(":")[0] or server
        return registered_domain(host)


def _split(url: str) -> tuple[str, str]:
    """Authority and path with query; both may be empty in what is not a URL of the web."""
    parts = url.split("/", 3)
    return (parts[2], f"/{parts[3]}") if len(parts) == 4 else (parts[2] if len(parts) == 3 else "", "/")


def _without_scheme(url: str) -> str:
    return _without_www(url.partition("://")[2])


def _without_www(host: str) -> str:
    rest = host.removeprefix("www.")
    return rest if "." in rest.partition("/")[0] else host


def _compiled(expressions: tuple[str, ...], name: str) -> tuple[re.Pattern[str], ...]:
    compiled: list[re.Pattern[str]] = []
    for expression in expressions:
        try:
            compiled.append(re.compile(expression))
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(
                f"cannot understand the regular expression '{expression}' of {name}: {error}; "
                r"escape signs that stand for themselves, as in '\?'"
            ) from error
    return tuple(compiled)
