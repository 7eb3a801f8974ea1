"""The tables of other projects, which lie beside this one: skipped where they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path(__file__).parents[3] / "shared" / "samples"


def sample(name: str) -> Path:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"no sample {name!r} beside the project")
    return path


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a table of WHATWG, without the comments between them."""
    return [case for case in json.loads(sample(f"urls/whatwg/{name}").read_text()) if isinstance(case, dict)]
