"""Shards: parts of one snapshot, each all that a process needs to read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.corpus import columns
from holdfast.errors import UsageError
from holdfast.streams import StreamBatch, StreamOptions

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of an archive's captures, as they were when it was made. A value: it can be pickled.

    Any process that has the archive's directory can read it, as often as it likes, from the start or from a token.
    """

    path: str
    options: StreamOptions  # with the part and the snapshot

    @property
    def fields(self) -> tuple[str, ...]:
        return self.options.fields

    def batches(self, token: str = "") -> Iterator[StreamBatch]:
        """Opens the archive for as long as it is read. Raises as opening an archive and streaming do."""
        options = replace(self.options, token=token or self.options.token)
        with Archive(self.path, read_only=True) as archive, archive.stream(options) as stream:
            yield from stream.batches()

    def tables(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows, many at a time."""
        for batch in self.batches():
            yield columns.table_of(batch, self.fields)

    def rows(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches():
            for page in batch:
                yield columns.row_of(page, self.fields)


def split(path: str | Path, options: StreamOptions, count: int) -> list[Shard]:
    """The captures of this moment in so many parts, which do not overlap. What has no fields gets those of a corpus.

    Raises UsageError, and as opening an archive and streaming do.
    """
    if count < 1:
        raise UsageError(f"bad number of shards {count}: 1 or more")
    if options.shard is not None:
        raise UsageError("a shard cannot be split again: leave 'shard' out")
    wanted = options if options.fields else replace(options, fields=columns.DEFAULT)
    with Archive(path, read_only=True) as archive, archive.stream(wanted) as stream:
        return [Shard(str(Path(path).resolve()), stream.part(index, count)) for index in range(count)]
