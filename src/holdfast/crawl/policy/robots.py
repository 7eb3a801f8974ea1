"""robots.txt: rules and their matching, by RFC 9309.

    bytes ──parse──▶ groups of agents and rules ──agent──▶ one merged set of rules ──allows──▶ yes or no
             512,000 bytes at most                                       the longest matching rule wins

A group applies to an agent if it names its product token, in whatever case; all groups that do are merged, and `*`
holds only for agents that no group names. Of the rules that match a path the longest wins, of equals `Allow`. `*`
stands for any text, `$` at the end for the end. Escapes are compared by what they mean: `%62` is `b`, `%3A` is `:`, but
`%2F` in a path is no `/`, `%2A` no wildcard. `Crawl-delay` holds for the agents named above it and ends no group. Lines
without a colon, misspelt fields, byte order marks, UTF-16 and every kind of line end are taken for what was meant.

Nothing here raises, and time is bounded by the length of the file: reading it is linear, matching never backtracks.
Groups keep their rules once, however many agents they name. A `Robots` belongs to one thread.
"""

from __future__ import annotations

import marshal
import math
import re
from typing import Final, NamedTuple

from holdfast.crawl.processes.messages import FetchOutcome
from holdfast.urls import parse as parse_url

ROBOTS_BYTES_MAX: Final = 500 << 10  # what RFC 9309 asks a crawler to read at least
LIFETIME_S: Final = 86400.0  # RFC 9309, 2.4: no longer than 24 hours
LIFETIME_UNREACHABLE_S: Final = 300.0

_AGENT, _ALLOW, _DISALLOW, _DELAY, _SITEMAP, _BARE = range(6)
_NAMES = {
    _AGENT: "user-agent useragent user_agent user-agents users-agent useg-agent usr-agent ser-agent uer-agent "
    "user-agant user-gent usesr-agent usser-agent user-aagent",
    _ALLOW: "allow allows alow alllow allow-all",
    _DISALLOW: "disallow dissallow dissalow disalow desallow diasllow disallaw disallows diallow disallo dsallow "
    "disllow disaallow disalllow disallow-all",
    _DELAY: "crawl-delay crawldelay crawl_delay craw-delay crawl-deley",
    _SITEMAP: "sitemap sitemaps site-map site_map",
    _BARE: "http https",  # the URL of a sitemap whose field was forgotten
}
_FIELDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_FIELDS |= {"user agent": _AGENT, "crawl delay": _DELAY, "site map": _SITEMAP}

_LINE_END = re.compile(r"\r\n?|\n")
_DELAY_VALUE = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_BLANKS = " \t\v\f\0"  # no others: lines are octets here, and some of UTF-8 look like blanks of Latin-1
_FIRST_WORD = re.compile(r"([^ \t]+)[ \t]+")
_EVERYBODY = re.compile(r"\*+(?=[ \t]|$)")
_TOKEN = re.compile(r"\**([a-z0-9_.-]+)")
_PRODUCT = re.compile(r"(?:^|(?<=[\s(;]))([a-z0-9_.-]+)(?=/|[;)]|$)")  # in a User-Agent field
_AUTHORITY = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#]*")
_PLAIN = re.compile(r"[\w/.~!&'()+,;=:@?-]*", re.ASCII).fullmatch  # compared as it stands
_ODD = re.compile(r"%([0-9A-Fa-f]{2})|[^!-~]|[*$]")
_TRIED_MAX = 256  # prefixes that are tried one by one before they are looked up by length
_STARS = re.compile(r"\*+")
_KEPT_ESCAPES = frozenset(b"%*$#")
_KEPT_IN_PATH = _KEPT_ESCAPES | frozenset(b"/?")


class Robots:
    """The rules of one site. `url` is where they were, which relative sitemaps refer to."""

    __slots__ = ("_agents", "_body", "_rules", "_url", "sitemaps")

    def __init__(self, body: bytes, url: str = "") -> None:
        """Reads the rules in `body`, however broken it is; what makes no sense is skipped."""
        self._body = _whole_lines(body)
        self._url = url
        self._agents: dict[str, list[tuple[_Group, int]]] = {}  # by product token: groups, and its place in each
        self._rules: dict[str, _Rules] = {}  # by agent as given
        self.sitemaps: tuple[str, ...] = self._read()

    def pack(self) -> bytes:
        """What `unpack` makes the same rules of; little more than the file, so little more than 500 KiB at most."""
        return marshal.dumps((self._body, self._url))

    @classmethod
    def unpack(cls, packed: bytes) -> Robots:
        return cls(*marshal.loads(packed))

    @property
    def are_unknown(self) -> bool:
        """Whether all is forbidden only because the rules are unreachable."""
        return self._body == _FORBIDDEN

    def allows(self, url: str, agent: str) -> bool:
        """Whether `agent`, a product token or a whole User-Agent field, may fetch `url`."""
        rules = self._rules.get(agent)
        if rules is None:
            rules = self._rules_of(agent)
        return rules.empty or rules.allow(_target(url))

    def delay(self, agent: str) -> float | None:
        """The Crawl-delay that holds for `agent`, in seconds; the longest if there are several."""
        return (self._rules.get(agent) or self._rules_of(agent)).delay

    def _read(self) -> tuple[str, ...]:
        """Fills the groups; returns the sitemaps."""
        sitemaps: dict[str, None] = {}
        group: _Group | None = None
        for line in _LINE_END.split(_octets(self._body)):
            kind, value = _record(line)
            if kind == _AGENT:
                if group is None or group.closed:
                    group = _Group()
                self._name(_group_token(value), group)
            elif kind == _SITEMAP:
                sitemaps |= dict.fromkeys(_sitemap(value, self._url))
            elif group is not None and kind in (_ALLOW, _DISALLOW):
                group.closed = True
                group.rules.append((_own_path(value, self._url), kind == _ALLOW))
            elif group is not None and kind == _DELAY and (delay := _seconds(value)) is not None:
                group.delays.append((group.agents, delay))
        return tuple(sitemaps)

    def _name(self, token: str, group: _Group) -> None:
        """Notes that `group` is for `token`, once."""
        entries = self._agents.setdefault(token, [])
        if not entries or entries[-1][0] is not group:
            entries.append((group, group.agents))
        group.agents += 1

    def _rules_of(self, agent: str) -> _Rules:
        products = _PRODUCT.findall(agent.lower())
        if len(products) > 1:
            products = [token for token in products if token != "mozilla"]  # which every browser claims to be
        token = max((token for token in products if token in self._agents), key=len, default="*")
        rules = self._rules[agent] = _Rules(self._agents.get(token, []))
        return rules


class _Group:
    """Rules, and how many agents they are for."""

    __slots__ = ("agents", "closed", "delays", "rules")

    def __init__(self) -> None:
        self.agents = 0
        self.closed = False  # the next agent begins another group
        self.rules: list[tuple[str, bool]] = []  # path as written, and whether it is allowed
        self.delays: list[tuple[int, float]] = []  # agents named above it, and seconds


class _Rules:
    """What holds for one agent: patterns by rank, which is twice their length, and one more for those that allow."""

    __slots__ = ("_exact", "_lengths", "_prefixes", "_ranks", "_wild", "delay", "empty")

    def __init__(self, entries: list[tuple[_Group, int]]) -> None:
        ranks: dict[str, int] = {}  # of prefixes
        exact: dict[str, int] = {}  # of whole paths
        wild: dict[str, int] = {}
        for value, allow in dict.fromkeys(rule for group, _ in entries for rule in group.rules if rule[0]):
            pattern = _pattern(value)
            rank = 2 * len(pattern) + allow
            pattern = _STARS.sub("*", pattern)
            if not pattern.endswith("$"):
                pattern = pattern.removesuffix("*")
            place = wild if "*" in pattern else ranks
            if place is ranks and pattern.endswith("$"):
                place, pattern = exact, pattern[:-1]
            place[pattern] = max(rank, place.get(pattern, 0))
        self._ranks, self._exact = ranks, exact
        self._prefixes = tuple(ranks) if len(ranks) <= _TRIED_MAX else ("",)
        self._lengths = sorted({len(prefix) for prefix in ranks})
        self._wild = [(rank, *_split(pattern)) for pattern, rank in wild.items()]
        self._wild.sort(key=lambda rule: rule[0], reverse=True)
        self.empty = not any(rank % 2 == 0 for rank in (*ranks.values(), *exact.values(), *wild.values()))
        delays = [delay for group, place in entries for count, delay in group.delays if place < count]
        self.delay = max(delays, default=None)

    def allow(self, path: str) -> bool:
        """Whether the rule that wins for `path`, compared as `_normal` writes it, allows it."""
        best = self._exact.get(path, 1)  # no rule at all allows
        if path.startswith(self._prefixes):
            ranks = self._ranks
            best = max(best, *(ranks.get(path[:length], 0) for length in self._lengths))
        for rank, head, parts, tail in self._wild:
            if rank <= best:
                break
            if path.startswith(head) and _matches(path, len(head), parts, tail):
                best = rank
                break
        return best % 2 == 1 or path == "/robots.txt"


class RobotsAnswer(NamedTuple):
    """The rules that follow from the response to a request for robots.txt."""

    rules: Robots
    lifetime_s: float  # after which it is fetched again
    reason: str  # for logs and people


def answer(outcome: str, status: int, body: bytes, url: str = "") -> RobotsAnswer:
    """RFC 9309, 2.3.1: rules if there are any, none if there is no file, everything forbidden if nobody can tell."""
    if outcome != FetchOutcome.OK:
        return RobotsAnswer(Robots(_FORBIDDEN, url), LIFETIME_UNREACHABLE_S, f"robots.txt unreachable: {outcome}")
    if 200 <= status < 300:
        return RobotsAnswer(Robots(body, url), LIFETIME_S, "robots.txt read")
    if 300 <= status < 500 and status != 429:
        return RobotsAnswer(Robots(b"", url), LIFETIME_S, f"no robots.txt: status {status}")
    return RobotsAnswer(Robots(_FORBIDDEN, url), LIFETIME_UNREACHABLE_S, f"robots.txt unreachable: status {status}")


_FORBIDDEN = b"# nobody can tell\nUser-agent: *\nDisallow: /\n"


def _whole_lines(body: bytes) -> bytes:
    """As much as is read; a line that is cut would forbid more than it says."""
    if len(body) <= ROBOTS_BYTES_MAX:
        return body
    cut = body[:ROBOTS_BYTES_MAX]
    return cut[: max(cut.rfind(b"\n"), cut.rfind(b"\r")) + 1]


_MARK = b"\xef\xbb\xbf"  # the byte order mark in UTF-8


def _octets(body: bytes) -> str:
    """One character for each octet of the text in UTF-8, so that octets of whatever coding can be compared."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        body = body.decode("utf-16", "replace").encode("utf-8", "replace")
    while body.startswith(_MARK):
        body = body[len(_MARK) :]
    body = body.removeprefix(_MARK[:2]).removeprefix(_MARK[:1])  # what an editor has left of one
    return body.decode("latin-1")


def _record(line: str) -> tuple[int | None, str]:
    """Field and value of a line; no field if it is none that matters."""
    line = line.partition("#")[0].strip(_BLANKS)
    name, _, value = line.partition(":")
    kind = _FIELDS.get(name.rstrip(_BLANKS).lower())
    if kind is None and (word := _FIRST_WORD.match(line)):
        kind, value = _FIELDS.get(word[1].lower()), line[word.end() :]
    if kind == _BARE:
        return (_SITEMAP, line) if "sitemap" in line.lower() else (None, "")
    return kind, value.strip(_BLANKS)


def _group_token(value: str) -> str:
    """The product token of a User-agent line: `foobot` of `FooBot/2.0 (old)`; empty if there is none."""
    if _EVERYBODY.match(value):
        return "*"
    found = _TOKEN.match(value.lower())
    return found[1] if found else ""


def _seconds(value: str) -> float | None:
    if _DELAY_VALUE.fullmatch(value) is None:
        return None
    seconds = float(value)
    return seconds if math.isfinite(seconds) else None


def _sitemap(value: str, base: str) -> tuple[str, ...]:
    """The URL of a sitemap, if `value` is one."""
    text = value.encode("latin-1").decode("utf-8", "replace")
    url = parse_url(text, base or None) if text else None
    if url is None or url.scheme not in ("http", "https"):
        return ()
    return (url.href.partition("#")[0],)


def _target(url: str) -> str:
    """Path and query of `url` as rules are compared with them."""
    authority = _AUTHORITY.match(url)
    path = url[authority.end() :] if authority else url
    path = path.partition("#")[0]
    if not path.startswith("/"):
        path = "/" + path
    return path if _PLAIN(path) else _normal(path.encode("utf-8", "replace").decode("latin-1"), "")


def _own_path(value: str, base: str) -> str:
    """The path of a rule that gives a whole URL: empty, so no rule, if that is one of another host."""
    authority = _AUTHORITY.match(value) if value[:4].lower() == "http" else None
    if authority is None:
        return value
    host, own = (url.lower().partition("//")[2].removeprefix("www.") for url in (authority[0], base))
    return (value[authority.end() :] or "/") if own.partition("/")[0] == host else ""


def _pattern(value: str) -> str:
    """The path of a rule as it is compared: from the root, with escapes for all but wildcards."""
    if not value.startswith(("/", "*")):
        value = "/" + value
    anchor = "$" if value.endswith("$") else ""
    value = value.removesuffix("$")
    return (value if _PLAIN(value) else _normal(value, "*")) + anchor


def _normal(octets: str, wild: str) -> str:
    """Escapes undone where that says the same, and written where it does not; `wild` stays as it is."""
    path, mark, query = octets.partition("?")
    parts = [_ODD.sub(lambda odd: _escape(odd, wild, _KEPT_IN_PATH), path)]
    if mark:
        parts += [mark, _ODD.sub(lambda odd: _escape(odd, wild, _KEPT_ESCAPES), query)]
    return "".join(parts)


def _escape(odd: re.Match[str], wild: str, kept: frozenset[int]) -> str:
    if odd[1] is None:
        return odd[0] if odd[0] == wild else f"%{ord(odd[0]):02X}"
    octet = int(odd[1], 16)
    return chr(octet) if 0x21 <= octet <= 0x7E and octet not in kept else odd[0].upper()


def _split(pattern: str) -> tuple[str, tuple[str, ...], str | None]:
    """What a path must begin with, what must follow in this order, and what it must end with, if anything."""
    anchored = pattern.endswith("$")
    head, *parts = pattern.removesuffix("$").split("*")
    if not anchored:
        return head, tuple(parts), None
    return head, tuple(parts[:-1]), parts[-1] if parts else ""


def _matches(path: str, start: int, parts: tuple[str, ...], tail: str | None) -> bool:
    """Each part at the first place where it fits: no other choice could fit better, so there is no going back."""
    for part in parts:
        found = path.find(part, start)
        if found < 0:
            return False
        start = found + len(part)
    return tail is None or (path.endswith(tail) and len(path) - len(tail) >= start)
