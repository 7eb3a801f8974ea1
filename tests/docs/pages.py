"""Markdown pages as the tests see them: links, headings, and blocks of code that run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
_ELLIPSIS = "..."


class Block(NamedTuple):
    """A fenced block: the word behind its fence, its text, and the number of its first line."""

    language: str
    text: str
    line: int


class Step(NamedTuple):
    """A command of a `console` block, and what it shall print."""

    command: str
    output: str


def pages() -> list[Path]:
    """All pages a reader may open."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [Block(each[1], each[2], text.count("\n", 0, each.start()) + 2) for each in _FENCE.finditer(text)]


def block_after(page: Path, words: str) -> str:
    """The first fenced block behind these words."""
    text = page.read_text()
    match = _FENCE.search(text, text.index(words))
    assert match is not None
    return match[2]


def links(page: Path) -> list[str]:
    return _LINK.findall(_FENCE.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """What `#...` may follow the name of this page."""
    headings = re.findall(r"^#+ +(.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table_rows(text: str) -> list[list[str]]:
    """The cells of all table rows but the rulers."""
    rows = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if not set("".join(row)) <= set("-: ")]


def steps(text: str) -> Iterator[Step]:
    """The commands of a console block: lines after `$ `, with those after `> ` as their continuation."""
    command, output = "", ""
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            if command:
                yield Step(command, output)
            command, output = line[2:], ""
        elif line.startswith("> ") and not output:
            command += line[2:]
        else:
            output += line
    if command:
        yield Step(command, output)


def matches(wanted: str, got: str) -> bool:
    """Whether a text is as announced; `...` stands for anything, and spaces before a newline do not count."""
    pattern = ".*".join(re.escape(part) for part in _trimmed(wanted).split(_ELLIPSIS))
    return re.fullmatch(pattern, _trimmed(got), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


class Shell:
    """One bash for all console blocks of a page, so that variables and the directory last. `holdfast` is this one."""

    def __init__(self, directory: Path, programs: Path) -> None:
        programs.mkdir()
        program = programs / "holdfast"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
        program.chmod(0o755)
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.run(f'export LC_ALL=C.UTF-8 PYTHONPATH="{ROOT / "src"}" PATH="{programs}:$PATH"; unset HOLDFAST_ARCHIVE')

    def run(self, command: str) -> tuple[str, int]:
        """What it printed, both ways, and its exit code."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        mark = "--- the command has ended:"
        self._bash.stdin.write(f"{command.rstrip()}\nprintf '\\n{mark} %d\\n' $?\n")
        self._bash.stdin.flush()
        printed = ""
        for line in self._bash.stdout:
            if line.startswith(mark):
                return printed.removesuffix("\n"), int(line.removeprefix(mark))
            printed += line
        raise AssertionError(f"the shell ended: {printed}")

    def close(self) -> None:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.close()
        self._bash.wait()
        self._bash.stdout.close()
