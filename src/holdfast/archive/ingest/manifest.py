"""The list of the records of a file, so that the file can be written again (N3).

Its entry in the batch has type `source`; its data is the file's name and one line for each run of records:

    crawl.warc.gz
    202611 1-500
    202611 1201-1233
    202610 7-7

Records that another file had brought in before are listed like new ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.archive.ingest.writer import Added
from holdfast.batches.entry import SOURCE, JournalEntry, one_line
from holdfast.model import RecordId
from holdfast.records.draft import RecordDraft

if TYPE_CHECKING:
    from holdfast.archive.ingest.importer import ImportReport


@dataclass(slots=True)
class Manifest:
    """The records of one file, listed while it is imported."""

    filename: str
    ids: list[tuple[str, int, int]] = field(default_factory=list)  # batch, first and last serial of each run
    timestamp: str = "19700101000000"

    def note(self, added: Sequence[Added]) -> None:
        for each in added:
            if each.record is not None:
                self.add(each.record)

    def add(self, record: RecordId) -> None:
        """The next record of the file."""
        batch, serial = record
        if self.ids and self.ids[-1][0] == batch and self.ids[-1][2] == serial - 1:
            self.ids[-1] = (batch, self.ids[-1][1], serial)
        else:
            self.ids.append((batch, serial, serial))

    def data(self) -> bytes:
        """The list as its entry keeps it."""
        lines = [f"{batch} {first}-{last}\n" for batch, first, last in self.ids]
        return "".join([one_line(self.filename), "\n", *lines]).encode("utf-8", "surrogateescape")

    def draft(self, collection: str, report: ImportReport) -> RecordDraft:
        """The entry that keeps the list."""
        data = self.data()
        facts = {
            "records": report.records,
            "lost": report.lost,
            "lost_bytes": report.lost_bytes,
            "truncated": report.truncated,
            "refused": report.refused,
        }
        return RecordDraft(
            JournalEntry(
                SOURCE,
                f"holdfast:source/{one_line(self.filename)}",
                self.timestamp,
                data,
                collection=collection,
                layout=str(len(data)),
                filename=one_line(self.filename),
                length=report.bytes,
                extra=json.dumps(facts),
            )
        )


def listed(data: bytes) -> Iterator[RecordId]:
    """The records of a list, in the order of the file."""
    for line in data.split(b"\n", 1)[1].decode().splitlines():
        batch, _, span = line.rpartition(" ")
        first, _, last = span.partition("-")
        for serial in range(int(first), int(last) + 1):
            yield RecordId(batch, serial)
