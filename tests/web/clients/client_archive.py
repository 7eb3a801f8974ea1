"""The archive that other people's clients are tried on, and where pywb is."""

from __future__ import annotations

import os
from pathlib import Path

from pages_kept import answer, html, kept

A = "http://www.a.example"
TIMES = ("20240102030405", "20240203040506", "20250102030405")
PAGES = {time: f"<!doctype html><title>{time}</title><p>as it was at {time}" for time in TIMES}
PYWB_VARIABLE = "HOLDFAST_PYWB"
_ROOT = Path(__file__).parents[3]


def client_archive(path: Path) -> Path:
    """Three captures of a page, one of a redirect to it, one that is missing, and many pages of another host."""
    captures = [html(f"{A}/", time, PAGES[time]) for time in TIMES]
    captures += [
        answer(f"{A}/old", TIMES[0], "301 Moved Permanently", [f"Location: {A}/"]),
        answer(f"{A}/gone", TIMES[0], "404 Not Found", ["Content-Type: text/html"], b"<p>not here"),
        *(html(f"http://many.example/{n:03}", TIMES[0]) for n in range(250)),
    ]
    return kept(path, captures)


def pywb_python() -> Path | None:
    """An interpreter that has pywb, which cannot share our environment: it wants another 'brotli'."""
    named = os.environ.get(PYWB_VARIABLE)
    for each in (Path(named) if named else None, _ROOT / ".venv-pywb" / "bin" / "python"):
        if each is not None and each.exists():
            return each.absolute()  # not resolved: that would be the interpreter that the environment is made of
    return None
