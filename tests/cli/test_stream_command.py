"""`holdfast stream`: forms, limits, tokens, and what it says of mistakes."""

from __future__ import annotations

import base64
import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from program import Result, Shell

import holdfast
from holdfast.cli.terminal import Interruption
from holdfast.formats.io.open import open_records


def pages(shell: Shell) -> list[holdfast.streams.Page]:  # type: ignore[name-defined]
    with holdfast.open(shell.directory, read_only=True) as archive:
        found = list(archive.stream())
        assert all(page.stored for page in found)  # what is read now is there when the archive is closed
        return found


def token_of(result: Result) -> str:
    (line,) = [line for line in result.errors.splitlines() if line.startswith("token: ")]
    return line.removeprefix("token: ")


def test_lines_of_json(shown: Shell) -> None:
    expected = pages(shown)
    assert expected
    found = shown.quick("stream").objects
    assert [each["record"] for each in found] == [str(page.record) for page in expected]
    assert list(found[0]) == ["record", "url", "timestamp", "status", "mime", "collection", "type", "digest", "size"]
    some = shown.quick("stream", "--fields", "url,payload,headers,title").objects
    assert [base64.b64decode(each["payload"]) for each in some] == [page.payload for page in expected]
    pairs = [(each["headers"], page) for each, page in zip(some, expected, strict=True) if page.type == "response"]
    assert pairs
    assert all([tuple(pair) for pair in found] == page.headers.items() for found, page in pairs)


def test_payloads(shown: Shell) -> None:
    raw, rest = shown.quick("stream", "--format", "raw").output, []
    while raw:
        size = int.from_bytes(raw[:8], "big")
        rest.append(raw[8 : 8 + size])
        raw = raw[8 + size :]
    assert rest == [page.payload for page in pages(shown)]
    assert shown.quick("stream", "--format", "raw", "--bare").output == b"".join(rest)


@pytest.mark.parametrize("suffix", ["warc", "warc.gz", "warc.zst"])
def test_warc(shown: Shell, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out.{suffix}"
    told = shown.quick("stream", "-o", path)
    with path.open("rb") as file:
        info, *records = [(record.type, record.url, record.block.read()) for record in open_records(file, strict=True)]
    assert info[0] == "warcinfo"
    assert told.text == f"delivered {len(records)} captures to '{path}'\n"
    with holdfast.open(shown.directory, read_only=True) as archive:
        expected = [(page.stored.entry.type, page.url, b"".join(page.stored.block())) for page in archive.stream()]
    assert records == expected
    assert not (tmp_path / f"out.{suffix}.open").exists()


def test_tables(shown: Shell, tmp_path: Path) -> None:
    expected = pages(shown)
    shown.quick("stream", "-o", tmp_path / "out.arrow")
    with pyarrow.ipc.open_stream((tmp_path / "out.arrow").read_bytes()) as stream:
        table = stream.read_all()
    assert table["payload"].to_pylist() == [page.payload for page in expected]
    assert table["status"].to_pylist() == [page.status for page in expected]
    shown.quick("stream", "-o", tmp_path / "out.parquet", "--fields", "url,text")
    found = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert found.column_names == ["url", "text"]
    assert found["url"].to_pylist() == [page.url for page in expected]


def test_parquet_in_parts_goes_on(shown: Shell, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    command = ["stream", "--format", "parquet", "-o", tmp_path / "parts", "--token-file", tmp_path / "t", "--resume"]
    shown.quick(*command, "--limit", "2")
    shown.quick(*command)
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["part-00000.parquet", "part-00001.parquet"]
    tables = [pyarrow.parquet.read_table(path) for path in sorted((tmp_path / "parts").iterdir())]
    records = [record for table in tables for record in table["record"].to_pylist()]
    assert records == [str(page.record) for page in pages(shown)]


@pytest.mark.parametrize("order", ["log", "url", "date"])
def test_a_limit_and_a_token(shown: Shell, order: str) -> None:
    whole = shown.quick("stream", "--order", order).lines
    first = shown.quick("stream", "--order", order, "--limit", "2")
    assert first.lines == whole[:2]
    token = token_of(first)
    assert shown.quick("stream", "--order", order, "--token", token).lines == whole[2:]
    assert shown.quick("stream", "--order", order, "--limit", "0").lines == []
    refused = shown.quick("stream", "--order", order, "--latest", "--token", token, code=2)
    assert "other options" in refused.errors


def test_the_token_file(shown: Shell, tmp_path: Path) -> None:
    whole = shown.quick("stream").lines
    out, token = tmp_path / "out.jsonl", tmp_path / "token"
    command = ["stream", "-o", out, "--token-file", token]
    shown.quick(*command, "--limit", "1", "--batch-size", "1")
    assert "resume from it" in shown.quick(*command, code=2).errors
    with out.open("ab") as file:
        file.write(b'{"half a li')  # what a kill may leave
    shown.quick(*command, "--resume")
    assert out.read_text().splitlines() == whole
    assert shown.quick(*command, "--resume").text == f"delivered 0 captures to '{out}'\n"
    out.write_bytes(b"")
    assert "give the output that belongs to it" in shown.quick(*command, "--resume", code=2).errors
    token.write_text("nonsense")
    assert "not the token file" in shown.quick(*command, "--resume", code=2).errors


@pytest.mark.parametrize(
    "wrong",
    [
        ["--order", "size"],
        ["--shard", "4"],
        ["--shard", "4/4"],
        ["--fields", "colour"],
        ["--fields", "url", "--format", "raw"],
        ["--bare"],
        ["--compress", "gzip"],
        ["--format", "parquet"],
        ["--resume"],
        ["--match", "host"],
        ["--limit", "-1"],
        ["--batch-size", "0"],
        ["--token", "nonsense"],
        ["--at", "yesterday"],
        ["--filter", "x:y"],
        ["-o", "out.unknown"],
        ["--batch", "nowhere"],
        ["--order", "rank", "--token", "AQ"],
        ["--share", "work.json", "-o", "out.parquet"],
    ],
    ids=" ".join,
)
def test_mistakes(shown: Shell, tmp_path: Path, wrong: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = shown.quick("stream", *wrong, code=2)
    assert result.output == b""
    assert result.errors.startswith("holdfast: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet", "x.warc.gz"])
def test_a_directory_that_is_missing_is_named(
    shown: Shell, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    errors = shown.quick("stream", "-o", f"no/such/{name}", code=3).errors
    assert f"cannot write 'no/such/{name}': there is no directory 'no/such'" in errors
    assert list(tmp_path.iterdir()) == []


def test_ranks_that_nobody_computed(shown: Shell) -> None:
    assert "holdfast index rank" in shown.quick("stream", "--order", "rank", code=3).errors


def test_an_empty_archive(archive: Shell) -> None:
    for order in ("log", "url", "date"):
        assert archive.quick("stream", "--order", order).output == b""


def test_a_full_disk_leaves_what_was_noted(shown: Shell, tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk."""
    whole = shown.quick("stream", "--fields", "record,payload").lines
    limit = len(whole[0]) + 30
    out, token = tmp_path / "out.jsonl", tmp_path / "token"
    command = [
        "stream",
        "--fields",
        "record,payload",
        "-o",
        out,
        "--token-file",
        token,
        "--resume",
        "--batch-size",
        "1",
    ]
    words = shown.command("-a", str(shown.directory), *map(str, command))

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    environment = shown.environment() | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, preexec_fn=small, check=False)
    if done.returncode != 7:
        pytest.fail(done.stderr.decode())
    assert b"no space left" in done.stderr
    shown.quick(*command)
    assert out.read_text().splitlines() == whole
    refused = subprocess.run(
        shown.command(
            "-a", str(shown.directory), "stream", "--fields", "record,payload", "-o", str(tmp_path / "other.jsonl")
        ),
        env=environment,
        capture_output=True,
        preexec_fn=small,
        check=False,
    )
    assert refused.returncode == 7
    assert not list(tmp_path.glob("other*")), "nothing is left of a file that is not whole"


def test_a_reader_that_goes_away(shown: Shell) -> None:
    command = " ".join(shown.command("-a", str(shown.directory), "stream", "--fields", "payload"))
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -c 1"], env=shown.environment(), capture_output=True, check=True
    )
    assert done.stdout == b"{"
    assert done.stderr == b""


def test_ctrl_c_tells_the_token(shown: Shell, tmp_path: Path) -> None:
    """A pipe that nobody reads holds the stream up in the middle of it; then Ctrl-C comes."""
    os.mkfifo(tmp_path / "pipe")
    words = shown.command(
        "-a", str(shown.directory), "stream", "-o", str(tmp_path / "pipe"), "--format", "jsonl", "--batch-size", "1"
    )
    process = subprocess.Popen(words, env=shown.environment(), stderr=subprocess.PIPE, text=True)
    with (tmp_path / "pipe").open("rb", buffering=0) as pipe:
        pipe.read(1)
        process.send_signal(signal.SIGINT)
        rest = b"{" + pipe.read()
        while more := pipe.read():
            rest += more
    _, errors = process.communicate()
    whole = shown.quick("stream").lines
    if process.returncode == 130:
        tokens = [line.removeprefix("token: ") for line in errors.splitlines() if line.startswith("token: ")]
        left = shown.quick("stream", "--token", tokens[0]).lines if tokens else []  # else all was written before
        assert [json.loads(each) for each in rest.splitlines()] + [json.loads(each) for each in left] == [
            json.loads(each) for each in whole
        ]
    else:  # it was done before the signal came
        assert rest.decode().splitlines() == whole


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the second batch is written."""
    steps = iter([False, True])

    def checkpoint(_: Interruption) -> None:
        if next(steps, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(Interruption, "checkpoint", checkpoint)


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_tells_no_token_of_what_was_not_kept(shown: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = shown.quick("stream", "--batch-size", "1", "-o", out, code=130)
    assert "token:" not in result.errors
    assert "is removed; with --token-file it stays" in result.errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["jsonl", "raw", "arrow", "warc", "warc.gz", "warc.zst"])
def test_a_shared_stream_to_a_file_is_never_begun_anew(shown: Shell, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out.{suffix}"
    command = ["stream", "--share", tmp_path / "work.json", "-o", out]
    shown.quick(*command, "--limit", "1")
    begun = out.read_bytes()
    shown.quick(*command)
    whole = out.read_bytes()
    assert len(whole) > len(begun)
    assert shown.quick(*command).text == f"delivered 0 captures to '{out}'\n"
    assert out.read_bytes() == whole
    if suffix == "jsonl":
        assert out.read_text().splitlines() == shown.quick("stream").lines
    assert not (tmp_path / f"out.{suffix}.open").exists()


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_keeps_what_was_acknowledged_of_a_shared_stream(shown: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    command = ["stream", "--batch-size", "1", "--share", tmp_path / "work.json", "-o", out]
    result = shown.quick(*command, code=130)
    assert "continue with the same --share" in result.errors
    kept = out.read_text().splitlines()
    shown.quick(*command)
    whole = out.read_text().splitlines()
    assert 0 < len(kept) < len(whole)
    assert whole == shown.quick("stream").lines


def test_a_shared_stream_spares_a_file_that_is_not_its_own(shown: Shell, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_bytes(b"precious")
    refused = shown.quick("stream", "--share", tmp_path / "work.json", "-o", tmp_path / "out.jsonl", code=2)
    assert "not an output of this shared stream" in refused.errors
    assert (tmp_path / "out.jsonl").read_bytes() == b"precious"
