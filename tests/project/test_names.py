"""A newcomer finds things by their names: one name for each public class, nouns or verbs for modules, a true map."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "holdfast"
NOUNS = {"testing", "embed", "feed", "speed", "string", "framing", "encoding"}  # that end like participles


def public_classes(paths: list[Path]) -> dict[str, list[str]]:
    """Where each public class of a module's top level is defined."""
    found = defaultdict(list)
    for path in paths:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path))
    return found


def participles(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths if re.search(r"(?:ing|ed)$", path.stem) and path.stem not in NOUNS]


def shadowed(packages: list[Path]) -> list[str]:
    """Names that a package loads when they are first used, and that are its modules: these would be found instead."""
    found = []
    for package in packages:
        body = ast.parse(package.read_text()).body
        if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in body):
            continue
        for node in body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names = ast.literal_eval(node.value)
                found += [f"{package.parent.name}.{name}" for name in names if (package.parent / f"{name}.py").exists()]
    return found


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_no_two_public_classes_have_one_name() -> None:
    assert {name: places for name, places in public_classes(modules()).items() if len(places) > 1} == {}


def test_modules_are_nouns_or_verbs() -> None:
    assert participles([path.relative_to(SOURCE) for path in modules()]) == []


def test_no_name_that_is_loaded_late_is_that_of_a_module() -> None:
    assert shadowed(sorted(SOURCE.rglob("__init__.py"))) == []


def test_each_fault_is_noticed(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "storing.py"
    one.write_text("class Found: ...\nclass _Own: ...\n")
    other.write_text("class Found: ...\nclass _Own: ...\n")
    assert public_classes([one, other]) == {"Found": [str(one), str(other)]}
    assert participles([one, other]) == [str(other)]
    package = tmp_path / "__init__.py"
    package.write_text('__all__ = ["one", "two"]\ndef __getattr__(name): ...')
    assert shadowed([package]) == [f"{tmp_path.name}.one"]


def test_the_map_of_modules_is_up_to_date() -> None:
    command = [sys.executable, ROOT / "tools" / "module-map", "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_module_says_what_it_is() -> None:
    silent = [str(path) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []
