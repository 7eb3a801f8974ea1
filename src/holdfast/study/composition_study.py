"""What an archive is made of: the figures from which storage, bandwidth and nodes are planned.

Captures with a payload by type, their sizes, lengths of URLs, links of pages, compression, and how many pages change
in a day. Sizes and lengths are counted in powers of two: counts of several archives add up, medians are read off them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.archive import Archive
from holdfast.arguments import checked
from holdfast.catalog.query.search import Permits
from holdfast.env.units import rounded_duration
from holdfast.errors import IndexNotFound
from holdfast.study.change_study import PageVisit, durations
from holdfast.study.chart import Panel, Series
from holdfast.study.engine.database import RowBuffer, StudyDatabase
from holdfast.study.engine.index_rows import missing_file, shown_rows
from holdfast.study.engine.run import ClusterArchive, run_study
from holdfast.study.engine.scan import Progress, StudySource
from holdfast.study.engine.tally import Tally, median_of_powers, power_name, power_of
from holdfast.study.result import StudyResult
from holdfast.study.statistics.survival import Count, bin_of, change_rate

TYPES_MAX = 1000
_DAY_S = 86_400
_TRIES = 5


class CompositionStudy:
    """Reads the catalog, the links of the index if there is one, and the totals of the volumes."""

    def gather(self, source: StudySource, database: StudyDatabase, directory: Path) -> None:
        """Partial result: `counts`: what, name, bin, number, sum."""
        tally = Tally(RowBuffer(database, "counts", Tally.COLUMNS))
        urlkey, visits = "", list[PageVisit]()
        undated = 0
        for each in source.observations():
            if each.capture.urlkey != urlkey:
                _count_intervals(tally, visits)
                urlkey, visits = each.capture.urlkey, []
                tally.add("url", "all", power_of(len(each.capture.url)), len(each.capture.url))
            if not each.digest or not (each.status == 0 or 200 <= each.status < 300):
                continue
            tally.add("type", each.type, power_of(each.size), each.size)
            if each.type == "html" and each.time_s >= 0:
                visits.append(PageVisit(each.time_s, each.digest, -1))
            undated += each.time_s < 0
        _count_intervals(tally, visits)
        tally.add("undated", "all", 0, undated)
        for report in source.archive.volumes():
            if report.stat is not None:
                tally.add("volume", "contents", 0, report.stat.content_bytes)
                tally.add("volume", "stored", 0, report.stat.stored_bytes)
        if source.permits is None and source.collection is None:
            _count_links(tally, source)
        tally.flush()
        database.write(Tally.MERGED, directory / "counts.parquet")

    def finish(self, partials: Sequence[Path], database: StudyDatabase) -> StudyResult:
        """Tables `figures`, `types`, `sizes` and `lengths`."""
        import pyarrow

        database.read("counts", [each / "counts.parquet" for each in partials])
        counts = Tally.read(database)
        types = _types(counts)
        captures = sum(row["captures"] for row in types)
        figures = _figures(counts, types) if captures else []
        sizes = _histogram(counts, "type")
        lengths = [{name: row[name] for name in ("from_length", "to_length", "urls")} for row in _lengths(counts)]
        tables = {
            "figures": pyarrow.Table.from_pylist(figures, pyarrow.schema(_FIGURES)),
            "types": pyarrow.Table.from_pylist(types, pyarrow.schema(_TYPES)),
            "sizes": pyarrow.Table.from_pylist(sizes, pyarrow.schema(_SIZES)),
            "lengths": pyarrow.Table.from_pylist(lengths, pyarrow.schema(_LENGTHS)),
        }
        notes = []
        if not captures:
            notes.append("there are no captures with a content to study")
        elif ("links", "all") not in counts:
            notes.append("no links are counted: the index has none, or not the whole archive is studied")
        if 0 < (apart_s := _apart_s(counts)) < _DAY_S:
            apart = rounded_duration(apart_s)
            notes.append(f"pages were visited {apart} apart on average: the change per day is extrapolated from that")
        if undated := sum(each.seconds for each in counts.get(("undated", "all"), {}).values()):
            notes.append(f"captures without a date, not counted for change: {undated:,.0f}")
        return StudyResult("composition", tables, notes, _panels(types, sizes) if captures else ())


def _count_intervals(tally: Tally, visits: Sequence[PageVisit]) -> None:
    if len(visits) > 1:
        for each in durations(visits):
            if each.what == "interval":
                tally.add("change", "yes" if each.is_end else "no", bin_of(each.seconds), each.seconds)


def _count_links(tally: Tally, source: StudySource) -> None:
    """Links and the captures that have some; nothing without an index."""
    import pyarrow
    from pyarrow import compute

    links, pages = 0, 0
    for left in reversed(range(_TRIES)):
        links, pages, last = 0, 0, -1
        try:
            served = pyarrow.array(source.part.numbers()) if source.part is not None else None
            for shown in shown_rows(source.archive, "links", []):
                rows = shown if served is None else shown.filter(compute.is_in(shown["number"], value_set=served))
                distinct = compute.unique(rows["number"]).to_pylist()  # rows are sorted by record within a file
                links += len(rows)
                pages += len(distinct) - (1 if distinct and distinct[0] == last else 0)
                last = distinct[-1] if distinct else last
            break
        except IndexNotFound:
            return
        except FileNotFoundError as error:
            if not left:
                raise missing_file(error) from None
    if pages:
        tally.add("links", "all", 0, links)
        tally.add("pages", "all", 0, pages)


# -- what the counts say -----------------------------------------------------------------------------------------------

Counts = Mapping[tuple[str, str], Mapping[int, Count]]
_FIGURES = (("figure", "string"), ("value", "float64"), ("unit", "string"))
_TYPES = (
    *(("type", "string"), ("captures", "int64"), ("share", "float64"), ("bytes", "int64"), ("bytes_share", "float64")),
    *(("mean_bytes", "float64"), ("median_bytes", "float64")),
)
_SIZES = (("type", "string"), ("from_bytes", "int64"), ("to_bytes", "int64"), ("captures", "int64"))
_LENGTHS = (("from_length", "int64"), ("to_length", "int64"), ("urls", "int64"))


def _types(counts: Counts) -> list[dict[str, Any]]:
    """The most frequent first."""
    named = {name: bins for (what, name), bins in counts.items() if what == "type"}
    total = sum(each.number for bins in named.values() for each in bins.values())
    total_bytes = sum(each.seconds for bins in named.values() for each in bins.values())
    rows: list[dict[str, Any]] = []
    for name, bins in named.items():
        captures = sum(each.number for each in bins.values())
        size = sum(each.seconds for each in bins.values())
        rows.append(
            {
                "type": name,
                "captures": captures,
                "share": captures / total,
                "bytes": int(size),
                "bytes_share": size / total_bytes if total_bytes else None,
                "mean_bytes": size / captures,
                "median_bytes": median_of_powers(bins),
            }
        )
    return sorted(rows, key=lambda row: (-row["captures"], row["type"]))[:TYPES_MAX]


def _apart_s(counts: Counts) -> float:
    """The mean time between two visits of a page in a row; 0 without such."""
    found = [each for name in ("yes", "no") for each in counts.get(("change", name), {}).values()]
    return sum(each.seconds for each in found) / max(1, sum(each.number for each in found))


def _figures(counts: Counts, types: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a plan starts from; a figure that is not known is left out."""
    by_type = {row["type"]: row for row in types}

    def total(what: str, name: str) -> float:
        return sum(each.seconds for each in counts.get((what, name), {}).values())

    urls = counts.get(("url", "all"), {})
    number = sum(each.number for each in urls.values())
    captures = sum(row["captures"] for row in types)
    found: list[tuple[str, float | None, str]] = [
        ("captures", captures, ""),
        ("URLs", number, ""),
        ("mean size of a capture", sum(row["bytes"] for row in types) / captures, "bytes"),
        ("length of a URL", total("url", "all") / number if number else None, "characters"),
    ]
    for name, title in (("html", "page"), ("image", "image")):
        if name in by_type:
            found.append((f"{title}s among captures", 100 * by_type[name]["share"], "%"))
            found.append(
                (f"mean size of a{'n' if title == 'image' else ''} {title}", by_type[name]["mean_bytes"], "bytes")
            )
    if "html" in by_type and "image" in by_type:
        found.append(("images per page", by_type["image"]["captures"] / by_type["html"]["captures"], ""))
    if total("pages", "all"):
        found.append(("links per page that has links", total("links", "all") / total("pages", "all"), ""))
    if total("volume", "contents"):
        found.append(("stored bytes per byte of content", total("volume", "stored") / total("volume", "contents"), ""))
    rate = change_rate(counts.get(("change", "yes"), {}), counts.get(("change", "no"), {})).value
    if rate is not None:
        found.append(("pages that change per day", -100 * math.expm1(-rate * _DAY_S), "%"))
    return [{"figure": name, "value": value, "unit": unit} for name, value, unit in found if value is not None]


def _histogram(counts: Counts, what: str) -> list[dict[str, Any]]:
    found = []
    for (kind, name), bins in sorted(counts.items()):
        if kind == what:
            for bin, each in sorted(bins.items()):
                bounds = {"from_bytes": 1 << bin if bin >= 0 else 0, "to_bytes": 1 << bin + 1}
                found.append({"type": name, **bounds, "captures": each.number})
    return found


def _lengths(counts: Counts) -> list[dict[str, Any]]:
    bins = sorted(counts.get(("url", "all"), {}).items())
    return [{"from_length": 1 << bin, "to_length": 1 << bin + 1, "urls": each.number} for bin, each in bins]


def _panels(types: Sequence[Mapping[str, Any]], sizes: Sequence[Mapping[str, Any]]) -> list[Panel]:
    most = types[:12]
    shares = [
        Series("captures", [100 * row["share"] for row in most]),
        Series("bytes", [100 * (row["bytes_share"] or 0) for row in most]),
    ]
    panels = [Panel("What there is", "type", "share (%)", shares, [row["type"] for row in most])]
    shown = [row["type"] for row in types[:3]]
    bins = range(
        min(row["from_bytes"] for row in sizes).bit_length() - 1, max(row["to_bytes"] for row in sizes).bit_length() - 1
    )
    powers = [1 << bin for bin in bins if bin >= 0]
    series = []
    for name in shown:
        own = {row["from_bytes"]: row["captures"] for row in sizes if row["type"] == name}
        total = sum(own.values())
        series.append(Series(name, [100 * own.get(power, 0) / total for power in powers]))
    x_label = "bytes, from this to twice as many"
    panels.append(Panel("Sizes", x_label, "captures of the type (%)", series, [power_name(each) for each in powers]))
    return panels


@checked
def composition(
    archive: Archive | ClusterArchive | Sequence[Archive],
    *,
    collection: str | None = None,
    permits: Permits | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Types, sizes, links, compression and change, of one archive, of several as one, or of a cluster.

    Raises UnknownCollection.
    """
    return run_study(CompositionStudy(), archive, collection, permits, progress)
