"""Order `log`: records in batch order. The fastest: frames and contents in file order.

The catalog knows which records of a batch are captures, so frames without wanted records are not read. A position
is a batch and the next serial number.
"""

from __future__ import annotations

from holdfast.batches.entry import JournalEntry
from holdfast.model import RecordId
from holdfast.records.draft import capture_of
from holdfast.streams.order.order import OrderStep, StreamOrder
from holdfast.streams.order.ranges import Position
from holdfast.streams.page import Page
from holdfast.streams.page_reader import StreamFault, entry_of
from holdfast.streams.token import expect


class LogOrder(StreamOrder):
    """One thread at a time."""

    def behind(self, page: Page) -> Position:
        return page.record.batch, page.record.serial + 1

    def step(self, position: Position, most: int) -> OrderStep | None:
        place = self._from(position)
        if place is None:
            return None
        batch, serial = place
        end, looked = self._choice.snapshot.ends[batch], max(most, self._looked)
        rows = self._reader.patiently(lambda: self._source.catalog.rows.of_batch(batch, serial, end, looked))
        chosen = self._chosen(batch, rows)
        behind = rows[-1][0] + 1 if len(rows) == looked else end
        is_final = not self._choice.filters or self._choice.is_latest  # else filters come later
        if is_final and len(chosen) > most:
            behind = chosen[most - 1][0] + 1
            del chosen[most:]
        pages, faults = self._pages(batch, chosen)
        if len(pages) > most:
            behind = pages[most - 1].record.serial + 1
            faults = [fault for fault in faults if fault.record.serial < behind]
        return OrderStep(pages[:most], (batch, behind), faults)

    def _from(self, position: Position) -> tuple[str, int] | None:
        """Where to read next; batches read to their end are skipped."""
        first, serial = "", 1
        if position:
            first, serial = expect(position, str, int)
        for batch, end in self._choice.snapshot.ends.items():
            if batch > first:
                return batch, 1
            if batch == first and serial < end:
                return batch, serial
        return None

    def _chosen(self, batch: str, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        choice = self._choice
        if choice.is_plain:
            return rows
        chosen = []
        for serial, home in rows:
            record = RecordId(batch, serial)
            if not choice.in_shard(record) or not choice.holds(record) or not choice.has_home(home):
                continue
            if choice.is_latest and not self._is_newest(record, _urlkey(home)):
                continue
            chosen.append((serial, home))
        return chosen

    def _pages(self, batch: str, chosen: list[tuple[int, bytes]]) -> tuple[list[Page], list[StreamFault]]:
        if not chosen:
            return [], []
        heads, failures = self._reader.heads(batch, [serial for serial, _ in chosen])
        faults = [StreamFault(RecordId(batch, serial), "-", error) for serial, error in failures.items()]
        if self._choice.filters:
            for serial, home in chosen:
                head = heads.get(serial)
                if head is not None and not self._choice.passes(capture_of(entry_of(head), batch, _urlkey(home))):
                    del heads[serial]
        of_head, of_entry, reader = Page.of_head, Page.of_entry, self._reader
        pages = [
            of_entry(batch, head, reader) if isinstance(head, JournalEntry) else of_head(batch, head, reader)
            for serial, _ in chosen
            if (head := heads.get(serial)) is not None
        ]
        return pages, faults


def _urlkey(home: bytes) -> str:
    return home.partition(b"\0")[2][:-15].decode("utf-8", "surrogateescape")
