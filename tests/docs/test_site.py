"""The documentation becomes a site without a warning, searchable, with an API reference from the docstrings (P13)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pages import DOCS, ROOT

import holdfast


def build(config: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", target]
    # The theme announces its own end of life, which is not about these pages.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site") / "docs"
    done = build(ROOT / "mkdocs.yml", target)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr + done.stdout
    return target


def test_every_page_is_there(site: Path) -> None:
    pages = [page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md") if page.name != "README.md"]
    assert len(pages) > 60
    assert [str(page) for page in pages if not (site / page).exists()] == []
    assert (site / "index.html").exists()


def test_the_pages_can_be_searched(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text())
    places = {each["location"].partition("#")[0] for each in found["docs"]}
    assert {"first-hour.html", "how-to/crawl.html", "reference/api.html"} <= places


def test_the_reference_has_every_public_name_and_its_docstring(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text()
    homes = {name: getattr(holdfast, name).__module__ for name in holdfast.__all__}
    missing = [name for name, home in homes.items() if f'id="{home}.{name}"' not in text]
    assert missing == []
    for name in ("search", "stream", "import_files", "migrate"):  # its own methods, and inherited ones
        assert f'id="holdfast.archive.archive.Archive.{name}"' in text
    assert "Streams a snapshot of the archive: each capture exactly once" in text


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in (site / "index.html", site / "reference" / "api.html"):
        text = page.read_text()
        assert 'src="http' not in text
        assert 'rel="stylesheet" href="http' not in text


def test_a_broken_link_stops_the_build(tmp_path: Path) -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# One\n\n[two](two.md#nowhere)\n")
    (tmp_path / "docs" / "two.md").write_text("# Two\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(yaml.safe_dump(settings | {"docs_dir": "docs", "plugins": ["search"]}))
    done = build(config, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere" in done.stderr
