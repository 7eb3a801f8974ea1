"""Drawing a sample: stratified, without replacement, reproducible.

What can be drawn are captures with a payload that were answered with 2xx, or have no status, and are not revisits.
Each has a number, which is a keyed hash of its URL key, time and digest under the seed; in a stratum of N captures,
ordered by these numbers, the capture at place i has the *inclusion fraction*

    (i + u) / N       0 <= u < 1, a hash of the stratum under the seed

The sample are the captures with the lowest fractions, up to its size. So every stratum gives its share, rounded down or
up with the right probability; samples of one seed are nested; and neither the order of the catalog nor that of batches
matters. Allocated equally, the fraction is i + u.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import islice

from holdfast.errors import UsageError
from holdfast.model import Capture
from holdfast.streams.snapshot import Snapshot
from holdfast.study.engine.database import RowBuffer, StudyDatabase
from holdfast.study.engine.matches import QueryMatches
from holdfast.study.engine.periods import PeriodUnit, periods_of
from holdfast.study.engine.scan import Observation, StudySource
from holdfast.study.engine.sites import kind_of_site, site_of
from holdfast.study.engine.tally import power_of
from holdfast.study.samples.options import SampleOptions

UNDATED = "undated"
_CHUNK = 4096
_HASH_BYTES = 8
_POPULATION = (
    *(("stratum", "VARCHAR"), ("key", "BIGINT"), ("batch", "VARCHAR"), ("serial", "BIGINT"), ("size", "BIGINT")),
    *(("site", "VARCHAR"), ("kind", "VARCHAR"), ("type", "VARCHAR"), ("time", "VARCHAR"), ("power", "INTEGER")),
    *(("url", "VARCHAR"), ("timestamp", "VARCHAR"), ("mime", "VARCHAR"), ("digest", "VARCHAR")),
)


class SampleDraw:
    """Reads what can be drawn into the table `population`, and draws `sample` from it."""

    def __init__(self, options: SampleOptions, source: StudySource, database: StudyDatabase) -> None:
        self._options = options
        self._source = source
        self._database = database
        self._seed = blake2b(options.seed.encode(), digest_size=32).digest()
        self._at = list(PeriodUnit).index(PeriodUnit(options.unit))
        self.revisits = 0  # left out
        self.pending = 0  # left out, not indexed

    def run(self, snapshot: Snapshot) -> None:
        """Draws from the captures of the snapshot. Raises UsageError if there are not enough."""
        self._read(snapshot)
        order = "key, batch, serial"
        divisor = "of" if self._options.allocation == "proportional" else "1"
        self._database.execute(
            f"CREATE TABLE ranked AS SELECT population.*, (place + start) / {divisor} AS fraction FROM ("
            f"SELECT *, row_number() OVER (PARTITION BY stratum ORDER BY {order}) - 1 AS place, "
            "count(*) OVER (PARTITION BY stratum) AS of FROM population) AS population JOIN starts USING (stratum)"
        )
        self._require_enough()
        if self._options.captures:
            chosen = f"SELECT * FROM ranked ORDER BY fraction, {order} LIMIT {self._options.captures}"
        else:
            chosen = (
                f"SELECT * EXCLUDE (up_to) FROM (SELECT *, sum(size) OVER (ORDER BY fraction, {order} "
                f"ROWS UNBOUNDED PRECEDING) AS up_to FROM ranked) WHERE up_to <= {self._options.bytes_max}"
            )
        self._database.execute(f"CREATE TABLE sample AS {chosen}")
        if not self._database.value("SELECT count(*) FROM sample"):
            raise UsageError(
                f"the first capture of the sample has more than {self._options.bytes_max:,} bytes: give more, or "
                "another seed"
            )

    def _require_enough(self) -> None:
        count, size = (
            self._database.value(f"SELECT {what} FROM ranked")
            for what in ("count(*)", "coalesce(sum(size), 0)::BIGINT")
        )
        if not count:
            reason = "" if not self.revisits else f"; {self.revisits:,} revisits are not drawn"
            raise UsageError(f"there is nothing to draw from: no capture with a payload and a status of 2xx{reason}")
        if self._options.captures > count:
            raise UsageError(f"a sample of {self._options.captures:,} captures is impossible: there are {count:,}")
        if self._options.bytes_max > size:
            raise UsageError(f"a sample of {self._options.bytes_max:,} bytes is impossible: there are {size:,}")

    # -- what can be drawn ---------------------------------------------------------------------------------------------

    def _read(self, snapshot: Snapshot) -> None:
        options = self._options
        queries = [*options.topics, *([options.within] if options.within else [])]
        matches = QueryMatches(self._source, queries) if queries else None
        rows = RowBuffer(self._database, "population", _POPULATION)
        strata: set[str] = set()
        starts = RowBuffer(self._database, "starts", (("stratum", "VARCHAR"), ("start", "DOUBLE")))
        wanted = (each for each in self._source.observations() if each.capture.record in snapshot)
        while some := list(islice(wanted, _CHUNK)):
            numbers = matches.numbers(each.capture.record for each in some) if matches is not None else None
            flags = (
                [matches.flags(at, numbers) for at in range(len(queries))] if matches and numbers is not None else []
            )
            for at, each in enumerate(some):
                if not self._can_be_drawn(each):
                    continue
                if numbers is not None and not numbers[at]:
                    self.pending += 1
                elif not options.within or flags[-1][at]:
                    topics = [topic for topic, found in zip(options.topics, flags, strict=False) if found[at]]
                    row = self._row(each, topics)
                    rows.add(row)
                    if row[0] not in strata:
                        strata.add(str(row[0]))
                        starts.add((row[0], self._hash(str(row[0]).encode()) / 2**63))
        rows.flush()
        starts.flush()

    def _can_be_drawn(self, each: Observation) -> bool:
        if not each.digest or not (each.status == 0 or 200 <= each.status < 300):
            return False
        if each.capture.type == "revisit":
            self.revisits += 1
            return False
        return True

    def _row(self, each: Observation, topics: list[str]) -> tuple[object, ...]:
        capture = each.capture
        site, kind = site_of(each.host), kind_of_site(each.host)
        time = periods_of(capture.timestamp[:8])[self._at] if each.time_s >= 0 else UNDATED
        values = {"site": site, "type": each.type, "time": time, "topic": " + ".join(topics) or "none"}
        stratum = " | ".join(values[name] for name in self._options.by) or "all"
        record = capture.record.batch, capture.record.serial
        facts = (_text(capture.url), capture.timestamp, _text(capture.mime), _text(each.digest))
        about = site, kind, each.type, time, power_of(each.size)
        return _text(stratum), self._hash(_identity(capture)), *record, each.size, *about, *facts

    def _hash(self, value: bytes) -> int:
        """63 bits."""
        return int.from_bytes(blake2b(value, digest_size=_HASH_BYTES, key=self._seed).digest()) >> 1


def _identity(capture: Capture) -> bytes:
    return f"{capture.urlkey}\0{capture.timestamp}\0{capture.digest}".encode("utf-8", "surrogateescape")


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()
