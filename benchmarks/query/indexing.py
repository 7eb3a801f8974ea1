"""Indexing: the whole build, and its second half alone, with text, title and links given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.measure import bytes_on_disk, measured
from benchmarks.harness.process import ChildFailed
from benchmarks.query.workload import BARE, QueryWorkload

if TYPE_CHECKING:
    from holdfast.index.workers.worker import IndexTask, TaskResult

GIVEN = 20_000  # documents held in memory with their text, at most


def build_index(path: Path, captures: int) -> Figure:
    """Builds the index of the archive on all cores."""
    from holdfast.archive import open

    with open(path, read_only=True) as archive:
        report, cost = measured(archive.index.build)
        archive.index.rank()
    if report.documents != captures:
        raise ChildFailed(f"{report.documents} documents were indexed, expected {captures}")
    disk, _ = bytes_on_disk(path / "index")
    return Figure(OURS, QueryWorkload.BUILD, captures, cost, content_bytes=report.bytes, disk_bytes=disk)


def index_given_text(path: Path, scratch: Path) -> Figure:
    """Hands the results of the workers to the index writer, as a build does."""
    from holdfast.archive import open
    from holdfast.config import IndexSettings
    from holdfast.env import REAL
    from holdfast.index import paths
    from holdfast.index.build import IndexWriter
    from holdfast.index.index import Index
    from holdfast.index.state import IndexState

    harvests = given(path)
    scratch.mkdir()
    with open(path, read_only=True) as archive:
        index = Index(scratch, IndexSettings(), REAL, lambda: archive.catalog)
        REAL.files.make_directory(index.directory)

        def work() -> None:
            with IndexWriter(index, IndexState(1), paths.STATE) as writer:
                writer.number_batches(list(dict.fromkeys(task.batch for task, _ in harvests)))
                for task, harvest in harvests:
                    writer.add(task, harvest)
                writer.commit()

        _, cost = measured(work)
        found = index.status().documents
    documents = sum(len(harvest.documents) for _, harvest in harvests)
    if found != documents:
        raise ChildFailed(f"{found} documents are in the index, expected {documents}")
    return Figure(OURS, QueryWorkload.INDEX, documents, cost, disk_bytes=bytes_on_disk(scratch)[0])


def index_bare(path: Path, scratch: Path) -> Figure:
    """Indexes title, text and number of the same documents, with one commit."""
    import tantivy

    from holdfast.index.build import WRITER_BYTES, WRITER_THREADS
    from holdfast.index.schema import WORDS, analyzer

    texts = [
        (document["record"], document.get("title", ""), [document.get("main", ""), *document.get("rest", ())])
        for _, harvest in given(path)
        for document in harvest.documents
    ]
    scratch.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("record", indexed=True, fast=True)
    for name in ("title", "text"):
        builder.add_text_field(name, tokenizer_name=WORDS)
    schema = builder.build()
    index = tantivy.Index(schema, path=str(scratch))
    index.register_tokenizer(WORDS, analyzer())

    def work() -> None:
        writer = index.writer(WRITER_BYTES, WRITER_THREADS)
        for record, title, text in texts:
            document = tantivy.Document()
            document.add_unsigned("record", record)
            document.add_text("title", title)
            for part in text:
                document.add_text("text", part)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()

    _, cost = measured(work)
    index.reload()
    if index.searcher().num_docs != len(texts):
        raise ChildFailed(f"{index.searcher().num_docs} documents are in the index, expected {len(texts)}")
    return Figure(BARE, QueryWorkload.INDEX, len(texts), cost, disk_bytes=bytes_on_disk(scratch)[0])


def given(path: Path) -> Sequence[tuple[IndexTask, TaskResult]]:
    """The workers' results for the first documents of an archive, computed in this process."""
    from holdfast.archive import open
    from holdfast.index.extract.extract import ExtractionLimits
    from holdfast.index.state import IndexState, targets
    from holdfast.index.workers.pool import tasks
    from holdfast.index.workers.worker import TaskReader

    found: list[tuple[IndexTask, TaskResult]] = []
    with open(path, read_only=True) as archive:
        reader = TaskReader(archive.records, ExtractionLimits(), lambda serial: None)
        documents = 0
        for task in tasks(targets(IndexState(1), archive.catalog), archive.catalog):
            harvest = reader.read(task, {})
            found.append((task, harvest))
            documents += len(harvest.documents)
            if documents >= GIVEN:
                break
    return found
