"""Access rules: what may be seen, by URL, time and age; excluded captures are nowhere."""

from __future__ import annotations

import logging
import os
import random
from pathlib import Path

import pytest

import holdfast
from holdfast.catalog import CaptureQuery
from holdfast.catalog.access_rules import Verdict
from holdfast.config import AccessRule, load
from holdfast.errors import InvalidSetting
from holdfast.model import Capture, RecordId
from holdfast.urls import url_key
from holdfast.web.auth.access import LOOK_EVERY_S, Access

NOW = 1_767_225_600.0  # 1 January 2026


def capture_of(url: str, timestamp: str = "20200102030405", collection: str = "main", **parts: str) -> Capture:
    usual = ("text/html", "200", "-", 0, 0, "-", "response", 0, "-", RecordId("202001", 1), collection)
    return Capture(url_key(url), timestamp, url, *usual)._replace(**parts)  # type: ignore[arg-type]


def verdict(rules: list[AccessRule], url: str, timestamp: str = "20200102030405", collection: str = "main") -> Verdict:
    return Access(rules, lambda: NOW).verdict(capture_of(url, timestamp, collection))


def test_without_rules_everything_may_be_seen() -> None:
    access = Access()
    assert access.is_open
    assert access.verdict(capture_of("http://example.com/")) is Verdict.ALLOW


@pytest.mark.parametrize(
    ("rule", "fits", "others"),
    [
        (
            AccessRule("block", url="http://example.com/a"),
            ["https://www.example.com/a", "http://example.com/a#part"],
            ["http://example.com/a/b", "http://example.com/a?x=1", "http://other.example.com/a"],
        ),
        (
            AccessRule("block", domain="example.com"),
            ["http://example.com/", "http://deep.sub.example.com/x", "https://example.com:8443/"],
            ["http://notexample.com/", "http://example.com.evil.org/", "http://example.org/example.com"],
        ),
        (AccessRule("block", domain="*.example.com"), ["http://example.com/", "http://a.example.com/"], ["http://b/"]),
        (AccessRule("block", domain="[::1]"), ["http://[::1]/", "http://[::1]:8080/x"], ["http://[::2]/"]),
        (
            AccessRule("block", prefix="http://example.com/private/"),
            [
                "http://example.com/private/",  # its key has no slash at its end
                "http://example.com/private/x",
                "http://example.com/private/?y=1",
                "http://example.com/PRIVATE/z",
                "http://example.com/a/../private/x",
                "http://example.com/%70rivate/x",
            ],
            ["http://example.com/privateer", "http://example.com/", "http://a.example.com/private/x"],
        ),
        (
            AccessRule("block", prefix="http://example.com/private*"),
            ["http://example.com/private", "http://example.com/privateer"],
            ["http://example.com/pri"],
        ),
        (AccessRule("block", prefix="http://example.com/"), ["http://example.com/any"], ["http://example.com:81/any"]),
        (AccessRule("block"), ["http://example.com/", "urn:any"], []),
    ],
)
def test_rules_fit_by_url(rule: AccessRule, fits: list[str], others: list[str]) -> None:
    assert [url for url in fits if verdict([rule], url) is not Verdict.BLOCK] == []
    assert [url for url in others if verdict([rule], url) is not Verdict.ALLOW] == []


def test_a_rule_for_a_url_holds_for_other_methods_too() -> None:
    posted = capture_of("http://example.com/a?q=1", extra='{"method": "POST", "requestBody": "b=2"}')
    posted = posted._replace(urlkey=url_key("http://example.com/a?q=1&__wb_method=POST&b=2"))
    for rule in (AccessRule("exclude", url=posted.url), AccessRule("exclude", prefix="http://example.com/a?q")):
        assert Access([rule]).verdict(posted) is Verdict.EXCLUDE


def test_times_are_partial_and_both_ends_count() -> None:
    rules = [AccessRule("block", from_="2019", to="2020-01")]
    found = {time: verdict(rules, "http://e.com/", time) for time in ("20181231235959", "20190101000000")}
    assert list(found.values()) == [Verdict.ALLOW, Verdict.BLOCK]
    assert verdict(rules, "http://e.com/", "20200131235959") is Verdict.BLOCK
    assert verdict(rules, "http://e.com/", "20200201000000") is Verdict.ALLOW


@pytest.mark.parametrize(
    ("embargo", "young", "old"),
    [
        ("30 days", "20251202000001", "20251202000000"),
        ("1 year", "20250101000001", "20250101000000"),
        ("48 hours", "20251230000001", "20251230000000"),
        ("999999 years", "00010101000000", ""),
    ],
)
def test_an_embargo_ends_with_the_age_of_the_capture(embargo: str, young: str, old: str) -> None:
    rules = [AccessRule("exclude", embargo=embargo)]
    assert verdict(rules, "http://e.com/", young) is Verdict.EXCLUDE
    assert not old or verdict(rules, "http://e.com/", old) is Verdict.ALLOW


def test_an_embargo_until_a_date_ends_then() -> None:
    rules = [AccessRule("exclude", embargo="2026-01-01")]
    capture = capture_of("http://e.com/")
    assert Access(rules, lambda: NOW - 1).verdict(capture) is Verdict.EXCLUDE
    assert Access(rules, lambda: NOW).verdict(capture) is Verdict.ALLOW


def test_the_first_rule_that_fits_decides() -> None:
    rules = [
        AccessRule("allow", url="http://example.com/open"),
        AccessRule("exclude", domain="example.com", to="2010"),
        AccessRule("block", domain="example.com"),
    ]
    assert verdict(rules, "http://example.com/open", "2005") is Verdict.ALLOW
    assert verdict(rules, "http://example.com/x", "20050101000000") is Verdict.EXCLUDE
    assert verdict(rules, "http://example.com/x") is Verdict.BLOCK
    assert Access(rules).verdict_of_url("http://example.com/x") is Verdict.BLOCK
    assert Access(rules).verdict_of_url("http://elsewhere.com/") is Verdict.ALLOW


def test_rules_are_of_a_collection_or_of_all() -> None:
    rules = [AccessRule("block", collection="news"), AccessRule("exclude", collection="*", domain="example.com")]
    assert verdict(rules, "http://example.com/", collection="news") is Verdict.BLOCK
    assert verdict(rules, "http://example.com/", collection="main") is Verdict.EXCLUDE
    assert verdict(rules, "http://other.com/", collection="main") is Verdict.ALLOW


def test_many_rules_give_the_verdict_of_going_through_them_in_order() -> None:
    chance = random.Random(5)
    words = ["a", "ab", "abc", "b", "ba", "c"]

    def any_rule() -> AccessRule:
        host, path = chance.choice(words), "/".join(chance.choices(words, k=chance.randint(0, 3)))
        kind = chance.choice(["url", "prefix", "domain"])
        value = f"{host}.com" if kind == "domain" else f"http://{host}.com/{path}"
        return AccessRule(chance.choice(["allow", "block", "exclude"]), **{kind: value})

    rules = [any_rule() for _ in range(300)]
    compiled = Access(rules)
    alone = [Access([rule]) for rule in rules]
    for _ in range(300):
        host = chance.choice([*words, "x.a", "y.abc"])
        capture = capture_of(f"http://{host}.com/{'/'.join(chance.choices(words, k=chance.randint(0, 4)))}")
        fitting = (rule.rule for rule, one in zip(rules, alone, strict=True) if _fits(one, rule, capture))
        assert compiled.verdict(capture) == next(fitting, Verdict.ALLOW), capture.url


def _fits(access: Access, rule: AccessRule, capture: Capture) -> bool:
    if rule.rule == "allow":
        access = Access([AccessRule("block", url=rule.url, prefix=rule.prefix, domain=rule.domain)])
    return access.verdict(capture) is not Verdict.ALLOW


def _write(path: Path, rules: str) -> None:
    text = path.read_text().partition("[[access]]")[0]
    draft = path.with_suffix(".new")
    draft.write_text(text + rules)
    os.replace(draft, path)


def test_new_rules_hold_without_a_restart_and_bad_ones_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    holdfast.init(tmp_path / "archive")
    settings = tmp_path / "archive" / "holdfast.toml"
    moment = [0.0]
    access = Access.following(tmp_path / "archive", monotonic=lambda: moment[0])
    assert access.is_open
    _write(settings, '[[access]]\nrule = "exclude"\ndomain = "example.com"\n')
    assert access.is_open, "looked at again too soon"
    moment[0] += LOOK_EVERY_S
    assert not access.is_open
    hidden = access.index_filter()
    assert hidden is not None
    assert access.index_filter() is hidden
    assert access.verdict(capture_of("http://example.com/")) is Verdict.EXCLUDE
    _write(settings, '[[access]]\nrule = "forbid"\n')
    moment[0] += LOOK_EVERY_S
    with caplog.at_level(logging.WARNING):
        assert not access.is_open
    assert "keeping the previous settings" in caplog.text
    assert access.verdict(capture_of("http://example.com/")) is Verdict.EXCLUDE
    assert access.index_filter() is hidden
    _write(settings, '[[access]]\nrule = "exclude"\ndomain = "example.net"\n')
    moment[0] += LOOK_EVERY_S
    assert access.index_filter() not in (None, hidden)
    _write(settings, "")
    moment[0] += LOOK_EVERY_S
    assert access.is_open
    assert access.index_filter() is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('domain = "example.com"', "has no rule"),
        ('rule = "hide"', "one of allow, block, exclude"),
        ('rule = "block"\ndomain = "a.com"\nurl = "http://a.com/"', "one of url, prefix and domain"),
        ('rule = "block"\nfrom = "yesterday"', "access.from"),
        ('rule = "block"\nembargo = "a while"', "access.embargo"),
        ('rule = "block"\ndomian = "a.com"', "did you mean 'domain'"),
        ('rule = "block"\ncollection = "No Such"', "bad name"),
    ],
)
def test_a_wrong_rule_is_named(tmp_path: Path, text: str, message: str) -> None:
    holdfast.init(tmp_path / "archive")
    settings = tmp_path / "archive" / "holdfast.toml"
    _write(settings, f"[[access]]\n{text}\n")
    with pytest.raises((InvalidSetting, holdfast.errors.UsageError), match=message):
        load(settings)


def test_excluded_captures_are_in_no_answer_of_the_catalog(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive")
    urls = [f"http://example.com/{name}" for name in ("a", "hidden", "z")]
    with holdfast.open(tmp_path / "archive") as archive:
        times = ("20200101000000", "20210101000000")
        archive.add([holdfast.page(url, b"same", timestamp=time) for url in urls for time in times])
        access = Access([AccessRule("exclude", url=urls[1]), AccessRule("exclude", from_="2021", url=urls[2])])
        catalog, permits = archive.catalog, access.permits

        def found(**parts: object) -> list[tuple[str, str]]:
            rows = catalog.search(CaptureQuery(url="example.com/*", **parts), permits)  # type: ignore[arg-type]
            return [(row.capture.url[-1], row.capture.timestamp[:4]) for row in rows]

        assert found() == [("a", "2020"), ("a", "2021"), ("z", "2020")]
        assert found(limit=-2) == [("a", "2021"), ("z", "2020")]
        assert found(sort="reverse", limit=1) == [("z", "2020")]
        assert found(offset=2) == [("z", "2020")]
        assert found(collapse=("digest",)) == [("a", "2020")]
        assert found(sort="closest", closest="2021", limit=1) == [("a", "2021")]
        newest = catalog.search(CaptureQuery(url=urls[2], sort="reverse", limit=1), permits)
        assert [row.capture.timestamp[:4] for row in newest] == ["2020"]
        assert list(catalog.search(CaptureQuery(url=urls[1]), permits)) == []
        assert catalog.num_pages(CaptureQuery(url=urls[1]), permits) == 0
        assert list(catalog.by_other_methods(CaptureQuery(url=urls[1]), permits)) == []
