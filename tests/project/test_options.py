"""The same option means the same in every command, and sizes have one kind of unit (P14)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.cli.main import cli

ROOT = Path(__file__).parents[2]
DECIMAL = re.compile(r"\b\d[\d.,]* ?(?:k|K|M|G|T)B\b")
# Figures that were measured in units of 10^6 bytes, and say so.
MEASURED = {"benchmarks.md", "decisions.md"}
WITHOUT_JSON = {"demo"}  # it prints where to click


def commands(command: click.Command = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, f"{path} {name}".strip())
    else:
        yield path, command


def options(command: click.Command) -> dict[str, click.Option]:
    return {name: each for each in command.params if isinstance(each, click.Option) for name in each.opts}


def test_every_command_prints_json() -> None:
    found = dict(commands())
    assert len(found) > 40
    lacking = {path for path, command in found.items() if "--json" not in options(command)}
    assert lacking == WITHOUT_JSON
    for path, command in found.items():
        if path not in WITHOUT_JSON:
            assert options(command)["--json"].is_flag, path


def test_output_is_a_file_and_format_a_choice() -> None:
    for path, command in commands():
        known = options(command)
        if "--output" in known:
            assert "-o" in known["--output"].opts, path
            assert known["--output"].metavar in ("FILE", "PATH"), path
        if "--format" in known:
            assert isinstance(known["--format"].type, click.Choice), path


def test_short_options_have_one_meaning() -> None:
    meanings: dict[str, set[str]] = {}
    for _, command in commands():
        for each in command.params:
            if isinstance(each, click.Option):
                longest = max(each.opts, key=len)
                for name in each.opts:
                    if not name.startswith("--"):
                        meanings.setdefault(name, set()).add(longest)
    assert {name: long for name, long in meanings.items() if len(long) > 1} == {}


def test_sizes_are_in_powers_of_1024() -> None:
    pages = [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if page.name not in MEASURED)]
    code = [
        path
        for part in ("cli", "web", "env")
        for path in (ROOT / "src" / "holdfast" / part).rglob("*")
        if path.suffix in (".py", ".html", ".js")
    ]
    assert len(code) > 50
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in (*pages, *code)
        for found in DECIMAL.finditer(path.read_text())
    ]
    assert wrong == []
    assert DECIMAL.search("about 20 KB") and DECIMAL.search("1.5 GB") and not DECIMAL.search("20 KiB")
