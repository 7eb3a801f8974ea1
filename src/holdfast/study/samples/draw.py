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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.errors import UsageError
from holdfast.model import Capture, RecordId
from holdfast.streams.snapshot import Snapshot
from holdfast.study.engine.database import RowBuffer, StudyDatabase
from holdfast.study.engine.matches import QueryMatches
from holdfast.study.engine.periods import PeriodUnit, periods_of
from holdfast.study.engine.scan import Observation, StudySource
from holdfast.study.engine.sites import kind_of_site, site_of
from holdfast.study.engine.tally import power_of
from holdfast.study.result import StudyResult
from holdfast.study.samples.options import SampleOptions
from holdfast.study.samples.report import sample_report

UNDATED = "undated"
_LEFT_OUT = (("revisits", "BIGINT"), ("pending", "BIGINT"))
_CHUNK = 4096
_HASH_BYTES = 8
_POPULATION = (
    *(("stratum", "VARCHAR"), ("key", "BIGINT"), ("batch", "VARCHAR"), ("serial", "BIGINT"), ("size", "BIGINT")),
    *(("site", "VARCHAR"), ("kind", "VARCHAR"), ("type", "VARCHAR"), ("time", "VARCHAR"), ("power", "INTEGER")),
    *(("url", "VARCHAR"), ("timestamp", "VARCHAR"), ("mime", "VARCHAR"), ("digest", "VARCHAR")),
)


@dataclass(frozen=True, slots=True)
class SampleStudy:
    """What can be drawn, gathered from each archive or node; and the sample, drawn from all of it."""

    asked: Mapping[str, Any]  # the options, as JSON has them
    ends: Mapping[str, int]  # of the snapshot: the first serial of each batch that does not count

    @property
    def options(self) -> SampleOptions:
        return SampleOptions.from_json(self.asked)

    @property
    def queries(self) -> list[str]:
        """Of topics, then of what can be drawn."""
        options = self.options
        return [*options.topics, *([options.within] if options.within else [])]

    def gather(self, source: StudySource, database: StudyDatabase, directory: Path) -> None:
        reader = _PopulationReader(self.options, source, database)
        reader.read(Snapshot(dict(self.ends)), self.queries)
        left_out = RowBuffer(database, "left_out", _LEFT_OUT)
        left_out.add((reader.revisits, reader.pending))
        left_out.flush()
        for name in ("population", "left_out"):
            database.write(f"SELECT * FROM {name}", directory / f"{name}.parquet")

    def finish(self, partials: Sequence[Path], database: StudyDatabase) -> StudyResult:
        """Draws; the captures of the sample are in the table `sample`. Raises UsageError if there are not enough."""
        for name in ("population", "left_out"):
            database.read(name, [path / f"{name}.parquet" for path in partials])
        revisits, pending = (
            database.value(f"SELECT sum({name})::BIGINT FROM left_out") for name in ("revisits", "pending")
        )
        _Draw(self.options, database).run(revisits)
        return sample_report(database, _notes(revisits, pending))


def _notes(revisits: int, pending: int) -> list[str]:
    notes = []
    if revisits:
        notes.append(f"{revisits:,} revisits have no payload of their own and are not drawn")
    if pending:
        notes.append(f"captures not indexed yet, not drawn: {pending:,}; run 'holdfast index update'")
    return notes


class _Draw:
    """Draws the table `sample` from `population`."""

    def __init__(self, options: SampleOptions, database: StudyDatabase) -> None:
        self._options = options
        self._database = database

    def run(self, revisits: int) -> None:
        """Raises UsageError if there are not enough; `revisits` were left out."""
        starts = RowBuffer(self._database, "starts", (("stratum", "VARCHAR"), ("start", "DOUBLE")))
        seed = _seed(self._options)
        for row in self._database.rows("SELECT DISTINCT stratum FROM population").to_pylist():
            starts.add((row["stratum"], _hash(seed, row["stratum"].encode()) / 2**63))
        starts.flush()
        order = "key, batch, serial"
        divisor = "of" if self._options.allocation == "proportional" else "1"
        self._database.execute(
            f"CREATE TABLE ranked AS SELECT population.*, (place + start) / {divisor} AS fraction FROM ("
            f"SELECT *, row_number() OVER (PARTITION BY stratum ORDER BY {order}) - 1 AS place, "
            "count(*) OVER (PARTITION BY stratum) AS of FROM population) AS population JOIN starts USING (stratum)"
        )
        self._require_enough(revisits)
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

    def _require_enough(self, revisits: int) -> None:
        count, size = (
            self._database.value(f"SELECT {what} FROM ranked")
            for what in ("count(*)", "coalesce(sum(size), 0)::BIGINT")
        )
        if not count:
            reason = "" if not revisits else f"; {revisits:,} revisits are not drawn"
            within = f", of those that {self._options.within!r} finds" if self._options.within else ""
            raise UsageError(
                f"there is nothing to draw from: no capture with a payload and a status of 2xx{within}{reason}"
            )
        if self._options.captures > count:
            there = f"there are {count:,}" if count > 1 else "there is 1"
            raise UsageError(f"a sample of {self._options.captures:,} captures is impossible: {there}")
        if self._options.bytes_max > size:
            raise UsageError(f"a sample of {self._options.bytes_max:,} bytes is impossible: there are {size:,}")


class _PopulationReader:
    """Reads what can be drawn into the table `population`."""

    def __init__(self, options: SampleOptions, source: StudySource, database: StudyDatabase) -> None:
        self._options = options
        self._source = source
        self._database = database
        self._seed = _seed(options)
        self._at = list(PeriodUnit).index(PeriodUnit(options.unit))
        self.revisits = 0  # left out
        self.pending = 0  # left out, not indexed

    def read(self, snapshot: Snapshot, queries: Sequence[str]) -> None:
        options = self._options
        matches = QueryMatches(self._source, queries) if queries else None
        rows = RowBuffer(self._database, "population", _POPULATION)
        wanted = self._named(snapshot)
        while some := list(islice(wanted, _CHUNK)):
            numbers = matches.numbers(each.capture.record for each, _ in some) if matches is not None else None
            flags = (
                [matches.flags(at, numbers) for at in range(len(queries))] if matches and numbers is not None else []
            )
            for at, (each, name) in enumerate(some):
                if not self._can_be_drawn(each):
                    continue
                if numbers is not None and not numbers[at]:
                    self.pending += 1
                elif not options.within or flags[-1][at]:
                    topics = [topic for topic, found in zip(options.topics, flags, strict=False) if found[at]]
                    rows.add(self._row(each, name, topics))
        rows.flush()

    def _named(self, snapshot: Snapshot) -> Iterator[tuple[Observation, RecordId]]:
        """What is in the snapshot, with the id by which the whole cluster knows it."""
        part = self._source.part
        for each in self._source.observations():
            record = each.capture.record
            name = (record if record in snapshot else None) if part is None else part.name_in(snapshot, record)
            if name is not None:
                yield each, name

    def _can_be_drawn(self, each: Observation) -> bool:
        if not each.digest or not (each.status == 0 or 200 <= each.status < 300):
            return False
        if each.capture.type == "revisit":
            self.revisits += 1
            return False
        return True

    def _row(self, each: Observation, name: RecordId, topics: list[str]) -> tuple[object, ...]:
        capture = each.capture
        site, kind = site_of(each.host), kind_of_site(each.host)
        time = periods_of(capture.timestamp[:8])[self._at] if each.time_s >= 0 else UNDATED
        values = {"site": site, "type": each.type, "time": time, "topic": " + ".join(topics) or "none"}
        stratum = " | ".join(values[name] for name in self._options.by) or "all"
        record = name.batch, name.serial
        facts = (_text(capture.url), capture.timestamp, _text(capture.mime), _text(each.digest))
        about = site, kind, each.type, time, power_of(each.size)
        return _text(stratum), _hash(self._seed, _identity(capture)), *record, each.size, *about, *facts


def _seed(options: SampleOptions) -> bytes:
    return blake2b(options.seed.encode(), digest_size=32).digest()


def _hash(seed: bytes, value: bytes) -> int:
    """63 bits."""
    return int.from_bytes(blake2b(value, digest_size=_HASH_BYTES, key=seed).digest()) >> 1


def _identity(capture: Capture) -> bytes:
    return f"{capture.urlkey}\0{capture.timestamp}\0{capture.digest}".encode("utf-8", "surrogateescape")


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()
