"""Pages read together: a piece of a scan, and the batch that a consumer receives, with its token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.env.extras import require
from holdfast.env.files import Buffer
from holdfast.errors import UnknownName
from holdfast.streams.options import FIELDS, KNOWN_FIELDS
from holdfast.streams.order.ranges import Bound, Position
from holdfast.streams.page import Page
from holdfast.streams.page_reader import StreamFault

if TYPE_CHECKING:
    import pyarrow

_PAGE_BYTES = 2048  # of a page besides its payload
_PIECE_BYTES = 1024


@dataclass(slots=True)
class StreamBatch:
    """Pages in the order of the stream. `token` resumes after the last of them."""

    pages: list[Page]
    make_token: Callable[[], str]

    def __iter__(self) -> Iterator[Page]:
        return iter(self.pages)

    def __len__(self) -> int:
        return len(self.pages)

    @property
    def token(self) -> str:
        return self.make_token()

    @property
    def payloads(self) -> list[Buffer]:
        """The payloads without copies: look at them, do not keep them."""
        return [page.buffer for page in self.pages]

    def to_arrow(self, fields: Sequence[str] = ()) -> pyarrow.RecordBatch:
        """The pages as a table with a column for each field; all fields if none are named."""
        import pyarrow

        schema = arrow_schema(fields)
        return pyarrow.record_batch([_column(self.pages, field) for field in schema], schema=schema)


def arrow_schema(fields: Sequence[str] = ()) -> pyarrow.Schema:
    """Names and types of the columns. Unknown values are null."""
    require("search")
    import pyarrow

    kinds = {
        "status": pyarrow.uint16(),
        "size": pyarrow.uint64(),
        "headers": pyarrow.map_(pyarrow.string(), pyarrow.string()),
        "payload": pyarrow.large_binary(),
        "content": pyarrow.large_binary(),
        "text": pyarrow.large_string(),
        "main_text": pyarrow.large_string(),
    }
    for name in fields:
        if name not in KNOWN_FIELDS:
            raise UnknownName(f"unknown field {name!r}: known are {', '.join(KNOWN_FIELDS)}")
    return pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in fields or FIELDS])


def _column(pages: list[Page], field: Any) -> Any:
    import pyarrow

    if field.name == "payload":
        return _binary([page.buffer for page in pages])
    if field.name == "content":
        return _binary([page.content for page in pages])
    return pyarrow.array([plain(page, field.name) for page in pages], type=field.type)


def _binary(buffers: list[Buffer]) -> Any:
    """Joined in one call, so that values do not pass through the interpreter one by one."""
    import numpy
    import pyarrow

    offsets = numpy.fromiter(accumulate(map(len, buffers), initial=0), dtype=numpy.int64, count=len(buffers) + 1)
    data = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(b"".join(buffers))]
    return pyarrow.Array.from_buffers(pyarrow.large_binary(), len(buffers), data)


def plain(page: Page, field: str) -> Any:
    """The value of a field for other programs: valid Unicode, or None."""
    value = getattr(page, field)
    if field == "record":
        return str(value)
    if field == "headers":
        return [(_unicode(name), _unicode(each)) for name, each in value]
    if value == "-" or (field in ("text", "main_text", "title") and not value):
        return None
    return _unicode(value) if isinstance(value, str) else value


def _unicode(text: str) -> str:
    """Bytes that are not valid UTF-8, common in old URLs and headers, become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class ScanPiece(NamedTuple):
    """Each piece of a range begins where the previous one ended. It may have no pages."""

    pages: list[Page]
    start: Position
    end: Bound
    faults: list[StreamFault]
    removals: int  # size of the audit log before the pages were read

    @property
    def size(self) -> int:
        """Approximate bytes of memory."""
        return _PIECE_BYTES + _PAGE_BYTES * len(self.pages) + sum([page.size for page in self.pages])
