"""The rows: which benchmark measures each, with which arguments, and where its figures stand in the JSON report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Place = Mapping[str, object]  # fields that a result must have


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement of ours and the same of a peer."""

    name: str
    benchmark: str
    ours: Place
    peer: Place


@dataclass(frozen=True, slots=True)
class Measured:
    """Our CPU time per operation, and how many times faster than the peer we were."""

    cpu_us: float
    ratio: float | None  # None: the peer is not installed


ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "store": (
        *("--documents", "2000", "--only", "holdfast", "--only", "holdfast-batches", "--only", "warcio"),
        *("--workload", "store-new", "--workload", "fetch-random"),
    ),
    "archive": ("--pages", "3000", "--captures", "0", "--workload", "import", "--workload", "export"),
    "crawl": ("--pages", "2500", "--crawlers", "holdfast,scrapy"),
    "replay": ("--pages", "2000", "--seconds", "2", "--workload", "replay", "--workload", "raw"),
    "webstore": ("--pages", "1500", "--clients", "10", "--experiments", "1,2,3", "--peers", "reference"),
    "query": ("--pages", "2500", "--workload", "index"),
    "stream": ("--pages", "5000", "--captures", "0", "--workload", "raw", "--only", "holdfast", "--only", "zstd"),
}


def _store(name: str, subject: str, workload: str, callers: int) -> Row:
    return Row(
        name,
        "store",
        {"subject": subject, "workload": workload, "callers": callers},
        {"subject": "warcio", "workload": workload, "callers": 1},
    )


def _replay(workload: str) -> Row:
    return Row(
        f"replay, {workload}",
        "replay",
        {"server": "holdfast", "workload": workload},
        {"server": "pywb-uwsgi", "workload": workload},
    )


def _webstore(line: str) -> Row:
    return Row(
        f"volume server, 10 clients, {line}",
        "webstore",
        {"subject": "holdfast", "line": line, "clients": 10},
        {"subject": "reference", "line": line, "clients": 10},
    )


def _workload(name: str, benchmark: str, workload: str, peer: str) -> Row:
    return Row(name, benchmark, {"subject": "holdfast", "workload": workload}, {"subject": peer, "workload": workload})


ROWS = (
    _store("put, 1 caller", "holdfast", "store-new", 1),
    _store("put, 16 callers", "holdfast", "store-new", 16),
    _store("put, batches of 256", "holdfast-batches", "store-new", 1),
    _store("fetch, 1 caller", "holdfast", "fetch-random", 1),
    _workload("import of gzip WARC", "archive", "import", "cdxj-indexer"),
    _workload("export to gzip WARC", "archive", "export", "warcio"),
    Row("crawl with index", "crawl", {"crawler": "holdfast"}, {"crawler": "scrapy"}),
    _replay("replay"),
    _replay("raw"),
    _webstore("retrieve"),
    _webstore("store-new"),
    _webstore("delete"),
    _workload("index", "query", "index", "tantivy"),
    _workload("stream of raw contents", "stream", "raw", "zstd"),
)
_RATES = ("per_s", "pages_per_s", "requests_per_s")


def figures_of(row: Row, report: Mapping[str, Any]) -> Measured | None:
    """The row's figures in the JSON report of its benchmark; None if we have none there."""
    ours, peer = (_find(report["results"], place) for place in (row.ours, row.peer))
    if ours is None:
        return None
    cpu_us = ours["cpu_us"] if "cpu_us" in ours else 1000 * ours["cpu_ms"]
    return Measured(cpu_us, _rate(ours) / _rate(peer) if peer is not None else None)


def _find(results: list[dict[str, Any]], place: Place) -> dict[str, Any] | None:
    return next((each for each in results if all(each.get(key) == value for key, value in place.items())), None)


def _rate(result: Mapping[str, Any]) -> float:
    return next(float(result[name]) for name in _RATES if name in result)
