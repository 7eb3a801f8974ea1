"""`holdfast volume list`, volumes that are elsewhere, and commands on a connector (B5, W9)."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from crawl_screen import Screen
from program import Shell

import holdfast
from holdfast import StoreOptions, VolumeSettings, VolumeState, config

IN_V0 = StoreOptions(volume="v0")
NOBODY = "127.0.0.1:1"  # a port that nobody listens on
HEADING = "NAME ORGANIZATION STATE ACTIVITY BLOCKS ON_DISK CAPACITY FREE DEAD WAITING PLACE"


@pytest.fixture
def connected(archive: Shell) -> Shell:
    """A directory with a connector for the volumes of an archive that nobody uses as one."""
    lines = [f'[[volume]]\nname = "{name}"\npath = "volumes/{name}"\n' for name in ("v0", "v1")]
    archive.file("connector.toml", "format = 1\n" + "".join(lines))
    (archive.directory / "holdfast.toml").unlink()
    return archive


@pytest.fixture
def screen(archive: Shell) -> Iterator[Screen]:
    screen = Screen(120, archive.command("volume", "list", "--watch", "0.1"), archive.directory, archive.environment())
    yield screen
    screen.close()


def columns(row: str) -> list[str]:
    return row.replace("ON DISK", "ON_DISK").replace(" B", "B").replace(" KiB", "K").replace(" GiB", "G").split()


# -- the table ---------------------------------------------------------------------------------------------------------


def test_the_table_tells_what_volumes_do_and_how_full_they_are(archive: Shell) -> None:
    with holdfast.open(archive.directory) as opened:
        key = opened.contents.put(b"word " * 100, IN_V0)
        opened.contents.delete(key)
    heading, first, second = archive.quick("volume", "list").lines
    assert columns(heading) == HEADING.split()
    assert columns(first)[:5] == ["v0", "log", "writable", "idling", "0"]
    assert columns(first)[8:] != columns(second)[8:]
    assert columns(second)[8:] == ["0%", "0"]
    assert max(map(len, (heading, first, second))) <= 120


def test_a_table_of_full_volumes_fits_its_window() -> None:
    from holdfast.archive import VolumeReport
    from holdfast.cli.store.volume import table_of
    from holdfast.storage.volume import Activity, VolumeStat

    stat = VolumeStat("log", 123_456_789, 0, 10**9, 2 << 40, 999 << 30, 9 << 40, 999 << 30, 99 << 30, 999 << 30, 1)
    settings = VolumeSettings("v123", state=VolumeState.READ_ONLY, address="10.20.30.40:9999")
    lines = table_of([VolumeReport(settings, stat, "", Activity("streaming", 1234, 64))], wide=False)
    assert max(map(len, lines)) <= 120, lines


def test_a_volume_that_is_down_is_named_with_its_reason_below_the_table(archive: Shell) -> None:
    (archive.directory / "volumes" / "v1" / "VOLUME").unlink()
    *_, row, empty, reason = archive.quick("volume", "list").lines
    assert row.split() == ["v1", "log", "writable", "down", *["-"] * 6]
    assert (empty, reason.startswith("v1 is down: "), reason.endswith("is missing")) == ("", True, True)


def test_all_columns(archive: Shell) -> None:
    with holdfast.open(archive.directory) as opened:
        opened.contents.store_batch([b"word " * 100] * 2, IN_V0)
    heading, first, _ = archive.quick("volume", "list", "--wide").lines
    assert "SAVED BY DUPLICATES" in heading
    assert columns(first)[10:16] == ["-", "1", "0", "2", "0", "500B"]
    assert columns(first)[-1] == "500B"


def test_json_has_everything(archive: Shell) -> None:
    with holdfast.open(archive.directory) as opened:
        opened.contents.put(b"word " * 100, IN_V0)
    first, _ = archive.quick("volume", "list", "--json").objects
    assert (first["activity"], first["outstanding"], first["clients"], first["up"]) == ("idling", 0, 0, True)
    assert first["capacity_bytes"] == first["disk_bytes"] + first["free_bytes"]
    assert 0 <= first["fragmentation"] <= 1
    assert (first["blocks"], first["saved_by_duplicates_bytes"], first["address"]) == (1, 0, "")


def test_volumes_of_an_archive_that_another_process_writes_to_are_storing(archive: Shell) -> None:
    with holdfast.open(archive.directory):
        assert {each["activity"] for each in archive.quick("volume", "list", "--json").objects} == {"storing"}
    assert {each["activity"] for each in archive.quick("volume", "list", "--json").objects} == {"idling"}


# -- again and again ---------------------------------------------------------------------------------------------------


def test_a_watched_list_is_drawn_in_place_until_ctrl_c(archive: Shell, screen: Screen) -> None:
    screen.read_until("v1")
    screen.press(b"\x03")
    assert screen.finish() == 0
    shown = [line for line in screen.lines if line.strip() and "^C" not in line]
    assert [line.split()[0] for line in shown] == ["NAME", "v0", "v1"]  # once, however often it was drawn


def test_a_watched_list_in_a_pipe_is_one_below_the_other(archive: Shell) -> None:
    process = archive.start("volume", "list", "--watch", "0.1", "--json")
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(5)]
    assert all(line.startswith(b'{"name"') for line in seen)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, b"")


# -- volumes of servers ------------------------------------------------------------------------------------------------


def test_a_server_that_does_not_answer_is_not_added(archive: Shell) -> None:
    before = (archive.directory / "holdfast.toml").read_text()
    assert "far" in archive.quick("volume", "add", "far", "--address", NOBODY, code=9).errors
    assert (archive.directory / "holdfast.toml").read_text() == before


def impatient(archive: Shell) -> None:
    settings = archive.directory / "holdfast.toml"
    settings.write_text(settings.read_text() + "[remote]\nretry_s = 0\n")


def test_a_server_that_does_not_answer_is_added_by_force(archive: Shell) -> None:
    impatient(archive)
    added = archive.quick("volume", "add", "far", "--address", NOBODY, "--weight", "2", "--force")
    assert added.text == f"added volume 'far' at {NOBODY}\n"
    settings = config.load(archive.directory / "holdfast.toml")
    assert settings.volume[-1] == VolumeSettings("far", weight=2.0, address=NOBODY)
    assert not (archive.directory / "volumes" / "far").exists()
    assert archive.quick("volume", "list").lines[3].split()[0] == "far"
    with holdfast.open(archive.directory) as opened:
        assert opened.contents.put(b"the others go on", IN_V0).volume == "v0"


@pytest.mark.parametrize("command", ["repair", "rebalance"])
def test_upkeep_goes_on_without_a_server_that_is_down_and_says_so(archive: Shell, command: str) -> None:
    impatient(archive)
    archive.quick("volume", "add", "far", "--address", NOBODY, "--force")
    told = archive.quick("volume", command, code=9)
    assert told.text.startswith("looked at 0 blocks" if command == "repair" else "moved 0 of 0 blocks")
    assert "far was down; run it again afterwards" in told.errors


def test_an_address_is_not_added_twice(archive: Shell) -> None:
    archive.quick("volume", "add", "far", "--address", NOBODY, "--force")
    before = (archive.directory / "holdfast.toml").read_text()
    told = archive.quick("volume", "add", "away", "--address", NOBODY, "--force", code=2)
    assert "volumes 'far' and 'away' have the same address" in told.errors
    assert (archive.directory / "holdfast.toml").read_text() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--address", "nowhere"], "bad address 'nowhere': write host:port"),
        (["--address", "a:1", "--path", "x"], "has an address and a path"),
        (["--address", "a:1", "--url", "s3://b/p"], "has an address and a url"),
        (["--url", "gopher://b"], "bad url 'gopher://b'"),
    ],
)
def test_places_that_make_no_sense_are_refused(archive: Shell, options: list[str], message: str) -> None:
    before = (archive.directory / "holdfast.toml").read_text()
    assert message in archive.quick("volume", "add", "far", *options, code=2).errors
    assert (archive.directory / "holdfast.toml").read_text() == before


# -- connectors --------------------------------------------------------------------------------------------------------


def test_contents_by_a_connector_alone(connected: Shell) -> None:
    named = ("--connector", connected.directory / "connector.toml")
    page = connected.file("page", b"word " * 100)
    (key,) = connected.quick("content", "put", page, *named).lines
    assert connected.quick("content", "get", key, *named).output == b"word " * 100
    assert connected.quick("content", "stat", key, "--json", *named).objects[0]["references"] == 1
    assert connected.quick("content", "list", *named).lines == [key]
    listed = connected.quick("volume", "list", "--json", *named).objects
    assert [(each["name"], each["activity"]) for each in listed] == [("v0", "idling"), ("v1", "idling")]
    assert sum(each["blocks"] for each in listed) == 1
    assert connected.quick("content", "rm", key, *named).lines == [f"{key} 0"]
    assert "no archive" in connected.quick("content", "list", code=3).errors


def test_connectors_that_cannot_be_read(connected: Shell) -> None:
    nowhere = connected.directory / "nowhere"
    assert f"no connector '{nowhere}'" in connected.quick("volume", "list", "--connector", nowhere, code=3).errors
    bad = connected.file("bad.xml", "<!DOCTYPE x><instance/>")
    assert "line 1: a document type" in connected.quick("content", "list", "--connector", bad, code=2).errors


def test_an_archive_is_made_on_the_volumes_of_a_connector(connected: Shell) -> None:
    made = connected("init", "on-servers", "--connector", "connector.toml")
    assert made.text == "made archive 'on-servers' on the volumes of 'connector.toml'\n"
    with holdfast.open(connected.directory / "on-servers") as archive:
        places = [report.place for report in archive.volumes()]
        key = archive.contents.put(b"x")
    assert places == [str(connected.directory / "volumes" / name) for name in ("v0", "v1")]
    with holdfast.connect(connected.directory / "connector.toml", read_only=True) as connection:
        assert connection.contents.get(key) == b"x"
    new = connected.directory / "new"
    assert "no connector" in connected.quick("init", new, "--connector", new / "nowhere", code=3).errors
    assert not new.exists()


def test_volumes_of_a_connector_are_migrated_and_compacted(connected: Shell) -> None:
    connector = connected.directory / "connector.toml"
    with holdfast.connect(connector) as connection:
        key = connection.contents.put(b"on its way", IN_V0)
    assert "moved 1 block" in connected.quick("volume", "migrate", "v0", "--connector", connector).text
    assert "v0: " in connected.quick("volume", "compact", "v0", "--connector", connector).text
    told = connected.quick("volume", "set-state", "v0", "writable", "--connector", connector)
    assert told.text == "volume 'v0' is writable\n"
    with holdfast.connect(connector, read_only=True) as connection:
        assert connection.contents.get(key) == b"on its way"
