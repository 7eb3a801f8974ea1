"""`holdfast sample`: collections, reports and the same bytes again (I9)."""

from __future__ import annotations

import csv
import io
import json

import pytest
from program import Shell

import holdfast
from holdfast.archive.ingest.exchange import page


@pytest.fixture
def sampled(archive: Shell) -> Shell:
    """Sixty pages of four sites."""
    with holdfast.open(archive.directory) as opened:
        for number in range(60):
            text = f"<p>Page {number} on {'tides' if number % 3 else 'wind'}. ".encode() * 20
            url = f"http://site{number % 4}.example/{number}"
            opened.add([page(url, text, timestamp=f"20200{1 + number % 5}02030405")])
        opened.index.update()
    return archive


def test_a_sample_and_its_report(sampled: Shell) -> None:
    target = sampled.directory / "drawn"
    told = sampled.quick("sample", target, "--size", "20", "--by", "site", "--seed", "7")
    assert f"wrote '{target}'" in told.errors
    assert told.text.startswith("sizes:\n") and "\ndistances:\n" in told.text
    assert len((target / "captures.jsonl").read_text().splitlines()) == 20
    manifest = json.loads((target / "manifest.json").read_text())
    assert (manifest["options"]["seed"], manifest["options"]["by"]) == ("7", ["site"])
    again = sampled.quick("sample", sampled.directory / "again", "--again", target / "manifest.json")
    assert "every byte as before" in again.errors
    for path in target.iterdir():
        assert path.read_bytes() == (sampled.directory / "again" / path.name).read_bytes()


def test_a_report_alone(sampled: Shell) -> None:
    before = set(sampled.directory.iterdir())
    text = sampled.quick("sample", "--bytes", "4K", "--by", "type", "--table", "strata", "--csv").text
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["stratum"], row["captures"]) == ("html", "60")
    assert 0 < int(row["sampled_bytes"]) <= 4096
    topics = ("--by", "topic", "--topic", "tides", "--topic", "wind")
    rows = sampled.quick("sample", "--size", "9", *topics, "--table", "strata", "--json").objects
    assert {row["stratum"]: row["captures"] for row in rows} == {"tides": 40, "wind": 20}
    assert set(sampled.directory.iterdir()) == before


def test_a_chart(sampled: Shell) -> None:
    pytest.importorskip("matplotlib")
    sampled.quick("sample", "--size", "9", "--plot", sampled.directory / "s.png")
    assert (sampled.directory / "s.png").read_bytes().startswith(b"\x89PNG")


def test_impossible_samples_and_mistakes_are_named(sampled: Shell) -> None:
    def errors(*arguments: str, code: int = 2) -> str:
        return sampled.quick("sample", *arguments, code=code).errors

    target = str(sampled.directory / "drawn")
    assert "a sample of 61 captures is impossible: there are 60" in errors(target, "--size", "61")
    assert "give one of --size N and --bytes BYTES" in errors(target)
    assert "give one of --size N and --bytes BYTES" in errors(target, "--size", "1", "--bytes", "1K")
    assert "strata by topic need 1 to 6 topics" in errors(target, "--size", "1", "--by", "topic")
    assert "nothing to draw from" in errors(target, "--size", "1", "--within", "unicorn")
    assert "--again takes a DIRECTORY" in errors("--again", "manifest.json")
    assert "--again takes a DIRECTORY" in errors(target, "--again", "manifest.json", "--seed", "2")
    assert "cannot read" in errors(target, "--again", "nowhere.json")
    assert not (sampled.directory / "drawn").exists()


def test_an_empty_archive(archive: Shell) -> None:
    assert "there is nothing to draw from" in archive.quick("sample", "--size", "1", code=2).errors
