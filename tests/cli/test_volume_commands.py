"""`holdfast init`, `volume` and `status`."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Shell

from holdfast.storage.volume import VolumeStat


def stat(shell: Shell, volume: str) -> VolumeStat:
    found = shell.volume(volume).stat
    assert found is not None
    return found


def put_pages(shell: Shell, count: int) -> list[str]:
    """Stores so many different pages and returns their keys."""
    names = [f"page-{number}" for number in range(count)]
    for number, name in enumerate(names):
        words = " ".join(f"word{number * step % 97}" for step in range(200))
        shell.file(name, f"<html>{number} {words}</html>")
    return shell("content", "put", *names).lines


# -- init --------------------------------------------------------------------------------------------------------------


def test_init(shell: Shell) -> None:
    assert shell("init", "new").text == "made archive 'new' with 1 volume of organization log\n"
    values = shell("init", "other", "--volumes", "3", "--organization", "tree", "--depth", "2", "--json").objects[0]
    assert (values["volumes"], values["organization"], values["replicas"]) == (["v0", "v1", "v2"], "tree", 1)
    assert {each["depth"] for each in shell("-a", "other", "volume", "list", "--json").objects} == {2}


def test_init_fixes_signature_placement_and_replicas(shell: Shell) -> None:
    shell("init", ".", "--volumes", "2", "--signature", "rabin64", "--placement", "weighted", "--replicas", "2")
    key = shell("content", "put", "-", input=b"x").lines[0]
    assert len(key) == len("v0:") + 16
    assert len(shell("content", "stat", key, "--json").objects[0]["copies"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--organization", "heap"], "unknown organization 'heap': known are hash, hashed-log, log, tree"),
        (["--signature", "md4"], "unknown signature 'md4'"),
        (["--placement", "random"], "unknown placement 'random'"),
        (["--depth", "0"], "bad depth 0"),
        (["--volumes", "0"], "without volumes of its own needs --connector"),
    ],
)
def test_init_with_wrong_options_makes_nothing(shell: Shell, arguments: list[str], message: str) -> None:
    assert message in shell("init", "new", *arguments, code=2).errors
    assert not (shell.directory / "new").exists()


def test_init_never_touches_an_archive(archive: Shell) -> None:
    key = archive("content", "put", "-", input=b"kept").lines[0]
    assert "holds an archive already" in archive("init", ".", code=2).errors
    assert archive.content(key) == b"kept"


# -- list and status ---------------------------------------------------------------------------------------------------


def test_volume_list_is_a_table(archive: Shell) -> None:
    put_pages(archive, 5)
    heading, *rows = archive("volume", "list").lines
    assert heading.split()[:3] == ["NAME", "ORGANIZATION", "STATE"]
    assert [row.split()[:3] for row in rows] == [["v0", "log", "writable"], ["v1", "log", "writable"]]


def test_volume_list_shows_a_volume_that_is_down(archive: Shell) -> None:
    (archive.directory / "volumes" / "v1" / "VOLUME").unlink()
    down = archive("volume", "list", "--json").objects[1]
    assert (down["up"], down["activity"], "blocks" in down) == (False, "down", False)
    assert "VOLUME' is missing" in down["reason"]


def test_status_adds_up(archive: Shell) -> None:
    for name in ("a", "b"):
        archive.file(name, b"word " * 100)
    archive("content", "put", "a", "b")
    totals = archive("status", "--json").objects[0]
    assert (totals["contents"], totals["references"], totals["content_bytes"]) == (1, 2, 500)
    assert totals["saved_by_duplicates_bytes"] == 500
    assert totals["saved_by_compression_bytes"] == 500 - totals["stored_bytes"] > 0
    assert (totals["volumes_up"], totals["volumes_down"]) == (2, 0)
    fields = {line[:20].strip(): line[20:].strip() for line in archive("status").lines}
    assert fields["contents"] == "1 (500 B)"
    assert fields["references"] == "2 (1000 B)"
    assert fields["volumes"] == "2 up, 0 down"


# -- add, set-state, migrate -------------------------------------------------------------------------------------------


def test_add(archive: Shell, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("disk") / "volume"
    assert archive("volume", "add", "v2").text == "added volume 'v2' of organization log\n"
    options = ["--organization", "tree", "--depth", "2", "--weight", "0.5", "--path", str(elsewhere)]
    added = archive("volume", "add", "far", *options, "--json").objects[0]
    assert (added["name"], added["path"]) == ("far", str(elsewhere))
    key = archive("content", "put", "-", "--volume", "far", input=b"x").lines[0]
    assert key.startswith("far:")
    assert elsewhere.is_dir()
    assert [each["name"] for each in archive("volume", "list", "--json").objects] == ["v0", "v1", "v2", "far"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["v1"], "volume 'v1' exists already"),
        (["No!"], "bad volume name 'No!'"),
        (["v2", "--organization", "heap"], "unknown organization 'heap'"),
        (["v2", "--weight", "-1"], "-1.0 must be "),
    ],
)
def test_wrong_add_changes_nothing(archive: Shell, arguments: list[str], message: str) -> None:
    settings = (archive.directory / "holdfast.toml").read_text()
    assert message in archive("volume", "add", *arguments, code=2).errors
    assert (archive.directory / "holdfast.toml").read_text() == settings
    assert sorted(path.name for path in (archive.directory / "volumes").iterdir()) == ["v0", "v1"]


def test_set_state(archive: Shell) -> None:
    assert archive("volume", "set-state", "v0", "read-only").text == "volume 'v0' is read-only\n"
    assert archive.volume("v0").settings.state == "read-only"
    assert all(key.startswith("v1:") for key in put_pages(archive, 8))
    changed = archive("volume", "set-state", "v0", "writable", "--json").objects
    assert changed == [{"name": "v0", "state": "writable"}]
    assert archive.volume("v0").settings.state == "writable"


def test_migrate_keeps_every_key(archive: Shell) -> None:
    keys = put_pages(archive, 20)
    archive("volume", "add", "v2")
    in_v0 = sum(key.startswith("v0:") for key in keys)
    moved = archive("volume", "migrate", "v0", "--to", "v2", "--json").objects[0]
    assert moved["blocks"] == in_v0
    assert stat(archive, "v0").blocks == 0
    assert archive.volume("v0").settings.state == "read-only"
    assert stat(archive, "v2").blocks == in_v0
    assert archive.keys() == sorted(keys)
    assert archive.content(keys[0]) == (archive.directory / "page-0").read_bytes()
    archive("check", "--deep")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["v9"], "unknown volume 'v9'"),
        (["v0", "--to", "v9"], "unknown volume 'v9'"),
        (["v0", "--to", "v0"], "cannot be migrated to itself"),
    ],
)
def test_wrong_migrate_changes_nothing(archive: Shell, arguments: list[str], message: str) -> None:
    assert message in archive("volume", "migrate", *arguments, code=2).errors
    assert archive.volume("v0").settings.state == "writable"


# -- compact and train -------------------------------------------------------------------------------------------------


def test_compact_reclaims_what_was_removed(archive: Shell) -> None:
    keys = put_pages(archive, 30)
    archive("content", "rm", *keys[:20])
    before = archive("status", "--json").objects[0]
    assert before["dead_bytes"] > 0
    compacted = archive("volume", "compact", "--json").objects
    assert [each["name"] for each in compacted] == ["v0", "v1"]
    after = archive("status", "--json").objects[0]
    reclaimed = sum(each["bytes_before"] - each["bytes_after"] for each in compacted)
    assert reclaimed > 0
    assert after["dead_bytes"] < before["dead_bytes"]
    assert archive.keys() == sorted(keys[20:])
    archive("check", "--deep")


def test_compact_of_chosen_volumes(archive: Shell) -> None:
    assert archive("volume", "compact", "v1").text == "v1: 0 files rewritten, 0 B reclaimed\n"
    result = archive("volume", "compact", "v1", "v9", code=2)
    assert (result.output, "unknown volume 'v9'" in result.errors) == (b"", True)
    keys = put_pages(archive, 30)
    archive("content", "rm", keys[0])
    assert {each["files"] for each in archive("volume", "compact", "--min-dead", "0.9", "--json").objects} == {0}


def test_train_makes_a_dictionary_that_is_used(shell: Shell) -> None:
    shell("init", ".")
    put_pages(shell, 100)
    trained = shell("volume", "train", "v0", "--json").objects[0]
    assert (trained["name"], len(trained["dictionary"])) == ("v0", 8)
    assert stat(shell, "v0").dictionaries == 1
    key = shell("content", "put", "-", input=b"<html>word1 word2 word3</html>").lines[0]
    assert shell("content", "stat", key, "--json").objects[0]["codec"] == "zstd-dict"


def test_train_without_enough_contents(archive: Shell) -> None:
    assert "too few compressible contents" in archive("volume", "train", "v0", code=2).errors


def test_volume_directory_that_is_taken(archive: Shell) -> None:
    taken = Path("volumes") / "v0"
    assert "holds a volume already" in archive("volume", "add", "v2", "--path", str(taken), code=2).errors
