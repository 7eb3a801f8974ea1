"""The plain installation is small, and says what is missing and how to install it (P14)."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import holdfast
from holdfast.env import extras
from holdfast.errors import MissingExtra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTALL_BYTES_MAX = 300_000_000
WITHOUT = """
import sys
for name in ("tantivy", "pyarrow", "duckdb"):
    sys.modules[name] = None  # as if it were not there
from holdfast.cli.main import main
main()
"""


def plain(directory: Path, *arguments: str, code: int = 0) -> str:
    """Runs the program as a plain installation would, and returns what it printed."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def installed(requirements: list[str]) -> set[str]:
    """The names of all distributions that requirements bring, by what is installed here."""
    found: set[str] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        wanted = waiting.pop()
        name = wanted.name.lower()
        if name in found or (wanted.marker is not None and not wanted.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += [Requirement(each) for each in distribution(name).requires or ()]
    return found


def test_the_plain_installation_is_small() -> None:
    names = installed(PROJECT["dependencies"])
    assert {"pyarrow", "duckdb", "tantivy"} & names == set()
    files = [file.locate() for name in names for file in distribution(name).files or ()]
    size = sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).is_file())
    own = sum(file.stat().st_size for file in Path(holdfast.__file__).parent.rglob("*") if file.is_file())
    assert size > 50_000_000  # it was looked at
    assert size + own < INSTALL_BYTES_MAX


def test_each_extra_is_one_of_the_package() -> None:
    known = PROJECT["optional-dependencies"]
    assert set(extras.EXTRAS) <= set(known)
    for name in ("search", "browser", "objects", "datasets", "torch", "ray"):
        brought = {Requirement(each).name.replace("-", "_") for each in known[name]}
        assert set(extras.EXTRAS[name][0]) <= brought


def test_a_plain_installation_archives_and_exports(tmp_path: Path) -> None:
    warc = tmp_path / "pages.warc.gz"
    holdfast.init(tmp_path / "first")
    with holdfast.open(tmp_path / "first") as archive:
        archive.add(holdfast.page("http://a.example/", "<title>One</title>words", timestamp="20260501080000"))
        archive.export("*", warc)
    plain(tmp_path, "init", "archive")
    assert "2 added" in plain(tmp_path, "-a", "archive", "import", str(warc))  # the page, and the head of the file
    assert "words" in plain(tmp_path, "-a", "archive", "get", "http://a.example/")
    plain(tmp_path, "-a", "archive", "stream", "--format", "jsonl", "-o", "pages.jsonl")
    plain(tmp_path, "-a", "archive", "export", "*", "-o", "pages.wacz")
    assert "no faults" in plain(tmp_path, "-a", "archive", "check")
    assert "removed 1 capture" in plain(tmp_path, "-a", "archive", "rm", "a.example/*", "--reason", "asked", "--yes")


@pytest.mark.parametrize(
    "command",
    [
        ("search", "words"),
        ("sql", "select 1"),
        ("index", "update"),
        ("study", "duplicates"),
        ("stream", "words"),
        ("stream", "--format", "parquet", "-o", "pages.parquet"),
        ("export", "*", "-o", "pages.parquet"),
        ("import", "--index", "."),
    ],
    ids=" ".join,
)
def test_what_is_missing_is_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    holdfast.init(tmp_path / "archive")
    said = plain(tmp_path, "-a", "archive", *command, code=2)
    assert "this part is not installed; run: pip install 'holdfast[search]'" in said


def test_an_index_is_neither_left_behind_nor_reported_damaged(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive")
    with holdfast.open(tmp_path / "archive") as archive:
        archive.add(holdfast.page("http://a.example/", "<title>One</title>words"))
        archive.index.update()
    said = plain(tmp_path, "-a", "archive", "rm", "a.example/*", "--reason", "asked", "--yes", code=2)
    assert "holdfast[search]" in said  # what is removed must leave the index, too
    assert "the index was not checked" in plain(tmp_path, "-a", "archive", "check")
    with holdfast.open(tmp_path / "archive", read_only=True) as archive:
        assert archive.query("words").total == 1


def test_errors_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda _extra: False)
    holdfast.init(tmp_path / "archive")
    with holdfast.open(tmp_path / "archive") as archive:
        for call in (
            archive.index.view,
            archive.index.build,
            lambda: archive.query("x"),
            lambda: archive.sql("select 1"),
        ):
            with pytest.raises(MissingExtra, match=r"pip install 'holdfast\[search\]'"):
                call()  # type: ignore[operator]
