"""Files and functions stay small, and nothing unfinished is left behind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 5  # those a caller may pass by position, beside self and cls
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|NotImplementedError)\b|\bfor now\b", re.IGNORECASE)


def faults(text: str) -> Iterator[str]:
    """What is wrong with one module, as 'line: fault'."""
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield f"1: {len(lines)} lines in the file"
    for number, line in enumerate(lines, 1):
        if mark := UNFINISHED.search(line):
            yield f"{number}: '{mark[0]}'"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from function_faults(node)
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{node.lineno}: bare except"


def function_faults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    assert node.end_lineno is not None
    length = node.end_lineno - node.lineno + 1
    if length > FUNCTION_LINES_MAX:
        yield f"{node.lineno}: {length} lines in {node.name}"
    names = [argument.arg for argument in node.args.posonlyargs + node.args.args]
    count = len(names) - (names[:1] in (["self"], ["cls"]))
    if count > PARAMETERS_MAX:
        yield f"{node.lineno}: {count} parameters of {node.name}"


def test_every_module_is_small_and_finished() -> None:
    paths = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])
    assert paths
    assert [f"{path.relative_to(ROOT)}:{fault}" for path in paths for fault in faults(path.read_text())] == []


def test_each_fault_is_noticed() -> None:
    assert list(faults("x = 1\n" * 401)) == ["1: 401 lines in the file"]
    assert list(faults("def f():\n" + "    x = 1\n" * 70)) == ["1: 71 lines in f"]
    assert list(faults("def f(self, a, b, c, d, e, *, g=1): ...")) == []
    assert list(faults("def f(a, b, c, d, e, g): ...")) == ["1: 6 parameters of f"]
    assert list(faults("try:\n    f()\nexcept:\n    g()")) == ["3: bare except"]
    assert list(faults("x = 1  # good enough for now")) == ["1: 'for now'"]
