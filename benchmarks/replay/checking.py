"""Before any clock runs: whether a server answers with what was put in."""

from __future__ import annotations

import http.client
from datetime import datetime
from urllib.parse import urlsplit

from benchmarks.archive.crawl import Crawls, document_of
from benchmarks.harness.process import ChildFailed
from benchmarks.replay.running import Running
from benchmarks.replay.workload import Page, ReplayWorkload, paths_of

SAMPLE = 25
_LEAST = 0.5  # of the size of a page: a rewritten one is not shorter


def check_sample(running: Running, pages: list[Page], crawls: Crawls) -> None:
    """Asks for some pages in every way. Raises ChildFailed with the first answer that is not right."""
    for page in pages[:SAMPLE]:
        payload = crawls.corpus.paths[document_of(page.number, len(crawls.corpus.paths))].read_bytes()
        for workload in (ReplayWorkload.REPLAY, ReplayWorkload.RAW):
            for path in paths_of(workload, [page], running.server.collection):
                _check_page(running, path, page, payload)
        for workload in (ReplayWorkload.CDX, ReplayWorkload.TIMEMAP):
            (path,) = paths_of(workload, [page], running.server.collection)
            body = get(running.server.origin_for(running.place, is_replay=False), path)[0]
            _require(body.count(b"\n") >= len(page.times) - 1, path, "too few lines")
            _require(all(time.encode() in body for time in page.timestamps), path, "a capture is missing")


def _check_page(running: Running, path: str, page: Page, payload: bytes) -> None:
    body, headers = get(running.server.origin_for(running.place, is_replay=True), path)
    known = {_http_date(time) for time in page.times}
    _require(headers.get("Memento-Datetime", "") in known, path, "its Memento-Datetime is not right")
    if "id_/" in path:
        _require(body == payload, path, f"{len(body):,} bytes came that are not the {len(payload):,} of the payload")
    else:
        _require(len(body) >= _LEAST * len(payload), path, f"only {len(body):,} bytes of {len(payload):,} came")


def get(origin: str, path: str) -> tuple[bytes, http.client.HTTPMessage]:
    """Body and headers. Raises ChildFailed if the status is not 200."""
    connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=30)
    try:
        connection.request("GET", path, headers={"Accept-Encoding": "identity"})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as failure:
        raise ChildFailed(f"no answer to '{path}': {failure}") from failure
    finally:
        connection.close()
    _require(answer.status == 200, path, f"status {answer.status}")
    return body, answer.headers


def _require(is_right: bool, path: str, words: str) -> None:
    if not is_right:
        raise ChildFailed(f"the answer to '{path}' is wrong: {words}")


def _http_date(time: datetime) -> str:
    return f"{time:%a, %d %b %Y %H:%M:%S} GMT"
