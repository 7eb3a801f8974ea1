"""Workloads and subjects, and which subject has which workload."""

from __future__ import annotations

from enum import StrEnum

from benchmarks.harness.comparison import SubjectFacts
from benchmarks.harness.figure import OURS


class QueryWorkload(StrEnum):
    """What is measured. One operation is one document, or one query."""

    BUILD = "build"  # the index of an archive
    INDEX = "index"  # the same with text, title and links given
    WORD = "word"  # one word: ten hits with title and address, and their total
    PHRASE = "phrase"  # two adjacent words
    FILTERED = "filtered"  # a word, within a year, not on one host
    FACETS = "facets"  # a word, with all facets and the timeline
    SNIPPETS = "snippets"  # a word, with a piece of the text of each hit


BARE = "tantivy"
SEARCHES = (
    QueryWorkload.WORD,
    QueryWorkload.PHRASE,
    QueryWorkload.FILTERED,
    QueryWorkload.FACETS,
    QueryWorkload.SNIPPETS,
)
UNITS: dict[str, str] = {
    **dict.fromkeys(SEARCHES, "queries per second"),
    QueryWorkload.BUILD: "documents per second",
    QueryWorkload.INDEX: "documents per second",
}
SUBJECTS: dict[str, SubjectFacts] = {
    OURS: SubjectFacts(
        "Holdfast",
        {
            QueryWorkload.BUILD: "'index build': contents, text, language, links; words and tables, durable",
            QueryWorkload.INDEX: "the words with all their fields, all tables, durable",
            QueryWorkload.WORD: "archive.query, in process",
            QueryWorkload.PHRASE: "archive.query, in process",
            QueryWorkload.FILTERED: "archive.query, in process",
            QueryWorkload.FACETS: "archive.query, six facets over all matches",
            QueryWorkload.SNIPPETS: "archive.query; the text of ten captures is extracted again",
        },
        ("pyarrow", "tantivy", "turbohtml"),
    ),
    BARE: SubjectFacts(
        "tantivy",
        {
            QueryWorkload.INDEX: "title, text and a number, as many threads and as much memory",
            QueryWorkload.WORD: "its searcher on the same files: ten hits and their number, nothing read",
            QueryWorkload.PHRASE: "the same",
        },
        ("tantivy",),
    ),
}
