"""Records by reference: captures whose records stay in WARC files elsewhere, named by a line of CDX.

    com,example)/ 20200102030405 http://example.com/ text/html 200 3I42... - - 1043 333 a.warc.gz
        │ one entry of type `reference` in the batch; its data is the line, as CDXJ
        ▼
    a capture in the catalog, whose record is read from `a.warc.gz` at 333 on demand

The batch has the truth, so references are reindexed, removed and refused like other records; the same line twice is one
record. The file is looked for in the directories `records.warc_paths`, and nowhere else whatever the name says. It is
never changed; where it is missing, the capture is listed and cannot be shown. A reference to a revisit is resolved like
any revisit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from holdfast.batches.entry import REFERENCE, JournalEntry, one_line
from holdfast.errors import FileNotAtHand, MalformedInput
from holdfast.formats.cdx.cdx import CDX9, CDX11, CdxLayout
from holdfast.formats.cdx.cdxj import EXTRA, cdxj_line, is_header, parse_cdxj
from holdfast.formats.http import parse_head, split
from holdfast.formats.io.zstd import DICTIONARY_BYTES_MAX, DICTIONARY_MAGIC
from holdfast.formats.record import Record
from holdfast.records.draft import RecordDraft, capture_of, marked, payload_runs, refers_to_of
from holdfast.records.stored_record import StoredRecord
from holdfast.urls import url_key

_LAYOUTS = {9: CdxLayout(CDX9), 10: CdxLayout(" CDX N b a m s k r M V g"), 11: CdxLayout(CDX11)}
_SHA1 = re.compile(r"[A-Z2-7]{32}")
_DIGEST = re.compile(r"[A-Za-z0-9-]+:[A-Za-z0-9+/=_-]+")
_LINE_BYTES_MAX = 1 << 20
_IN_MEMORY_MAX = 4 << 20  # larger records are read from their file for each use
_PLACE_MAX = 1 << 60

Opened = Callable[[], AbstractContextManager[Record]]


# -- lines --------------------------------------------------------------------------------------------------------


def reference_drafts(lines: Iterable[bytes], collection: str, *, skip_bad: bool = False) -> list[RecordDraft]:
    """A record for each line of CDX (9, 10 or 11 fields) or CDXJ; headers and empty lines do not count.

    Raises MalformedInput with the number of the first line that makes no sense, unless such are to be skipped.
    """
    drafts: list[RecordDraft] = []
    layout: CdxLayout | None = None
    for number, raw in enumerate(lines, 1):
        try:
            line = raw.decode().rstrip("\r\n")
            if (header := CdxLayout.of(line)) is not None:
                layout = header
            elif line and not is_header(line):
                drafts.append(RecordDraft(_entry(_fields(line, layout), collection)))
        except (UnicodeDecodeError, MalformedInput) as error:
            if not skip_bad:
                said = " is not UTF-8" if isinstance(error, UnicodeDecodeError) else f": {error}"
                raise MalformedInput(f"line {number}{said}") from None
    return drafts


def _fields(line: str, layout: CdxLayout | None) -> dict[str, str]:
    """The fields of a line by their names in CDXJ."""
    if len(line) > _LINE_BYTES_MAX:
        raise MalformedInput(f"longer than {_LINE_BYTES_MAX} bytes")
    if line.split(" ", 3)[2:3] and line.split(" ", 2)[2].startswith("{"):
        row = parse_cdxj(line)
        return {**row.fields, "timestamp": row.timestamp}
    chosen = layout or _LAYOUTS.get(line.count(" ") + 1)
    if chosen is None:
        raise MalformedInput(f"{line[:200]!r} is neither CDXJ nor CDX of 9, 10 or 11 fields")
    found = chosen.row(line)._asdict()
    return {name: str(value) for name, value in found.items() if value not in ("-", -1)}


def _entry(fields: dict[str, str], collection: str) -> JournalEntry:
    url, timestamp = one_line(fields.get("url", "-")), fields["timestamp"]
    if url == "-" or " " in url:
        raise MalformedInput(f"no URL, or one with spaces: {url[:200]!r}")
    filename = one_line(fields.get("filename", "-"))
    if filename == "-":
        raise MalformedInput(f"'{url[:200]}' names no file")
    extra = {name: fields[name] for name in EXTRA if fields.get(name, "-") != "-"}
    entry = JournalEntry(
        REFERENCE,
        url,
        _checked_time(timestamp),
        b"",
        collection=collection,
        format="cdxj",
        status=_word(fields.get("status", "-"), r"[1-9]\d\d"),
        mime=_word(fields.get("mime", "-"), r"[\w.+/*-]+"),
        digest=_digest(fields.get("digest", "-")),
        filename=filename,
        offset=_number(fields.get("offset", ""), "offset"),
        length=_number(fields.get("length", "0"), "length"),
        extra=json.dumps(extra) if extra else "-",
    )
    data = cdxj_line(capture_of(entry, "-")).encode("utf-8", "surrogateescape") + b"\n"
    return entry._replace(data=data, layout=str(len(data)))


def _checked_time(text: str) -> str:
    try:
        if len(text) != 14 or not (text.isascii() and text.isdigit()):
            raise ValueError
        datetime.strptime(text, "%Y%m%d%H%M%S")
    except ValueError:
        raise MalformedInput(f"bad time {text[:40]!r}: 14 digits are wanted") from None
    return text


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:20]) > _PLACE_MAX:
        raise MalformedInput(f"bad {name} {text[:40]!r}")
    return int(text)


def _word(text: str, pattern: str) -> str:
    return text if re.fullmatch(pattern, text, re.ASCII) else "-"


def _digest(text: str) -> str:
    if _SHA1.fullmatch(text):
        return f"sha1:{text}"
    return text if _DIGEST.fullmatch(text) else "-"


# -- records ------------------------------------------------------------------------------------------------------


class ReferencedFiles:
    """The directories into which references point. Any thread may call any method."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories

    def read(self, reference: StoredRecord) -> ReferencedRecord:
        """The record that a reference names. Raises FileNotAtHand if its file is missing or holds another there."""
        entry = reference.entry
        path = self._path(entry)

        def opened() -> AbstractContextManager[Record]:
            return _opened(path, reference.entry)

        try:
            entry, payload = _loaded(entry, opened)
        except (MalformedInput, OSError) as error:
            raise FileNotAtHand(f"cannot read record {reference.id} from '{path}' at {entry.offset}: {error}") from None
        return ReferencedRecord(reference.id, entry, reference.contents, reference.resolve, opened, payload)

    def _path(self, entry: JournalEntry) -> Path:
        """A file of the name below one of the directories; also if the name has other directories before it."""
        name = PurePosixPath(entry.filename)
        for directory in self._directories:
            root = directory.resolve()
            for tail in (name, PurePosixPath(name.name)):
                path = (root / tail).resolve()
                if path.is_relative_to(root) and path.is_file():
                    return path
        raise FileNotAtHand(
            f"the record of '{entry.url}' at {entry.timestamp} lies in '{entry.filename}', "
            "which is in none of the directories 'records.warc_paths': name the one that has it"
        )


@dataclass(slots=True)
class ReferencedRecord(StoredRecord):
    """A record that is read from a file elsewhere. Its entry has what the record itself says."""

    opened: Opened  # a context with the record at its beginning
    small: bytes | None  # the payload, unless it is large

    def raw(self) -> Iterator[bytes]:
        with self.opened() as record:
            yield record.head
            while piece := record.block.read(1 << 20):
                yield piece
            record.finish()
            yield record.tail

    def stream(self) -> Iterator[bytes]:
        if self.entry.type == "revisit" or self.is_zipped:
            yield from StoredRecord.stream(self)
        elif self.small is not None:
            if self.small:
                yield self.small
        else:
            with self.opened() as record:
                yield from payload_runs(record)


def _loaded(reference: JournalEntry, opened: Opened) -> tuple[JournalEntry, bytes | None]:
    """What the file says of the record, and its payload unless it is large."""
    with opened() as record:
        _check(reference, record)
        is_small = record.content_length <= _IN_MEMORY_MAX
        block = record.block.read() if is_small else record.block.read(1 << 20)
        head = parse_head(block) if record.has_http else None
        if is_small:
            record.finish()
        payload = split(block, head)[2] if is_small and head is not None else block
        data = record.head + (block[: head.size] if head is not None else b"")
        entry = reference._replace(
            type=record.type,
            format=record.format,
            ip=one_line(record.ip),
            data=data,
            layout=str(len(data)),
            size=len(payload) if is_small else record.content_length - (head.size if head is not None else 0),
            refers_to=refers_to_of(record) if record.type == "revisit" else "-",
            extra=marked(reference.extra, record),
        )
    if not is_small and head is not None and head.chunked:
        with opened() as record:
            entry = entry._replace(size=sum(map(len, payload_runs(record))))
    return entry, payload if is_small else None


def _check(reference: JournalEntry, record: Record) -> None:
    if url_key(record.url) != url_key(reference.url):
        raise MalformedInput(f"there is a record of '{record.url}', not of '{reference.url}'")


@contextmanager
def _opened(path: Path, entry: JournalEntry) -> Iterator[Record]:
    """The record at a place of a file, which it must begin at exactly."""
    with path.open("rb") as file:
        dictionary = _dictionary(file) if entry.offset else b""
        file.seek(entry.offset)
        stream = cast(BinaryIO, _Behind(dictionary, file)) if dictionary else file
        from holdfast.formats.io.open import open_records

        record = next(open_records(stream, validate=False, verify_digests=False), None)
        if record is None or record.offset != len(dictionary):
            raise MalformedInput("no record begins there")
        yield record


def _dictionary(file: BinaryIO) -> bytes:
    """The frame at the start of a zstd file without which none of the others can be read; empty if there is none."""
    first = file.read(8)
    size = int.from_bytes(first[4:], "little")
    if not first.startswith(DICTIONARY_MAGIC) or size > DICTIONARY_BYTES_MAX:
        return b""
    return first + file.read(size)


class _Behind:
    """A stream that begins with other bytes."""

    def __init__(self, first: bytes, stream: BinaryIO) -> None:
        self._first = first
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        first, self._first = self._first, b""
        return first or self._stream.read(size)
