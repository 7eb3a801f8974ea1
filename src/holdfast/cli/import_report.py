"""What an import tells: one line for each file with faults, and what came of it all."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from holdfast.cli.output import counted, in_bytes, show, show_lines

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.archive.importing import ImportReport
    from holdfast.formats import Finding

FINDINGS_SHOWN = 20
_RANKS = ("lost", "truncated", "invalid")  # kinds of findings, in the order in which they are shown
_COUNTS = ("bytes", "records", "added", "known", "refused", "lost", "lost_bytes", "truncated", "invalid")


@dataclass(frozen=True, slots=True)
class Holdings:
    """What is stored at a moment; the difference of two tells what an import cost."""

    contents: int
    references: int
    stored_bytes: int
    saved_bytes: int  # by eliminating duplicates

    @classmethod
    def of(cls, archive: Archive) -> Holdings:
        stats = [report.stat for report in archive.volumes() if report.stat is not None]
        return cls(
            sum(stat.blocks for stat in stats),
            sum(stat.references for stat in stats),
            sum(stat.stored_bytes for stat in stats),
            sum(stat.referenced_bytes - stat.content_bytes for stat in stats),
        )

    def since(self, before: Holdings) -> Holdings:
        return Holdings(
            self.contents - before.contents,
            self.references - before.references,
            self.stored_bytes - before.stored_bytes,
            self.saved_bytes - before.saved_bytes,
        )


class Tally:
    """The reports of an import, shown as they come, and their sum."""

    def __init__(self, *, as_json: bool, verbose: bool) -> None:
        self._as_json = as_json
        self._verbose = verbose
        self._sums = dict.fromkeys(_COUNTS, 0)
        self.files = 0
        self.failed = 0  # files of which something is missing, that could not be read, or had nothing to be read

    def take(self, report: ImportReport, path: str) -> None:
        self.files += 1
        self.failed += bool(report.lost or report.truncated or report.error or not report.records)
        for name in _COUNTS:
            self._sums[name] += getattr(report, name)
        try:
            if self._as_json:
                show(_values(report, path), "", as_json=True)
            elif report.lost or report.truncated or report.invalid or report.error:
                show_lines(_lines(report, path, verbose=self._verbose))
        except BrokenPipeError:  # nobody reads any more; what was asked for is to add records
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def summarize(self, stored: Holdings) -> None:
        if self._as_json:
            values = {"event": "summary", "files": self.files, "files_failed": self.failed} | self._sums
            show(values | asdict(stored), "", as_json=True)
            return
        sums = self._sums
        show_lines(
            [
                f"imported {counted(sums['records'], 'record')} of {counted(self.files, 'file')}: "
                f"{sums['added']:,} added, {sums['known']:,} known already, {sums['refused']:,} refused",
                *self._faults(),
                f"payloads: {counted(stored.contents, 'new content')} ({in_bytes(stored.stored_bytes)} stored), "
                f"{stored.references - stored.contents:,} held already ({in_bytes(stored.saved_bytes)} saved)",
            ]
        )

    def _faults(self) -> list[str]:
        sums = self._sums
        if not (self.failed or sums["invalid"]):
            return []
        lost = f"{counted(sums['lost'], 'range')} lost ({in_bytes(sums['lost_bytes'])})"
        parts = [
            lost,
            f"{counted(sums['invalid'], 'broken rule')}",
            f"{counted(self.failed, 'file')} not imported whole",
        ]
        if sums["truncated"]:
            parts.insert(1, f"{counted(sums['truncated'], 'record')} truncated")
        return [f"faults: {', '.join(parts)}"]


def _values(report: ImportReport, path: str) -> dict[str, Any]:
    return {
        "event": "file",
        "file": path,
        "name": report.name,
        **{name: getattr(report, name) for name in _COUNTS},
        "complete": report.complete,
        "error": str(report.error) if report.error else None,
        "findings": [asdict(finding) for finding in report.findings],
    }


def _lines(report: ImportReport, path: str, *, verbose: bool) -> list[str]:
    """The faults of a file, those that cost something first."""
    lines = [f"{path}: {report.error}"] if report.error else []
    findings = sorted(report.findings, key=_rank)
    shown = findings if verbose else findings[:FINDINGS_SHOWN]
    lines += [f"{path}: {finding}" for finding in shown]
    left = report.lost + report.truncated + report.invalid - len(shown)
    if left > 0:
        remedy = "" if verbose else "; -v before the command shows more"
        lines.append(f"{path}: {counted(left, 'more fault')}{remedy}")
    return lines


def _rank(finding: Finding) -> tuple[int, int]:
    return _RANKS.index(finding.kind), finding.offset
