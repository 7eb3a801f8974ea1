"""Several workers share a stream: each capture is acknowledged once, also when workers die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from stream_world import DATED, expected, fill, ordered

from holdfast import Archive
from holdfast.errors import MalformedToken, UsageError
from holdfast.model import RecordId
from holdfast.streams import StreamOptions, work_queue
from holdfast.streams.multicast import MulticastOptions
from holdfast.streams.token import decode


@pytest.mark.parametrize("order", ["log", "url", *DATED])
@pytest.mark.parametrize("seed", range(3))
def test_each_capture_is_acknowledged_once(
    archive: Archive, tmp_path: Path, order: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "UNIT", 7)
    fill(archive, 60, batches=("one", "two", "three"))
    options, path, random = ordered(StreamOptions(batch_size=3), order), tmp_path / "work.json", Random(seed)
    wanted = sorted(expected(archive, StreamOptions()))
    done: list[RecordId] = []
    workers = [archive.share(options, path) for _ in range(3)]
    feeds = [worker.batches() for worker in workers]
    at: list[list[RecordId]] = [[], [], []]
    fill(archive, 10, first=60)  # not of the snapshot
    while feeds:
        index = random.randrange(len(feeds))
        if random.random() < 0.1:  # dies amid a batch, and another takes its place
            workers[index].close()
            feeds[index].close()
            workers[index] = archive.share(options, path)
            feeds[index], at[index] = workers[index].batches(), []
            continue
        batch = next(feeds[index], None)
        done += at[index]
        at[index] = [page.record for page in batch] if batch is not None else []
        if batch is None:
            workers.pop(index).close()
            feeds.pop(index)
            at.pop(index)
    rest = archive.share(options, path)
    done += [page.record for batch in rest.batches() for page in batch]
    rest.close()
    assert sorted(done) == wanted
    assert sorted(each.name for each in tmp_path.glob("work.json*")) == ["work.json", "work.json.lock"]


def test_processes_share_the_work(archive: Archive, tmp_path: Path) -> None:
    fill(archive, 60)
    archive.close()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [
        sys.executable,
        "-m",
        "holdfast",
        "-a",
        str(archive.path),
        "stream",
        "--share",
        str(tmp_path / "work"),
        "-o",
    ]
    running = [subprocess.Popen([*words, str(tmp_path / f"{n}.jsonl")], env=environment) for n in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    lines = [line for n in range(2) for line in (tmp_path / f"{n}.jsonl").read_text().splitlines()]
    assert len(lines) == len({json.loads(line)["record"] for line in lines}) == 60


def test_who_asks_for_something_else_may_not_join(archive: Archive, tmp_path: Path) -> None:
    fill(archive, 10)
    archive.share(StreamOptions(), tmp_path / "work").close()
    with pytest.raises(MalformedToken, match="other options"):
        archive.share(StreamOptions(which="latest"), tmp_path / "work")
    (tmp_path / "work").write_text("nonsense")
    with pytest.raises(MalformedToken, match="not the file of a shared stream"):
        archive.share(StreamOptions(), tmp_path / "work")


def test_a_token_of_separate_parts_cannot_be_shared_out(archive: Archive, tmp_path: Path) -> None:
    fill(archive, 40)
    multicast = archive.multicast(StreamOptions(batch_size=4), MulticastOptions(buffer_bytes=1))
    ahead = multicast.join().batches()
    assert sum(len(next(ahead)) for _ in range(3)) == 12
    got = next(multicast.join().batches())  # it came too late for the first ones
    assert len(decode(got.token).left) > 1
    with pytest.raises(MalformedToken, match="several ranges"):
        archive.share(StreamOptions(token=got.token), tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_a_stream_that_has_ended_leaves_nothing_to_share(archive: Archive, tmp_path: Path) -> None:
    fill(archive, 10)
    stream = archive.stream()
    assert len(list(stream)) == 10
    with archive.share(StreamOptions(token=stream.token), tmp_path / "work") as worker:
        assert list(worker.batches()) == []


def test_a_token_in_the_middle_can_be_shared_out(archive: Archive, tmp_path: Path) -> None:
    fill(archive, 40)
    stream = archive.stream(StreamOptions(batch_size=4))
    begun = [page.record for _, page in zip(range(7), stream, strict=False)]
    with archive.share(StreamOptions(token=stream.token), tmp_path / "work") as worker:
        rest = [page.record for batch in worker.batches() for page in batch]
    assert begun + rest == expected(archive, StreamOptions())


def test_a_dead_workers_file_is_cut_before_another_gets_its_unit(archive: Archive, tmp_path: Path) -> None:
    fill(archive, 20)
    options, path = StreamOptions(batch_size=5), tmp_path / "work"
    dying = archive.share(options, path)
    assert dying.open_output(tmp_path / "a") == 0
    feed = dying.batches()
    done = [page.record for page in next(feed)]
    (tmp_path / "a").write_bytes(b"first")
    dying.has_written(5)
    next(feed)
    (tmp_path / "a").write_bytes(b"first, and what was not acknowledged")
    dying.close()
    with archive.share(options, path) as taking:
        done += [page.record for batch in taking.batches() for page in batch]
    assert (tmp_path / "a").read_bytes() == b"first"
    assert done == expected(archive, StreamOptions())
    with archive.share(options, path) as going_on:
        assert going_on.open_output(tmp_path / "a") == 5


def test_files_that_are_not_a_workers_to_write(archive: Archive, tmp_path: Path) -> None:
    fill(archive, 10)
    (tmp_path / "mine").write_bytes(b"precious")
    with (
        archive.share(StreamOptions(), tmp_path / "work") as one,
        archive.share(StreamOptions(), tmp_path / "work") as other,
    ):
        with pytest.raises(UsageError, match="not an output of this shared stream"):
            one.open_output(tmp_path / "mine")
        one.open_output(tmp_path / "a")
        with pytest.raises(UsageError, match="another worker"):
            other.open_output(tmp_path / "a")
        (tmp_path / "a").write_bytes(b"12345")
        for _ in one.batches():
            one.has_written(5)
    (tmp_path / "a").unlink()
    later = archive.share(StreamOptions(), tmp_path / "work")
    with later, pytest.raises(UsageError, match="has 0 bytes, but 5 were delivered"):
        later.open_output(tmp_path / "a")
    assert (tmp_path / "mine").read_bytes() == b"precious"
