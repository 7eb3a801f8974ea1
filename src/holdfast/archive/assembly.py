"""Putting records together again in bulk: payloads fetched many at a time, literals laid around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.env.files import Buffer
from holdfast.model import ContentKey
from holdfast.records.as_warc import lay
from holdfast.records.stored import StoredRecord
from holdfast.storage.contents import Contents

_GROUP_MAX = 256
_GROUP_BYTES_MAX = 16 << 20
_LARGE = 8 << 20  # payloads beyond this are not gathered


@dataclass(slots=True)
class Assembled:
    """A record with all its bytes in memory; those of a large one are to be read from `stored.raw()`."""

    stored: StoredRecord
    parts: list[Buffer]
    is_large: bool = False

    @property
    def size(self) -> int:
        return len(self.stored.entry.data) + self.stored.payload_size


def assemble(records: Iterable[StoredRecord], contents: Contents) -> Iterator[list[Assembled]]:
    """The records in their order, in groups of bounded size."""
    group: list[StoredRecord] = []
    size = 0
    for record in records:
        if record.payload_size > _LARGE:
            if group:
                yield _assembled(group, contents)
            yield [Assembled(record, [], is_large=True)]
            group, size = [], 0
            continue
        group.append(record)
        size += record.payload_size + len(record.entry.data)
        if len(group) >= _GROUP_MAX or size >= _GROUP_BYTES_MAX:
            yield _assembled(group, contents)
            group, size = [], 0
    if group:
        yield _assembled(group, contents)


def _assembled(group: list[StoredRecord], contents: Contents) -> list[Assembled]:
    keys = [
        ContentKey.parse(key)
        for record in group
        if record.entry.contents != "-"
        for key in record.entry.contents.split(" ")
    ]
    payloads = iter(contents.get_batch(keys))
    assembled = []
    for record in group:
        entry = record.entry
        count = 0 if entry.contents == "-" else entry.contents.count(" ") + 1
        payload = next(payloads) if count == 1 else b"".join(next(payloads) for _ in range(count))
        assembled.append(Assembled(record, lay(entry.data, entry.layout, payload)))
    return assembled
