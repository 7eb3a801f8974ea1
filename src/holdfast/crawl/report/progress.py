"""The progress of a crawl over time, `progress.jsonl`: samples of the current visit, for charts.

Samples lie at least a second apart, and at least 1/200 of the time that the visit has run: a visit of a month has about
two thousand. The file begins again with each visit. It is for people who look; the crawl does not depend on it, and a
torn line at its end is skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from holdfast.env.files import translated_errors

APART_S_MIN = 1.0
_SHARE = 200


class ProgressSample(NamedTuple):
    """How far a visit had come after some seconds of running."""

    visit: int
    seconds: float
    fetched: int
    queued: int
    transferred_bytes: int


class ProgressFile:
    """Writes the samples of a crawl. For one thread of one process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        last = read_progress(path)[-1:]
        self._last = last[0] if last else None

    def note(self, sample: ProgressSample, *, is_last: bool = False) -> None:
        """Keeps a sample if it is time for one; the last one of a run in any case. Raises VolumeFull and others."""
        last = self._last
        begins = last is None or last.visit != sample.visit or last.seconds > sample.seconds
        apart_s = max(APART_S_MIN, sample.seconds / _SHARE)
        if last is not None and not begins and not is_last and sample.seconds - last.seconds < apart_s:
            return
        line = json.dumps(sample._replace(seconds=round(sample.seconds, 1)), separators=(",", ":")) + "\n"
        with translated_errors(self._path), self._path.open("w" if begins else "a") as file:
            file.write(line)
        self._last = sample


def read_progress(path: Path) -> list[ProgressSample]:
    """The samples, oldest first; none if there is no such file."""
    try:
        with translated_errors(path):
            lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            values = json.loads(line)
            sample = ProgressSample(*values)
        except (ValueError, TypeError, RecursionError):
            continue
        if all(isinstance(value, int | float) and 0 <= value < 1e18 for value in sample):
            found.append(sample)
    return found
