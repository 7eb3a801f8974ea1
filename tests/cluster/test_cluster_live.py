"""A cluster that grows while it is read: streams stay exact, and a browser replays a page of four nodes (H8, B9).

Real node processes, NATS servers and web workers, and a real browser.
"""

from __future__ import annotations

import gzip
import re
import threading
from base64 import b32encode
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha1
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from node_cluster import free_address, wait_until
from running_nodes import TIME, RunningNode, end_cluster, holdfast, start_cluster

from holdfast.archive.archive import Archive
from holdfast.archive.create import init
from holdfast.archive.export import ExportOptions
from holdfast.archive.ingest.exchange import Exchange, page
from holdfast.catalog import CaptureQuery
from holdfast.cluster.answers.routes import ClusterRouter
from holdfast.crawl.browser.open import available, executable_of
from holdfast.crawl.job.job import BrowserSettings
from holdfast.errors import ClusterDown
from holdfast.records.selection import Selection
from holdfast.streams.options import StreamOptions

COPIES = 2
FIRST = [f"http://first{number}.example/page" for number in range(60)]
LATER = [[f"http://later{turn}-{number}.example/page" for number in range(8)] for turn in range(4)]
ORDERS = ("log", "url", "date")
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningNode]]:
    """Three nodes, two copies of everything. A fourth joins in the first test; the last test kills one."""
    nodes = start_cluster(tmp_path_factory.mktemp("live"), 3, COPIES)
    try:
        yield nodes
    finally:
        end_cluster(nodes)


def warc(directory: Path, name: str, captures: list[Exchange]) -> Path:
    init(directory / name)
    target = directory / f"{name}.warc"
    with Archive(directory / name) as archive:
        archive.add(captures)
        archive.export(Selection(), target, ExportOptions("warc"))
    return target


def pages(urls: list[str]) -> list[Exchange]:
    return [page(url, f"<!doctype html><title>{url}</title>".encode(), timestamp=TIME) for url in urls]


def test_streams_are_exact_while_nodes_join_and_write(cluster: list[RunningNode], tmp_path: Path) -> None:
    """Each stream is read in three parts: before a node joins, at another node meanwhile, and at the new node."""
    holdfast("import", "-a", cluster[0].path, warc(tmp_path, "first", pages(FIRST)))
    wait_until(lambda: _are_copied(cluster, FIRST), "copies of the first pages")
    files = [warc(tmp_path, f"later{turn}", pages(urls)) for turn, urls in enumerate(LATER)]
    found: dict[str, list[str]] = {order: [] for order in ORDERS}
    tokens = dict.fromkeys(ORDERS, "")
    writers = list(cluster)

    def write() -> None:
        for turn, file in enumerate(files):
            holdfast("import", "-a", writers[turn % len(writers)].path, file)

    def read(node: RunningNode, most: int | None) -> bool:
        """One more part of each stream. One that ends with ClusterDown goes on at its last token."""
        with ClusterRouter(node.path).open_whole() as archive:
            for order in ORDERS:
                options = StreamOptions(order=order, token=tokens[order], batch_size=7, fields=("url",))
                with archive.stream(options) as stream:
                    found[order] += [each.url for batch in stream.batches(most) for each in batch]
                    tokens[order] = stream.token
        return True

    wait_until(lambda: read(cluster[0], 20), "the first parts")
    writing = threading.Thread(target=write)
    writing.start()
    try:
        wait_until(lambda: read(cluster[1], 20), "parts at another node")
        _join(cluster)
    finally:
        writing.join()
    _settle(cluster)
    wait_until(lambda: read(cluster[3], None), "the rest at the new node")
    for order in ORDERS:
        assert sorted(found[order]) == sorted(FIRST), order
    everything = FIRST + [url for urls in LATER for url in urls]
    wait_until(lambda: _are_copied(cluster, everything), "copies of all pages")
    for node in cluster:
        assert wait_until(lambda node=node: _streamed(node), "a stream of everything") == sorted(everything)


def test_streams_are_exact_while_a_node_dies(cluster: list[RunningNode], tmp_path: Path) -> None:
    """kill -9 in the middle of each stream: other holders go on where it was."""
    if len(cluster) < 4:  # alone, without the tests before
        _join(cluster)
        _settle(cluster)
    urls = [f"http://dies{number}.example/page" for number in range(120)]
    holdfast("import", "-a", cluster[0].path, warc(tmp_path, "dies", pages(urls)))
    wait_until(lambda: _are_copied(cluster, urls), "copies of the pages")
    expected = wait_until(lambda: _streamed(cluster[0]), "a stream of everything")
    assert set(urls) <= set(expected)
    found: dict[str, list[str]] = {order: [] for order in ORDERS}
    tokens = dict.fromkeys(ORDERS, "")

    def read(order: str, stream: Any, most: int | None) -> None:
        for batch in stream.batches(most):
            found[order] += [each.url for each in batch]
            tokens[order] = stream.token

    def read_on(order: str, stream: Any) -> bool:
        """To the end; if no other holder was in sync at that moment, with the last token."""
        try:
            read(order, stream, None)
        except ClusterDown:
            with ClusterRouter(cluster[1].path).open_whole() as archive:
                options = StreamOptions(order=order, token=tokens[order], batch_size=7, fields=("url",))
                with archive.stream(options) as again:
                    read(order, again, None)
        return True

    with ClusterRouter(cluster[0].path).open_whole() as archive, ExitStack() as stack:
        streams: dict[str, Any] = {}
        for order in ORDERS:
            options = StreamOptions(order=order, batch_size=7, fields=("url",))
            streams[order] = stack.enter_context(archive.stream(options))
            read(order, streams[order], 14)
        cluster[2].kill()
        for order, stream in streams.items():
            wait_until(lambda order=order, stream=stream: read_on(order, stream), f"the rest in the order {order}")
    cluster[2].start()
    _settle(cluster)
    for order in ORDERS:
        assert sorted(found[order]) == expected, order


def _join(cluster: list[RunningNode]) -> None:
    token = holdfast("cluster", "token", "-a", cluster[0].path).strip()
    cluster.append(RunningNode(cluster[0].path.with_name(f"n{len(cluster) + 1}")))
    cluster[-1].start("--join", token, "--address", free_address())


def _settle(cluster: list[RunningNode]) -> None:
    for node in (cluster[0], cluster[-1]):
        wait_until(lambda node=node: node.is_settled(len(cluster)), f"'{node.path.name}' knows all nodes")


def _streamed(node: RunningNode) -> list[str]:
    with ClusterRouter(node.path).open_whole() as archive, archive.stream(StreamOptions(fields=("url",))) as stream:
        return sorted(each.url for each in stream)


def _are_copied(nodes: list[RunningNode], urls: list[str]) -> bool:
    """Whether each URL is on as many nodes as it should be."""
    counts: Counter[str] = Counter()
    for node in nodes:
        with Archive(node.path, read_only=True) as archive:
            counts.update({row.capture.url for row in archive.search(CaptureQuery(url="*"))})
    return all(counts[url] >= COPIES for url in urls)


# -- what was recorded with a capture ----------------------------------------------------------------------------------


def test_requests_metadata_and_originals_are_exported_with_their_captures(
    cluster: list[RunningNode], tmp_path: Path
) -> None:
    """As from one machine, where each is beside its capture; a WACZ has the originals of revisits."""
    file = tmp_path / "told.warc"
    file.write_bytes(b"".join(_told(number) for number in range(40)))
    init(tmp_path / "one")
    holdfast("import", "-a", tmp_path / "one", file)
    holdfast("import", "-a", cluster[1].path, file)
    wait_until(lambda: _are_copied(cluster, [f"http://told{number}.example/" for number in range(40)]), "copies")
    for query, count in (("*.told7.example", 4), ("told7.example/again", 1)):
        for form in ("warc", "wacz"):
            found: list[list[bytes]] = []
            for number, archive in enumerate((tmp_path / "one", cluster[0].path, cluster[2].path)):
                target = tmp_path / f"{number}.{form}"
                holdfast("export", "-a", archive, query, "-o", target)
                found.append(_ids(target))
            assert found[0] == found[1] == found[2]
            assert len(found[0]) == count + (form == "wacz" and count == 1)
    before, now = "20240102030405", "20240203040506"
    expected = holdfast("diff", "-a", tmp_path / "one", "told7.example/again", before, now)
    assert holdfast("diff", "-a", cluster[2].path, "told7.example/again", before, now) == expected


def _told(number: int) -> bytes:
    """A request, its response, what was said about it, and a revisit."""
    url = f"http://told{number}.example/"
    about = f"WARC-Concurrent-To: <urn:uuid:{number:08d}-0000-0000-0000-000000000002>\r\n"
    body = f"the text of {number}"
    digest = b32encode(sha1(body.encode()).digest()).decode()
    payload = f"WARC-Payload-Digest: sha1:{digest}\r\n"
    http = "Content-Type: application/http; msgtype="
    of = "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n"
    of += f"WARC-Refers-To-Target-URI: {url}\r\nWARC-Refers-To-Date: 2024-01-02T03:04:05Z\r\n"
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    records = [
        ("request", url, f"{http}request\r\n{about}", f"GET / HTTP/1.1\r\nHost: told{number}.example\r\n\r\n"),
        ("response", url, f"{http}response\r\n{payload}", f"{head}{body}"),
        ("metadata", url, f"Content-Type: application/warc-fields\r\n{about}", "via: test\r\n"),
        ("revisit", f"{url}again", f"{http}response\r\n{payload}{of}", head),
    ]
    made = ""
    for place, (kind, target, fields, block) in enumerate(records, 1):
        day = "2024-02-03T04:05:06Z" if kind == "revisit" else "2024-01-02T03:04:05Z"
        made += f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {target}\r\nWARC-Date: {day}\r\n{fields}"
        made += f"WARC-Record-ID: <urn:uuid:{number:08d}-0000-0000-0000-{place:012d}>\r\n"
        made += f"Content-Length: {len(block)}\r\n\r\n{block}\r\n\r\n"
    return made.encode()


def _ids(target: Path) -> list[bytes]:
    """The records of a file in their order, without the one about the file."""
    data = target.read_bytes()
    if target.suffix == ".wacz":
        with ZipFile(target) as archived:
            data = gzip.decompress(archived.read("archive/data.warc.gz"))
    return re.findall(rb"\nWARC-Record-ID: (\S+)", data)[1:]


# -- a browser ---------------------------------------------------------------------------------------------------------

PAGE = """<!doctype html><title>whole</title><link rel=stylesheet href="{style}"><p id=text>text</p>
<img id=image src="{image}"><script src="{script}"></script>"""
IMAGE = b'<svg xmlns="http://www.w3.org/2000/svg" width="41" height="23"/>'


def test_a_browser_replays_a_page_of_four_nodes_with_one_down(cluster: list[RunningNode], tmp_path: Path) -> None:
    """The page and its parts have four different first holders, of which one is killed."""
    if missing := available(BrowserSettings()):
        pytest.skip(missing)
    if len(cluster) < 4:  # alone, without the tests before
        _join(cluster)
        _settle(cluster)
    hosts = _hosts(cluster[0])
    names = {"style": "style.css", "image": "image.svg", "script": "script.js"}
    first, *others = sorted(hosts)
    urls = {part: f"http://{hosts[node]}/{name}" for node, (part, name) in zip(others, names.items(), strict=True)}
    start = f"http://{hosts[first]}/"
    captures = [
        page(start, PAGE.format(**urls).encode(), timestamp=TIME),
        page(urls["style"], b"#text { color: rgb(1, 2, 3) }", "text/css", TIME),
        page(urls["image"], IMAGE, "image/svg+xml", TIME),
        page(urls["script"], b"document.title = 'by script'", "text/javascript", TIME),
    ]
    holdfast("import", "-a", cluster[0].path, warc(tmp_path, "page", captures))
    wait_until(lambda: _are_copied(cluster, [each.url for each in captures]), "copies of all parts")
    cluster[-1].kill()
    assert _shown(cluster[0], start) == ("by script", "rgb(1, 2, 3)", 41)
    assert _shown(cluster[1], start) == ("by script", "rgb(1, 2, 3)", 41)


def _hosts(node: RunningNode) -> dict[str, str]:
    """For each node a host of which it is the first holder."""
    table = ClusterRouter(node.path).table()
    found: dict[str, str] = {}
    for number in range(1000):
        host = f"part{number}.example"
        found.setdefault(table.serving(table.rule.of_url(f"http://{host}/") or 0)[0], host)
    assert len(found) == 4
    return found


def _shown(node: RunningNode, url: str) -> tuple[str, str, int]:
    """What a browser makes of an archived page: its title, a color, and the width of its image."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable_of(BrowserSettings()), args=["--no-sandbox"])
        try:
            tab = browser.new_page()
            tab.set_default_timeout(PATIENCE_MS)
            tab.goto(f"{node.pages}/main/{TIME}/{url}", wait_until="load")
            frame = tab.wait_for_selector("iframe", state="attached").content_frame()
            assert frame is not None
            frame.wait_for_selector("#text")
            frame.wait_for_load_state("load")
            return (
                frame.title(),
                frame.evaluate("getComputedStyle(document.getElementById('text')).color"),
                frame.evaluate("document.getElementById('image').naturalWidth"),
            )
        finally:
            browser.close()
