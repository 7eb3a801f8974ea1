"""`holdfast doctor` and `holdfast config show` (P14)."""

from __future__ import annotations

import json
import shutil

import pytest
from program import Shell

from holdfast.config import INDEX_VARIABLE
from holdfast.errors import InvalidSetting


def states(shell: Shell, *arguments: str, code: int = 0) -> dict[str, tuple[str, str]]:
    lines = shell("doctor", "--json", *arguments, code=code).text.splitlines()
    return {found["subject"]: (found["state"], found["text"]) for found in map(json.loads, lines)}


def test_a_sound_archive_has_no_problem(shell: Shell) -> None:
    shell("init", "archive")
    found = states(shell, "-a", "archive")
    assert {state for state, _ in found.values()} <= {"ok", "note"}
    assert found["volume v0"] == ("ok", "writable")
    assert found["writer"] == ("ok", "none")
    assert found["durable write"][1].endswith("ms") or "slow" in found["durable write"][1]
    assert "python" in shell("doctor", "-a", "archive").text


def test_without_an_archive_the_machine_is_looked_at(shell: Shell) -> None:
    state, text = states(shell)["archive"]
    assert state == "note"
    assert "holdfast init" in text


def test_a_volume_that_is_gone_and_broken_settings_are_problems(shell: Shell) -> None:
    shell("init", "archive", "--volumes", "2")
    shutil.rmtree(shell.directory / "archive" / "volumes" / "v1")
    found = states(shell, "-a", "archive", code=1)
    assert (found["volume v0"][0], found["volume v1"][0]) == ("ok", "problem")
    (shell.directory / "archive" / "holdfast.toml").write_text("format = 1\n[serve]\nportt = 3\n")
    state, text = states(shell, "-a", "archive", code=1)["archive"]
    assert state == "problem"
    assert "portt" in text


def test_the_environment_is_a_place_that_settings_come_from(archive: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INDEX_VARIABLE, "no")
    (found,) = archive.quick("config", "show", "index.automatic", "--json").objects
    assert found == {"index.automatic": {"value": False, "from": INDEX_VARIABLE}}
    monkeypatch.setenv(INDEX_VARIABLE, "perhaps")
    assert "give true or false" in archive.quick("config", "show", code=InvalidSetting.exit_code).errors


def test_settings_and_where_they_come_from(shell: Shell) -> None:
    shell("init", "archive")
    path = shell.directory / "archive" / "holdfast.toml"
    path.write_text(path.read_text() + "\n[serve]\nport = 9000\nhosts = ['a', 'b']\n")
    shown = json.loads(shell("config", "show", "serve.port", "serve.host", "-a", "archive", "--json").text)
    assert shown["serve.port"] == {"value": 9000, "from": "holdfast.toml"}
    assert shown["serve.host"]["from"] == "default"
    changed = shell("config", "show", "serve", "--changed", "-a", "archive").text.split("\n")
    assert [line.split() for line in changed if line] == [
        ["SETTING", "VALUE", "FROM"],
        ["serve.port", "9000", "holdfast.toml"],
        ["serve.hosts", "a,", "b", "holdfast.toml"],
    ]
    assert "store.signature" in shell("config", "show", "-a", "archive").text
    assert (
        "no setting 'serve.prt': did you mean 'serve.port'?"
        in shell("config", "show", "serve.prt", "-a", "archive", code=2).errors
    )
    assert "no archive" in shell("config", "show", code=3).errors
