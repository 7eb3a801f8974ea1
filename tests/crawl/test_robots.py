"""H5: robots.txt is obeyed to the letter of RFC 9309, and no file makes its reader raise or hang."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.crawl.policy.robots import LIFETIME_S, ROBOTS_BYTES_MAX, Robots, answer
from holdfast.crawl.processes.messages import FetchOutcome

SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "crawl"

needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared samples are not on this machine")

AT = "http://example.com"
MARK = b"\xef\xbb\xbf"

# Section, rules, agent, path, allowed.
RFC_9309 = [
    ("2.2.1 token in any case", "User-agent: EXAMPLEbot\nDisallow: /", "examplebot", "/x", False),
    ("2.2.1 token within the field", "User-agent: Foo\nDisallow: /", "Mozilla/5.0 (compatible; foo/1.0)", "/x", False),
    ("2.2.1 only whole tokens", "User-agent: foo\nDisallow: /", "foobot", "/x", True),
    ("2.2.1 version after the token", "User-agent: foo/2.0\nDisallow: /", "foo", "/x", False),
    ("2.2.1 named beats everybody", "User-agent: *\nDisallow: /\nUser-agent: foo\nAllow: /", "foo", "/x", True),
    ("2.2.1 everybody for the rest", "User-agent: foo\nAllow: /\n\nUser-agent: *\nDisallow: /", "bar", "/x", False),
    ("2.2.1 nobody named", "User-agent: foo\nDisallow: /", "bar", "/x", True),
    ("2.2.1 merged", "User-agent: a\nDisallow: /1\nUser-agent: b\nUser-agent: a\nDisallow: /2", "a", "/2", False),
    ("2.2.1 rules before any agent", "Disallow: /\nUser-agent: *\nAllow: /a", "foo", "/x", True),
    ("2.2.2 empty rule", "User-agent: *\nDisallow:", "foo", "/x", True),
    ("2.2.2 empty rule ends the agents", "User-agent: a\nDisallow:\nUser-agent: b\nDisallow: /", "a", "/x", True),
    ("2.2.2 longest wins", "User-agent: *\nAllow: /a\nDisallow: /a/b", "foo", "/a/b/c", False),
    ("2.2.2 longest wins, other order", "User-agent: *\nDisallow: /a/b\nAllow: /a", "foo", "/a/b/c", False),
    ("2.2.2 of equals Allow", "User-agent: *\nDisallow: /a\nAllow: /a", "foo", "/a", True),
    ("2.2.2 case of paths", "User-agent: *\nDisallow: /A", "foo", "/a", True),
    ("2.2.2 robots.txt itself", "User-agent: *\nDisallow: /", "foo", "/robots.txt", True),
    ("2.2.2 query", "User-agent: *\nDisallow: /foo/bar?baz=quz", "foo", "/foo/bar?baz=quz", False),
    ("2.2.2 reserved", "User-agent: *\nDisallow: /b?z=https://f.b", "foo", "/b?z=https%3A%2F%2Ff.b", False),
    ("2.2.2 reserved, other side", "User-agent: *\nDisallow: /b?z=https%3A%2F%2Ff.b", "foo", "/b?z=https://f.b", False),
    ("2.2.2 other than ASCII", "User-agent: *\nDisallow: /ツ", "foo", "/%E3%83%84", False),
    ("2.2.2 small hexadecimals", "User-agent: *\nDisallow: /%e3%83%84", "foo", "/%E3%83%84", False),
    ("2.2.2 unreserved", "User-agent: *\nDisallow: /%62%61%7A", "foo", "/baz", False),
    ("2.2.2 an escaped slash is none", "User-agent: *\nDisallow: /a%2Fb", "foo", "/a/b", True),
    ("2.2.3 end of line comment", "User-agent: * # all\nDisallow: /a # not b", "foo", "/a", False),
    ("2.2.3 end of path", "User-agent: *\nDisallow: /a$", "foo", "/ab", True),
    ("2.2.3 end of path met", "User-agent: *\nDisallow: /a$", "foo", "/a", False),
    ("2.2.3 wildcard", "User-agent: *\nDisallow: /this/*/exactly", "foo", "/this/is/exactly", False),
    ("2.2.3 wildcard and end", "User-agent: *\nDisallow: *.gif$", "foo", "/a.gif.html", True),
    ("2.2.3 wildcard and end met", "User-agent: *\nDisallow: *.gif$", "foo", "/a.gif.gif", False),
    ("2.2.3 parts do not overlap", "User-agent: *\nDisallow: /*aba*ba$", "foo", "/aba", True),
    ("2.2.3 escaped star", "User-agent: *\nDisallow: /a%2Ab", "foo", "/a*b", False),
    ("2.2.3 escaped star is no wildcard", "User-agent: *\nDisallow: /a%2Ab", "foo", "/axb", True),
    ("2.2.3 escaped dollar", "User-agent: *\nDisallow: /a%24", "foo", "/a$b", False),
    ("2.2.3 dollar within", "User-agent: *\nDisallow: /a$b", "foo", "/a$bc", False),
    ("2.2.4 a sitemap ends no group", "User-agent: a\nSitemap: /s\nUser-agent: b\nDisallow: /", "a", "/x", False),
    ("2.2.4 others neither", "User-agent: a\nFoo: bar\nUser-agent: b\nDisallow: /", "a", "/x", False),
    ("2.2.4 a delay neither", "User-agent: a\nCrawl-delay: 1\nUser-agent: b\nDisallow: /", "a", "/x", False),
    ("a path without its slash", "User-agent: *\nDisallow: private", "foo", "/private/", False),
    ("a whole URL for a path", "User-agent: *\nDisallow: https://www.example.com/p/", "foo", "/p/1", False),
    ("a whole URL of another host", "User-agent: *\nDisallow: https://test.example.com/*", "foo", "/p/1", True),
    ("wildcards around a token", "User-agent: *foo*\nDisallow: /", "foo", "/x", False),
    ("line ends of old", "User-agent: *\rDisallow: /a\rDisallow: /b", "foo", "/b", False),
    ("line ends of DOS", "User-agent: *\r\nDisallow: /a\r\nDisallow: /b", "foo", "/b", False),
    ("octets of UTF-8 are no blanks", "User-agent: *\nDisallow: /à", "foo", "/%C3", True),
]


@pytest.mark.parametrize(("section", "text", "agent", "path", "allowed"), RFC_9309, ids=[row[0] for row in RFC_9309])
def test_rfc_9309(section: str, text: str, agent: str, path: str, allowed: bool) -> None:
    assert Robots(text.encode(), f"{AT}/robots.txt").allows(AT + path, agent) is allowed


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "1e400", "9" * 400, "soon", "", "1_0", "10s", "٣"])
def test_a_senseless_delay_is_none(value: str) -> None:
    assert Robots(f"User-agent: *\nCrawl-delay: {value}".encode()).delay("foo") is None


def test_delays_belong_to_the_agents_above() -> None:
    robots = Robots(b"User-agent: a\nUser-agent: b\nCrawl-delay: 2.5\nUser-agent: c\nDisallow: /x\nCrawl-delay: 1")
    assert [robots.delay(agent) for agent in ("a", "b", "c", "d")] == [2.5, 2.5, 1.0, None]
    assert Robots(b"User-agent: *\nCrawl-delay: 100000").delay("foo") == 100_000, "nothing is too long"


def test_sitemaps_are_resolved_and_given_once() -> None:
    body = "Sitemap: /a.xml\nsitemap: http://Example.com/a.xml#x\nSitemap: ftp://x/y\nSitemap: ü.xml\nSitemap:".encode()
    assert Robots(body, f"{AT}/robots.txt").sitemaps == (f"{AT}/a.xml", f"{AT}/%C3%BC.xml")
    assert Robots(body).sitemaps == (f"{AT}/a.xml",), "relative to what?"


def test_unpacked_rules_are_the_same() -> None:
    robots = Robots(b"User-agent: *\nDisallow: /a\nCrawl-delay: 3\nSitemap: /s.xml", f"{AT}/robots.txt")
    again = Robots.unpack(robots.pack())
    assert not again.allows(f"{AT}/a", "foo") and again.delay("foo") == 3
    assert again.sitemaps == (f"{AT}/s.xml",)


@pytest.mark.parametrize("mark", [MARK, MARK[:2], MARK[:1], MARK + MARK, MARK + MARK[:2]])
def test_a_byte_order_mark_is_none_of_the_text(mark: bytes) -> None:
    """Whole or cut, as Google's parser takes it; other bytes before the first word spoil the line."""
    rules = b"User-agent: foo\nDisallow: /\n"
    assert not Robots(mark + rules).allows(f"{AT}/x", "foo")
    assert Robots(b"\xef\x11\xbf" + rules).allows(f"{AT}/x", "foo")


@pytest.mark.parametrize(
    ("outcome", "status", "allowed", "lifetime_is_short"),
    [
        (FetchOutcome.OK, 200, False, False),
        (FetchOutcome.OK, 204, False, False),
        (FetchOutcome.OK, 302, True, False),
        (FetchOutcome.OK, 401, True, False),
        (FetchOutcome.OK, 404, True, False),
        (FetchOutcome.OK, 429, False, True),
        (FetchOutcome.OK, 503, False, True),
        (FetchOutcome.OK, 0, False, True),
        (FetchOutcome.DNS, 0, False, True),
        (FetchOutcome.TIMEOUT, 0, False, True),
        (FetchOutcome.PROTOCOL, 0, False, True),
    ],
)
def test_what_follows_from_an_answer(outcome: str, status: int, allowed: bool, lifetime_is_short: bool) -> None:
    found = answer(outcome, status, b"User-agent: *\nDisallow: /no")
    assert found.rules.allows(f"{AT}/no", "foo") is allowed
    assert (found.lifetime_s < LIFETIME_S) is lifetime_is_short
    assert found.reason


def test_only_the_first_500_kib_are_read() -> None:
    rules = b"User-agent: *\n" + b"Disallow: /%06d\n" * 1_000_000 % tuple(range(1_000_000))
    robots = Robots(rules)
    last = (ROBOTS_BYTES_MAX - 14) // 18 - 1
    assert not robots.allows(f"{AT}/{last:06d}", "foo")
    assert robots.allows(f"{AT}/{last + 1:06d}", "foo")
    assert len(robots.pack()) <= ROBOTS_BYTES_MAX + 100
    cut = Robots(b"User-agent: *\nDisallow: /" + b"a" * 10_000_000)
    assert cut.allows(f"{AT}/a", "foo"), "of a rule that is cut nothing holds"


@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: *\nDisallow: /" + b"*a" * 200_000 + b"$",
        b"User-agent: *\n" + b"".join(b"Disallow: *a*a*a*a*%d$\n" % number for number in range(20_000)),
        b"".join(b"User-agent:%d\n" % n for n in range(20_000)) + b"".join(b"Allow:/%d\n" % n for n in range(20_000)),
        b"User-agent:*\n" * 15_000 + b"Crawl-delay:1\n" * 15_000 + b"Disallow: /",
        b"\0" * 10_000_000,
        b"%" * 10_000_000,
        b"Disallow: " * 1_000_000,
    ],
    ids=[
        "one wildcard",
        "many wildcards",
        "agents times rules",
        "agents times delays",
        "nothing",
        "escapes",
        "one line",
    ],
)
def test_hostile_files_are_read(body: bytes) -> None:
    robots = Robots(body)
    robots.allows(f"{AT}/{'a' * 2000}", "foo")
    robots.allows(f"{AT}/{'a' * 2000}", "7")
    robots.delay("foo")


@settings(max_examples=200)
@given(st.binary(max_size=300), st.text(max_size=60), st.text(max_size=20))
def test_any_bytes_any_url_any_agent(body: bytes, url: str, agent: str) -> None:
    robots = Robots(b"User-agent: *\n" + body, url)
    robots.allows(url, agent)
    assert robots.delay(agent) is None or robots.delay(agent) >= 0
    assert Robots.unpack(robots.pack()).sitemaps == robots.sitemaps


_PATTERNS = st.text("/ab*$", min_size=1, max_size=8)


def _reference(pattern: str, path: str) -> bool:
    """The definition of the RFC, by trying everything."""
    if not pattern:
        return True
    if pattern == "$":
        return not path
    if pattern[0] == "*":
        return any(_reference(pattern[1:], path[at:]) for at in range(len(path) + 1))
    literal = {"$": "$"}.get(pattern[0], pattern[0])
    return bool(path) and path[0] == literal and _reference(pattern[1:], path[1:])


@settings(max_examples=300)
@given(st.lists(st.tuples(_PATTERNS, st.booleans()), max_size=4), st.text("/ab$", max_size=8))
def test_the_longest_match_wins_whatever_the_rules(rules: list[tuple[str, bool]], rest: str) -> None:
    rules = [(pattern if pattern[0] in "/*" else f"/{pattern}", allow) for pattern, allow in rules]
    path = f"/{rest}"
    lines = [f"{'Allow' if allow else 'Disallow'}: {pattern}" for pattern, allow in rules]
    robots = Robots("\n".join(["User-agent: *", *lines]).encode())
    ranks = [(_octets(pattern), allow) for pattern, allow in rules if _reference(pattern, path)]
    assert robots.allows(AT + path, "foo") is max(ranks, default=(0, True))[1]


def _octets(pattern: str) -> int:
    """Their number; a dollar that does not end the pattern counts as its escape."""
    return len(pattern) + 2 * pattern[:-1].count("$")


COMMONS = "robots-crawler-commons"

# File, agent, then what is allowed and what is not.
SAMPLE_RULES = [
    ("astore.amazon.com-robots.txt", "foo", "/", ""),
    ("crawl-delay-group-merging.txt", "mybot", "/login/ /x", "/private/"),
    ("crawl-delay-group-merging.txt", "yourbot", "/x", "/private/ /login/"),
    ("crawl-delay-group-merging.txt", "foo", "/private/ /login/", ""),
    ("directive-typos-robots.txt", "bot1", "/x", "/desallow/ /dissalow/"),
    ("directive-typos-robots.txt", "bot2", "/x", "/useragent/"),
    ("directive-typos-robots.txt", "bot3", "/x", "/useg-agent/"),
    ("directive-typos-robots.txt", "bot4", "/x", "/useragent-no-colon/"),
    ("extended-standard-robots.txt", "bot1", "/x", ""),
    ("extension-robots.txt", "mybot", "/admin/ /secret/", "/private/"),
    ("extension-robots.txt", "otherbot", "/private/", "/admin/"),
    ("extensions-group-merging.txt", "mybot", "/x", "/private/ /login/"),
    ("extensions-group-merging.txt", "yourbot", "/x", "/private/ /login/"),
    ("extensions-group-merging.txt", "foo", "/llms.txt", "/x"),
    ("format-errors-robots.txt", "bot1", "/x", "/whitespace-before-colon/ /no-colon/"),
    ("format-errors-robots.txt", "bot2", "/x", "/no-colon-useragent/"),
    ("format-errors-robots.txt", "bot3", "/whitespace-before-colon", "/x"),
    ("malformed-path.txt", "foo", "/x", "/wiki/Wikipedia_talk:Mediation_Committee/"),
    ("malformed-path.txt", "foo", "/x", "/wiki/Wikipedia_talk%3Mediation_Committee/"),
    ("many-user-agents.txt", "wget", "", "/x"),
    ("many-user-agents.txt", "foobot", "", "/x"),
    ("many-user-agents.txt", "mysuperbot", "/x", ""),
    ("merge-rules.txt", "wget", "/foo/bar /ckh/bar /foo /x", "/tmp/bar"),
    ("merge-rules.txt", "foo", "/x /ckh/bar", "/foo/bar /tmp/bar"),
    ("merge-rules.txt", "curl", "", "/x"),
    ("precedence-of-rules.txt", "wget", "/foo /index.html", "/x /index"),
    ("precedence-of-rules.txt", "testy", "/foo/bar /foo/bar/1 /x", "/foo/b /foo/baz /foo/x"),
    ("relative-sitemap-robots.txt", "foo", "/x", "/cache/ /cp/ /docs/ /files/1"),
    ("rfc9309-example-longest-match-robots.txt", "foobot", "/example/page/x", "/example/page/disallowed.gif"),
    ("rfc9309-example-rule-group-merging.txt", "ExampleBot", "/x", "/foo /bar /baz"),
    ("rfc9309-example-rule-group-merging.txt", "BazBot", "/foo /bar", "/baz"),
    ("rfc9309-example-rule-group-merging.txt", "foo", "/baz", "/foo /bar"),
    ("rfc9309-example-simple-robots.txt", "foo", "/publications/ /a.gif?x", "/a.gif /example/x"),
    ("rfc9309-example-simple-robots.txt", "foobot", "/example/page.html /example/allowed.gif", "/ /x"),
    ("rfc9309-example-simple-robots.txt", "bazbot", "/x /example/", "/example/page.html"),
    ("rfc9309-example-simple-robots.txt", "quxbot", "/x /example/page.html /a.gif", ""),
    ("robots-with-utf16be-bom.txt", "foo", "/x", "/login.aspx /profile /a/output/print"),
    ("robots-with-utf16le-bom.txt", "Googlebot", "/x", "/login.aspx /profile /a/output/print"),
    ("robots-with-utf8-bom.txt", "foo", "/x", "/login.aspx /profile /a/output/print"),
    ("twitter.com-robots.txt", "Googlebot", "/x", "/x?y /me/with_friends"),
    ("www.flot.com-robots.txt", "foo", "/x", "/bitrix/ /img/1.png"),
]


def _sample(name: str) -> Robots:
    return Robots((SAMPLES / COMMONS / name).read_bytes(), f"{AT}/robots.txt")


@needs_samples
@pytest.mark.parametrize(("name", "agent", "allowed", "forbidden"), SAMPLE_RULES)
def test_samples_behave_as_their_names_say(name: str, agent: str, allowed: str, forbidden: str) -> None:
    robots = _sample(name)
    assert [path for path in allowed.split() if not robots.allows(AT + path, agent)] == []
    assert [path for path in forbidden.split() if robots.allows(AT + path, agent)] == []


@needs_samples
@pytest.mark.parametrize(
    ("name", "agent", "delay"),
    [
        ("astore.amazon.com-robots.txt", "foo", 5),
        ("crawl-delay-group-merging.txt", "mybot", 10),
        ("crawl-delay-group-merging.txt", "yourbot", None),
        ("crawl-delay-group-merging.txt", "foo", 30),
        ("dos-line-endings.txt", "foo", 1),
        ("twitter.com-robots.txt", "msnbot", 10),
        ("twitter.com-robots.txt", "Googlebot", None),
    ],
)
def test_delays_of_samples(name: str, agent: str, delay: float | None) -> None:
    assert _sample(name).delay(agent) == delay


@needs_samples
@pytest.mark.parametrize(
    ("name", "sitemaps"),
    [
        ("relative-sitemap-robots.txt", [f"{AT}/sitemap.xml"]),
        ("format-errors-robots.txt", [f"{AT}/sitemap.xml"]),
        ("sitemap-robots-dedup.txt", ["http://example.org/sitemap.xml"]),
        (
            "sitemap-robots.txt",
            [
                "http://domain.com/sitemap.xml",
                "http://domain.com/dir/my-sitemap.xml",
                "http://domain.com/dir/MixedCased-sitemap.xml",
            ],
        ),
        ("robots-with-utf16be-bom.txt", ["http://www.newsweek.com/sitemap_index.xml"]),
        ("robots-with-utf16le-bom.txt", ["http://www.newsweek.com/sitemap_index.xml"]),
    ],
)
def test_sitemaps_of_samples(name: str, sitemaps: list[str]) -> None:
    assert list(_sample(name).sitemaps) == sitemaps


@needs_samples
def test_wildcards_of_a_large_shop() -> None:
    robots = _sample("wildcards.txt")
    assert not robots.allows(f"{AT}/gp/cart/view", "foo")
    assert robots.allows(f"{AT}/books", "foo")


@needs_samples
def test_files_of_real_sites_are_read() -> None:
    files = sorted(path for path in (SAMPLES / "robots").rglob("*") if path.is_file())
    assert len(files) > 100
    for path in files:
        robots = Robots(path.read_bytes(), f"{AT}/robots.txt")
        robots.allows(f"{AT}/a/b?c=d", "Holdfast")
        assert Robots.unpack(robots.pack()).sitemaps == robots.sitemaps
