"""`/api/search`: the same for programs, true to its description (B12)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from page_visits import ask
from search_archive import MANY
from serving import Served

PROGRAM = {"Accept": "application/json"}


def got(served: Served, query: str, more: str = "", status: int = 200) -> Any:
    visit = ask(served.controls, f"/api/search?q={quote(query)}{more}", PROGRAM)
    assert visit.status == status, visit.text
    return json.loads(visit.body)


def test_a_hit_tells_what_is_known(searched: Served) -> None:
    found = got(searched, '"tides are high"')
    assert (found["query"], found["total"], found["sort"], found["pending"]) == ('"tides are high"', 1, "relevance", 0)
    (hit,) = found["hits"]
    assert hit["url"] == "http://town.example/"
    assert hit["timestamp"] == "20240305101112"
    assert (hit["title"], hit["mime"], hit["status"], hit["lang"]) == ("The town", "text/html", 200, "en")
    assert hit["page"] == f"{searched.controls}/main/20240305101112/http://town.example/"
    assert hit["rank"] > 0 and hit["inlinks"] == 1 and hit["score"] > 0
    text, marks = hit["snippet"]["text"], hit["snippet"]["marks"]
    assert {text[first:last] for first, last in marks} >= {"tides", "high"}


def test_options(searched: Served) -> None:
    everything = got(searched, "", "&limit=0")
    assert (everything["group"], everything["total"], everything["captures"]) == ("page", MANY + 6, MANY + 8)
    assert everything["is_exact"] is True
    assert got(searched, "", "&limit=0&group=capture")["total"] == MANY + 8
    (hit,) = got(searched, "site:port.example")["hits"]
    assert (hit["captures"], hit["pages"]) == (2, 1)
    assert got(searched, "tides", "&snippets=false")["hits"][0]["snippet"] is None
    assert got(searched, "tides site:town.example", "&latest=true")["total"] == 2
    assert got(searched, "tides", "&collection=news")["total"] == 1
    first, second = (got(searched, "ubiquitous", f"&sort=oldest&limit=5&offset={at}")["hits"] for at in (0, 5))
    assert len({hit["record"] for hit in (*first, *second)}) == 10
    counted = got(searched, "tides", "&facet=lang&facet=site&timeline=true")
    assert set(counted["facets"]) == {"lang", "site"}
    assert sum(each["count"] for each in counted["timeline"]) == counted["captures"]


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("tides )", ""),
        ("size>99999999T", ""),
        ("tides", "&sort=size"),
        ("tides", "&group=site"),
        ("tides", "&facet=colour"),
        ("tides", "&limit=1001"),
        ("tides", "&limit=x"),
        ("tides", "&offset=-1"),
        ("tides", "&timeline=yes"),
        ("tides", "&page=2"),
        ("x" * 8193, ""),
    ],
)
def test_mistakes_are_problems(searched: Served, query: str, more: str) -> None:
    problem = got(searched, query, more, 400)
    assert problem["status"] == 400 and problem["detail"]


def test_an_unknown_collection_is_not_found(searched: Served) -> None:
    assert got(searched, "tides", "&collection=nowhere", 404)["type"] == "urn:holdfast:UnknownCollection"
