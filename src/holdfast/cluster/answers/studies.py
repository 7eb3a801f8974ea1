"""Studies of all nodes: each gathers from the captures that it answers for, the node that was asked finishes (I6, I7).

    asked node   the study ──▶ all nodes at the same time        partial results, merged ──▶ tables, a chart
    each node    captures of its partitions ──▶ partial result ──▶ frames: progress, files, the end

A study may run for minutes, so its response is sent while it runs: at least one frame a second. A node that fails is
replaced by other holders, which begin again. A node gathers for one study at a time in each process; others wait.
"""

from __future__ import annotations

import json
import logging
import queue
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from holdfast.cluster.answers.scatter import NodeFailure, NodeGroup, PeerResponse, Round, Scatter, raise_failure
from holdfast.cluster.answers.search import linked_pages, shard_query
from holdfast.cluster.answers.shard.served_rows import ServedRows
from holdfast.cluster.answers.shard.shard import NodeShard, ShardResponse
from holdfast.cluster.answers.sql import served_numbers
from holdfast.cluster.answers.streams import is_followed, require_pulled
from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import ClusterDown, HoldfastError, UsageError
from holdfast.model import Capture, RecordId
from holdfast.query.engine import is_ranked
from holdfast.query.language.parser import parse
from holdfast.query.results import QueryOptions
from holdfast.query.snapshot import Numbers
from holdfast.storage.server.wire import pack_failure
from holdfast.streams.snapshot import Snapshot
from holdfast.study.engine.run import PartialResults, Study, partial_result
from holdfast.study.engine.scan import CrawlRun, Progress, StudySource, crawl_runs
from holdfast.study.kinds import packed_study, unpacked_study
from holdfast.study.samples.draw import SampleStudy
from holdfast.study.topic_study import TopicStudy

log = logging.getLogger("holdfast.cluster")

STUDY = "study"  # the operation whose response is sent in frames
_HEAD = struct.Struct(">II")  # of a frame: bytes of JSON, and of raw data behind it
_PIECE_BYTES = 1 << 20
_JSON_BYTES_MAX = 1 << 20
_QUEUED = 4  # frames that wait to be sent
_FRAME_S = 1.0  # between two frames at most
_LOOK_S = 0.2  # between two looks at whether anybody still waits
_turn = threading.Lock()  # of this process: one study at a time


# -- at each node -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServedPart:
    """What this node answers for (`holdfast.study.engine.scan.ArchivePart`)."""

    shard: NodeShard
    partitions: frozenset[int]
    head: dict[str, Any]
    rows: ServedRows

    def holds(self, capture: Capture) -> bool:
        return self.rows.holds(capture)

    def batch_of(self, record: RecordId) -> str:
        return self.rows.origin_of(record).batch

    def name_in(self, snapshot: Snapshot, record: RecordId) -> RecordId | None:
        return self.rows.name_in(snapshot, record)

    def crawl_runs(self) -> Sequence[CrawlRun]:
        return [CrawlRun(*run) for run in self.head["runs"]]

    def matching(self, query: str) -> Numbers:
        about = {"text": query, "linked": self.head["linked"].get(query, ())}
        head = {"options": asdict(QueryOptions(limit=0)), "is_public": False, **about}
        return shard_query(self.shard, head, self.partitions).matching()

    def numbers(self) -> Numbers:
        return np.sort(
            np.array(served_numbers(self.shard, self.shard.archive.index.view(), self.partitions), np.uint64)
        )


def answer_totals(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """How many captures a study reads here, copies included."""
    return {"captures": StudySource(shard.archive, head["collection"]).captures}, []


def answer_runs(shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse:
    """The runs of crawls, by the logs of this node."""
    return {"runs": list(crawl_runs(shard.archive))}, []


def _gather(
    shard: NodeShard, head: dict[str, Any], partitions: frozenset[int], directory: Path, progress: Progress
) -> None:
    """The partial result of this node."""
    permits = shard.access.permits if head["is_public"] and not shard.access.is_open else None
    part = ServedPart(shard, partitions, head, shard.rows(partitions))
    study = unpacked_study(head["study"])
    if isinstance(study, SampleStudy):
        require_pulled(shard, Snapshot(dict(study.ends)), head["following"], partitions)
    source = StudySource(shard.archive, head["collection"], permits, progress, part)
    partial_result(study, source, directory)


class _Stopped(Exception):
    """Nobody waits for the result."""


class StudyFrames:
    """The response of this node to another: a study that runs in a thread, in frames. Any thread may call."""

    def __init__(self, shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> None:
        """Begins."""
        self._frames: queue.Queue[bytes] = queue.Queue(_QUEUED)
        self._stopping = threading.Event()
        self._done = 0
        arguments = (shard, head, partitions)
        threading.Thread(target=self._run, args=arguments, name="study of a node", daemon=True).start()

    def next(self) -> bytes:
        """The next frame, within a second; nothing after the last one."""
        try:
            return self._frames.get(timeout=_FRAME_S)
        except queue.Empty:
            return _frame({"done": self._done})

    def stop(self) -> None:
        """The study ends soon, whatever it has."""
        self._stopping.set()

    def _run(self, shard: NodeShard, head: dict[str, Any], partitions: frozenset[int]) -> None:
        try:
            try:
                with _Turn(self._check), ScratchDirectory("study of a node") as scratch:
                    directory = scratch.path / "partial"
                    directory.mkdir()
                    _gather(shard, head, partitions, directory, self._advance)
                    for path in sorted(directory.iterdir()):
                        self._send_file(path)
                self._put(_frame({"done": self._done, "end": True}))
            except _Stopped:
                raise
            except HoldfastError as error:
                if error.http_status >= 500:
                    log.error("a study for another node failed: %s", error)
                self._put(_frame({"failure": True}, pack_failure(error)))
            except Exception as error:  # the edge of a thread
                log.exception("a study for another node failed")
                self._put(_frame({"failure": True}, pack_failure(ClusterDown(f"the study failed: {error!r}"))))
            self._put(b"")
        except _Stopped:
            log.info("a study for another node was stopped: it does not wait any more")

    def _advance(self, count: int) -> None:
        self._check()
        self._done += count

    def _check(self) -> None:
        if self._stopping.is_set():
            raise _Stopped

    def _send_file(self, path: Path) -> None:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                self._put(_frame({"file": path.name}, piece))

    def _put(self, frame: bytes) -> None:
        while True:
            self._check()
            try:
                return self._frames.put(frame, timeout=_LOOK_S)
            except queue.Full:
                continue


class _Turn:
    """Waits until no other study of this process gathers; `check` may raise meanwhile."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check

    def __enter__(self) -> None:
        while not _turn.acquire(timeout=_LOOK_S):
            self._check()

    def __exit__(self, *_: object) -> None:
        _turn.release()


def _frame(head: dict[str, Any], raw: bytes = b"") -> bytes:
    text = json.dumps(head).encode()
    return _HEAD.pack(len(text), len(raw)) + text + raw


# -- at the node that was asked ---------------------------------------------------------------------------------------


def captures_on_all(scatter: Scatter, collection: str | None) -> int:
    """How many captures all nodes read for a study, copies included."""
    round_ = scatter.begin(by_index=True)
    found = round_.gather(lambda group: round_.ask(group, "totals", {"collection": collection})[0]["captures"])
    return int(sum(found))


@contextmanager
def gathered_on_all(
    scatter: Scatter, shard: NodeShard, study: Study, collection: str | None, progress: Progress, *, is_public: bool
) -> Iterator[PartialResults]:
    """The partial results of all nodes; a sample takes them of every partition, or of none.

    Raises as on one machine, UsageError for what needs ranks, ClusterDown.
    """
    round_ = scatter.begin(by_index=True)
    head: dict[str, Any] = {"study": packed_study(study), "collection": collection, "is_public": is_public}
    head["linked"] = _linked(scatter, study, is_public=is_public)
    head["runs"], head["following"] = [], []
    if head["study"]["options"].get("by") == "crawl":
        found = round_.gather(lambda group: round_.ask(group, "runs", {})[0]["runs"])
        head["runs"] = [run for runs in found for run in runs]
    if isinstance(study, SampleStudy):
        head["following"] = [name for name in study.ends if is_followed(name, round_)]
    with ScratchDirectory("study of a cluster") as scratch:
        fetch = _Fetch(round_, scatter, shard, head, scratch.path, progress)
        with ThreadPoolExecutor(_threads(round_), "holdfast-study") as pool:  # a study is long: others go on beside it
            try:
                partials = round_.gather(fetch.partial_of, pool.submit)
            except BaseException:
                fetch.stop()
                raise
        if not partials or (round_.coverage.missing and isinstance(study, SampleStudy)):
            raise ClusterDown(f"not all nodes respond ({round_.coverage} partitions are missing)")
        yield PartialResults(partials, round_.coverage)


def _threads(round_: Round) -> int:
    return max(1, len(round_.table.live))


def _linked(scatter: Scatter, study: Study, *, is_public: bool) -> dict[str, list[tuple[int, list[int]]]]:
    """Of each query of a study: the targets of pages that it names as sources of links."""
    queries = study.queries if isinstance(study, TopicStudy | SampleStudy) else []
    linked = {}
    for text in queries:
        expression = parse(text)
        if is_ranked(expression):
            raise UsageError("page ranks are computed by each node for itself: a cluster cannot be studied by them")
        about = {"text": text, "options": asdict(QueryOptions(limit=0)), "is_public": is_public}
        linked[text] = linked_pages(scatter, expression, about)
    return linked


class _Fetch:
    """Fetches the partial results of all nodes, each into a directory. Any thread may call."""

    def __init__(
        self,
        round_: Round,
        scatter: Scatter,
        shard: NodeShard,
        head: dict[str, Any],
        directory: Path,
        progress: Progress,
    ) -> None:
        self._round = round_
        self._scatter = scatter
        self._shard = shard
        self._head = head
        self._directory = directory
        self._progress = progress
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._count = 0

    def stop(self) -> None:
        """What runs ends soon, with an error."""
        self._stopping.set()

    def partial_of(self, group: NodeGroup) -> Path:
        """The partial result of a group. Raises NodeFailure, and what the study raises."""
        with self._lock:
            self._count += 1
            directory = self._directory / f"partial-{self._count}"  # another one, if a node is asked twice
        directory.mkdir()
        if group.node == self._round.table.node:
            with _Turn(self._check):
                _gather(self._shard, self._head, group.partitions, directory, self._advance)
        else:
            with self._scatter.opened(self._round.table, group, STUDY, self._head) as source:
                self._receive(source, group.node, directory)
        return directory

    def _advance(self, count: int) -> None:
        self._check()
        with self._lock:
            self._progress(count)

    def _check(self) -> None:
        if self._stopping.is_set():
            raise ClusterDown("the study was ended")

    def _receive(self, source: PeerResponse, node: str, directory: Path) -> None:
        done = 0
        files: dict[str, BinaryIO] = {}
        try:
            while True:
                head, raw = _received(source, node)
                if head.get("failure"):
                    raise_failure(node, raw)
                if "file" in head:
                    name = Path(str(head["file"])).name
                    if name not in files:
                        files[name] = (directory / name).open("wb")
                    files[name].write(raw)
                if "done" in head:
                    self._advance(int(head["done"]) - done)
                    done = int(head["done"])
                if head.get("end"):
                    return
        finally:
            for file in files.values():
                file.close()


def _received(source: PeerResponse, node: str) -> tuple[dict[str, Any], bytes]:
    """One frame. Raises NodeFailure if it is cut off, or is none."""
    text_bytes, raw_bytes = _HEAD.unpack(_exactly(source, _HEAD.size, node))
    if text_bytes > _JSON_BYTES_MAX or raw_bytes > _PIECE_BYTES:
        raise NodeFailure(f"node '{node}' sends a frame of {text_bytes + raw_bytes} bytes")
    try:
        head = json.loads(_exactly(source, text_bytes, node))
    except ValueError:
        raise NodeFailure(f"node '{node}' sends a frame whose head is not JSON") from None
    return head, _exactly(source, raw_bytes, node)


def _exactly(source: PeerResponse, count: int, node: str) -> bytes:
    pieces = []
    while count:
        piece = source.read(count)
        if not piece:
            raise NodeFailure(f"node '{node}' ended in the middle of a study")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
