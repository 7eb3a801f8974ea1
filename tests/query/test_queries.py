"""What an answer is, beyond which captures match: its order, its parts, its moment."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import tantivy
from query_archive import Asked

import holdfast
from holdfast import Archive, CaptureQuery, RemovalOptions, Selection, page
from holdfast.errors import IndexNotFound, MalformedQuery, NotFound, UnknownName, UsageError
from holdfast.index.schema import page_number
from holdfast.query.language.parser import parse
from holdfast.query.results import Hit, QueryOptions, Snippet
from holdfast.query.snapshot import MatchSet, QuerySnapshot
from holdfast.query.snippets import Snippets
from holdfast.urls import page_id, page_id_text, url_key

STANFORD = "http://www-db.stanford.edu/"
PAGES = {
    "http://a.example.edu/1": ("Stanford University", "The campus of Stanford.", [STANFORD, "/2"]),
    "http://a.example.edu/2": ("Stanford", "No link to the group.", ["http://www.stanford.edu/"]),
    "http://b.example.com/3": ("A page about elsewhere", "Stanford is only in the text.", [STANFORD]),
    "http://b.example.com/4": (
        "stanford's database group",
        "We are at STANFORD.",
        ["http://www-DB.stanford.edu:80/#top"],
    ),
    "http://c.example.com/5": ("Quiet", "Nothing to see here, but a digital library.", []),
}


@pytest.fixture
def archive(scratch: Path) -> Iterator[Archive]:
    """A small archive that may be changed; its index is up to date."""
    with TemporaryDirectory(dir=scratch) as name:
        holdfast.init(Path(name) / "archive")
        with holdfast.open(Path(name) / "archive") as opened:
            opened.add([_page(url) for url in PAGES])
            opened.index.update()
            yield opened


def _page(url: str, timestamp: str = "20200102030405") -> holdfast.Exchange:
    title, text, links = PAGES[url]
    anchors = " ".join(f'<a href="{link}">there</a>' for link in links)
    return page(url, f"<title>{title}</title><p>{text}</p>{anchors}".encode(), timestamp=timestamp)


def urls(archive: Archive, text: str, **options: object) -> list[str]:
    return sorted(hit.url for hit in archive.query(text, QueryOptions(**options)).hits)  # type: ignore[arg-type]


def test_the_example_of_the_paper(archive: Archive) -> None:
    """'All pages which contain the word Stanford in the title and which point to http://www-db.stanford.edu/' (B12)."""
    assert urls(archive, f"title:Stanford links-to:{STANFORD}") == ["http://a.example.edu/1", "http://b.example.com/4"]


def test_a_host_that_begins_with_www_twice(archive: Archive) -> None:
    """The term of its facet, and the query that is printed back, mean the same host (B12)."""
    archive.add([page(f"http://{host}/", b"whales") for host in ("www.www.example.net", "www.example.net")])
    archive.index.update()
    answer = archive.query("whales", QueryOptions(facets=("site",)))
    (facet,) = answer.facets
    assert {each.value: each.term for each in facet.values} == {
        "example.net": "site:example.net",
        "www.example.net": "site:www.www.example.net",
    }
    for term, url in (("site:www.www.example.net", "http://www.www.example.net/"), ("site:www.example.net", None)):
        found = archive.query(term)
        assert [hit.url for hit in found.hits] == [url or "http://www.example.net/"]
        assert [hit.url for hit in archive.query(found.query).hits] == [hit.url for hit in found.hits]


def test_pages_are_found_by_the_id_of_the_paper(archive: Archive) -> None:
    """B2, B3: by WebBase's page id, in a query and in SQL."""
    url = "http://a.example.edu/1"
    text = page_id_text(page_id("a.example.EDU:80/1/"))
    assert urls(archive, f"page-id:{text}") == [url]
    assert archive.query(f"page-id:{text.upper()}").query == f"page-id:{text}"
    assert urls(archive, f"-page-id:{text} title:stanford") == ["http://a.example.edu/2", "http://b.example.com/4"]
    assert urls(archive, "page-id:0000000000000000") == []
    assert list(archive.sql("SELECT url FROM captures WHERE page_id = ?", [text])) == [{"url": url}]
    assert list(archive.sql("SELECT url FROM pages WHERE page_id = ?", [text])) == [{"url": url}]
    for bad in ("1", "05d8a9b2c4e1f73g", "http://a.example.edu/1"):
        with pytest.raises(MalformedQuery, match="16 hexadecimal digits"):
            archive.query(f'page-id:"{bad}"')


def test_modified_dates_are_a_column(archive: Archive) -> None:
    head = b"HTTP/1.1 200 OK\r\nLast-Modified: Tue, 15 Apr 2003 08:13:06 GMT\r\n\r\n"
    archive.add([holdfast.Exchange(url="http://d.example/", head=head, body=b"x", timestamp="20200102030405")])
    archive.index.update()
    (row,) = archive.sql("SELECT url, modified FROM captures WHERE modified IS NOT NULL")
    assert row == {"url": "http://d.example/", "modified": datetime(2003, 4, 15, 8, 13, 6, tzinfo=UTC)}


def test_only_what_people_follow_is_in_the_graph(archive: Archive) -> None:
    """A page may link to itself; <link> is for programs (B12)."""
    content = b"<link rel=canonical href=http://canonical.example/><a href=/self>here</a><a href=/other>there</a>"
    archive.add([page("http://e.example/self", content, timestamp="20200102030405")])
    archive.index.update()
    archive.index.rank()
    found = {
        row["target"]: row["kind"] for row in archive.sql("SELECT * FROM links WHERE url = 'http://e.example/self'")
    }
    assert found == {
        "http://canonical.example/": "relation",
        "http://e.example/self": "link",
        "http://e.example/other": "link",
    }
    ranks = archive.index.ranks()
    assert ranks is not None
    known = ranks.of(np.array([page_number(url_key(url)) for url in found], np.uint64)).inlinks.tolist()
    assert dict(zip(found, known, strict=True)) == {
        "http://canonical.example/": 0,
        "http://e.example/self": 1,
        "http://e.example/other": 1,
    }


def test_links_lead_both_ways(archive: Archive) -> None:
    assert urls(archive, "linked-from:a.example.edu/1") == ["http://a.example.edu/2"]
    assert urls(archive, "links-to:a.example.edu/2") == ["http://a.example.edu/1"]
    assert urls(archive, "linked-from:http://nobody.example/") == []


def test_what_was_removed_is_found_no_more(archive: Archive) -> None:
    """At once, before the index is written again; also as the page that links come from."""
    facets = {"facets": ("site",), "timeline": True}
    assert archive.query("stanford", QueryOptions(**facets)).total == 4  # type: ignore[arg-type]
    gone = Selection(query=CaptureQuery(url="http://a.example.edu/1"))
    archive.remove(gone, RemovalOptions(reason="test"))
    for _ in range(2):
        answer = archive.query("stanford", QueryOptions(**facets))  # type: ignore[arg-type]
        assert answer.total == len(answer.hits) == 3
        assert "http://a.example.edu/1" not in [hit.url for hit in answer.hits]
        assert {each.value: each.count for each in answer.facets[0].values} == {"a.example.edu": 1, "b.example.com": 2}
        assert [each.count for each in answer.timeline] == [3]
        assert urls(archive, "linked-from:a.example.edu/1") == []
        assert len(archive.queries.records_matching("stanford")) == 3
        assert archive.sql("SELECT 1 FROM captures WHERE url = 'http://a.example.edu/1'").table().num_rows == 0
        assert archive.sql("SELECT 1 FROM links WHERE url = 'http://a.example.edu/1'").table().num_rows == 0
        assert archive.sql("SELECT count(*) AS n FROM pages").table()["n"].to_pylist() == [4]
        archive.index.update()


def test_records_that_are_not_indexed_are_counted(archive: Archive) -> None:
    archive.add([_page("http://c.example.com/5", "20210102030405")])
    answer = archive.query("quiet")
    assert (answer.total, answer.pending) == (1, 1)
    archive.index.update()
    answer = archive.query("quiet")
    assert (answer.total, answer.captures, answer.pending) == (1, 2, 0)
    assert archive.query("quiet", QueryOptions(latest=True)).total == 1
    (hit,) = archive.query("quiet", QueryOptions(latest=True)).hits
    assert hit.timestamp == "20210102030405"


def test_a_snapshot_is_answered_the_same_again(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.index.rank()
    newest = archive.index.ranks()
    assert newest is not None
    generation = newest.head.generation
    ends = dict(archive.index.state().batches)
    texts = ("stanford", "inlinks>0", "rank<=100", "-title:stanford", "linked-from:a.example.edu/2", "*")
    before = [archive.queries.records_matching(text, ends, generation).tolist() for text in texts]
    monkeypatch.setitem(
        PAGES, "http://a.example.edu/2", ("Stanford", "Now with a link.", ["http://c.example.com/5", "/1"])
    )
    archive.add([_page(url, "20230102030405") for url in PAGES])
    archive.index.update()
    archive.index.rank()
    again = [archive.queries.records_matching(text, ends, generation).tolist() for text in texts]
    assert again == before
    assert archive.queries.records_matching("linked-from:a.example.edu/2").tolist() != before[4]
    with pytest.raises(NotFound, match="no ranks of generation 99"):
        archive.queries.records_matching("rank>1", ends, 99)


def test_ranks_must_have_been_computed(archive: Archive) -> None:
    for text, options in (("rank>1", QueryOptions()), ("stanford", QueryOptions(sort="rank"))):
        with pytest.raises(IndexNotFound, match="holdfast index rank"):
            archive.query(text, options)
    assert archive.query("stanford").hits[0].rank == 0


def test_without_an_index_it_is_told_how_to_make_one(scratch: Path) -> None:
    with TemporaryDirectory(dir=scratch) as name:
        holdfast.init(Path(name) / "archive")
        with holdfast.open(Path(name) / "archive") as opened:
            for ask in (lambda: opened.query("a"), lambda: opened.sql("SELECT 1")):
                with pytest.raises(IndexNotFound, match="holdfast index update"):
                    ask()
            with pytest.raises(MalformedQuery):
                opened.query("a OR")
            opened.index.update()
            assert opened.query("*").total == 0
            assert opened.sql("SELECT * FROM captures, links, pages, contents").table().num_rows == 0


# -- words ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def library(scratch: Path) -> Iterator[Archive]:
    """Pages in several languages, with navigation around their text."""
    texts = {
        "http://en.example/library": ("en", "A library", "<nav>whales</nav><main>It lends books.</main>"),
        "http://en.example/libraries": (
            "en",
            "Elsewhere",
            "<main>Libraries lend whales.</main><footer>reading</footer>",
        ),
        "http://de.example/haus": ("de", "Das Haus", "<main>Ein Buch über Wale.</main>"),
        "http://de.example/haeuser": ("de", "Die Häuser", "<main>Bücher in vielen libraries.</main>"),
        "http://ja.example/": ("ja", "図書館", "<main>libraries 図書館</main>"),
    }
    with TemporaryDirectory(dir=scratch) as name:
        holdfast.init(Path(name) / "archive")
        with holdfast.open(Path(name) / "archive") as opened:
            for url, (lang, title, body) in texts.items():
                content = f"<html lang={lang}><meta charset=utf-8><title>{title}</title><body>{body}".encode()
                opened.add([page(url, content, timestamp="20200102030405")])
            opened.index.update()
            yield opened


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("library", ["en.example/libraries", "en.example/library"]),  # by its stem in English, not in German
        ("libraries", ["de.example/haeuser", "en.example/libraries", "en.example/library", "ja.example/"]),
        ('"library"', ["en.example/library"]),
        ("title:libraries", ["en.example/library"]),
        ('title:"libraries"', []),
        ("häuser", ["de.example/haeuser", "de.example/haus"]),
        ("haeuser", ["de.example/haeuser", "de.example/haus"]),
        ('"hauser"', ["de.example/haeuser"]),  # accents do not matter
        ("-libraries", ["de.example/haus"]),
        ("lend -library", []),
        ("libra*", ["de.example/haeuser", "en.example/libraries", "en.example/library", "ja.example/"]),
        ("title:libra*", ["en.example/library"]),
        ('"libra*"', []),
        ("in.viel*", ["de.example/haeuser"]),
        ("books.lend*", []),
        ("図書", ["ja.example/"]),
        ("read", ["en.example/libraries"]),  # in the footer
    ],
)
def test_words_match_stems_and_prefixes(library: Archive, text: str, expected: list[str]) -> None:
    """B12: plain words match stems of the document's language, quoted ones are exact, starred ones are prefixes."""
    assert urls(library, text) == [f"http://{each}" for each in expected]


def test_exact_matches_rank_higher(library: Archive) -> None:
    for text, first in (("libraries", "libraries"), ("library", "library"), ("whales", "libraries")):
        found = [hit.url for hit in library.query(text).hits if hit.url.startswith("http://en.")]
        assert found[0] == f"http://en.example/{first}"  # whales: in the main text rather than in the navigation


def test_snippets_mark_stems_and_prefixes(library: Archive) -> None:
    marked = {
        text: {hit.url: hit.snippet.marked("[", "]") for hit in library.query(text).hits if hit.snippet is not None}
        for text in ("library", '"libraries"', "libra*", "book")
    }
    url = "http://en.example/libraries"
    assert marked["library"][url] == "[Libraries] lend whales.\nreading".replace("\n", " ")
    assert marked['"libraries"'][url] == marked["libra*"][url] == marked["library"][url]
    assert "[books]" in marked["book"]["http://en.example/library"]


# -- order and parts ---------------------------------------------------------------------------------------------------


def test_parts_of_an_answer_make_the_whole(asked: Asked) -> None:
    by_record = {each.record: each for each in asked.documents}
    for sort in ("newest", "oldest", "rank", "relevance"):
        whole = [hit.record for hit in _hits(asked, sort, 0, 1000)]
        parts = [hit.record for start in range(0, 1000, 7) for hit in _hits(asked, sort, start, 7)]
        assert parts == whole
        assert len(set(whole)) == len(whole) > 50
        told = [by_record[record] for record in whole]
        if sort == "rank":
            assert told == sorted(told, key=lambda each: (each.rank, each.record), reverse=True)
        elif sort != "relevance":
            assert told == sorted(told, key=lambda each: (each.timestamp, each.record), reverse=sort == "newest")


def _hits(asked: Asked, sort: str, offset: int, limit: int) -> tuple[Hit, ...]:
    options = QueryOptions(sort=sort, offset=offset, limit=limit, snippets=False)
    return asked.archive.query("stanford OR library", options).hits


def test_a_title_weighs_more_than_the_text(archive: Archive) -> None:
    hits = archive.query("stanford").hits
    assert hits[-1].url == "http://b.example.com/3"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[-1].score > 0


def test_a_hit_is_what_was_captured(asked: Asked) -> None:
    by_record = {each.record: each for each in asked.documents}
    for hit in asked.archive.query("*", QueryOptions(limit=1000, snippets=False)).hits:
        document = by_record[hit.record]
        assert (hit.url, hit.timestamp, hit.mime) == (document.url, document.timestamp, document.mime)
        assert (hit.status, hit.lang, hit.size) == (document.status, document.lang, document.size)
        assert (hit.title, hit.collection) == (document.raw_title, document.collection)
        assert (hit.rank, hit.inlinks) == (document.rank, document.inlinks)


def test_the_default_order_depends_on_words(archive: Archive) -> None:
    assert archive.query("stanford").sort == "relevance"
    assert archive.query("-stanford site:c.example.com").sort == "newest"


def test_of_one_collection(asked: Asked) -> None:
    answer = asked.archive.query("stanford", QueryOptions(collection="other", limit=1000, snippets=False))
    assert {hit.collection for hit in answer.hits} == {"other"}
    assert answer.query == "stanford"
    assert answer.total == asked.archive.query("stanford collection:other").total


def test_the_term_of_a_facet_leaves_as_many_as_it_counts(asked: Asked) -> None:
    facets = ("site", "type", "lang", "status", "year", "collection")
    answer = asked.archive.query("stanford", QueryOptions(limit=0, facets=facets, facet_values=3))
    assert answer.hits == ()
    for facet in answer.facets:
        assert 0 < len(facet.values) <= 3
        for each in facet.values:
            assert asked.archive.query(f"stanford {each.term}", QueryOptions(limit=0)).captures == each.count


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"sort": "relevanc"}, "unknown sort 'relevanc'; did you mean 'relevance'?"),
        ({"facets": ("host",)}, "unknown facet 'host'"),
        ({"limit": -1}, "bad limit -1: give 0 to 10000"),
        ({"offset": 10**7}, "bad offset"),
        ({"collection": "A B"}, "bad name"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], error: str) -> None:
    with pytest.raises((UnknownName, MalformedQuery, UsageError), match=error.replace("?", r"\?")):
        QueryOptions(**options)  # type: ignore[arg-type]


# -- snippets ----------------------------------------------------------------------------------------------------------


def test_a_snippet_shows_the_words(archive: Archive) -> None:
    (hit,) = archive.query('"digital library"').hits
    assert hit.snippet is not None
    assert hit.snippet.marked("[", "]") == "Nothing to see here, but a [digital] [library]"  # up to the last word
    (hit,) = archive.query("title:quiet").hits
    assert hit.snippet == Snippet("Nothing to see here, but a digital library.")
    assert archive.query("quiet", QueryOptions(snippets=False)).hits[0].snippet is None


def test_a_snippet_is_cut_around_the_words(asked: Asked) -> None:
    maker = Snippets(asked.archive.index.view().searcher, parse("stanford 漢字 -library"))
    far = "word " * 500 + "\n\n  at <b> STANFORD\tby 漢字学 the library " + "word " * 500
    snippet = maker.cut(far)
    assert "at <b> [STANFORD] by [漢字]学 the library" in snippet.marked("[", "]")
    assert len(snippet.text) < 300
    assert "\u200b" not in snippet.text
    assert maker.cut("Nothing of it. " * 100).text.startswith("Nothing of it. Nothing")
    assert maker.cut("").text == ""


def test_snippets_behind_the_limit_of_bytes_are_left_out(asked: Asked) -> None:
    records = [each.record for each in asked.documents if each.mime == "text/html"][:3]
    size = asked.archive.records.read(records[0]).entry.size
    maker = Snippets(asked.archive.index.view().searcher, parse("*"), bytes_max=size)
    first, *others = maker.of(asked.archive.records, records)
    assert first is not None
    assert others == [None, None]


def test_no_snippet_is_lost_to_a_slow_machine(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long each of them takes."""
    now = iter(range(0, 10**9, 3600))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    hits = asked.archive.query("type:html", QueryOptions(limit=20)).hits
    assert len(hits) == 20
    assert all(hit.snippet is not None for hit in hits)


def test_numbers_come_ascending(asked: Asked) -> None:
    numbers = asked.archive.queries.records_matching("stanford")
    assert numbers.dtype == np.uint64
    assert (np.diff(numbers.astype(np.int64)) > 0).all()


@pytest.mark.parametrize("most", [1, 7, 30])
def test_matches_that_come_in_ranges_are_those_that_come_at_once(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    texts = ("stanford", "type:html", "*", "stanford OR library", "nothing-like-this")
    before = [asked.archive.queries.records_matching(text) for text in texts]
    assert len(before[2]) > 4 * most
    longest: list[int] = []
    original = QuerySnapshot.gather

    def gather(self: QuerySnapshot, query: tantivy.Query) -> MatchSet:
        found = original(self, query)
        longest.append(len(found.records))
        return found

    monkeypatch.setattr(QuerySnapshot, "gather", gather)
    monkeypatch.setattr("holdfast.query.snapshot.HITS_MAX", most)
    again = [asked.archive.queries.records_matching(text) for text in texts]
    assert [each.tolist() for each in again] == [each.tolist() for each in before]
    assert max(longest) <= most
