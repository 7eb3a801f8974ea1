"""H5: a crawl goes as far as it was told, and no farther."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.crawl.job.job import CrawlJob, ScopeKind, TrapSettings
from holdfast.crawl.policy.scope import Scope
from holdfast.errors import UsageError
from holdfast.formats.html.links.references import Hop

ROOT = "http://www.example.com/dir/page.html?x=/y/"

# Kind, then what is inside and what is outside.
KINDS = [
    (
        ScopeKind.PAGE,
        f"{ROOT} https://example.com/dir/page.html?x=/y/",
        "http://www.example.com/dir/page.html http://www.example.com/dir/",
    ),
    (
        ScopeKind.PREFIX,
        "http://www.example.com/dir/ https://example.com/dir/a/b?c http://example.com/dir/page.html",
        "http://www.example.com/ http://www.example.com/dir http://www.example.com/dir2/ http://a.example.com/dir/ "
        "http://www.example.com:8080/dir/",
    ),
    (
        ScopeKind.HOST,
        "http://www.example.com/ https://example.com/a http://user@example.com/",
        "http://a.example.com/ http://example.org/ http://example.com:8080/ http://www.example.com.evil.org/ "
        "http://evil.org/www.example.com/ http://www.example.com@evil.org/ http://wwwexample.com/",
    ),
    (
        ScopeKind.DOMAIN,
        "http://example.com/ https://a.b.example.com/ http://example.com:8080/",
        "http://example.org/ http://example.com.evil.org/ http://notexample.com/ http://com/",
    ),
    (ScopeKind.ANY, "http://example.org/ https://[::1]/", ""),
]


@pytest.mark.parametrize(("kind", "inside", "outside"), KINDS)
def test_kinds(kind: ScopeKind, inside: str, outside: str) -> None:
    scope = Scope(CrawlJob(scope=kind), [ROOT])
    assert [url for url in inside.split() if scope.refusal(url, Hop.LINK, 1, 0)] == []
    assert [url for url in outside.split() if not scope.refusal(url, Hop.LINK, 1, 0)] == []


@pytest.mark.parametrize(
    ("kind", "root", "inside", "outside"),
    [
        (ScopeKind.HOST, "http://example.com:8080/", "https://example.com:8080/a", "http://example.com/"),
        (ScopeKind.HOST, "http://[::1]/", "http://[::1]/a", "http://[::2]/"),
        (ScopeKind.DOMAIN, "http://[::1]:80/", "http://[::1]:8080/a", "http://[::2]/"),
        (ScopeKind.DOMAIN, "http://127.0.0.1:8080/", "http://127.0.0.1:9090/", "http://127.0.0.2:8080/"),
        (ScopeKind.DOMAIN, "http://a.b.co.uk/", "http://c.b.co.uk/", "http://c.co.uk/"),
        (ScopeKind.HOST, "http://www.com/", "https://www.com/", "http://com/"),
        (ScopeKind.PREFIX, "http://example.com", "http://example.com/a", "http://example.org/"),
    ],
)
def test_hosts(kind: ScopeKind, root: str, inside: str, outside: str) -> None:
    scope = Scope(CrawlJob(scope=kind), [root])
    assert scope.refusal(inside, Hop.LINK, 1, 0) == ""
    assert scope.refusal(outside, Hop.LINK, 1, 0) == f"outside the scope '{kind}' of the seeds"


def test_roots_are_added_as_seeds_redirect() -> None:
    scope = Scope(CrawlJob(scope=ScopeKind.PREFIX), ["http://a.com/x/"])
    assert scope.refusal("http://b.com/y/1", Hop.REDIRECT, 0, 1)
    scope.add_root("http://b.com/y/")
    assert not scope.refusal("http://b.com/y/1", Hop.REDIRECT, 0, 1)
    assert scope.refusal("http://b.com/z", Hop.LINK, 1, 0)
    scope.add_root("http://b.com/")
    assert not scope.refusal("http://b.com/z", Hop.LINK, 1, 0)
    assert not scope.refusal("http://b.com/y/1", Hop.LINK, 1, 0)


def test_include_widens_and_exclude_wins() -> None:
    job = CrawlJob(scope=ScopeKind.HOST, include=(r"\.org/docs/", "pdf$"), exclude=("logout", r"\?print="))
    scope = Scope(job, ["http://example.com/"])
    assert scope.refusal("http://example.org/docs/1", Hop.LINK, 1, 0) == ""
    assert scope.refusal("http://example.net/a.pdf", Hop.LINK, 1, 0) == ""
    assert scope.refusal("http://example.net/", Hop.LINK, 1, 0)
    for hop in (Hop.LINK, Hop.EMBED, Hop.SEED, Hop.REDIRECT):
        assert scope.refusal("http://example.com/logout.pdf", hop, 0, 0) == "excluded by 'logout'"


@pytest.mark.parametrize("field", ["include", "exclude"])
def test_an_expression_that_is_none_is_named(field: str) -> None:
    with pytest.raises(UsageError, match=rf"'\(a' of {field}"):
        Scope(CrawlJob(**{field: ("a", "(a")}))


def test_depth() -> None:
    scope = Scope(CrawlJob(scope=ScopeKind.ANY, depth=2, include=(".",)), ["http://a.com/"])
    assert scope.refusal("http://b.com/", Hop.LINK, 2, 0) == ""
    assert scope.refusal("http://b.com/", Hop.LINK, 3, 0) == "more than 2 links from a seed"
    assert scope.refusal("http://b.com/", Hop.EMBED, 3, 0) == "", "requisites belong to their page"
    assert Scope(CrawlJob(scope=ScopeKind.ANY)).refusal("http://b.com/", Hop.LINK, 10**9, 0) == ""


def test_hops() -> None:
    job = CrawlJob(scope=ScopeKind.PAGE, traps=TrapSettings(embed_hops_max=2))
    scope = Scope(job, ["http://a.com/"])
    elsewhere = "http://b.com/"
    assert scope.refusal(elsewhere, Hop.EMBED, 1, 2) == ""
    assert scope.refusal(elsewhere, Hop.EMBED, 1, 3) == "more than 2 requisites of requisites in a row"
    assert scope.refusal(elsewhere, Hop.SEED, 0, 0) == ""
    assert scope.refusal(elsewhere, Hop.PREREQUISITE, 0, 0) == ""
    for hop in (Hop.LINK, Hop.REDIRECT, Hop.SPECULATIVE, Hop.FORM, Hop.MANIFEST):
        assert scope.refusal(elsewhere, hop, 1, 0)
        assert scope.refusal("http://a.com/", hop, 1, 0) == ""


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(ScopeKind), st.sampled_from("-LERXMFP?"))
def test_never_raises(root: str, url: str, kind: ScopeKind, hop: str) -> None:
    scope = Scope(CrawlJob(scope=kind), [root])
    scope.refusal(url, hop, 1, 1)
    assert scope.refusal(f"http://{root}", Hop.SEED, 0, 0) == ""
