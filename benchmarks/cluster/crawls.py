"""One crawl of one web by a program alone, and by the nodes of a cluster: processor time of a page.

nginx serves a web of many small sites, each a domain of its own, so that partitions have about as many pages. The
processor time of nodes is that of all their processes, with their NATS server and the copies that they make, from the
start of the crawl until no node has anything to copy. The server's and that of the command do not count.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from benchmarks.cluster.figure import ClusterFigure
from benchmarks.cluster.processes import NodeProcess, form, holdfast_command, wait
from benchmarks.crawl.server import serving
from benchmarks.crawl.tree import Manner, run_tree, spent_by
from holdfast.cluster.status import read_table
from holdfast.crawl.job.file import write_job
from holdfast.crawl.job.job import CrawlJob, FetchSettings, ScopeKind
from holdfast.crawl.report.crawls import crawl_status

_SITES = 64
_NEAR, _FAR = 35, 3  # links of a page: to its own site, and to others
_TEXT_WORDS = 1200
_NAME = "bench"
_COPIES_OF_LOG = 3
_QUIET_S = 1.0


def crawl_cost(directory: Path, pages: int) -> list[ClusterFigure]:
    """CPU of a page with nodes ÷ CPU of a page without a cluster, and bytes of the log."""
    os.environ["HOLDFAST_INDEX_AUTOMATIC"] = "false"  # nodes index in their own time
    shutil.rmtree(directory, ignore_errors=True)
    root, scratch = directory / "web", directory / "nginx"
    scratch.mkdir(parents=True)
    root.mkdir()
    found: list[ClusterFigure] = []
    with serving(root, scratch) as server:
        _make_web(root, pages, server.url.rpartition(":")[2])
        job = directory / "job.toml"
        job.write_text(write_job(_job(server.url)))
        alone = _alone(directory, job)
        found.append(ClusterFigure("crawl", "CPU of a page, no cluster", alone * 1e3, "ms"))
        for nodes, copies in ((2, 1), (4, 1), (2, 2), (4, 2)):
            what = f"{nodes} nodes, {copies} {'copy' if copies == 1 else 'copies'}"
            cost, log_bytes = _together(directory / f"{nodes}-{copies}", job, nodes, copies)
            found.append(ClusterFigure("crawl", f"CPU of a page ÷ no cluster, {what}", cost / alone, "x"))
        found.append(ClusterFigure("crawl", "log of a known URL, three copies", log_bytes, "bytes"))
    return found


def _make_web(root: Path, pages: int, port: str) -> None:
    chance, each = Random(7), max(pages // _SITES, 1)
    words = [f"word{number}" for number in range(4000)]
    for site in range(_SITES):
        (root / f"s{site}").mkdir()
        for page in range(each):
            near = [f"/s{site}/{(page + step) % each}.html" for step in range(1, _NEAR + 1)]
            others = [(chance.randrange(_SITES), chance.randrange(each)) for _ in range(_FAR)]
            far = [f"http://site{other}.org:{port}/s{other}/{number}.html" for other, number in others]
            links = "\n".join(f'<li><a href="{link}">{link[-9:]}</a></li>' for link in (*near, *far))
            text = " ".join(chance.choices(words, k=_TEXT_WORDS))
            (root / f"s{site}" / f"{page}.html").write_text(
                f"<html><head><title>Page {page}</title></head><body><ul>{links}</ul><p>{text}</p></body></html>"
            )


def _job(url: str) -> CrawlJob:
    port = url.rpartition(":")[2]
    sites = [f"site{number}.org" for number in range(_SITES)]
    return CrawlJob(
        seeds=tuple(f"http://{site}:{port}/s{number}/0.html" for number, site in enumerate(sites)),
        name=_NAME,
        scope=ScopeKind.ANY,
        readers=1,
        sitemap=False,
        fetch=FetchSettings(delay=0.0, robots=False, resolve=tuple((site, "127.0.0.1") for site in sites)),
    )


def _alone(directory: Path, job: Path) -> float:
    """Processor seconds of a page."""
    archive = directory / "alone"
    holdfast_command("init", str(archive))
    command = [sys.executable, "-m", "holdfast", "-a", str(archive), "crawl", str(job), "--quiet"]
    ended = run_tree(command, Manner(directory))
    return ended.cost.cpu_s / _fetched(archive)


def _fetched(archive: Path) -> int:
    return int(crawl_status(archive, _NAME).tally["fetched"])


def _together(directory: Path, job: Path, count: int, copies: int) -> tuple[float, float]:
    """Processor seconds of a page, and bytes of the log for each known URL."""
    directory.mkdir()
    nodes = {f"n{number}": NodeProcess(directory / f"n{number}") for number in range(1, count + 1)}
    first = nodes["n1"]
    try:
        form(nodes, "--copies", str(copies))
        before = sum(spent_by(node.pid) for node in nodes.values())
        holdfast_command("-a", str(first.path), "crawl", str(job), "--quiet")
        wait(_quiet(first), "the copies")
        used_s = sum(spent_by(node.pid) for node in nodes.values()) - before
        pages = _fetched(first.path)
        blocks = (first.path / "cluster").glob("nats/**/LOG_*/msgs/*.blk")
        size = sum(each.stat().st_size for each in blocks)
    finally:
        for node in nodes.values():
            node.kill()
    return used_s / pages, _COPIES_OF_LOG * size / pages


def _quiet(witness: NodeProcess) -> Callable[[], bool]:
    """Whether no node has had anything to copy for some time."""
    since = time.monotonic()

    def is_quiet() -> bool:
        nonlocal since
        table = read_table(witness.path / "cluster")
        if any(row["outstanding"].get("copies") for row in table["nodes"]):
            since = time.monotonic()
        return time.monotonic() - since > _QUIET_S

    return is_quiet
