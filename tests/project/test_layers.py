"""Packages stand in dependency order: each imports only what stands above it, or itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "holdfast"
LAYERS = (
    "errors",
    "arguments",
    "model",
    "config",
    "env",
    "urls",
    "formats",
    "storage",
    "batches",
    "catalog",
    "records",
    "index",
    "query",
    "streams",
    "archive",
    "__init__",  # the public surface: what `import holdfast` gives
    "corpus",
    "crawl",
    "study",
    "plan",
    "web",
    "cluster",
    "testing",
    "demo",
    "cli",
    "__main__",
)


def layer_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and layer of every import of our own, at the top or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            root, _, rest = name.partition(".")
            first = rest.partition(".")[0]
            if root == "holdfast":
                yield node.lineno, first if first in LAYERS or (first and (SOURCE / first).is_dir()) else "__init__"


def trespasses(path: Path, text: str) -> list[str]:
    """Imports in the module at `path` that reach down the list; every layer must be known."""
    own = layer_of(path)
    if own not in LAYERS:
        return [f"{own}: not in LAYERS"]
    allowed = LAYERS[: LAYERS.index(own) + 1]
    where = path.relative_to(SOURCE)
    return [f"{where}:{line} imports {name}" for line, name in imported(ast.parse(text)) if name not in allowed]


def test_modules_import_only_from_layers_above() -> None:
    paths = sorted(SOURCE.rglob("*.py"))
    assert paths
    assert [fault for path in paths for fault in trespasses(path, path.read_text())] == []


def test_an_import_from_below_is_noticed() -> None:
    module = SOURCE / "storage" / "block.py"
    assert trespasses(module, "from holdfast.errors import Damaged\nfrom holdfast.storage import codec") == []
    assert trespasses(module, "def f():\n    from holdfast import cli") == ["storage/block.py:2 imports cli"]
    assert trespasses(module, "import holdfast.archive") == ["storage/block.py:1 imports archive"]
    assert trespasses(module, "from holdfast import open") == ["storage/block.py:1 imports __init__"]
    assert trespasses(SOURCE / "utils.py", "") == ["utils: not in LAYERS"]
