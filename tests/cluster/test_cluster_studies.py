"""Studies at any node of a cluster: as of one archive with the same records; with nodes down; partial (I6 to I8)."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow.parquet
import pytest
from answer_world import DOMAINS, exchanges, one_archive, write_files
from node_cluster import wait_until
from running_nodes import RunningNode, end_cluster, holdfast, start_cluster

from holdfast import study
from holdfast.archive.archive import Archive
from holdfast.catalog import CaptureQuery
from holdfast.cluster.answers.routes import ClusterRouter
from holdfast.errors import ClusterDown, UnknownCollection, UsageError
from holdfast.plan import archive_scenario, growth
from holdfast.study import SampleOptions
from holdfast.study.engine.scan import NO_CRAWL, CrawlRun, CrawlVisits
from holdfast.study.result import StudyResult

NODES, COPIES = 4, 2


@dataclass
class World:
    """A cluster, and an archive with the same records."""

    nodes: list[RunningNode]
    one: Path

    def expected(self, name: str, *arguments: Any, **options: Any) -> StudyResult:
        with Archive(self.one, read_only=True) as archive:
            result: StudyResult = getattr(study, name)(archive, *arguments, **options)
            return result


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Files are imported at all nodes in turn, the first at two of them."""
    directory = tmp_path_factory.mktemp("studies")
    files = write_files(directory, 3)
    nodes = start_cluster(directory, NODES, COPIES)
    try:
        for number, file in enumerate(files):
            holdfast("import", "-a", nodes[number].path, file)
        holdfast("import", "-a", nodes[-1].path, files[0])
        wait_until(lambda: _holds_all(nodes), "all captures on their holders")
        for node in nodes:
            holdfast("index", "update", "-a", node.path)
        yield World(nodes, one_archive(directory, files))
    finally:
        end_cluster(nodes)


def _captures(node: RunningNode) -> set[tuple[str, str]]:
    with Archive(node.path, read_only=True) as archive:
        return {(row.capture.url, row.capture.timestamp) for row in archive.search(CaptureQuery(url="*"))}


def _holds_all(nodes: list[RunningNode]) -> bool:
    counts: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        counts.update(_captures(node))
    return len(counts) == len(exchanges()) and min(counts.values()) >= COPIES and nodes[0].is_settled(NODES)


STUDIES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("duplicates", (), {"by": "collection"}),
    ("duplicates", (), {"by": "collection", "successful": True, "collection": "main"}),
    ("near_duplicates", (), {"by": "collection", "distance": 3}),
    ("change", (), {}),
    ("composition", (), {}),
    ("media", (), {}),
    ("topic", (["stanford", '"digital library" OR rank', f"linked-from:http://{DOMAINS[1]}/page"],), {"unit": "year"}),
    ("topic", ("crawl",), {"within": "type:html domain:com"}),
]
# What volumes keep is kept by each node for itself, and so is their compression.
OF_VOLUMES = {"kept_bytes", "saved_bytes", "saved"}
FIGURE_OF_VOLUMES = "stored bytes per byte of content"


def plain(result: StudyResult) -> dict[str, list[Any]]:
    """All tables as rows that can be compared: numbers to ten digits, without what is about volumes."""
    found = {}
    for name in result.tables:
        rows = [
            {
                column: float(f"{value:.10g}") if isinstance(value, float) else value
                for column, value in row.items()
                if column not in OF_VOLUMES
            }
            for row in result.rows(name)
            if row.get("figure") != FIGURE_OF_VOLUMES
        ]
        found[name] = rows
    return found


def check_studies(world: World, nodes: list[RunningNode]) -> None:
    """Every study, asked of the nodes in turn."""
    for turn, (name, arguments, options) in enumerate(STUDIES):
        counts: list[int] = []
        with ClusterRouter(nodes[turn % len(nodes)].path).open_whole() as archive:
            result = getattr(study, name)(archive, *arguments, **options, progress=counts.append)
            total = archive.captures()
        expected = world.expected(name, *arguments, **options)
        assert result.coverage is not None and result.coverage.missing == 0
        assert plain(result) == plain(expected), (name, options)
        assert result.table.num_rows
        assert result.notes == expected.notes
        assert sum(counts) > 0
        assert sum(counts) <= total or nodes != world.nodes  # holders that take over for a node read again


def test_all_nodes_up(world: World) -> None:
    check_studies(world, world.nodes)


def test_batches_are_those_in_which_captures_were_recorded(world: World) -> None:
    """The same at any node; each capture is in one of them, whichever node answers for it."""
    results = []
    for node in world.nodes:
        with ClusterRouter(node.path).open_whole() as archive:
            results.append(study.duplicates(archive, by="batch").rows())
    assert all(result == results[0] for result in results)
    assert sum(row["captures"] for row in results[0]) == len(exchanges())
    assert len(results[0]) >= 3


def test_command_and_page(world: World) -> None:
    expected = world.expected("duplicates", by="collection").rows()
    for node in world.nodes:
        lines = holdfast("study", "duplicates", "-a", node.path, "--by", "collection", "--json", "--table", "groups")
        assert [json.loads(line) | {"table": ""} for line in lines.splitlines()] == [
            {"table": "", **row} for row in expected
        ]
        status, headers, body = node.exchange(f"/studies/duplicates/groups.csv?{urlencode({'by': 'collection'})}")
        assert status == 200
        assert "holdfast-partial" not in headers
        assert [row["captures"] for row in csv.DictReader(io.StringIO(body.decode()))] == [str(len(exchanges()))]
        page = node.get("/studies/duplicates?by=collection")[1].decode()
        assert "This is not all" not in page
    assert "no collection 'moon'" in holdfast("study", "change", "-a", node.path, "--collection", "moon", code=3)


def digests(directory: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


def drawn(directory: Path) -> list[tuple[str, str]]:
    lines = map(json.loads, (directory / "captures.jsonl").read_text().splitlines())
    return sorted((line["url"], line["timestamp"]) for line in lines)


SAMPLES: list[dict[str, Any]] = [
    {"captures": 40, "by": ("site",)},
    {"captures": 12, "by": ("type", "topic"), "topics": ("stanford", f"linked-from:http://{DOMAINS[1]}/page")},
    {"bytes_max": 9000, "within": "crawl OR rank", "format": "parquet"},
]


def test_a_sample_has_the_same_bytes_at_every_node(world: World, tmp_path: Path) -> None:
    """And the captures that it has on one machine; records are named by the batches of their nodes."""
    for number, values in enumerate(SAMPLES):
        options = SampleOptions(**values)
        one = tmp_path / f"one{number}"
        expected = world.expected("sample", options, one)
        found = []
        for node in world.nodes[number : number + 2]:
            target = tmp_path / f"{node.path.name}-{number}"
            with ClusterRouter(node.path).open_whole() as archive:
                result = study.sample(archive, options, target)
            assert result.coverage is not None and result.coverage.missing == 0
            assert plain(result) == plain(expected)
            found.append(digests(target))
            assert drawn(target) == drawn(one)
            for name in ("distributions.csv", "distances.csv", "strata.csv"):
                assert found[-1][name] == digests(one)[name], name
        assert found[0] == found[1]
        if "format" not in values:
            records = gzip.decompress((target / "sample.warc.gz").read_bytes()).count(b"WARC-Type: response")
            assert records == values["captures"]
        else:
            (one_file, cluster_file) = (
                pyarrow.parquet.read_table(each / "sample.parquet").drop_columns(["record"]).to_pylist()
                for each in (one, target)
            )
            assert sorted(map(str, one_file)) == sorted(map(str, cluster_file))
    again = tmp_path / "again"
    node = world.nodes[-1]
    holdfast("sample", again, "-a", node.path, "--again", tmp_path / f"{world.nodes[0].path.name}-0")
    assert digests(again) == digests(tmp_path / f"{world.nodes[0].path.name}-0")


def test_growth_and_plans_are_of_all_nodes(world: World) -> None:
    with Archive(world.one, read_only=True) as archive:
        expected = growth(archive)
        scenario = archive_scenario(archive)
    with ClusterRouter(world.nodes[0].path).open_whole() as archive:
        found = growth(archive)
        planned = archive_scenario(archive)
    assert found.rows("months") == expected.rows("months")
    for number in (0, 1, 4, 5):  # captures, URLs, and both a day
        assert found.rows()[number] == expected.rows()[number]
    assert (planned.nodes, planned.copies, planned.partitions) == (NODES, COPIES, 32)
    assert planned.pages == scenario.pages and planned.visits_per_day == scenario.visits_per_day
    printed = holdfast("plan", "growth", "-a", world.nodes[1].path, "--json", "--table", "figures")
    assert json.loads(printed.splitlines()[0])["value"] == len(exchanges())
    assert holdfast("plan", "estimate", "-a", world.nodes[1].path, "--preset", "archive", "--json")
    status, headers, page = world.nodes[2].exchange("/studies/plan/months.csv?preset=archive")
    assert (status, headers.get("holdfast-partial")) == (200, None)
    assert sum(int(row["captures"]) for row in csv.DictReader(io.StringIO(page.decode()))) == len(exchanges())


def test_what_a_cluster_cannot_do_is_refused(world: World) -> None:
    with ClusterRouter(world.nodes[0].path).open_whole() as archive:
        with pytest.raises(UsageError, match="each node applies its own access rules"):
            study.change(archive, permits=lambda capture: True)
        with pytest.raises(UsageError, match="page ranks"):
            study.topic(archive, "rank:>0.5")
        with pytest.raises(UnknownCollection, match="moon"):
            study.media(archive, collection="moon")


def test_one_node_down(world: World) -> None:
    """With two copies, nothing is missing: other holders answer."""
    world.nodes[-1].kill()
    check_studies(world, world.nodes[:-1])  # at once: nodes still take it for alive
    expected = plain(world.expected("sample", SampleOptions(captures=40)))
    with ClusterRouter(world.nodes[0].path).open_whole() as archive:
        # A sample is never partial: it is refused until the nodes have found each other without the dead one.
        found = wait_until(lambda: plain(study.sample(archive, SampleOptions(captures=40))), "a sample")
        assert found == expected


def test_too_many_nodes_down(world: World) -> None:
    """A partial result says so: exit code, header and page."""
    node, *others, last = world.nodes
    held = {each.path: _captures(each) for each in world.nodes}
    other = max(others, key=lambda each: len(_only_at(held, each, last)))
    other.kill()
    last.kill()
    target = "/studies/composition/types.csv"
    wait_until(lambda: "holdfast-partial" in node.exchange(target)[1], "a partial answer")
    missing, _, partitions = node.exchange(target)[1]["holdfast-partial"].partition("/")
    assert 0 < int(missing) < int(partitions) == 32
    assert "This is not all" in node.get("/studies/composition")[1].decode()
    assert f"{missing} of 32 partitions" in holdfast("study", "change", "-a", node.path, code=14)
    assert holdfast("sample", "-a", node.path, "--size", "9", code=13)
    with ClusterRouter(node.path).open_whole() as archive:
        with pytest.raises(ClusterDown):
            study.sample(archive, SampleOptions(captures=9))
        result = study.change(archive)
    assert result.coverage is not None and result.coverage.missing == int(missing)
    assert 0 < result.rows()[0]["captures"] < world.expected("change").rows()[0]["captures"]


def _only_at(held: dict[Path, set[tuple[str, str]]], *nodes: RunningNode) -> set[tuple[str, str]]:
    gone = {node.path for node in nodes}
    left = set[tuple[str, str]]().union(*(captures for path, captures in held.items() if path not in gone))
    return set().union(*held.values()) - left


def test_runs_of_one_crawl_on_several_nodes_are_one_visit() -> None:
    epoch_s = 63_000_000_000
    runs = [
        CrawlRun(epoch_s, epoch_s + 1000, "news#1", "main"),
        CrawlRun(epoch_s + 10, epoch_s + 20, "news#1", "main"),
        CrawlRun(epoch_s + 900, epoch_s + 1100, "news#1", "main"),
        CrawlRun(epoch_s + 2000, epoch_s + 2100, "news#2", "main"),
    ]
    visits = CrawlVisits(runs)
    assert [visits.at(epoch_s + offset, "main") for offset in (0, 500, 1100, 1500, 2050)] == [
        *("news#1", "news#1", "news#1", NO_CRAWL, "news#2")
    ]
    assert visits.at(epoch_s + 500, "other") == NO_CRAWL
    assert visits.at(epoch_s - 1, "main") == NO_CRAWL
