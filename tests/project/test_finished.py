"""Nothing unfinished is left behind, and no failure is swallowed unseen."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|NotImplementedError)\b|\bfor now\b", re.IGNORECASE)


def faults(text: str) -> Iterator[str]:
    """What is wrong with one module, as 'line: fault'."""
    for number, line in enumerate(text.splitlines(), 1):
        if mark := UNFINISHED.search(line):
            yield f"{number}: '{mark[0]}'"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{node.lineno}: bare except"


def test_every_module_is_finished() -> None:
    paths = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])
    assert paths
    assert [f"{path.relative_to(ROOT)}:{fault}" for path in paths for fault in faults(path.read_text())] == []


def test_each_fault_is_noticed() -> None:
    assert list(faults("try:\n    f()\nexcept:\n    g()")) == ["3: bare except"]
    assert list(faults("x = 1  # good enough for now")) == ["1: 'for now'"]
