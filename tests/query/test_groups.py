"""One hit for all captures of a page (P9), or for all pages with nearly the same text (N11)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from query_archive import Asked

import holdfast
from holdfast import Archive, page
from holdfast.errors import TooLarge, UnknownName
from holdfast.query import groups
from holdfast.query.results import GROUPS, SORTS, Hit, QueryOptions, QueryResult
from holdfast.urls import url_key

WORDS = [f"word{number}" for number in range(500)]
SIZES = {"a": 3, "b": 1, "c": 2}  # captures of a page


def prose(seed: int, length: int = 400) -> str:
    random = Random(seed)
    return " ".join(random.choice(WORDS) for _ in range(length))


@pytest.fixture(scope="module")
def archive(scratch: Path) -> Iterator[Archive]:
    """Pages `a` and `c` differ in one word, `b` has another text; `short` ones have too little for a sketch."""
    texts = {"a": prose(1), "b": prose(2), "c": prose(1) + " end"}
    with TemporaryDirectory(dir=scratch) as name:
        holdfast.init(Path(name) / "archive")
        with holdfast.open(Path(name) / "archive") as opened:
            for path, text in texts.items():
                opened.add([capture(path, f"{2020 + year}0102030405", text) for year in range(SIZES[path])])
            opened.add([capture("short1", "20200102030405", "tiny"), capture("short2", "20200102030405", "tiny")])
            opened.index.update()
            yield opened


def capture(path: str, timestamp: str, text: str) -> holdfast.Exchange:
    markup = f"<title>Page {path}</title><p>{text}</p>"
    return page(f"http://example.com/{path}", markup.encode(), timestamp=timestamp)


def names(answer: QueryResult) -> list[tuple[str, int, int]]:
    return sorted((hit.url.rpartition("/")[2], hit.captures, hit.pages) for hit in answer.hits)


def test_a_page_is_one_hit_with_all_its_captures(archive: Archive) -> None:
    answer = archive.query("site:example.com")
    assert names(answer) == [("a", 3, 1), ("b", 1, 1), ("c", 2, 1), ("short1", 1, 1), ("short2", 1, 1)]
    assert (answer.group, answer.total, answer.captures, answer.is_exact) == ("page", 5, 8, True)


def test_of_equally_relevant_captures_the_newest_is_shown(archive: Archive) -> None:
    (hit,) = archive.query("title:a").hits
    assert (hit.timestamp, hit.captures) == ("20220102030405", 3)


def test_only_captures_that_match_are_counted(archive: Archive) -> None:
    (hit,) = archive.query("title:a to:2021").hits
    assert (hit.timestamp, hit.captures) == ("20210102030405", 2)


def test_pages_with_nearly_the_same_text_are_one_hit(archive: Archive) -> None:
    answer = archive.query("site:example.com", QueryOptions(group="text", sort="newest"))
    assert names(answer) == [("a", 5, 2), ("b", 1, 1), ("short1", 1, 1), ("short2", 1, 1)]
    assert (answer.total, answer.captures) == (4, 8)


def test_facets_and_timeline_count_captures_however_hits_are_grouped(archive: Archive) -> None:
    answers = [
        archive.query("*", QueryOptions(group=group, facets=("site", "year"), timeline=True)) for group in GROUPS
    ]
    assert [each.total for each in answers] == [5, 4, 8]
    for answer in answers:
        assert answer.captures == 8
        assert [each.count for each in answer.facets[0].values] == [8]
        assert [each.count for each in answer.facets[1].values] == [5, 2, 1]
        assert [each.count for each in answer.timeline] == [5, 2, 1]


def paged(asked: Asked, options: dict[str, str], step: int) -> Iterator[Hit]:
    offset = 0
    while True:
        found = asked.archive.query("stanford", QueryOptions(offset=offset, limit=step, snippets=False, **options))  # type: ignore[arg-type]
        assert found.offset == offset
        yield from found.hits
        if not found.hits:
            assert offset >= found.total
            return
        offset += step


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("group", GROUPS)
def test_paging_returns_every_group_once(asked: Asked, monkeypatch: pytest.MonkeyPatch, sort: str, group: str) -> None:
    """Also if few matches are read at first, and those beyond are only counted."""
    options = {"sort": sort, "group": group}
    whole = asked.archive.query("stanford", QueryOptions(limit=1000, snippets=False, **options))  # type: ignore[arg-type]
    assert len(whole.hits) == whole.total > 10
    assert sum(hit.captures for hit in whole.hits) == whole.captures
    if group == "page":
        assert len({url_key(hit.url) for hit in whole.hits}) == whole.total < whole.captures
    monkeypatch.setattr(groups, "_READ_MIN", 1)
    assert list(paged(asked, options, 7)) == list(whole.hits)
    (first,) = asked.archive.query("stanford", QueryOptions(limit=1, snippets=False, **options)).hits  # type: ignore[arg-type]
    assert first == whole.hits[0]


def test_the_pages_of_very_many_matches_are_estimated(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = asked.archive.query("stanford", QueryOptions(limit=1, snippets=False))
    monkeypatch.setattr(groups, "_READ_MIN", 1)
    monkeypatch.setattr(groups, "COUNTED_MAX", 10)
    about = asked.archive.query("stanford", QueryOptions(limit=1, snippets=False))
    assert exact.is_exact
    assert not about.is_exact
    assert abs(about.total - exact.total) <= 0.05 * exact.total
    assert list(islice(about.hits, 1)) == list(exact.hits)


def test_too_many_matches_to_compare_their_texts(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "TEXTS_MAX", 3)
    with pytest.raises(TooLarge, match="narrow the query to 3"):
        asked.archive.query("stanford", QueryOptions(group="text"))


def test_an_unknown_group() -> None:
    with pytest.raises(UnknownName, match="unknown group 'pages'; did you mean 'page'"):
        QueryOptions(group="pages")
