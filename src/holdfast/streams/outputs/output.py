"""What every form of output can do, and which there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from holdfast.env.files import Buffer
from holdfast.errors import UnknownName
from holdfast.formats.warc.writer import Compression
from holdfast.streams.batch import StreamBatch
from holdfast.streams.options import FACTS

FORMATS = ("jsonl", "warc", "arrow", "parquet", "raw")
COMPRESSIONS: tuple[Compression, ...] = ("none", "gzip", "zstd")


class Output(Protocol):
    """Turns pages into bytes. What `begin`, `encode` and `end` give, one after the other, is a whole file.

    So is what it gave until the end of any batch, with `end` behind it. One thread at a time.
    """

    fields: tuple[str, ...]  # of the pages that it looks at

    def begin(self) -> bytes: ...
    def encode(self, batch: StreamBatch) -> Iterable[Buffer]:
        """The batch in pieces of bounded size. Large payloads are secured."""

    def end(self) -> bytes: ...


def find_output(form: str, fields: Sequence[str], *, bare: bool = False, compression: Compression = "none") -> Output:
    """The output of that name. `bare`: of raw payloads nothing but themselves; `compression` is that of WARC."""
    from holdfast.streams.outputs.arrow import COLUMNS, ArrowStream
    from holdfast.streams.outputs.jsonl import JsonLines
    from holdfast.streams.outputs.raw import Raw
    from holdfast.streams.outputs.warc import Warc

    match form:
        case "jsonl":
            return JsonLines(tuple(fields) or FACTS)
        case "warc":
            return Warc(compression)
        case "arrow" | "parquet":
            return ArrowStream(tuple(fields) or COLUMNS)
        case "raw":
            return Raw(bare=bare)
        case _:
            raise UnknownName(f"unknown format {form!r}: known are {', '.join(FORMATS)}")
