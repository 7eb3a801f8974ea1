"""What it costs to ask another node, or all nodes, instead of the one that has everything.

four nodes, one copy, one web worker each ── the same pages as one archive on one machine

A request about one URL is asked of its holder, and of another node, which passes it on, in turn. Searches and streams
are those of `holdfast.cluster.answers`, asked by this process; the processor time of a stream is that of this process
and of all nodes with their NATS server, from its beginning to its end.
"""

from __future__ import annotations

import http.client
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from urllib.parse import quote, urlsplit

import holdfast
from benchmarks.cluster.figure import ClusterFigure
from benchmarks.cluster.processes import NodeProcess, form, holdfast_command, wait
from benchmarks.cluster.rig import pages
from benchmarks.crawl.tree import spent_by
from holdfast.archive.export import ExportOptions
from holdfast.cluster.answers.routes import ClusterRouter
from holdfast.cluster.answers.whole_archive import WholeArchive
from holdfast.cluster.status import read_table
from holdfast.errors import ClusterDown
from holdfast.query.results import QueryOptions
from holdfast.records.selection import ChosenUrls
from holdfast.streams.options import StreamOptions

_NODES = ("n1", "n2", "n3", "n4")
_ASKED = 300  # URLs
_SEARCHES = 60
_TIME = "20260101000000"
_HOLDER_TIMES = 1.5  # what another node may take at most: this times the holder's time, and a constant


def answers(directory: Path, records: int) -> list[ClusterFigure]:
    """Replay and CDX through another node, searches and streams of four nodes."""
    os.environ["HOLDFAST_INDEX_AUTOMATIC"] = "false"  # it would run beside
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    urls = _make_one(directory / "one", records)
    nodes = {name: NodeProcess(directory / name) for name in _NODES}
    try:
        form(nodes, "--copies", "1")
        _fill(nodes, directory / "one", urls)
        found = _forwarded(nodes, urls)
        with ClusterRouter(nodes["n1"].path).open_whole() as whole, holdfast.open(directory / "one") as one:
            wait(lambda: _streams_whole(whole), "every node knows what the others have")
            found += _searches(whole, one)
            found += _streams(nodes, whole, one, records)
    finally:
        for node in nodes.values():
            node.kill()
    return found


def _make_one(path: Path, records: int) -> list[str]:
    holdfast_command("init", str(path))
    made = pages(records, seed=1)
    with holdfast.open(path) as archive:
        archive.add(made)
        archive.index.update()
    return [each.url for each in made]


def _fill(nodes: dict[str, NodeProcess], one: Path, urls: list[str]) -> None:
    """The same pages, each imported at its holder."""
    table = ClusterRouter(nodes["n1"].path).table()
    of_node: dict[str, list[str]] = {name: [] for name in nodes}
    for url in urls:
        of_node[table.serving(table.rule.of_url(url) or 0)[0]].append(url)
    for name, own in of_node.items():
        file = one.with_name(f"{name}.warc.gz")
        with holdfast.open(one, read_only=True) as archive:
            archive.export(ChosenUrls(urls=tuple(own)), file, ExportOptions("warc.gz"))
        holdfast_command("import", "-a", str(nodes[name].path), str(file))
    wait(lambda: sum(_captures(node.path) for node in nodes.values()) == len(urls), "each page is on its holder only")
    for node in nodes.values():
        holdfast_command("index", "update", "-a", str(node.path))


def _captures(path: Path) -> int:
    with holdfast.open(path, read_only=True) as archive:
        return sum(total.captures for total in archive.catalog.totals()[0].values())


# -- one URL ----------------------------------------------------------------------------------------------------------


def _forwarded(nodes: dict[str, NodeProcess], urls: list[str]) -> list[ClusterFigure]:
    table = ClusterRouter(nodes["n1"].path).table()
    rows = read_table(nodes["n1"].path / "cluster")["nodes"]
    places = {row["name"]: urlsplit(row["pages"]) for row in rows}
    connections = {
        name: http.client.HTTPConnection(place.hostname or "", place.port, timeout=60) for name, place in places.items()
    }
    chance = Random(3)
    targets: dict[str, Callable[[str], str]] = {
        "replay": lambda url: f"/main/{_TIME}id_/{url}",
        "CDX": lambda url: f"/main/cdx?url={quote(url, safe='')}",
    }
    found = []
    for what, target in targets.items():
        took: dict[bool, list[float]] = {True: [], False: []}
        for url in chance.sample(urls, min(_ASKED, len(urls))):
            holder = table.serving(table.rule.of_url(url) or 0)[0]
            other = chance.choice([name for name in _NODES if name != holder])
            order = [(holder, True), (other, False)]
            bodies = set()
            for name, is_holder in order if chance.random() < 0.5 else order[::-1]:
                seconds, body = _asked(connections[name], target(url))
                took[is_holder].append(seconds)
                bodies.add(body)
            if len(bodies) > 1 or (what == "CDX" and url.encode() not in body):
                raise RuntimeError(f"{what} of '{url}' differs at '{other}' from what its holder '{holder}' says")
        holder_ms, other_ms = (median(took[each]) * 1e3 for each in (True, False))
        found += [
            ClusterFigure("answers", f"{what}: p50 of the holder", holder_ms, "ms"),
            ClusterFigure("answers", f"{what}: p50 through another node", other_ms, "ms"),
            ClusterFigure(
                "answers", f"{what}: beyond {_HOLDER_TIMES} x the holder", other_ms - _HOLDER_TIMES * holder_ms, "ms"
            ),
        ]
    for each in connections.values():
        each.close()
    return found


def _asked(connection: http.client.HTTPConnection, target: str) -> tuple[float, bytes]:
    begun = time.perf_counter()
    connection.request("GET", target)
    response = connection.getresponse()
    body = response.read()
    if response.status != 200 or not body:
        raise RuntimeError(f"{target} has status {response.status}")
    return time.perf_counter() - begun, body


# -- all nodes --------------------------------------------------------------------------------------------------------


def _searches(whole: WholeArchive, one: holdfast.Archive) -> list[ClusterFigure]:
    chance = Random(5)
    words = sorted({word for page in pages(20, seed=1) for word in page.body.decode().split()})
    took: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(_SEARCHES):
        text = " ".join(chance.sample(words, 1 + turn % 2))
        options = QueryOptions(limit=10, snippets=False, sort="newest" if turn % 3 == 2 else "relevance")
        totals = []
        for is_one, archive in ((True, one), (False, whole)):
            begun = time.perf_counter()
            totals.append(archive.query(text, options).total)
            took[is_one].append(time.perf_counter() - begun)
        if totals[0] != totals[1]:
            raise RuntimeError(f"{text!r}: {totals[0]} hits in one index, {totals[1]} in those of four nodes")
    one_ms, whole_ms = (median(took[each]) * 1e3 for each in (True, False))
    return [
        ClusterFigure("answers", "search: p50 of one index", one_ms, "ms"),
        ClusterFigure("answers", "search: p50 of 4 nodes", whole_ms, "ms"),
        ClusterFigure("answers", "search: 4 nodes ÷ one index", whole_ms / one_ms, "x"),
    ]


def _streams_whole(whole: WholeArchive) -> bool:
    """Whether a stream of all nodes can begin: each has looked at the batches of the others."""
    try:
        with whole.stream(StreamOptions(fields=("url",))) as stream:
            return any(stream)
    except ClusterDown:
        return False


def _streams(
    nodes: dict[str, NodeProcess], whole: WholeArchive, one: holdfast.Archive, records: int
) -> list[ClusterFigure]:
    def spent() -> float:
        return time.process_time() + sum(spent_by(node.pid) for node in nodes.values())

    cost: dict[bool, float] = {}
    for is_one, archive in ((True, one), (False, whole)):
        begun = time.process_time() if is_one else spent()
        with archive.stream(StreamOptions(fields=("url", "payload"))) as stream:
            count = sum(1 for page in stream if page.payload)
        if count != records:
            raise RuntimeError(f"a stream of {records} pages had {count}")
        cost[is_one] = ((time.process_time() if is_one else spent()) - begun) / records
    return [
        ClusterFigure("answers", "stream: CPU of a page, one archive", cost[True] * 1e6, "µs"),
        ClusterFigure("answers", "stream: CPU of a page, 4 nodes", cost[False] * 1e6, "µs"),
        ClusterFigure("answers", "stream: 4 nodes ÷ one archive", cost[False] / cost[True], "x"),
    ]
