"""The hosts of the generated web, and how each of them differs.

| host            | robots.txt                           | else                                       |
|-----------------|--------------------------------------|--------------------------------------------|
| alpha.test      | rules with Allow, '*' and '$'        | the home of the web; sitemaps of all kinds |
| b.alpha.test    | groups of several agents, Crawl-delay | validators: ETag only                     |
| gamma.example   | plain                                | asks for pauses: 429 and 503, Retry-After  |
| delta.test      | 404: all is allowed                  | no validators at all                       |
| moved.test      | redirects, in the end to another host | validators: Last-Modified only            |
| long.test       | 10 MB, rules first                   |                                            |
| h6.many.test... | plain                                | as many as asked for                       |
| secure.test     | plain                                | TLS with a self-signed certificate         |
| closed.test     | 500 always: nothing is allowed       | linked to, never to be asked for a page    |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

CLOSED = "closed.test"
SECURE = "secure.test"
Rules = tuple[tuple[bool, str], ...]  # whether a path that matches the pattern is allowed

_USUAL: Rules = ((False, "/private/"), (True, "/private/open/"), (False, "/*.cgi$"))
_STRICT: Rules = (*_USUAL, (False, "/tmp"), (True, "/tmp/p*4.html"))
_NOTHING: Rules = ((False, "/"),)


@dataclass(frozen=True, slots=True)
class Host:
    """One host and its peculiarities."""

    name: str
    rules: Rules = _USUAL
    robots: str = "plain"  # 'groups', 'missing', 'moved', 'long', 'broken'
    validators: str = "both"  # 'etag', 'date', 'none'
    pauses: bool = False
    delays: bool = False


_FIRST = (
    Host("alpha.test"),
    Host("b.alpha.test", _STRICT, "groups", "etag", delays=True),
    Host("gamma.example", pauses=True),
    Host("delta.test", (), "missing", "none"),
    Host("moved.test", robots="moved", validators="date"),
    Host("long.test", robots="long"),
)


@cache
def hosts(count: int, tls: bool) -> tuple[Host, ...]:
    """Those that hold pages, in order."""
    more = tuple(Host(f"h{number}.many.test") for number in range(len(_FIRST), count))
    return _FIRST[:count] + more + ((Host(SECURE),) if tls else ())


CLOSED_HOST = Host(CLOSED, _NOTHING, "broken")


def allowed(rules: Rules, path: str) -> bool:
    """RFC 9309 section 2.2.2: the longest pattern that matches decides, and Allow wins a tie."""
    matching = [(len(pattern), allow) for allow, pattern in rules if _compiled(pattern).match(path)]
    return max(matching, default=(0, True))[1]


@lru_cache(maxsize=100)
def _compiled(pattern: str) -> re.Pattern[str]:
    body = re.escape(pattern.removesuffix("$")).replace(r"\*", ".*")
    return re.compile(body + ("$" if pattern.endswith("$") else ""))


def robots_lines(rules: Rules) -> str:
    return "".join(f"{'Allow' if allow else 'Disallow'}: {pattern}\n" for allow, pattern in rules)
