"""The notebooks of `examples/` run, and print what they show (N4)."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from pages import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
TIMEOUT_S = 600  # of a cell; not a measure, an end


def printed(notebook: nbformat.NotebookNode) -> list[str]:
    """What each cell of code shows, as text."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(each.get("text") or str(each.get("data")) for each in cell.outputs) for cell in cells]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_prints_what_it_shows(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    shown = printed(notebook)
    assert len([text for text in shown if text]) >= 5
    NotebookClient(
        notebook, timeout=TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert printed(notebook) == shown
