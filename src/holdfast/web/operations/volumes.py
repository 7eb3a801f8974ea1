"""How the volumes are, for the page, the API and the metrics of one worker.

Volumes are asked at most once a second, all at the same time, and never for long: one that does not answer counts as
down. So neither many readers nor a machine that hangs make a page slow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from holdfast.archive import Archive, VolumeReport

ANSWER_S = 1.0
KEPT_S = 1.0


class Volumes:
    """The last reports of an archive's volumes. Any thread may ask, but not an event loop."""

    def __init__(self, archive: Archive, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._archive = archive
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._reports: list[VolumeReport] = []
        self._due_s = 0.0

    def reports(self) -> list[VolumeReport]:
        """One for each volume, in the order of the connector."""
        with self._lock:  # who comes meanwhile gets the same answer
            if self._monotonic() >= self._due_s:
                self._reports = list(self._archive.volumes(ANSWER_S))
                self._due_s = self._monotonic() + KEPT_S
            return self._reports

    def listing(self) -> list[dict[str, Any]]:
        """For programs. Directories of the server are nobody's business; addresses tell machines apart."""
        return [_values(report) for report in self.reports()]


def _values(report: VolumeReport) -> dict[str, Any]:
    settings, stat, activity = report.settings, report.stat, report.activity
    figures = {} if stat is None else asdict(stat)
    return {
        "name": settings.name,
        "organization": settings.organization if stat is None else stat.organization,
        "state": settings.state.value,
        "activity": activity.state,
        "up": stat is not None,
        "reason": report.reason or None,
        "address": settings.address or settings.url or None,
        "weight": settings.weight,
        "outstanding": None if stat is None else activity.outstanding,
        "clients": None if stat is None else activity.clients,
        "capacity_bytes": report.capacity_bytes,
        "fragmentation": report.fragmentation,
        **{name: figures.get(name) for name in _FIGURES},
    }


_FIGURES = (
    *("blocks", "replicas", "references", "content_bytes", "stored_bytes", "referenced_bytes", "disk_bytes"),
    *("dead_bytes", "free_bytes", "dictionaries"),
)
