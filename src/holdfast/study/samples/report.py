"""How well a sample represents the archive: distributions of both side by side, and their distances.

For each dimension, with the shares p of what can be drawn and q of the sample:

    total_variation      half the sum of |p - q|: the share of the sample that would have to be exchanged
    expected             the mean of that for a simple random sample of the same size: what chance alone makes
    jensen_shannon       divergence in bits, 0 to 1
    kolmogorov_smirnov   the largest difference of the cumulative shares, where values have an order
"""

from __future__ import annotations

from typing import Any

from holdfast.study.chart import Panel, Series
from holdfast.study.engine.database import StudyDatabase
from holdfast.study.engine.tally import power_name
from holdfast.study.result import StudyResult

DIMENSIONS = ("kind", "site", "type", "time", "size")
_ORDERED = ("time", "size")
_COLUMNS = {"size": "power"}  # where it is not that of the dimension
VALUES_MAX = 1000  # of a dimension
STRATA_MAX = 100_000  # in the table and the file of strata
_BARS_MAX = 12
_DIGITS = 6
_PANELS = {
    "kind": ("Kinds of site", "kind of site"),
    "type": ("Types", "type"),
    "time": ("Times of capture", "time of capture"),
    "size": ("Sizes", "bytes, from this to twice as many"),
}


def _make_distributions(database: StudyDatabase) -> None:
    """Creates the table `shares` from `population` and `sample`: a row for each value of each dimension."""
    database.execute(
        "CREATE TABLE shares (dimension VARCHAR, value VARCHAR, place DOUBLE, captures BIGINT, sampled BIGINT)"
    )
    for dimension in DIMENSIONS:
        column = _COLUMNS.get(dimension, dimension)
        place = column if dimension == "size" else "0"
        database.execute(
            f"INSERT INTO shares SELECT '{dimension}', {column}::VARCHAR, any_value({place}), count(*), "
            f"count(*) FILTER (is_sampled) FROM (SELECT {column}, FALSE AS is_sampled FROM population "
            f"UNION ALL SELECT {column}, TRUE FROM sample) GROUP BY {column}"
        )
    # the population was counted together with the sample
    database.execute("UPDATE shares SET captures = captures - sampled")


def _distances(database: StudyDatabase) -> list[dict[str, Any]]:
    """Rows of the table `distances`."""
    found = []
    for dimension in DIMENSIONS:
        query = f"""
            WITH pairs AS (
                SELECT value, place, captures / sum(captures) OVER () AS p, sampled / sum(sampled) OVER () AS q,
                       sum(captures) OVER () AS N, sum(sampled) OVER () AS n_sampled
                FROM shares WHERE dimension = '{dimension}'),
            steps AS (SELECT abs(sum(p - q) OVER (ORDER BY place, value)) AS step FROM pairs)
            SELECT count(*) AS number, sum(abs(p - q)) / 2 AS total_variation,
                   sum(sqrt(2 * p * (1 - p) / (pi() * n_sampled) * greatest(0, 1 - n_sampled / N))) / 2 AS expected,
                   sum(CASE WHEN p > 0 THEN p * log2(2 * p / (p + q)) ELSE 0 END
                     + CASE WHEN q > 0 THEN q * log2(2 * q / (p + q)) ELSE 0 END) / 2 AS jensen_shannon,
                   (SELECT max(step) FROM steps) AS kolmogorov_smirnov
            FROM pairs
        """
        row = database.rows(query).to_pylist()[0]
        rounded = {  # sums of many fractions: their last digits depend on the order in which they were added
            name: round(max(0.0, row[name]), _DIGITS)
            for name in ("total_variation", "expected", "jensen_shannon", "kolmogorov_smirnov")
        }
        if dimension not in _ORDERED:
            del rounded["kolmogorov_smirnov"]
        found.append({"dimension": dimension, "values": row["number"], "kolmogorov_smirnov": None, **rounded})
    return found


def _distributions(database: StudyDatabase) -> list[dict[str, Any]]:
    """Rows of the table `distributions`: the most frequent values of each dimension; all of one with an order."""
    found: list[dict[str, Any]] = []
    for dimension in DIMENSIONS:
        order = "place, value" if dimension in _ORDERED else "captures DESC, value"
        query = f"""
            SELECT dimension, value, captures, captures / sum(captures) OVER () AS share,
                   sampled, sampled / sum(sampled) OVER () AS sampled_share
            FROM shares WHERE dimension = '{dimension}' ORDER BY {order} LIMIT {VALUES_MAX}
        """
        for row in database.rows(query).to_pylist():
            if dimension == "size":
                power = int(row["value"])
                row["value"] = f"from {power_name(1 << power)}" if power >= 0 else "0"
            found.append(row)
    return found


def _panels_of(rows: list[dict[str, Any]]) -> list[Panel]:
    """A panel for each dimension but sites, archive beside sample."""
    panels = []
    for dimension, (title, x_label) in _PANELS.items():
        own = [row for row in rows if row["dimension"] == dimension]
        shown = own if dimension in _ORDERED else own[:_BARS_MAX]
        series = [
            Series("archive", [100 * row["share"] for row in shown]),
            Series("sample", [100 * row["sampled_share"] for row in shown]),
        ]
        names = [row["value"].removeprefix("from ") for row in shown]
        panels.append(Panel(title, x_label, "captures (%)", series, names))
    return panels


_SIZES = """
    SELECT 'archive' AS what, count(*) AS captures, sum(size)::BIGINT AS bytes, count(DISTINCT stratum) AS strata,
           count(DISTINCT site) AS sites FROM population
    UNION ALL
    SELECT 'sample', count(*), sum(size)::BIGINT, count(DISTINCT stratum), count(DISTINCT site) FROM sample
"""
_STRATA = f"""
    SELECT stratum, captures, bytes, coalesce(sampled, 0) AS sampled, coalesce(sampled_bytes, 0) AS sampled_bytes,
           captures / sampled AS weight
    FROM (SELECT stratum, count(*) AS captures, sum(size)::BIGINT AS bytes FROM population GROUP BY stratum)
    LEFT JOIN (SELECT stratum, count(*) AS sampled, sum(size)::BIGINT AS sampled_bytes FROM sample GROUP BY stratum)
    USING (stratum) ORDER BY captures DESC, stratum LIMIT {STRATA_MAX}
"""
_DISTANCES = (
    *(("dimension", "string"), ("values", "int64"), ("total_variation", "float64"), ("expected", "float64")),
    *(("jensen_shannon", "float64"), ("kolmogorov_smirnov", "float64")),
)
_DISTRIBUTIONS = (
    *(("dimension", "string"), ("value", "string"), ("captures", "int64"), ("share", "float64")),
    *(("sampled", "int64"), ("sampled_share", "float64")),
)


def sample_report(database: StudyDatabase, notes: list[str]) -> StudyResult:
    """Tables `sizes`, `distances`, `distributions` and `strata`."""
    import pyarrow

    _make_distributions(database)
    rows = _distributions(database)
    tables: dict[str, Any] = {
        "sizes": database.rows(f"SELECT * FROM ({_SIZES}) ORDER BY what"),
        "distances": pyarrow.Table.from_pylist(_distances(database), pyarrow.schema(_DISTANCES)),
        "distributions": pyarrow.Table.from_pylist(rows, pyarrow.schema(_DISTRIBUTIONS)),
        "strata": database.rows(_STRATA),
    }
    return StudyResult("sample", tables, notes, _panels_of(rows))
