"""`holdfast rm`: nothing goes by accident, and what goes is gone (N2)."""

from __future__ import annotations

import json
import os
import pty
import subprocess

import pytest
from program import Shell
from warcs import PAGES, write_warc


def urls(shell: Shell) -> list[str]:
    return shell.quick("cdx", "*", "--output", "text", "--fl", "url").lines


def test_dry_run_tells_and_changes_nothing(filled: Shell) -> None:
    before = urls(filled)
    result = filled("rm", "example.com", "--dry-run")
    assert result.lines[0] == "pages-0000000001 20200102030405 http://example.com/"
    assert result.lines[-1].startswith("would remove 2 captures, 4 records and 2 contents (")
    assert urls(filled) == before
    assert not (filled.directory / "audit.log").exists()


def test_removal(filled: Shell) -> None:
    result = filled("rm", "http://example.com/about", "--reason", "asked to")
    assert result.text == "removed 1 capture, 2 records and 1 content (18 B)\n"
    filled("get", "http://example.com/about", code=3)
    assert filled("get", "http://www.example.com/copy").output == b"<html>about</html>"
    (line,) = (filled.directory / "audit.log").read_text().splitlines()
    assert json.loads(line)["reason"] == "asked to"
    (facts,) = filled("rm", "*.example.com", "--reason", "all of it", "--json").objects
    assert (facts["captures"], facts["dry_run"], len(facts["listed"])) == (3, False, 3)
    assert facts["listed"][0].keys() == {"record", "timestamp", "url"}
    assert urls(filled) == ["http://other.org/"]
    assert filled("rm", "*.example.com", "--reason", "again").text == "nothing to remove\n"
    filled("check")
    filled("batch", "verify")


def test_a_content_that_others_hold_stays(filled: Shell) -> None:
    page = b"<p>larger than what a record keeps itself</p>" * 40
    both = [(f"http://both.org/{number}", "2022-01-01T00:00:00Z", page) for number in range(2)]
    write_warc(filled.directory / "both.warc", both)
    filled("import", "both.warc")
    assert filled("rm", "http://both.org/0", "--reason", "asked to").text == (
        "removed 1 capture, 2 records and 0 contents (0 B), but not 1 content that others hold too\n"
    )
    assert filled("get", "http://both.org/1").output == page


def test_refused_ones_do_not_come_back(filled: Shell) -> None:
    filled("rm", "other.org", "--reason", "no", "--refuse", "--no-compact")
    assert filled("rm", "--batch", "pages", "--filter", "=timestamp:20200601000000", "--reason", "x").text
    assert filled("import", "pages.warc.gz").lines[0].endswith(": 2 added, 6 known already, 2 refused")
    assert "http://example.com/about" in urls(filled)
    assert "http://other.org/" not in urls(filled)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--reason", "x"], "nothing says what to remove"),
        (["--reason", "x", "--limit", "3"], "nothing says what to remove"),
        (["example.com"], "Missing option '--reason'"),
        (["example.com", "--reason", " "], "Missing option '--reason'"),
        (["--match", "host", "--reason", "x"], "need a URL"),
        (["--batch", "nope", "--reason", "x"], "no batch 'nope'"),
        (["example.com", "--reason", "x", "--from", "soon"], "bad time 'soon'"),
    ],
)
def test_wrong_usage_changes_nothing(shown: Shell, arguments: list[str], message: str) -> None:
    assert message in shown.quick("rm", *arguments, code=2).errors
    assert len(urls(shown)) == len(PAGES)


def test_everything(filled: Shell) -> None:
    filled("rm", "--all", "--reason", "moved out", "-y")
    assert urls(filled) == []
    assert filled.keys() == []


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 130, 5), (b"y\n", 0, 3)])
def test_a_terminal_is_asked(filled: Shell, answer: bytes, code: int, left: int) -> None:
    terminal, end = pty.openpty()
    running = subprocess.Popen(
        filled.command("rm", "example.com", "--reason", "x"),
        cwd=filled.directory,
        env=filled.environment(TERM="dumb"),
        stdin=end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(end)
    os.write(terminal, answer)
    _, errors = running.communicate(timeout=60)
    os.close(terminal)
    assert running.returncode == code, errors
    assert errors.startswith(b"Remove 2 captures, 4 records and 2 contents (")
    assert len(urls(filled)) == left
