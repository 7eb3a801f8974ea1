"""The same answers from any node (H8, N12): of clusters of 1, 2 and 4 nodes, asked at each, also with one down.

Everything is compared with an archive on one machine that has the same records. Real node processes, NATS servers and
web workers.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from zipfile import ZipFile

import pytest
from answer_world import DOMAINS, WORDS, exchanges, one_archive, write_files
from node_cluster import wait_until
from running_nodes import RunningNode, end_cluster, holdfast, start_cluster

from holdfast.archive.archive import Archive
from holdfast.archive.export import ExportOptions
from holdfast.catalog import CaptureQuery, Row
from holdfast.cluster.answers.routes import ClusterRouter
from holdfast.cluster.answers.whole_archive import WholeArchive
from holdfast.query.results import QueryOptions, QueryResult
from holdfast.query.sql.result import SqlResult
from holdfast.records.selection import Selection
from holdfast.streams.options import StreamOptions
from holdfast.streams.page import Page
from holdfast.urls import url_key
from holdfast.web.ui.display import path_to

SIZES = {1: 1, 2: 2, 4: 2}  # nodes, and copies


class World:
    """A cluster, and an archive with the same records."""

    def __init__(self, nodes: list[RunningNode], one: Path) -> None:
        self.nodes = nodes
        self.one = Archive(one, read_only=True)
        self.down: list[RunningNode] = []
        self.opened: dict[str, WholeArchive] = {}

    @property
    def up(self) -> list[RunningNode]:
        return [node for node in self.nodes if node not in self.down]


@pytest.fixture(scope="module", params=SIZES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Files are imported at all nodes in turn, the first at two of them."""
    directory = tmp_path_factory.mktemp("answers")
    files = write_files(directory, 3)
    nodes = start_cluster(directory, request.param, SIZES[request.param], indexes=request.param == 2)
    made = World(nodes, one_archive(directory, files))
    try:
        for number, file in enumerate(files):
            holdfast("import", "-a", nodes[number % len(nodes)].path, file)
        holdfast("import", "-a", nodes[-1].path, files[0])
        wait_until(lambda: _holds_all(made), "all captures on their holders")
        for node in nodes if len(nodes) != 2 else ():  # the two nodes do it by themselves
            holdfast("index", "update", "-a", node.path)
        wait_until(lambda: all(_is_indexed(node) for node in nodes), "all is indexed")
        yield made
    finally:
        for each in made.opened.values():
            each.close()
        end_cluster(nodes)
        made.one.close()


def _holds_all(world: World) -> bool:
    """Whether each capture is on as many nodes as it should; those where it was imported may have it, too."""
    counts: Counter[tuple[str, str]] = Counter()
    for node in world.nodes:
        with Archive(node.path, read_only=True) as archive:
            counts.update({(row.capture.url, row.capture.timestamp) for row in archive.search(CaptureQuery(url="*"))})
    enough = min(SIZES[len(world.nodes)], len(world.nodes))
    return (
        len(counts) == len(exchanges())
        and min(counts.values()) >= enough
        and world.nodes[0].is_settled(len(world.nodes))
    )


def _is_indexed(node: RunningNode) -> bool:
    with Archive(node.path, read_only=True) as archive:
        return archive.index.exists and not archive.index.pending()


def opened(world: World, node: RunningNode) -> WholeArchive:
    """Kept open while the tests run."""
    if node.path.name not in world.opened:
        world.opened[node.path.name] = whole(node)
    return world.opened[node.path.name]


def whole(node: RunningNode) -> WholeArchive:
    return ClusterRouter(node.path).open_whole()


# -- CDX ---------------------------------------------------------------------------------------------------------------

QUERIES: list[dict[str, Any]] = [
    {"url": "*"},
    {"url": "*.com"},
    {"url": "*.site3.com"},
    {"url": "*.co.uk"},
    {"url": "site1.example/*"},
    {"url": "site1.example/page", "match": "prefix"},
    {"url": "site2.co.uk", "match": "host"},
    {"url": "http://site0.com/"},
    {"url": "site2.com", "to_url": "site5.com"},
    {"url": "*", "from_": "2012", "to": "2014"},
    {"url": "*", "filters": ("=status:404",)},
    {"url": "*", "filters": ("!mime:html", "~url:.*/page.*")},
    {"url": "*", "collapse": ("urlkey",)},
    {"url": "*", "collapse": ("timestamp:4",), "skip_count": True},
    {"url": "*.com", "collapse": ("digest",), "dupe_count": True},
    {"url": "*", "sort": "reverse"},
    {"url": "*", "sort": "reverse", "collapse": ("urlkey",), "limit": 10},
    {"url": "*", "sort": "reverse", "dupe_count": True, "limit": 30, "offset": 3},
    {"url": "*.site3.com", "sort": "closest", "closest": "2013", "limit": 5},
    {"url": "http://site0.com/page", "sort": "closest", "closest": "201307"},
    {"url": "*", "limit": 7, "offset": 5},
    {"url": "*", "limit": -9},
    {"url": "*", "resolve_revisits": True, "limit": 40},
    {"url": "*.missing.example"},
]


def plain(rows: Iterator[Row]) -> list[Any]:
    """Without what names a place on one machine."""
    return [row._replace(capture=bare(row.capture), original=None) for row in rows]


def bare(capture: Any) -> Any:
    return capture._replace(record=None, contents="-", filename="-", offset=0, length=0)


def check_cdx(world: World) -> None:
    for node in world.up:
        with whole(node) as archive:
            for values in QUERIES:
                query = CaptureQuery(**values)
                found = archive.search(query)
                assert plain(found) == plain(world.one.search(query)), (node.path.name, values)
                assert found.coverage is not None
                assert found.coverage.missing == 0


def check_resume_keys(world: World) -> None:
    """Each part is asked of another node."""
    for sort in ("default", "reverse"):
        parts: list[Any] = []
        key = ""
        for turn in range(1000):
            with whole(world.up[turn % len(world.up)]) as archive:
                found = archive.search(CaptureQuery(url="*.com", limit=17, sort=sort, resume_key=key))
                parts += plain(found)
                key = found.resume_key or ""
            if not key:
                break
        assert parts == plain(world.one.search(CaptureQuery(url="*.com", sort=sort)))


def check_http(world: World) -> None:
    """The CDX server and TimeMaps of each node."""
    names = "urlkey,timestamp,url,status,digest"
    for node in world.up:
        for url in ("*", "*.site3.com", "site1.example/*", "http://site0.com/"):
            status, headers, body = node.exchange(f"/main/cdx?{urlencode({'url': url, 'fl': names, 'output': 'json'})}")
            assert status == 200
            assert "holdfast-partial" not in headers
            rows = world.one.search(CaptureQuery(url=url))
            expected = [{name: str(getattr(row.capture, name)) for name in names.split(",")} for row in rows]
            assert [json.loads(line) for line in body.splitlines()] == expected
        for url in (f"http://{DOMAINS[0]}/page", f"http://a.b.{DOMAINS[4]}/"):
            body = node.get(f"/main/timemap/link/{url}")[1].decode()
            times = [row.capture.timestamp for row in world.one.search(CaptureQuery(url=url))]
            assert [time for time in times if f"/main/{time}/" in body] == times


def check_pages(world: World) -> None:
    """All pages together are the whole result."""
    query = CaptureQuery(url="*", page_size=1)
    with whole(world.up[0]) as archive:
        count = archive.num_pages(query)
        parts = [
            row
            for number in range(count)
            for row in plain(archive.search(CaptureQuery(url="*", page_size=1, page=number)))
        ]
    assert count >= 1
    assert parts == plain(world.one.search(CaptureQuery(url="*")))


def check_command(world: World) -> None:
    for node in world.up:
        lines = holdfast("cdx", "-a", node.path, "*.com", "--fl", "urlkey,timestamp,digest", "--output", "text")
        expected = holdfast("cdx", "-a", world.one.path, "*.com", "--fl", "urlkey,timestamp,digest", "--output", "text")
        assert lines == expected


# -- search ------------------------------------------------------------------------------------------------------------


def texts() -> list[str]:
    """Words, phrases, fields, prefixes, negations, metadata and links, drawn from the words of the pages."""
    chance = random.Random(11)
    some: list[str] = ["", "collection:main", "lang:en", f"linked-from:http://{DOMAINS[1]}/page", "-type:html"]
    for _ in range(195):
        a, b, c = chance.sample(WORDS, 3)
        site = chance.choice(DOMAINS)
        forms = [a, f"{a} {b}", f"{a} OR {b}", f'"{a} {b}"', f"title:{a}", f"{a} -{b}", f"{a[:3]}*", f"{a} type:html"]
        forms += [f"{a} status:404", f"site:{site}", f"{a} domain:{site}", f"{a} from:2012 to:2014", f"{a} {b} {c}"]
        forms += [f"links-to:http://{site}/page", f'title:{a} OR "{b} {c}"', f"url:http://{site}/page", f"{a} lang:en"]
        some.append(chance.choice(forms))
    return some


FACETS = ("site", "type", "lang", "status", "year", "collection")


def check_search_by_text(world: World) -> None:
    """Pages with nearly the same text are one hit, whichever nodes have them; some bodies are the same everywhere."""
    for turn, text in enumerate(("", "same", "stanford OR same", "type:html -rank", "title:web")):
        for sort in ("", "newest", "oldest"):
            for offset, limit in ((0, 500), (3, 10)):
                options = QueryOptions(group="text", sort=sort, offset=offset, limit=limit, snippets=False)
                expected = world.one.query(text, options)
                found = opened(world, world.up[turn % len(world.up)]).query(text, options)
                about = (text, options)
                assert found.captures == expected.captures, about
                if found.sort == "relevance" and len(world.nodes) == 4:
                    continue  # scores differ a little, so another capture of a page may be its first
                assert (found.total, len(found.hits)) == (expected.total, len(expected.hits)), about
                if found.sort != "relevance":
                    assert [hit.timestamp for hit in found.hits] == [hit.timestamp for hit in expected.hits], about
                if not offset and limit > found.total:
                    sizes = [sorted((hit.captures, hit.pages) for hit in each.hits) for each in (found, expected)]
                    assert sizes[0] == sizes[1], about
                    assert text not in ("", "same") or max(pages for _, pages in sizes[0]) > 1, about


def check_search(world: World) -> None:
    """Totals, facets, timelines and pages are equal; so is the order, but for hits of equal score or date."""
    for turn, text in enumerate(texts()):
        node = world.up[turn % len(world.up)]
        options = QueryOptions(
            limit=20,
            offset=(0, 0, 15)[turn % 3],
            sort=("", "newest", "oldest")[turn // 2 % 3],
            latest=turn % 5 == 0,
            facets=FACETS,
            timeline=True,
            snippets=turn % 10 == 0,
        )
        expected = world.one.query(text, options)
        found = opened(world, node).query(text, options)
        about = (node.path.name, text, options)
        assert found.coverage is not None
        assert found.coverage.missing == 0, about
        assert (found.query, found.total, found.sort) == (expected.query, expected.total, expected.sort), about
        assert found.facets == expected.facets, about
        assert found.timeline == expected.timeline, about
        assert len(found.hits) == len(expected.hits), about
        if found.sort == "relevance":
            # Nodes that imported a record and do not hold it keep it for a while: the mean length counts it twice.
            close = 1e-5 if len(world.nodes) < 4 else 0.02 if not world.down else 0.05
            assert [hit.score for hit in found.hits] == pytest.approx(
                [hit.score for hit in expected.hits], rel=close
            ), about
            check_order(found, expected, close)
        else:
            assert [hit.timestamp for hit in found.hits] == [hit.timestamp for hit in expected.hits], about


def check_order(found: QueryResult, expected: QueryResult, close: float) -> None:
    """Hits are in the same places, unless others have as good as the same score."""
    scores = {(hit.url, hit.timestamp): hit.score for hit in expected.hits}
    last = expected.hits[-1].score if expected.hits else 0.0
    for mine, other in zip(found.hits, expected.hits, strict=True):
        known = scores.get((mine.url, mine.timestamp), last)
        assert known == pytest.approx(other.score, rel=2 * close)
        assert mine.snippet == other.snippet or (mine.url, mine.timestamp) != (other.url, other.timestamp)


def check_search_http(world: World) -> None:
    for node in world.up:
        status, headers, body = node.exchange("/api/search?q=stanford+library&limit=5&facet=site")
        assert status == 200
        assert "holdfast-partial" not in headers
        found = json.loads(body)
        expected = world.one.query("stanford library", QueryOptions(limit=5))
        assert found["total"] == expected.total
        assert node.get("/search?q=stanford")[0] == 200
        lines = holdfast("search", "-a", node.path, "stanford", "--json", "--limit", "3").splitlines()
        assert json.loads(lines[-1])["total"] == world.one.query("stanford").total


def check_get(world: World) -> None:
    url = f"http://{DOMAINS[5]}/page"
    expected = world.one.get(url, "2013")
    for node in world.up:
        printed = json.loads(holdfast("get", "-a", node.path, url, "--at", "2013", "--json"))
        assert (printed["url"], printed["timestamp"]) == (url, expected.capture.timestamp)
        file = node.path.with_suffix(".payload")
        for name in (printed["record"], f"page-id:{printed['page_id']}", url):
            holdfast("get", "-a", node.path, name, "--at", "2013", "-o", file)
            assert file.read_bytes() == expected.payload()
        assert "no capture" in holdfast("get", "-a", node.path, "http://missing.example/", code=3)


def check_downloads(world: World) -> None:
    """One record by its id, one site as WARC, comparison and nearest capture, at any node."""
    url = f"http://{DOMAINS[2]}/page/one"
    for node in world.up:
        first = json.loads(node.get(f"/api/captures?url={quote(url, safe='')}")[1])["captures"][0]
        expected = world.one.get(url, first["timestamp"])
        for other in world.up:
            detail = json.loads(other.get(f"/api/captures/{first['record']}")[1])
            assert (detail["url"], detail["timestamp"]) == (url, first["timestamp"])
            assert other.get(f"/api/captures/{first['record']}/payload")[1] == expected.payload()
            assert expected.payload() in other.get(f"/main/record/{first['record']}")[1]
            nearest = json.loads(other.get(f"/api/nearest?url={quote(url, safe='')}&timestamp=2011")[1])
            assert nearest["timestamp"] == world.one.get(url, "2011").capture.timestamp
            page_id = first["page_id"]
            assert json.loads(other.get(f"/api/pages/{page_id}")[1])["url"] == url
            times = [row.capture.timestamp for row in world.one.search(CaptureQuery(url=url))]
            compared = other.get(f"/api/compare?url={quote(url, safe='')}&a={times[0]}&b={times[-1]}")
            assert compared[0] == 200
        warc = gzip.decompress(node.get(f"/main/warc?url={DOMAINS[2]}&matchType=domain")[1])
        captures = list(world.one.search(CaptureQuery(url=DOMAINS[2], match="domain")))
        assert warc.count(b"WARC-Type: response") == len(captures)
        assert node.get("/main/warc?url=*.com")[0] == 400


# -- lists of hosts and addresses --------------------------------------------------------------------------------------


def check_outline(world: World) -> None:
    """Hosts, what is below them, and types: each part asked of another node, or all at once."""
    one = world.one.outline()
    turns = itertools.cycle(world.up)
    for containing in ("", "site1", "nothing"):
        hosts: list[Any] = []
        after, is_last = "", False
        while not is_last:
            part = opened(world, next(turns)).outline().hosts(None, after=after, limit=7, containing=containing)
            hosts += part.entries
            after, is_last = part.next, not part.next
        expected = one.hosts(None, containing=containing, limit=1000).entries
        assert [*map(unnamed, hosts)] == [*map(unnamed, expected)], containing
    for host in ("site0.example", "www.site1.com", "a.b.site2.co.uk", "site3.com", "missing.example"):
        outline = opened(world, next(turns)).outline()
        for path in ("/", "/page/", "/deep/", "/deep/er/"):
            children: list[Any] = []
            after, is_last = "", False
            while not is_last:
                level = outline.children("main", host, path, limit=2, after=after)
                children += level.entries
                after, is_last = level.next, not level.next
            expected_level = one.children("main", host, path).entries
            assert [*map(unnamed, children)] == [*map(unnamed, expected_level)], (host, path)
        assert outline.types(None, host) == one.types(None, host)
        typed, expected_typed = (each.of_type(None, host, "/", "text/html").entries for each in (outline, one))
        assert [*map(bare, typed)] == [*map(bare, expected_typed)]
        assert outline.coverage is not None and not outline.coverage.missing


def unnamed(entry: Any) -> Any:
    return replace(entry, capture=bare(entry.capture))


def check_explorer(world: World) -> None:
    """The pages that list hosts and addresses."""
    hosts = [entry.host for entry in world.one.outline().hosts(None).entries]
    for node in world.up:
        status, headers, page = node.exchange("/explore")
        assert status == 200 and "holdfast-partial" not in headers
        assert all(f">{host}</a>" in page.decode() for host in hosts)
        below = node.get(f"/explore?host={DOMAINS[3]}")[1].decode()
        assert f"/all/*/http://{DOMAINS[3]}/page" in below
        assert node.get("/explore?host=missing.example")[0] == 404
        for pattern in ("*.com", "*.co.uk", f"{DOMAINS[4]}/*", f"http://{DOMAINS[5]}/pa*"):
            firsts = world.one.search(CaptureQuery(url=pattern, collapse=("urlkey",)))
            where = f"/search?{urlencode({'q': pattern})}" if "/" in pattern else f"/all/*/{pattern}"
            listed = unescape(node.get(where)[1].decode())
            missing = [url for row in firsts if path_to("all", "*", url := row.capture.url) not in listed]
            assert not missing, pattern
        assert "site6.co.uk" in node.get("/search?q=site6&as=addresses")[1].decode()


# -- export and diff ---------------------------------------------------------------------------------------------------

EXPORTS: list[tuple[str, Selection]] = [
    ("warc", Selection()),
    ("warc", Selection(CaptureQuery(url="*.com", from_="2012", filters=("=status:200",)))),
    ("warc", Selection(CaptureQuery(url="*", limit=-30), collection="main")),
    ("wacz", Selection(CaptureQuery(url="*.site1.com"))),
    ("tianwang", Selection()),
    ("wet", Selection(CaptureQuery(url="*", filters=("mime:html",)))),
    ("cdxj", Selection()),
    ("cdx", Selection(CaptureQuery(url="*.co.uk"))),
    ("zipnum", Selection()),
    ("parquet", Selection(CaptureQuery(url="*", to="2012"))),
]


def exported(archive: Archive | WholeArchive, form: str, selection: Selection) -> list[Any]:
    """What an export writes, in parts that can be compared: order `log` is that of each node's batches."""
    with TemporaryDirectory() as scratch:
        target = Path(scratch) / f"export.{'idx' if form == 'zipnum' else form}"
        report = archive.export(selection, target, ExportOptions(form))
        assert not report.missing
        if form == "parquet":
            import pyarrow.parquet

            table = pyarrow.parquet.read_table(target)
            places = [name for name in table.column_names if name in ("record", "contentkey", "warc_segment")]
            return table.drop_columns(places).to_pylist()
        if form == "wacz":
            with ZipFile(target) as archived:
                warc = gzip.decompress(archived.read("archive/data.warc.gz"))
                pages = archived.read("pages/pages.jsonl").count(b"http://")
            return [*_warc_records(warc), pages, report.records]
        if form == "zipnum":
            return [gzip.decompress(target.with_suffix(".cdx.gz").read_bytes())]
        data = target.read_bytes()
        parts = {"warc": _warc_records, "wet": _wet_records, "tianwang": _tianwang_records}
        return [*parts.get(form, bytes.splitlines)(data), report.records]


def _warc_records(data: bytes) -> list[bytes]:
    """Without the first, which is about the file."""
    _, *records = data.split(b"\r\n\r\nWARC/1.")
    return sorted(each.rstrip() for each in records)


def _wet_records(data: bytes) -> list[bytes]:
    """Without their ids, which are new."""
    return _warc_records(b"\r\n\r\n" + re.sub(rb"WARC-Record-ID: [^\r]*", b"", data))


def _tianwang_records(data: bytes) -> list[bytes]:
    return sorted(data.split(b"version: 1.0\n"))


def check_export(world: World) -> None:
    """Everything is exported once, whatever the format, and in the order of the catalog where there is one."""
    for turn, (form, selection) in enumerate(EXPORTS):
        node = world.up[turn % len(world.up)]
        found = exported(opened(world, node), form, selection)
        assert found == exported(world.one, form, selection), (node.path.name, form, selection)


def check_export_of_batch(world: World) -> None:
    """Batches are those of the nodes that recorded; what several have recorded is in the batches of each."""
    archive = opened(world, world.up[0])
    with archive.stream(StreamOptions(fields=("url",))) as stream:
        batches = list(stream.state.snapshot.ends)
    everything: set[bytes] = set()
    for batch in batches:
        with archive.stream(StreamOptions(batch=batch, fields=("url",))) as stream:
            wanted = sorted((page.url, page.timestamp) for page in stream)
        rows = exported(archive, "cdxj", Selection(batch=batch))
        assert rows[-1] == len(wanted)
        for selection in (Selection(batch=batch), Selection(CaptureQuery(url="*"), batch=batch)):
            records = [each for each in exported(archive, "warc", selection)[:-1] if b"WARC-Type: response" in each]
            assert len(records) == len(wanted) == len(set(records))
            everything.update(records)
    assert len(everything) == len(exchanges())


def check_export_command(world: World) -> None:
    node = world.up[-1]
    file = node.path.with_suffix(".warc")
    printed = json.loads(holdfast("export", "-a", node.path, "*.com", "-o", file, "--json"))
    assert "partial" not in printed
    selection = Selection(CaptureQuery(url="*.com"))
    assert _warc_records(file.read_bytes()) == exported(world.one, "warc", selection)[:-1]
    file.unlink()
    assert "no batch" in holdfast("export", "-a", node.path, "--batch", "missing", "-o", file, code=3)
    assert not file.exists()


def check_diff(world: World) -> None:
    url = f"http://{DOMAINS[2]}/page/one"
    times = [row.capture.timestamp for row in world.one.search(CaptureQuery(url=url))]
    options = (url, times[0], times[-1], "--json")
    expected = json.loads(holdfast("diff", "-a", world.one.path, *options))
    for node in world.up:
        found = json.loads(holdfast("diff", "-a", node.path, *options))
        for side in ("a", "b"):
            assert world.one.get(url, found[side]["timestamp"]).capture.url == url
            found[side].pop("record"), expected[side].pop("record", None)
        assert found == expected
    missing = holdfast("diff", "-a", world.up[0].path, "http://missing.example/", "2011", "2012", code=3)
    assert "no capture" in missing


# -- streams -----------------------------------------------------------------------------------------------------------

ORDERS: list[dict[str, Any]] = [
    {"order": "log"},
    {"order": "url"},
    {"order": "date"},
    {"order": "date", "reverse": True},
    {"order": "modified"},
    {"order": "url", "which": "latest"},
    {"order": "log", "which": "latest"},
    {"order": "date", "at": "2013"},
    {"order": "url", "query": "stanford OR type:json"},
    {"order": "log", "captures": CaptureQuery(url="*.com", from_="2012", filters=("=status:200",))},
]


def page_of(page: Page) -> tuple[Any, ...]:
    return page.url, page.timestamp, page.status, page.digest, bytes(page.payload), page.title, page.headers.items()


def sorted_as(order: dict[str, Any], pages: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Order `log` is that of the batches of each node; captures of one second are in the order of their records."""
    if order["order"] in ("log", "modified"):
        return sorted(pages)
    key = (lambda page: page[1]) if order["order"] == "date" else (lambda page: (url_key(page[0]), page[1]))
    assert [key(page) for page in pages] == sorted(map(key, pages), reverse=order.get("reverse", False))
    return sorted(pages)


def check_streams(world: World) -> None:
    """Every order, in parts of which each is asked of the next node, with the token of the last."""
    for values in ORDERS:
        with world.one.stream(StreamOptions(**values)) as stream:
            expected = sorted_as(values, [page_of(page) for page in stream])
        found: list[tuple[Any, ...]] = []
        records: list[str] = []
        token = ""
        for turn in range(1000):
            archive = opened(world, world.up[turn % len(world.up)])
            with archive.stream(StreamOptions(**values, token=token, batch_size=19)) as stream:
                pages = [page for batch in stream.batches(97) for page in batch]
                assert not stream.faults
                token = stream.token
            found += [page_of(page) for page in pages]
            records += [str(page.record) for page in pages]
            if not pages:
                break
        assert len(records) == len(set(records)), values
        twice = [each for each, count in Counter(page[:2] for page in found).items() if count > 1]
        named = zip(records, found, strict=True)
        assert not twice, (values, [(record, page[:2]) for record, page in named if page[:2] in twice][:8])
        assert not (Counter(map(str, found)) - Counter(map(str, expected))), values
        assert not (Counter(map(str, expected)) - Counter(map(str, found))), values
        sorted_as(values, found)


def check_headers_on_demand(world: World) -> None:
    """A stream of payloads brings no records of its pages: they are fetched where they are asked for."""
    options = StreamOptions(order="url", fields=("url", "payload"))

    def facts(page: Page) -> str:
        return f"{page.url} {page.timestamp} {list(page.headers)} {page.content!r}"

    with world.one.stream(options) as stream:
        expected = {facts(page) for page in stream}
    for node in world.up:
        with opened(world, node).stream(options) as stream:
            assert {facts(page) for page in itertools.islice(stream, 25)} <= expected


def check_stream_command(world: World) -> None:
    for node in world.up[:2]:
        lines = holdfast("stream", "-a", node.path, "--order", "url", "--fields", "url,timestamp").splitlines()
        expected = holdfast("stream", "-a", world.one.path, "--order", "url", "--fields", "url,timestamp").splitlines()
        assert lines == expected
        file = node.path.with_suffix(".warc.gz")
        holdfast("stream", "-a", node.path, "-o", file)
        assert gzip.decompress(file.read_bytes()).count(b"WARC-Type: response") == len(exchanges())
        file.unlink()


def check_stream_http(world: World) -> None:
    """In parts, each from the next node with the token of the last."""
    urls: list[str] = []
    token = ""
    for turn in range(1000):
        node = world.up[turn % len(world.up)]
        target = f"/main/stream?{urlencode({'order': 'url', 'fields': 'url', 'limit': 150, 'token': token})}"
        status, headers, body = node.exchange(target)
        assert status == 200, body
        token = headers["holdfast-token"]
        urls += [json.loads(line)["url"] for line in body.splitlines()]
        if headers["holdfast-complete"] == "true":
            break
    with world.one.stream(StreamOptions(order="url", fields=("url",))) as stream:
        assert urls == [page.url for page in stream]


# -- SQL ---------------------------------------------------------------------------------------------------------------

COLUMNS = "url, urlkey, timestamp, status, mime, type, size, digest, collection, host, domain, title, language, date"


def statements() -> list[str]:
    """Scans, filters, groups, joins of captures and links, and the newest captures."""
    made = [f"select {COLUMNS} from captures", f"select {COLUMNS} from pages", "select count(*) n from links"]
    made += [f"select {name}, count(*) n from captures group by 1" for name in ("host", "domain", "mime", "status")]
    made += [f"select {name}, count(*) n, max(timestamp) t from pages group by 1" for name in ("host", "mime", "title")]
    made += [f"select {COLUMNS} from captures where domain = '{domain}'" for domain in DOMAINS[:20]]
    made += [f"select count(distinct {name}) n from captures" for name in ("url", "digest", "page", "record", "number")]
    made += [f"select url, title from captures where title like '%{word}%'" for word in WORDS]
    made += [
        "select l.target, count(*) n from links l group by 1",
        "select c.host, l.target, count(*) n from links l join captures c on c.number = l.number group by 1, 2",
        "select c.url, l.anchor from links l join captures c using (batch, serial)",
        "select a.url, b.url u from pages a join pages b on a.digest = b.digest and a.url < b.url",
        "select count(*) n from captures where original is not null",
    ]
    return made


def rows_of(result: SqlResult) -> list[str]:
    with result:
        return sorted(json.dumps(row, default=str, sort_keys=True) for row in result)


def check_sql(world: World) -> None:
    wanted = statements()
    assert len(wanted) >= 50
    for turn, statement in enumerate(wanted[:: 7 if world.down else 1]):
        node = world.up[turn % len(world.up)]
        assert rows_of(opened(world, node).sql(statement)) == rows_of(world.one.sql(statement)), statement
    printed = holdfast("sql", "-a", world.up[0].path, "select count(*) n from captures", "--csv")
    assert printed.split() == ["n", str(len(exchanges()))]
    assert "contents" in holdfast("sql", "-a", world.up[0].path, "select * from contents", code=2)


CHECKS = [
    check_sql,
    check_stream_http,
    check_streams,
    check_headers_on_demand,
    check_stream_command,
    check_get,
    check_downloads,
    check_outline,
    check_explorer,
    check_export,
    check_export_of_batch,
    check_export_command,
    check_diff,
    check_search,
    check_search_by_text,
    check_search_http,
    check_cdx,
    check_resume_keys,
    check_http,
    check_pages,
    check_command,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_all_nodes_up(world: World, check: Any) -> None:
    check(world)


def test_one_node_down(world: World) -> None:
    """With two copies, nothing is missing."""
    if len(world.nodes) == 1:
        pytest.skip("there is no other node")
    last = world.nodes[-1]
    last.kill()
    world.down.append(last)
    check_cdx(world)  # at once: nodes still take it for alive
    for check in CHECKS:
        check(world)


def test_too_many_nodes_down(world: World) -> None:
    """Partial answers say so: header, exit code; one URL is 503, never 404."""
    if len(world.nodes) != 4:
        pytest.skip("for four nodes")
    for each in world.nodes[-2:]:
        if each not in world.down:
            each.kill()
            world.down.append(each)
    node = world.nodes[0]
    wait_until(lambda: [row["state"] for row in node.table()["nodes"]].count("down") == 2, "two nodes are down")
    wait_until(lambda: "holdfast-partial" in node.exchange("/main/cdx?url=*")[1], "a partial answer")
    missing, _, partitions = node.exchange("/main/cdx?url=*")[1]["holdfast-partial"].partition("/")
    assert partitions == "32"
    assert 0 < int(missing) < 32
    assert f"{missing} of 32 partitions" in holdfast("cdx", "-a", node.path, "*", code=14)
    found = {row.capture.url for row in world.one.search(CaptureQuery(url="*"))}
    statuses = {node.get(f"/main/20130101000000id_/{url}")[0] for url in found}
    assert 503 in statuses
    assert statuses <= {200, 302, 503, 404}
    status, headers, page = node.exchange("/explore")
    assert (status, headers["holdfast-partial"]) == (200, f"{missing}/{partitions}")
    assert "This is not all" in page.decode()
    hosts = {urlsplit(url).hostname for url in found}
    assert {node.get(f"/explore?host={host}")[0] for host in hosts} == {200, 503}
    check_partial_export(world, node, f"{missing}/{partitions}")


def check_partial_export(world: World, node: RunningNode, partial: str) -> None:
    """What the nodes that are left have, each once. The files are there; the exit code is that of a partial answer."""
    rows = list(opened(world, node).search(CaptureQuery(url="*")))
    assert 0 < len(rows) < len(exchanges())
    for name in ("part.cdxj", "part.warc"):
        file = node.path.with_name(name)
        assert f"{partial.replace('/', ' of ')} partitions" in holdfast("export", "-a", node.path, "-o", file, code=14)
        found = _warc_records(file.read_bytes()) if name == "part.warc" else file.read_bytes().splitlines()
        responses = [each for each in found if name == "part.cdxj" or b"WARC-Type: response" in each]
        assert len(responses) == len(set(responses)) == len(rows)
    report = opened(world, node).export(Selection(), node.path.with_name("part.wet"), ExportOptions("wet"))
    assert str(report.coverage) == partial
    gone = next(url for url in _urls(world) if node.get(f"/main/20130101000000id_/{url}")[0] == 503)
    holdfast("diff", "-a", node.path, gone, "2011", "2012", code=13)


def _urls(world: World) -> list[str]:
    return [row.capture.url for row in world.one.search(CaptureQuery(url="*", collapse=("urlkey",)))]
