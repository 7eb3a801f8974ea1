"""Rules of replay: which URLs count as the same (P3, I10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidSetting
from holdfast.web.replay.rules import ReplayRules, parse_rules, renamed


def rules(text: str) -> ReplayRules:
    return ReplayRules(parse_rules(text, "rules.toml")[0])


def test_p3_rules_of_a_site_hold_for_its_hosts_and_paths_only() -> None:
    found = rules('[[rule]]\nsite = "a.example/api"\nignore = ["s*"]')
    for url in ("http://a.example/api/x?sid=1", "https://www.a.example/api/x?sid=2", "http://b.a.example/api/x?s=1"):
        assert found.same(url) == found.same(url.partition("?")[0]), url
    for url in ("http://a.example/other?sid=1", "http://ba.example/api/x?sid=1", "http://a.example/api/x?q=1"):
        assert found.same(url) != found.same(url.partition("?")[0]), url


def test_p3_only_and_alike() -> None:
    found = rules("[[rule]]\nonly = ['id']\nalike = [['/v\\d+/', '/v/']]")
    assert found.same("http://a.example/v1/x?id=1&b=2") == found.same("http://a.example/v22/x?c=3&id=1")
    assert found.same("http://a.example/v1/x?id=1") != found.same("http://a.example/v1/x?id=2")
    assert "http://a.example" in found.beginnings("http://a.example/v22/x?id=1")


def test_p3_the_rules_of_the_package_hold_unless_they_are_turned_off(tmp_path: Path) -> None:
    busted, plain = "http://a.example/x?_=123", "http://a.example/x"
    for text, is_same in (("", True), ("[[rule]]\nignore = ['q']", True), ("defaults = false", False)):
        (tmp_path / "rules.toml").write_text(text)
        found = ReplayRules.load(tmp_path)
        assert (found.same(busted) == found.same(plain)) is is_same, text
    (tmp_path / "rules.toml").unlink()
    found = ReplayRules.load(tmp_path)
    assert found.same(busted) == found.same(plain)
    session = "http://a.example/x;jsessionid=0A1B?q=1"
    assert found.same(session) == found.same("http://a.example/x?q=1")
    assert found.same("http://a.example/x?1700000000000") == found.same(plain)
    film = "http://r1.googlevideo.com/videoplayback?id=1&itag=2&expire=%d"
    assert found.same(film % 1) == found.same(film % 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]]\nignored = ['x']", "did you mean 'ignore'"),
        ("rules = 1", "did you mean 'rule'"),
        ("[rule]\nignore = ['x']", "write [[rule]]"),
        ("[[rule]]\nignore = 'x'", "ignore must be a list of names"),
        ("[[rule]]\nignore = [1]", "ignore must be a list of names"),
        ("[[rule]]\nsite = 1", "site must be a string"),
        ("[[rule]]\nalike = [['(', '']]", "invalid expression '('"),
        ("[[rule]]\nalike = ['x']", "alike must be a list of pairs"),
        ("defaults = 1", "defaults must be true or false"),
        ("[[rule", "cannot read"),
    ],
)
def test_p3_a_malformed_file_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(InvalidSetting) as refused:
        ReplayRules.load(tmp_path)
    assert said in str(refused.value)
    assert "rules.toml" in str(refused.value)


def test_p3_bodies_are_compared_by_what_counts() -> None:
    found = rules("[[rule]]\nignore = ['t']")
    wanted = "http://a.example/s?__wb_method=POST&q=1&p=2&t=9"
    exact, near, far = (f"http://a.example/s?__wb_method=POST&{body}" for body in ("p=2&q=1&t=1", "q=1&p=3", "z=1"))
    assert found.likeness(wanted, exact) > found.likeness(wanted, near) > found.likeness(wanted, far)


def test_p3_a_jsonp_response_calls_the_function_that_is_wanted() -> None:
    found = rules("[[rule]]\njsonp = ['cb']")
    url = "http://a.example/j?cb=%s&x=1"
    assert found.callbacks(url % "new", url % "old") == ("old", "new")
    assert found.callbacks(url % "old", url % "old") is None
    assert found.callbacks(url % "a)alert(1", url % "old") is None
    assert found.callbacks("http://a.example/j", url % "old") is None
    assert renamed(b"/**/old({'old': 1});", ("old", "n")) == b"/**/n({'old': 1});"
    assert renamed(b"window.old && old([0])", ("old", "n")) == b"window.n && n([0])"
    assert renamed(b"older(1)", ("old", "n")) == b"older(1)"
