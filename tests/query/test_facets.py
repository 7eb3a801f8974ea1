"""Facets of fields with very many values: counted exactly, the most frequent shown."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import tantivy

from holdfast.index.schema import register_tokenizers, schema
from holdfast.query.facets import count_facets
from holdfast.query.results import Facet

HOSTS = 66_000  # tantivy refuses answers of more than 65,000 values
FREQUENT = 5


@dataclass(frozen=True)
class Indexed:
    """As a moment, but without an archive, in which so many hosts would take minutes."""

    searcher: tantivy.Searcher

    def seen(self, query: tantivy.Query) -> tantivy.Query:
        return query


@pytest.fixture(scope="module")
def indexed() -> Indexed:
    """A capture of each host in each of several segments, and of a few hosts some more; some have no host."""
    index = tantivy.Index(schema())
    register_tokenizers(index)
    writer = index.writer(60 << 20, 1)
    for number in range(HOSTS):
        for _ in range(1 + (FREQUENT - number if number < FREQUENT else 0)):
            writer.add_document(_document(f"h{number}.example", number))
        if number == FREQUENT:
            writer.commit()
    for host in ("h1.example", "", "", "", "", "", "", "", "", "", ""):
        writer.add_document(_document(host, 1))
    writer.commit()
    index.reload()
    return Indexed(index.searcher())


def _document(host: str, number: int) -> tantivy.Document:
    values = {"record": number, "host": host, "mime": f"image/x{number % 100}", "lang": "en", "status": 200}
    return tantivy.Document.from_dict({**values, "month": 202001 + number % 12, "collection": "main"}, schema())


def facets(indexed: Indexed, names: tuple[str, ...], most: int) -> dict[str, dict[str, int]]:
    found: tuple[Facet, ...]
    found, _ = count_facets(indexed, tantivy.Query.all_query(), names, most, timeline=False)  # type: ignore[arg-type]
    return {facet.name: {each.value: each.count for each in facet.values} for facet in found}


def test_more_hosts_than_tantivy_answers_with_are_counted(indexed: Indexed) -> None:
    found = facets(indexed, ("site", "type", "lang", "status", "year", "collection"), 3)
    total = HOSTS + FREQUENT * (FREQUENT + 1) // 2 + 11
    assert found.pop("site") == {"h0.example": 6, "h1.example": 6, "h2.example": 4}
    assert found == {
        "type": {"image": total},
        "lang": {"en": total},
        "status": {"200": total},
        "year": {"2020": total},
        "collection": {"main": total},
    }


def test_values_that_occur_as_often_come_in_their_order(indexed: Indexed) -> None:
    found = facets(indexed, ("site",), 1000)["site"]
    assert len(found) == 1000
    first = ("h0", "h1", "h2", "h3", "h4", "h10", "h100")
    assert list(found)[: len(first)] == [f"{name}.example" for name in first]
