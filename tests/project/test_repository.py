"""The repository stands on its own: two commands to start, and no trace of the machine it was written on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Written so that the pattern does not match itself.
MACHINE = re.compile(
    r"(?<![\w.>)}])/(?:work|root)/"
    r"|\b(?:deb\.debian|pypi|files\.pythonhosted|registry\.npmjs)\.org\b"
)


def tracked() -> list[Path]:
    """What git holds, or would hold after `git add .`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


def traces(text: str) -> list[str]:
    return [match[0] for match in MACHINE.finditer(text)]


def test_readme_says_how_to_start() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme


def test_no_file_mentions_a_machine() -> None:
    paths = tracked()
    assert paths
    texts = {path.relative_to(ROOT): path.read_text(errors="replace") for path in paths}
    assert [f"{path}: {trace}" for path, text in texts.items() for trace in traces(text)] == []


def test_a_trace_is_noticed() -> None:
    path, registry = "/".join(["", "root", ""]), ".".join(["pypi", "org"])
    assert traces(f"see {path}.cache and https://{registry}/simple") == [path, registry]
    assert traces("http://example.com/work/page.html") == []
