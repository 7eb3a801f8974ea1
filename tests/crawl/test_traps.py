"""H5: sites without end are cut off, and those with one are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.crawl.job.job import TrapSettings
from holdfast.crawl.policy.traps import Traps

NOW = 1_790_000_000.0  # in 2026
AT = "http://example.com"


@pytest.fixture
def traps() -> Traps:
    return Traps(TrapSettings(), now=NOW)


TRAPPED = [
    ("/" + "a" * 2048, "URL of 2067 characters, more than 2048"),
    ("/" + "/".join(map(str, range(33))), "path of 33 segments, more than 32"),
    ("/a/a/a/a", "path repeats 'a' 4 times, more than 3"),
    ("/x/a/b/a/b/a/b/a/b", "path repeats 'a' 4 times, more than 3"),
    ("/a/1/a/2/a/3/a/4", "path repeats 'a' 4 times, more than 3"),
    ("/1/2/1/2/1/2/1/2", "path repeats a group of segments in a row, more than 3 times"),
    ("/7/7/7/7", "path repeats a group of segments in a row, more than 3 times"),
    ("/x?a=1&b=2&a=1&a=1&a=1", "query repeats 'a=1' 4 times, more than 3"),
    ("/calendar/2057/01/", "date in the year 2057, more than 30 years from now"),
    ("/calendar/2057/1", "date in the year 2057, more than 30 years from now"),
    ("/1990/12/24/", "date in the year 1990, more than 30 years from now"),
    ("/events/2099-01-31", "date in the year 2099, more than 30 years from now"),
    ("/events-0999-01-31.html", "date in the year 999, more than 30 years from now"),
    ("/x?date=2099-01", "date in the year 2099, more than 30 years from now"),
    ("/x?date=20990131", "date in the year 2099, more than 30 years from now"),
    ("/x?month=209901", "date in the year 2099, more than 30 years from now"),
    ("/x?a=b&year=3000", "date in the year 3000, more than 30 years from now"),
    ("/x?year=10000", "date in the year 10000, more than 30 years from now"),
    ("/x?y=2100&m=1", "date in the year 2100, more than 30 years from now"),
]


@pytest.mark.parametrize(("path", "reason"), TRAPPED)
def test_traps_are_named(traps: Traps, path: str, reason: str) -> None:
    assert traps.refusal(AT + path) == reason


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/a/a/a",
        "/a/b/a/b/a/b",
        "/tiles/0/0/0.png",
        "/1/7/2/7/3/7/4/7",
        "/x?f=1&f=2&f=3&f=4&f=5",
        "/2026/11/16/news",
        "/2055/01/",
        "/1997/01/01",
        "/article/4711/2",
        "/article/4711/10",
        "/article/1950/2",
        "/item-1234-12",
        "/x?date=1790000000",
        "/x?id=20990000",
        "/x?date=0512",
        "/99999/12/31",
        "/" + "/".join(map(str, range(32))),
    ],
)
def test_what_is_no_trap(traps: Traps, path: str) -> None:
    assert traps.refusal(AT + path) == ""


def test_settings_decide() -> None:
    strict = Traps(TrapSettings(10, 1, 1, calendar_years=0), now=NOW)
    assert strict.refusal("http://a/") == ""
    assert strict.refusal("http://a/bc") == "URL of 11 characters, more than 10"
    loose = Traps(TrapSettings(segment_repeats_max=10, calendar_years=1000), now=NOW)
    assert loose.refusal(f"{AT}/a/a/a/a/a/2999/12/") == ""


SESSIONS = [
    ("/a;jsessionid=ABC123?x=1", "/a?x=1"),
    ("/a;v=1;jsessionid=ABC/b", "/a;v=1/b"),
    ("/a?PHPSESSID=abc", "/a"),
    ("/a?x=1&PHPSESSID=abc&y=2", "/a?x=1&y=2"),
    ("/a?ASPSESSIONIDABCDEFGH=XYZ&x=1", "/a?x=1"),
    ("/a?CFID=1&CFTOKEN=2&x=1", "/a?x=1"),
    ("/a?sid=0123456789abcdef0123456789abcdef", "/a"),
    ("/a?sessionid=4x8-aaaa-bbbb-cccc-dddd", "/a"),
    ("/(S(0123456789abcdefghijklmn))/a.aspx", "/a.aspx"),
    ("/(S(0123456789abcdefghijklmn));jsessionid=1/a.aspx", "/a.aspx"),
    # These mean something, or may.
    ("/a?sid=123", "/a?sid=123"),
    ("/a?session=morning-of-the-first-day", "/a?session=morning-of-the-first-day"),
    ("/a?utm_source=x&utm_medium=y", "/a?utm_source=x&utm_medium=y"),
    ("/session/1", "/session/1"),
    ("/a?sid", "/a?sid"),
    ("/a?", "/a?"),
    ("/assess?inside=1", "/assess?inside=1"),
]


@pytest.mark.parametrize(("path", "seen"), SESSIONS)
def test_session_ids_do_not_count(traps: Traps, path: str, seen: str) -> None:
    assert traps.seen_form(AT + path) == AT + seen


def test_budgets() -> None:
    traps = Traps(TrapSettings(query_variants_max=5, hosts_max=6, host_urls_max=7), now=NOW)
    assert traps.budgets("http://a.example.co.uk:8080/x?y=1") == (
        ("host a.example.co.uk:8080", 7, "more than 7 URLs of the host 'a.example.co.uk:8080'"),
        ("domain example.co.uk", 6, "more than 6 hosts of the domain 'example.co.uk'"),
        ("path http://a.example.co.uk:8080/x", 5, "more than 5 queries of the path 'http://a.example.co.uk:8080/x'"),
    )
    known = traps.budgets("http://[::1]:80/x", new_host=False)
    assert [budget.counter for budget in known] == ["host [::1]:80"]
    assert [budget.counter for budget in traps.budgets("http://[::1]/")] == ["host [::1]", "domain [::1]"]


WORDS = st.sampled_from(
    [
        "/",
        ";",
        "?",
        "&",
        "=",
        "a",
        "sid=",
        "jsessionid=",
        "0123456789abcdef",
        "(S(",
        "))",
        "2099",
        "-01",
        "cfid=",
        "year=",
    ]
)


@given(st.text(max_size=60), st.lists(WORDS, max_size=12))
def test_never_raises_and_the_seen_form_is_final(text: str, words: list[str]) -> None:
    traps = Traps(TrapSettings(), now=NOW)
    for url in (text, f"{AT}/{text}", f"{AT}/{''.join(words)}"):
        traps.refusal(url)
        traps.budgets(url)
        seen = traps.seen_form(url)
        assert traps.seen_form(seen) == seen
        assert len(seen) <= len(url)
