"""`holdfast check`: faults on standard output, the verdict in the exit code."""

from __future__ import annotations

import pytest
from program import Shell

from holdfast.cli.options import read_bytes

CONTENT = b"marker" * 20


def damage(shell: Shell, volume: str = "v0") -> str:
    """Flips one byte of the content that stands in the volume; returns the name of the file."""
    (segment,) = (shell.directory / "volumes" / volume).glob("*.seg")
    segment.write_bytes(segment.read_bytes().replace(b"marker", b"maRker", 1))
    return segment.name


def put(shell: Shell, *options: str) -> str:
    return shell("content", "put", "-", "--codec", "none", "--volume", "v0", *options, input=CONTENT).lines[0]


def test_sound_archive(archive: Shell) -> None:
    put(archive)
    result = archive("check", "--deep", "--rate-limit", "50M")
    assert result.output == b""
    assert result.errors.startswith("checked 1 block (")
    assert result.errors.endswith("): no faults\n")
    (summary,) = archive("check", "--json").objects
    assert (summary["event"], summary["clean"], summary["faults"], summary["blocks"]) == ("summary", True, 0, 1)


def test_fault_is_named_and_left_alone(archive: Shell) -> None:
    key = put(archive)
    file = damage(archive)
    result = archive("check", code=5)
    assert result.lines[0].startswith("fault: ")
    assert file in result.lines[0]
    assert "fault" in result.errors
    *faults, summary = archive("check", "--json", code=5).objects
    assert {each["event"] for each in faults} == {"fault"}
    assert (faults[0]["volume"], faults[0]["repaired"], faults[0]["key"]) == ("v0", False, key)
    assert (summary["clean"], summary["faults"]) == (False, len(faults))


def test_repair_from_a_replica(archive: Shell) -> None:
    key = put(archive, "--replicas", "2")
    damage(archive)
    result = archive("check", "--repair")
    assert all(line.startswith("repaired: ") for line in result.lines)
    assert result.lines
    archive("check", "--deep")
    assert archive("content", "get", key).output == CONTENT


def test_repair_without_a_replica_saves_the_others(archive: Shell) -> None:
    lost = put(archive)
    kept = archive("content", "put", "-", "--volume", "v0", input=b"kept").lines[0]
    damage(archive)
    *faults, summary = archive("check", "--repair", "--json", code=5).objects
    assert summary["clean"] is False
    assert lost in {each["key"] for each in faults if not each["repaired"]}
    assert archive("content", "get", kept).output == b"kept"
    archive("content", "get", lost, code=3)
    archive("check", "--deep")


def test_check_of_one_volume(archive: Shell) -> None:
    put(archive)
    damage(archive)
    archive("check", "--volume", "v1")
    archive("check", "--volume", "v0", code=5)
    assert "unknown volume 'v9'" in archive("check", "--volume", "v9", code=2).errors


@pytest.mark.parametrize(
    ("text", "count"),
    [("4096", 4096), ("1k", 1024), ("50M", 50 << 20), ("1.5GiB", 3 << 29), ("2 MB/s", 2 << 20), ("1T", 1 << 40)],
)
def test_numbers_of_bytes(text: str, count: int) -> None:
    assert read_bytes(None, None, text) == count  # type: ignore[arg-type]
