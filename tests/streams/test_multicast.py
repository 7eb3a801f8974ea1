"""Multicast: consumers that share scans, come late, are slow, or die; each gets the snapshot, once (B10, N5)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_world import PLAN, delivered, fill

import holdfast
from holdfast import Archive, CaptureQuery, RemovalOptions, Selection
from holdfast.env import Environment, File, LocalFiles
from holdfast.errors import MalformedToken, VolumeDown
from holdfast.model import RecordId
from holdfast.streams import Consumer, Multicast, MulticastOptions, Page, StreamOptions

CAPTURES = 60
LITTLE = 9000  # bytes of a buffer that holds about one piece of four pages
SMALL = StreamOptions(batch_size=4)
BACKWARDS = [StreamOptions(order=order, reverse=True, batch_size=4) for order in ("date", "modified")]
NO_PATIENCE = MulticastOptions(buffer_bytes=LITTLE, patience_s=0)


class CountedFile:
    """A file that notes which bytes of it are read."""

    def __init__(self, file: File, reads: Counter[tuple[str, int]]) -> None:
        self._file = file
        self._reads = reads

    def read(self, offset: int, length: int) -> bytes:
        self._reads[self._file.path.name, offset] += 1
        return self._file.read(offset, length)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


class CountingFiles(LocalFiles):
    """The real files; reads of segments and batches are counted by file and place."""

    def __init__(self) -> None:
        self.reads: Counter[tuple[str, int]] = Counter()

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        file = super().open(path, writable=writable, create=create)
        return CountedFile(file, self.reads) if path.suffix in (".seg", ".zst") else file  # type: ignore[return-value]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """An archive that nobody writes to."""
    path = tmp_path_factory.mktemp("multicast") / "archive"
    holdfast.init(path, PLAN)
    with holdfast.open(path) as archive:
        fill(archive, CAPTURES)
        yield archive


def records_of(consumer: Consumer) -> list[RecordId]:
    return [page.record for page in consumer]


def test_consumers_side_by_side_are_as_streams(filled: Archive) -> None:
    with filled.multicast(SMALL) as multicast:
        consumers = [multicast.join() for _ in range(3)]
        rounds = zip(*consumers, strict=True)
        together = [tuple(page.record for page in pages) for pages in rounds]
    alone = delivered(filled, SMALL)
    assert together == [(record,) * 3 for record in alone]


def test_eight_consumers_in_threads_read_each_place_once(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive", PLAN)
    with holdfast.open(tmp_path / "archive") as archive:
        fill(archive, CAPTURES)
    files = CountingFiles()
    with Archive(tmp_path / "archive", read_only=True, env=Environment(files)) as archive:
        alone = delivered(archive, SMALL)
        files.reads.clear()  # heads of files, read when they are opened
        assert delivered(archive, SMALL) == alone
        once = Counter(files.reads)
        files.reads.clear()
        multicast = archive.multicast(SMALL, MulticastOptions(buffer_bytes=LITTLE, patience_s=600))
        consumers = [multicast.join() for _ in range(8)]
        got: list[list[RecordId]] = [[] for _ in consumers]
        threads = [
            threading.Thread(target=lambda into=into, each=each: into.extend(records_of(each)))  # type: ignore[misc]
            for into, each in zip(got, consumers, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == [alone] * 8
    assert files.reads == once
    assert sum(once.values()) > 20


def test_the_slowest_holds_up_nobody_beyond_the_buffer(filled: Archive) -> None:
    """In one thread: were the fast one to wait for the slow one, this would never end."""
    alone = delivered(filled, SMALL)
    with filled.multicast(SMALL, NO_PATIENCE) as multicast:
        fast, slow = multicast.join(), multicast.join()
        first = next(slow.batches())
        assert records_of(fast) == alone
        rest = records_of(slow)
    assert [page.record for page in first] + rest == alone


def test_one_that_is_slow_is_waited_for_while_patience_lasts(filled: Archive) -> None:
    with filled.multicast(SMALL, MulticastOptions(buffer_bytes=LITTLE, patience_s=0.05)) as multicast:
        fast, slow = multicast.join(), multicast.join()
        assert records_of(fast) == delivered(filled, SMALL)
        assert slow.patience_s <= 0 < multicast.join().patience_s
        assert records_of(slow) == delivered(filled, SMALL)


def test_a_late_one_gets_the_rest_and_then_what_it_missed(filled: Archive) -> None:
    alone = delivered(filled, SMALL)
    with filled.multicast(SMALL, NO_PATIENCE) as multicast:
        first = multicast.join()
        begun = [page.record for batch in take(first, 8) for page in batch]
        late = multicast.join()
        assert multicast.scans == 1
        joined = [page.record for page in next(late.batches())]
        assert joined[0] == alone[len(begun)]
        got = joined + records_of(late)
        assert begun + records_of(first) == alone
    assert sorted(got) == sorted(alone)
    assert got.index(alone[0]) > got.index(alone[-1])


def test_late_ones_share_the_second_scan(filled: Archive) -> None:
    alone = delivered(filled, SMALL)
    with filled.multicast(SMALL, NO_PATIENCE) as multicast:
        first = multicast.join()
        list(take(first, 8))
        late = [multicast.join() for _ in range(3)]
        together = [[page.record for page in pages] for pages in zip(*late, strict=True)]
        assert multicast.scans == 1  # that of the first one
    assert all(len(set(each)) == 1 for each in together)
    assert sorted(each[0] for each in together) == sorted(alone)


def test_a_late_one_in_order_begins_at_the_beginning(filled: Archive) -> None:
    with filled.multicast(SMALL, NO_PATIENCE) as multicast:
        list(take(multicast.join(), 8))
        late = multicast.join(in_order=True)
        assert records_of(late) == delivered(filled, SMALL)


@pytest.mark.parametrize(
    "options", [StreamOptions(order="url", batch_size=4), StreamOptions(which="latest"), *BACKWARDS]
)
def test_other_streams_are_shared_too(filled: Archive, options: StreamOptions) -> None:
    with filled.multicast(options, NO_PATIENCE) as multicast:
        early = multicast.join()
        list(take(early, 3))
        late = multicast.join()
        got = records_of(late)
    alone = delivered(filled, options)
    assert (got if options.order == "url" else sorted(got)) == (alone if options.order == "url" else sorted(alone))


def test_a_token_goes_on_anywhere(filled: Archive) -> None:
    alone = delivered(filled, SMALL)
    with filled.multicast(SMALL, NO_PATIENCE) as multicast:
        list(take(multicast.join(), 8))
        late = multicast.join()
        got = [page.record for batch in take(late, 3) for page in batch]
        token = late.token
        in_multicast = got + records_of(multicast.join(token))
    in_stream = got + delivered(filled, StreamOptions(token=token))
    in_another = got + records_of(filled.multicast(StreamOptions(token=token)).join())
    for each in (in_multicast, in_stream, in_another):
        assert sorted(each) == sorted(alone)


def test_a_page_in_the_middle_of_a_batch_can_be_gone_on_from(filled: Archive) -> None:
    alone = delivered(filled, SMALL)
    with filled.multicast(SMALL, NO_PATIENCE) as multicast:
        consumer = multicast.join()
        some = [page.record for page in islice(consumer, 6)]
        token = consumer.token
        assert some + records_of(consumer) == alone
        assert some + records_of(multicast.join(token)) == alone
        assert consumer.delivered == CAPTURES


def test_a_token_of_another_snapshot_is_refused(archive: Archive) -> None:
    fill(archive, 10)
    old = archive.stream(SMALL).token
    fill(archive, 10, first=10)
    with archive.multicast(SMALL) as multicast, pytest.raises(MalformedToken, match="another snapshot"):
        multicast.join(old)


def test_captures_that_come_and_go_meanwhile(archive: Archive) -> None:
    fill(archive, 30)
    with archive.multicast(SMALL, NO_PATIENCE) as multicast:
        alone = delivered(archive, SMALL)
        first, second = multicast.join(), multicast.join()
        begun = [page.record for batch in take(first, 1) for page in batch]
        archive.remove(Selection(CaptureQuery(url="http://a.example/*")), RemovalOptions("test"))
        fill(archive, 10, first=30)
        left = [record for record in alone if archive.catalog.capture_of(record) is not None]
        assert 0 < len(left) < len(alone)
        assert begun + records_of(first) == begun + [each for each in left if each not in begun]
        assert records_of(second) == left


def test_the_others_go_on_when_one_dies(filled: Archive) -> None:
    with filled.multicast(SMALL, MulticastOptions(buffer_bytes=LITTLE, patience_s=600)) as multicast:
        dying, living = multicast.join(), multicast.join()
        list(take(dying, 1))
        dying.close()
        forgotten = multicast.join()
        del forgotten
        assert records_of(living) == delivered(filled, SMALL)
        assert records_of(dying) == []
        assert multicast.scans == 0


def test_the_others_go_on_when_a_read_fails_once(filled: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled.multicast(StreamOptions(batch_size=4, strict=True), NO_PATIENCE) as multicast:
        first, second = multicast.join(), multicast.join()
        assert first.scan is not None
        with monkeypatch.context() as patched:
            patched.setattr(first.scan, "read", fail)
            with pytest.raises(VolumeDown):
                next(iter(first))
        assert records_of(second) == records_of(first) == delivered(filled, SMALL)


def fail() -> None:
    raise VolumeDown("the cable is out")


def test_closing_the_archive_ends_it(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive", PLAN)
    with holdfast.open(tmp_path / "archive") as archive:
        fill(archive, 20)
        consumer = archive.multicast(SMALL).join()
        list(take(consumer, 1))
    assert list(consumer) == []


# -- any schedule ----------------------------------------------------------------------------------------------------


def take(consumer: Consumer, count: int) -> Iterator[list[Page]]:
    """So many batches, as lists of pages."""
    for batch in islice(consumer.batches(), count):
        yield batch.pages


class Reader:
    """One who reads by fits and starts, and sometimes from a token."""

    def __init__(self, multicast: Multicast, *, in_order: bool) -> None:
        self._multicast = multicast
        self._in_order = in_order
        self.consumer = multicast.join(in_order=in_order)
        self.got: list[RecordId] = []

    def read(self, batches: int) -> None:
        self.got += [page.record for batch in take(self.consumer, batches) for page in batch]

    def read_pages(self, count: int) -> None:
        for page in self.consumer:
            self.got.append(page.record)
            count -= 1
            if count <= 0:
                return

    def die_and_go_on(self) -> None:
        token = self.consumer.token
        self.consumer.close()
        self.consumer = self._multicast.join(token, in_order=self._in_order)

    def finish(self) -> None:
        self.got += records_of(self.consumer)


STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "join in order", "read", "pages", "die", "finish"]), st.integers(0, 7)),
    max_size=40,
)


@settings(max_examples=60)
@given(steps=STEPS, buffer_bytes=st.sampled_from([0, LITTLE, 3 * LITTLE, 1 << 20]))
def test_whatever_the_schedule_each_gets_the_snapshot_once(
    filled: Archive, steps: list[tuple[str, int]], buffer_bytes: int
) -> None:
    alone = delivered(filled, SMALL)
    limits = MulticastOptions(buffer_bytes=buffer_bytes, patience_s=0)
    with ExitStack() as stack:
        multicast = stack.enter_context(filled.multicast(SMALL, limits))
        readers = [Reader(multicast, in_order=False)]
        in_order: list[Reader] = []
        for what, number in steps:
            reader = readers[number % len(readers)]
            match what:
                case "join":
                    readers.append(Reader(multicast, in_order=False))
                case "join in order":
                    readers.append(Reader(multicast, in_order=True))
                    in_order.append(readers[-1])
                case "read":
                    reader.read(number)
                case "pages":
                    reader.read_pages(number)
                case "die":
                    reader.die_and_go_on()
                case "finish":
                    reader.finish()
            assert multicast.scans <= len(readers)
        for reader in readers:
            reader.finish()
            assert sorted(reader.got) == sorted(alone)
            assert len(reader.consumer.left) == 0
        for reader in in_order:
            assert reader.got == alone
        assert multicast.scans == 0
