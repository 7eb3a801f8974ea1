"""Answers are those of a scan that reads every record, whatever is asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from asking import Asker
from oracle import Document
from query_archive import Asked, filled, real_files

from holdfast.index.schema import short_type
from holdfast.model import RecordId
from holdfast.query.language.syntax import Expression, canonical
from holdfast.query.results import FACETS, QueryOptions
from holdfast.urls import url_key

QUERIES = 100
REAL_PAGES = 200
REAL_PAGES_MIN = 50


def found(asked: Asked, text: str) -> set[RecordId]:
    view = asked.archive.index.view()
    numbers = asked.archive.queries.records_matching(text).tolist()
    assert numbers == sorted(set(numbers))
    return {view.record_of(number) for number in numbers}


def check(asked: Asked, expression: Expression) -> int:
    """One query by all ways of asking; returns the number of matches."""
    text = canonical(expression)
    wanted = asked.scan.matching(expression)
    assert found(asked, text) == wanted, text
    options = QueryOptions(
        group="capture", limit=25, sort="newest", snippets=False, facets=FACETS, facet_values=1000, timeline=True
    )
    answer = asked.archive.query(text, options)
    documents = [each for each in asked.documents if each.record in wanted]
    assert answer.query == text
    assert (answer.total, answer.captures) == (len(wanted), len(wanted)), text
    newest = sorted(documents, key=lambda each: (each.timestamp, each.record), reverse=True)
    assert [hit.record for hit in answer.hits] == [each.record for each in newest[:25]], text
    counted = {facet.name: {each.value: each.count for each in facet.values} for facet in answer.facets}
    assert counted == counts(documents), text
    months = Counter(each.timestamp[:6] for each in documents)
    assert [(each.month, each.count) for each in answer.timeline] == sorted(months.items()), text
    check_pages(asked, text, newest)
    return len(wanted)


def check_pages(asked: Asked, text: str, newest: list[Document]) -> None:
    """The same matches, with one hit for each page (P9)."""
    pages: dict[str, list[Document]] = {}
    for each in newest:
        pages.setdefault(url_key(each.url), []).append(each)
    answer = asked.archive.query(text, QueryOptions(limit=1000, sort="newest", snippets=False))
    assert (answer.total, answer.captures, answer.is_exact) == (len(pages), len(newest), True), text
    grouped = [(hit.record, hit.captures) for hit in answer.hits]
    assert grouped == [(captures[0].record, len(captures)) for captures in pages.values()], text


def counts(documents: list[Document]) -> dict[str, dict[str, int]]:
    values = {
        "site": Counter(each.host for each in documents),
        "type": Counter(short_type(each.mime) for each in documents),
        "lang": Counter(each.lang for each in documents),
        "status": Counter(str(each.status) for each in documents),
        "year": Counter(each.timestamp[:4] for each in documents),
        "collection": Counter(each.collection for each in documents),
    }
    return {name: dict(counted) for name, counted in values.items()}


def check_many(asked: Asked, count: int) -> None:
    asker = Asker(asked.documents, seed=count)
    sizes = [check(asked, asker.expression()) for _ in range(count)]
    assert sum(0 < size < len(asked.documents) for size in sizes) > count / 3  # they do tell captures apart


def test_generated_pages(asked: Asked) -> None:
    check_many(asked, QUERIES)


def test_real_pages(scratch: Path) -> None:
    files = real_files(REAL_PAGES)
    if len(files) < REAL_PAGES_MIN:
        pytest.skip("no real pages on this machine: 'make corpus' collects some")
    with filled(scratch / "real", [path.read_bytes() for path in files], seed=2) as asked:
        check_many(asked, QUERIES)


@pytest.mark.soak
def test_ten_thousand_real_pages(scratch: Path) -> None:
    files = real_files(10_000)
    if len(files) < 10_000:
        pytest.skip("no corpus on this machine: 'make corpus' collects it")
    with filled(scratch / "many", [path.read_bytes() for path in files], seed=3, steps=3) as asked:
        check_many(asked, 500)
