"""`parquet`: a file, or a directory of files, each complete once it has its name.

A Parquet file ends with a table of its contents, so nothing can be appended: a resumable delivery writes
files of bounded size and records its position after each. A kill leaves the next file under the suffix `.open`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from holdfast.env import Environment
from holdfast.env.extras import require
from holdfast.env.files import replace_file, require_parent, translated_errors
from holdfast.errors import UsageError
from holdfast.streams.batch import StreamBatch, arrow_schema
from holdfast.streams.outputs.delivery import Deliverable, DeliveryNote, DeliveryOptions, readable, release
from holdfast.streams.outputs.output import Output

if TYPE_CHECKING:
    import pyarrow.parquet

PART_BYTES = 256 << 20  # of payloads and texts in one file, before compression
_DRAFT = ".open"


class ParquetDelivery:
    """Writes a stream to Parquet files. One thread at a time."""

    def __init__(self, stream: Deliverable, output: Output, options: DeliveryOptions, env: Environment) -> None:
        require("search")
        target = options.target
        if not isinstance(target, Path):
            raise UsageError("parquet cannot be written to a stream: name a file or a directory")
        if options.token_file is not None and not target.is_dir():
            raise UsageError(f"parquet with a token file needs a directory, which '{target}' is not")
        if not target.is_dir():
            require_parent(target)
        self._stream = stream
        self._fields = output.fields
        self._options = options
        self._env = env
        self._target = target
        self._writer: pyarrow.parquet.ParquetWriter | None = None
        self._part = 0
        self._part_bytes = 0
        self.bytes = 0
        self.captures = 0  # of this run

    def open(self, parts: int) -> Self:
        """Continues after `parts` files."""
        self._part = parts
        return self

    @property
    def _path(self) -> Path:
        return self._target / f"part-{self._part:05d}.parquet" if self._target.is_dir() else self._target

    @property
    def _draft(self) -> Path:
        return self._path.with_name(self._path.name + _DRAFT)

    def run(self, limit: int | None = None, progress: Callable[[int], None] | None = None) -> None:
        """As `Delivery.run`."""
        with translated_errors(self._target):
            for batch in self._stream.batches(limit):
                self._write(readable(batch, self._stream, self._fields))
                self.captures += len(batch)
                if self._target.is_dir() and self._part_bytes >= PART_BYTES:
                    self._finish(batch.token)
                if progress is not None:
                    progress(sum(page.size for page in batch))
            if self._writer is not None or not self._target.is_dir():
                self._finish(self._stream.token)

    def _write(self, batch: StreamBatch) -> None:
        try:
            table = batch.to_arrow(self._fields)
        finally:
            release(batch)
        self._opened().write_batch(table)
        self._part_bytes += table.nbytes

    def _opened(self) -> pyarrow.parquet.ParquetWriter:
        import pyarrow.parquet

        if self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(
                self._draft, arrow_schema(self._fields), compression="zstd", use_dictionary=list(self._repeated())
            )
        return self._writer

    def _repeated(self) -> Iterator[str]:
        return (name for name in self._fields if name in ("status", "mime", "collection", "type"))

    def _finish(self, token: str) -> None:
        """Gives the file its name, then records the position of the stream."""
        self._opened().close()
        self._writer = None
        with self._draft.open("rb") as file:
            os.fsync(file.fileno())
            self.bytes += file.seek(0, 2)
        self._draft.replace(self._path)
        self._env.files.sync_directory(self._path.parent)
        self._part, self._part_bytes = self._part + 1, 0
        if self._options.token_file is not None:
            note = DeliveryNote(token, self._part, self._stream.delivered)
            replace_file(self._env.files, self._options.token_file, note.pack())

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._draft.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
