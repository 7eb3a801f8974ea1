"""`holdfast content`: what goes in comes out, bad input changes nothing, Ctrl-C loses nothing."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from program import Shell

from holdfast.cli.store.content import BATCH_FILES_MAX

# -- put and get -------------------------------------------------------------------------------------------------------


def test_put_prints_a_key_per_file_and_get_gives_the_bytes(archive: Shell) -> None:
    page, image = b"<html>" + b"word " * 500, bytes(range(256)) * 8
    archive.file("page.html", page)
    archive.file("image.bin", image)
    keys = archive("content", "put", "page.html", "image.bin").lines
    assert [key.partition(":")[2] for key in keys] == [hashlib.sha256(each).hexdigest() for each in (page, image)]
    assert archive("content", "get", keys[0]).output == page
    assert archive("content", "get", keys[1], "-o", "-").output == image


def test_put_tells_in_json_what_it_did(archive: Shell) -> None:
    archive.file("a", b"word " * 100)
    archive.file("b", b"word " * 100)
    first, second = archive("content", "put", "a", "b", "--json").objects
    assert first["stored_size"] < 500
    assert first == {
        "contentkey": first["contentkey"],
        "duplicate": False,
        "size": 500,
        "stored_size": first["stored_size"],
        "references": 1,
        "file": "a",
    }
    assert second == first | {"duplicate": True, "references": 2, "file": "b"}


def test_put_reads_standard_input_pipes_and_nothing_at_all(archive: Shell) -> None:
    archive.file("empty", b"")
    os.mkfifo(archive.directory / "pipe")
    writer = subprocess.Popen(["sh", "-c", "printf piped > pipe"], cwd=archive.directory)
    keys = archive("content", "put", "-", "pipe", "empty", input=b"typed").lines
    assert writer.wait() == 0
    assert [archive.content(key) for key in keys] == [b"typed", b"piped", b""]


def test_put_in_many_batches_keeps_the_order(archive: Shell) -> None:
    names = [f"{number:04}" for number in range(2 * BATCH_FILES_MAX + 3)]
    for name in names:
        archive.file(name, name)
    keys = archive("content", "put", *names).lines
    assert [key.partition(":")[2] for key in keys] == [hashlib.sha256(name.encode()).hexdigest() for name in names]


def test_put_options(archive: Shell) -> None:
    archive.file("page", b"word " * 100)
    first = archive("content", "put", "page", "--volume", "v1", "--codec", "zlib", "--replicas", "2", "--json").objects[
        0
    ]
    assert first["contentkey"].startswith("v1:")
    known = archive("content", "stat", first["contentkey"], "--json").objects[0]
    assert (known["codec"], known["copies"], known["references"]) == ("zlib", ["v0"], 1)
    compared = archive("content", "put", "page", "--mode", "compare", "--volume", "v1", "--json").objects[0]
    assert (compared["duplicate"], compared["references"]) == (True, 2)
    forced = archive("content", "put", "page", "--mode", "force-new", "--volume", "v1", "--json").objects[0]
    assert forced["contentkey"] == first["contentkey"] + "~1"
    media = archive("content", "put", "-", "--type", "image/png", "--json", input=b"word " * 200).objects[0]
    assert media["stored_size"] == media["size"]


@pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])
def test_a_damaged_content_is_damaged_until_it_comes_again(archive: Shell, organization: str) -> None:
    page = b"a page that comes to harm " * 40
    archive("init", organization, "--organization", organization)
    archive.file("page", page)
    there = ("-a", organization)
    (key,) = archive("content", "put", *there, "page", "--codec", "none").lines
    volume = archive.directory / organization / "volumes" / "v0"
    for file in [each for each in volume.rglob("*") if each.is_file() and "keydir" not in each.parts]:
        file.write_bytes(file.read_bytes().replace(page, b"A" + page[1:]))
    for words in (("get",), ("stat",)):
        assert archive("content", *words, *there, key, code=5).output == b""
    assert archive("content", "get", *there, "v0:" + "00" * 32, code=3).output == b""
    assert archive("content", "put", *there, "page").lines == [key]
    assert archive("content", "get", *there, key).output == page
    assert archive("content", "stat", *there, key, "--json").objects[0]["references"] == 2
    archive("check", *there)


def test_get_writes_a_file_whole_or_not_at_all(archive: Shell) -> None:
    key = archive("content", "put", "-", input=b"new").lines[0]
    target = archive.file("target", b"old")
    result = archive("content", "get", key, "-o", "target", "--json")
    assert target.read_bytes() == b"new"
    assert result.objects == [{"contentkey": key, "size": 3, "file": "target"}]
    archive("content", "get", "v0:" + "00" * 32, "-o", "target", code=3)
    assert target.read_bytes() == b"new"
    assert "cannot use 'missing/target'" in archive("content", "get", key, "-o", "missing/target", code=3).errors
    assert "Is a directory" in archive("content", "get", key, "-o", "volumes", code=1).errors
    archive("content", "get", key, "-o", "/dev/null")
    assert not Path("/dev/null").is_file()
    assert [path.name for path in archive.directory.iterdir() if path.name.endswith(".open")] == []


# -- rm, stat, list ----------------------------------------------------------------------------------------------------


def test_rm_counts_down_to_nothing(archive: Shell) -> None:
    for name in ("a", "b", "c"):
        archive.file(name, b"same")
    key = archive("content", "put", "a", "b", "c").lines[0]
    assert archive("content", "rm", key).text == f"{key} 2\n"
    assert archive("content", "rm", key, key, "--json").objects == [
        {"contentkey": key, "references": 1},
        {"contentkey": key, "references": 0},
    ]
    for command in ("get", "stat", "rm"):
        assert archive("content", command, key, code=3).errors == f"holdfast: no content {key}\n"


def test_rm_of_an_unknown_content_removes_nothing(archive: Shell) -> None:
    key = archive("content", "put", "-", input=b"kept").lines[0]
    archive("content", "rm", key, "v0:" + "00" * 32, code=3)
    assert archive.content(key) == b"kept"


def test_stat_for_people(archive: Shell) -> None:
    key = archive("content", "put", "-", input=b"word " * 1000).lines[0]
    fields = dict(line.split("  ", 1) for line in archive("content", "stat", key).lines)
    assert fields["contentkey"].strip() == key
    assert fields["size"].strip() == "5000 (4.9 KiB)"
    assert fields["references"].strip() == "1"


@pytest.mark.parametrize("organization", ["log", "tree"])
def test_list(shell: Shell, organization: str) -> None:
    shell("init", ".", "--volumes", "2", "--organization", organization)
    names = [str(number) for number in range(20)]
    for name in names:
        shell.file(name, name)
    keys = shell("content", "put", *names, "--replicas", "2").lines
    assert sorted(shell("content", "list").lines) == sorted(keys)
    in_v0 = shell("content", "list", "--volume", "v0", "--json").objects
    assert {each["contentkey"] for each in in_v0} == {key for key in keys if key.startswith("v0:")}
    assert {each["references"] for each in in_v0} == {1}


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["good", "typo"], 3, "cannot use 'typo': No such file or directory"),
        (["good", "volumes"], 1, "cannot use 'volumes': Is a directory"),
        (["good", "--codec", "rar"], 2, "unknown codec 'rar': known are auto, brotli, none, zlib, zstd, zstd-dict"),
        (["good", "--codec", "zstd-dict"], 2, "run 'holdfast volume train v"),
        (["good", "--volume", "v9"], 2, "unknown volume 'v9': known are v0, v1"),
        (["good", "--replicas", "3"], 2, "3 replicas need 3 writable volumes, there are 2"),
        (["-", "good", "-"], 2, "standard input ('-') can be read only once"),
    ],
)
def test_bad_put_changes_nothing(archive: Shell, arguments: list[str], code: int, message: str) -> None:
    archive.file("good", b"good")
    result = archive("content", "put", *arguments, code=code)
    assert message in result.errors
    assert result.output == b""
    assert archive.keys() == []


def test_too_large_contents_change_nothing(archive: Shell) -> None:
    settings = archive.directory / "holdfast.toml"
    settings.write_text(settings.read_text().replace("[store]", "[store]\ncontent_bytes_max = 1000"))
    archive.file("good", bytes(1000))
    archive.file("large", bytes(1001))
    for arguments in (["good", "large"], ["-"]):
        result = archive("content", "put", *arguments, code=10, input=bytes(5000))
        assert f"'{arguments[-1]}' has more than 1000 bytes" in result.errors
    assert archive.keys() == []
    archive("content", "put", "good")


def test_read_only_volume(archive: Shell) -> None:
    archive("volume", "set-state", "v0", "read-only")
    assert "volume 'v0' is read-only" in archive("content", "put", "-", "--volume", "v0", code=8).errors
    archive("volume", "set-state", "v1", "read-only")
    assert "no writable volume is up" in archive("content", "put", "-", code=8).errors


@pytest.mark.parametrize("key", ["", "v0", "v0:xyz", "v0:abc", "v0:00~0", "V0:00"])
@pytest.mark.parametrize("command", ["get", "stat", "rm"])
def test_malformed_keys(shell: Shell, command: str, key: str) -> None:
    assert f"malformed contentkey {key!r}" in shell("content", command, key, code=2).errors


def test_damaged_content(shell: Shell) -> None:
    shell("init", ".")
    key = shell("content", "put", "-", "--codec", "none", input=b"marker" * 20).lines[0]
    (segment,) = (shell.directory / "volumes" / "v0").glob("*.seg")
    segment.write_bytes(segment.read_bytes().replace(b"marker", b"maRker", 1))
    result = shell("content", "get", key, code=5)
    assert result.output == b""
    assert segment.name in result.errors


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [1, 4])
def test_interrupted_put_leaves_a_sound_archive(archive: Shell, batches: int) -> None:
    """The signal comes after so many batches; standard input, never closed, keeps the command from ending before."""
    names = [f"{number:04}" for number in range(4 * BATCH_FILES_MAX)]
    for name in names:
        archive.file(name, name * 50)
    with archive.start("content", "put", *names, "-") as process:
        assert process.stdout is not None
        keys = [process.stdout.readline() for _ in range(batches * BATCH_FILES_MAX)]
        process.send_signal(signal.SIGINT)
        rest, errors = process.stdout.readlines(), process.stderr.read() if process.stderr else b""
        assert process.wait() == 130
    assert errors.splitlines()[-1] == b"holdfast: interrupted"
    assert b"Traceback" not in errors
    acknowledged = [line.decode().strip() for line in keys + rest]
    assert set(acknowledged) <= set(archive.keys())
    assert archive.content(acknowledged[0]) == b"0000" * 50
    archive("check", "--deep")
    archive("content", "put", names[-1])
