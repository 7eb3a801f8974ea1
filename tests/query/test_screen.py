"""Access rules hide what they deny from every part of an answer, exactly as the server's own verdict has it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from query_archive import Asked

from holdfast import CaptureQuery
from holdfast.catalog.access_rules import Verdict
from holdfast.config import AccessRule
from holdfast.query.access_filter import RuleFilter
from holdfast.query.results import FACETS, GROUPS, QueryOptions
from holdfast.web.auth.access import Access

NOW = 1_600_000_000.0  # in September 2020
_PLACES = st.sampled_from(
    [
        {},
        {"url": "http://example.com/p1"},
        {"url": "http://www-db.stanford.edu/"},
        {"prefix": "http://example.com/p1"},
        {"prefix": "http://www.stanford.edu/"},
        {"prefix": "http://example.com/*"},
        {"domain": "stanford.edu"},
        {"domain": "*.example.com"},
        {"domain": "127.0.0.1"},
        {"domain": "com"},
    ]
)
_TIMES = st.sampled_from(
    [
        {},
        {},
        {"from_": "2005"},
        {"to": "2010-06"},
        {"from_": "2000", "to": "2015"},
        {"embargo": "10 years"},
        {"embargo": "2030-01-01"},
        {"embargo": "2010"},
        {"embargo": "900000 years"},
    ]
)
_RULES = st.builds(
    lambda rule, collection, place, times: replace(AccessRule(rule), collection=collection, **place, **times),
    st.sampled_from(["allow", "block", "exclude"]),
    st.sampled_from(["*", "*", "main", "other"]),
    _PLACES,
    _TIMES,
)


@given(st.lists(_RULES, max_size=8))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_hidden_is_what_the_verdict_denies(asked: Asked, rules: list[AccessRule]) -> None:
    access = Access(rules, lambda: NOW)
    captures = [row.capture for row in asked.archive.search(CaptureQuery(url="*"))]
    seen = {each.record for each in captures if access.verdict(each) is Verdict.ALLOW}
    seen &= {each.record for each in asked.documents}
    screen = RuleFilter(rules, lambda: NOW)
    options = QueryOptions(group="capture", limit=1000, snippets=False, facets=FACETS, facet_values=1000, timeline=True)
    answer = asked.archive.query("*", options, screen)
    assert {hit.record for hit in answer.hits} == seen
    assert answer.total == len(seen)
    assert sum(each.count for each in answer.timeline) == len(seen)
    for facet in answer.facets:
        assert sum(each.count for each in facet.values) == len(seen), facet.name


@pytest.fixture
def hiding() -> RuleFilter:
    """Nothing of Stanford is to be seen."""
    return RuleFilter([AccessRule("block", domain="stanford.edu")], lambda: NOW)


def test_links_of_a_hidden_page_lead_nowhere(asked: Asked, hiding: RuleFilter) -> None:
    hidden = next(each for each in asked.documents if each.host.endswith("stanford.edu") and each.links)
    shown = asked.archive.query(f'linked-from:"{hidden.url}"', QueryOptions(snippets=False))
    assert asked.archive.query(f'linked-from:"{hidden.url}"', QueryOptions(snippets=False), hiding).total == 0
    assert shown.query == f"linked-from:{hidden.url}"


@pytest.mark.parametrize("sort", ["relevance", "newest", "oldest", "rank"])
@pytest.mark.parametrize("text", ["stanford", "*", "-library", "rank>=0", "stanford inlinks>=0", "site:stanford.edu"])
def test_no_way_of_asking_shows_it(asked: Asked, hiding: RuleFilter, text: str, sort: str) -> None:
    for group, latest in product(GROUPS, (False, True)):
        options = QueryOptions(
            sort=sort, group=group, limit=1000, latest=latest, facets=("site",), facet_values=1000, snippets=False
        )
        answer = asked.archive.query(text, options, hiding)
        assert not [hit for hit in answer.hits if "stanford.edu" in hit.url]
        assert len(answer.hits) == answer.total
        assert not [each for each in answer.facets[0].values if each.value.endswith("stanford.edu")]


def test_latest_is_the_newest_that_may_be_seen(asked: Asked) -> None:
    """What is younger and hidden does not take the place of what is older and shown."""
    screen = RuleFilter([AccessRule("exclude", from_="2010")], lambda: NOW)
    answer = asked.archive.query("*", QueryOptions(latest=True, limit=1000, snippets=False), screen)
    newest: dict[str, str] = {}
    for each in asked.documents:
        if each.timestamp < "2010":
            newest[each.urlkey] = max(newest.get(each.urlkey, ""), each.timestamp)
    assert sorted(hit.timestamp for hit in answer.hits) == sorted(newest.values())


def test_many_rules_in_turn(asked: Asked) -> None:
    rules = [AccessRule("allow" if each % 2 else "exclude", url=f"http://example.com/p{each}") for each in range(400)]
    options = QueryOptions(group="capture", limit=1000, snippets=False)
    answer = asked.archive.query("*", options, RuleFilter(rules, lambda: NOW))
    access = Access(rules, lambda: NOW)
    captures = [row.capture for row in asked.archive.search(CaptureQuery(url="*"))]
    assert answer.total == sum(access.verdict(each) is Verdict.ALLOW for each in captures) < len(captures)
