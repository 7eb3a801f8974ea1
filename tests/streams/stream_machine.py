"""An archive that is written, removed from, compacted, sealed, reindexed and restarted while streams of it are read,
and lists of what each of them must give."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from stream_world import DATED, PLAN, body, captures, expected, ordered, visit

import holdfast
from holdfast import Archive, CaptureQuery, RemovalOptions, Selection
from holdfast.errors import BatchSealed
from holdfast.model import RecordId
from holdfast.streams import Stream, StreamOptions

HOSTS, BATCHES, COLLECTIONS = ("a.example", "b.example"), ("p", "q"), ("main", "side")
ASKED = (
    StreamOptions(),
    StreamOptions(which="latest"),
    StreamOptions(collection="side"),
    StreamOptions(batch="p"),
    StreamOptions(captures=CaptureQuery(url="a.example", match="host")),
    StreamOptions(captures=CaptureQuery(url="*", filters=("~timestamp:2010.*",))),
    StreamOptions(at="20100103"),
)


@dataclass
class Reading:
    """A stream as it should be, and as it is."""

    options: StreamOptions
    wanted: list[RecordId]  # of its snapshot, in order
    snapshot: set[RecordId]
    token: str
    stream: Stream | None = None  # None: paused, and nothing is left of it but the token
    got: list[RecordId] = field(default_factory=list)
    ended: bool = False


class StreamMachine(RuleBasedStateMachine):
    organization = "log"

    def __init__(self) -> None:
        super().__init__()
        place = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.directory = TemporaryDirectory(prefix="holdfast-test-", dir=place)
        self.path = Path(self.directory.name) / "archive"
        self.number = 0
        self.readings: list[Reading] = []
        self.removed: set[RecordId] = set()
        self.archive: Archive
        self.reader: Archive

    @initialize()
    def begin(self) -> None:
        holdfast.init(self.path, replace(PLAN, organization=self.organization))
        self.archive = holdfast.open(self.path)
        self.reader = holdfast.open(self.path, read_only=True)

    # -- what goes on beside the streams ------------------------------------------------------------------------

    @rule(count=st.integers(1, 12), batch=st.sampled_from(BATCHES), collection=st.sampled_from(COLLECTIONS))
    def add(self, count: int, batch: str, collection: str) -> None:
        exchanges = []
        for _ in range(count):
            self.number += 1
            host, timestamp = HOSTS[self.number % 2], f"201001{1 + self.number % 7:02d}{self.number % 60:06d}"
            exchanges.append(visit(f"http://{host}/{self.number % 5}", self.number % 9, timestamp))
        with suppress(BatchSealed):
            self.archive.add(exchanges, batch=batch, collection=collection)

    @rule(host=st.sampled_from(HOSTS), page=st.integers(0, 4), compact=st.booleans())
    def remove(self, host: str, page: int, compact: bool) -> None:
        before = {capture.record for capture in captures(self.archive)}
        self.archive.remove(
            Selection(CaptureQuery(url=f"http://{host}/{page}")), RemovalOptions("asked", compact=compact)
        )
        self.removed |= before - {capture.record for capture in captures(self.archive)}

    @rule()
    def compact(self) -> None:
        self.archive.compact("v0")

    @rule()
    def reindex(self) -> None:
        self.archive.reindex()

    @rule(batch=st.sampled_from(BATCHES))
    def seal(self, batch: str) -> None:
        if batch in self.archive.journal.names() and self.number > 60:
            self.archive.seal(batch)

    @rule(lose_catalog=st.booleans())
    def restart_writer(self, lose_catalog: bool) -> None:
        self._pause(self.archive)
        self.archive.close()
        if lose_catalog:
            shutil.rmtree(self.path / "catalog")
        self.archive = holdfast.open(self.path)

    @rule()
    def restart_reader(self) -> None:
        self._pause(self.reader)
        self.reader.close()
        self.reader = holdfast.open(self.path, read_only=True)

    def _pause(self, archive: Archive) -> None:
        """A process ends: of its streams the tokens are left."""
        for reading in self.readings:
            if reading.stream is not None and reading.stream._source is archive:
                reading.stream.close()
                reading.stream = None

    # -- streams ------------------------------------------------------------------------------------------------

    @rule(
        asked=st.sampled_from(ASKED),
        order=st.sampled_from(("log", "url", *DATED)),
        size=st.sampled_from((1, 3, 8)),
        by_reader=st.booleans(),
    )
    def stream(self, asked: StreamOptions, order: str, size: int, by_reader: bool) -> None:
        options = replace(ordered(asked, order), batch_size=size)
        if options.batch is not None and options.batch not in self.archive.journal.names():
            return
        source = self.reader if by_reader else self.archive
        stream = source.stream(options)
        self._begin(options, expected(self.archive, options), stream)

    def _begin(self, options: StreamOptions, wanted: list[RecordId], stream: Stream) -> None:
        everything = {capture.record for capture in captures(self.archive)}
        self.readings.append(Reading(options, wanted, everything, stream.token, stream))

    @rule(which=st.integers(0, 100), count=st.integers(1, 4))
    def read_on(self, which: int, count: int) -> None:
        if self.readings:
            self._read(self.readings[which % len(self.readings)], count)

    @rule(which=st.integers(0, 100), by_reader=st.booleans())
    def pause_and_resume(self, which: int, by_reader: bool) -> None:
        if not self.readings:
            return
        reading = self.readings[which % len(self.readings)]
        if reading.stream is not None:
            reading.token = reading.stream.token  # it may be further than that of the last batch: nothing lay between
            reading.stream.close()
        self._resume(reading, self.reader if by_reader else self.archive)

    def _resume(self, reading: Reading, source: Archive) -> None:
        reading.stream = source.stream(replace(reading.options, token=reading.token))

    def _read(self, reading: Reading, count: int) -> None:
        """Some batches; those who stop keep the token of the last."""
        if reading.stream is None:
            self._resume(reading, self.archive)
        assert reading.stream is not None
        there = {capture.record for capture in captures(self.archive)}
        for _ in range(count):
            batch = next(iter(reading.stream.batches()), None)
            if batch is None:
                reading.ended = True
                break
            for page in batch:
                assert page.record in there, "removed before it was handed out"
                assert page.payload == body_of(page)
            reading.got += [page.record for page in batch]
            reading.token = batch.token
        assert reading.stream.fault_count == 0, reading.stream.faults

    @invariant()
    def no_stream_gives_anything_twice(self) -> None:
        for reading in self.readings:
            assert len(set(reading.got)) == len(reading.got)
            assert reading.snapshot.issuperset(reading.got)

    def teardown(self) -> None:
        if not hasattr(self, "archive"):
            return
        for reading in self.readings:
            while not reading.ended:
                self._read(reading, 100)
            self._compare(reading)
        self.reader.close()
        self.archive.close()
        self.directory.cleanup()

    def _compare(self, reading: Reading) -> None:
        missing = set(reading.wanted) - set(reading.got)
        assert missing <= self.removed, "a gap"
        if reading.options.is_latest:  # a removal may make an older capture the newest of its URL
            assert reading.snapshot.issuperset(reading.got)
        else:
            assert reading.got == [record for record in reading.wanted if record not in missing]


def body_of(page: holdfast.streams.Page) -> bytes:  # type: ignore[name-defined]
    return body(int(page.title))
