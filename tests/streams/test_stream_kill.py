"""Streams and the writer beside them are killed with SIGKILL at random writes and syncs: the output has its snapshot,
complete and nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from random import Random

import pyarrow
import pytest
from killed_stream import command
from stream_world import captures, fill

import holdfast
from holdfast import Archive
from holdfast.formats.io.open import open_records
from holdfast.streams.outputs.delivery import read_note
from holdfast.streams.snapshot import Snapshot
from holdfast.streams.token import decode


def start(*words: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, __import__("sys").path))}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it came to its end; else it was killed."""
    _, errors = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), errors.decode()
    return process.returncode == 0


def records_in(path: Path) -> list[str]:
    match path.suffix:
        case ".jsonl":
            return [json.loads(line)["record"] for line in path.read_text().splitlines()]
        case ".arrow":
            with pyarrow.ipc.open_stream(path.read_bytes()) as table:
                return [text for batch in table for text in batch["record"].to_pylist()]
        case _:
            with path.open("rb") as file:
                records = open_records(file, strict=True)
                return [f"{record.url} {record.timestamp}" for record in records if record.type != "warcinfo"]


@pytest.mark.parametrize("form", ["jsonl", "arrow", "warc.gz"])
def test_a_stream_that_is_killed_again_and_again(archive: Archive, tmp_path: Path, form: str) -> None:
    fill(archive, 80)
    archive.close()
    output, notes = tmp_path / f"out.{form}", tmp_path / "token"
    random = Random(form)
    snapshot: Snapshot | None = None
    written = kills = 0
    options = [
        "-a",
        archive.path,
        "--order",
        "url",
        "--batch-size",
        "7",
        "-o",
        output,
        "--token-file",
        notes,
        "--resume",
    ]
    while True:
        writer = start(*command(random.randrange(20, 90), "write", archive.path, str(written)))
        streamer = start(*command(random.randrange(3, 40), "stream", *options))
        is_done = ended(streamer)
        ended(writer)
        written += 100
        if snapshot is None and (note := read_note(holdfast.env.REAL, notes)) is not None:
            snapshot = decode(note.token).snapshot
        if is_done:
            break
        kills += 1
    assert kills > 1
    assert snapshot is not None
    with holdfast.open(archive.path) as opened:
        wanted = [each for each in captures(opened) if each.record in snapshot]
    if form == "warc.gz":
        assert records_in(output) == [f"{each.url} {each.timestamp}" for each in wanted]
    else:
        assert records_in(output) == [str(each.record) for each in wanted]


@pytest.mark.parametrize("form", ["jsonl", "arrow", "warc.gz"])
def test_workers_that_share_a_stream_are_killed_again_and_again(archive: Archive, tmp_path: Path, form: str) -> None:
    fill(archive, 80)
    if form == "warc.gz":
        wanted = [f"{each.url} {each.timestamp}" for each in captures(archive)]
    else:
        wanted = [str(each.record) for each in captures(archive)]
    archive.close()
    outputs = [tmp_path / f"{name}.{form}" for name in "ab"]
    random = Random(form)
    options = ["-a", archive.path, "--batch-size", "7", "--share", tmp_path / "work.json", "-o"]
    kills = 0
    while True:
        workers = [
            start(*command(random.randrange(6, 30), "stream", *options, output))
            for output in random.sample(outputs, random.choice([1, 2]))  # a dead one's file may wait for long
        ]
        done = [ended(worker) for worker in workers]
        kills += done.count(False)
        if all(done):
            break
    assert kills > 1
    assert sorted(each for output in outputs for each in records_in(output)) == sorted(wanted)
    before = [output.read_bytes() for output in outputs]
    assert all(ended(start(*command(1000, "stream", *options, output))) for output in outputs)  # nothing is left to do
    assert [output.read_bytes() for output in outputs] == before
