"""Writing Tianwang records, exactly as the paper on China Web InfoMall defines them (I2).

    version: 1.0 LF                                   always first
    url: http://www.pku.edu.cn/ LF                    needed
    origin: http://www.somewhere.cn/ LF               where the page was redirected from
    date: Tue, 15 Apr 2003 08:13:06 GMT LF            needed; RFC 822
    ip: 162.105.129.12 LF
    unzip-length: 40960 LF                            only if the data is compressed (zlib)
    length: 18133 LF                                  always last; of the data as it lies here
    LF
    data LF

Records follow one another with nothing between. Names are lower case; no line of the head is blank. Version 2.0, of
Holdfast's own batches, has the same form with other attributes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import BinaryIO

from holdfast.errors import UsageError
from holdfast.formats.compose import encoded
from holdfast.formats.dates import DIGITS, arc_timestamp, mail_date

Attributes = Sequence[tuple[str, str]]

_ZLIB_LEVEL = 6
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_RESERVED = frozenset(("version", "unzip-length", "length"))  # written by `tianwang_record` itself
_NEEDED = frozenset(("url", "date"))  # by version 1.0
_known_names: set[str] = set()
_KNOWN_NAMES_MAX = 1000


def tianwang_record(attributes: Attributes, data: bytes, *, version: str = "1.0", compress: bool = False) -> bytes:
    """One record. `version`, `unzip-length` and `length` are added in their places.

    Raises UsageError for a value with a line end in it, a name that is not lower case, and a 1.0 without URL or date.
    """
    body = "".join([f"{name}: {value}\n" for name, value in attributes])
    if body.count("\n") != len(attributes) or "\r" in body:
        _refuse_line_ends(attributes)
    for name, _ in attributes:
        if name not in _known_names:
            _check_name(name)
    if version == "1.0":
        _check_needed(attributes)
    unzip_length = ""
    if compress:
        unzip_length = f"unzip-length: {len(data)}\n"
        data = zlib.compress(data, _ZLIB_LEVEL)
    head = f"version: {version}\n{body}{unzip_length}length: {len(data)}\n\n"
    return b"".join((encoded(head), data, b"\n"))


def page_attributes(url: str, timestamp: str, *, origin: str = "", ip: str = "") -> list[tuple[str, str]]:
    """The attributes of a page in the order of the definition; `timestamp` is 14 digits."""
    pairs = [("url", url), ("origin", origin), ("date", mail_date(_checked(timestamp))), ("ip", ip)]
    return [pair for pair in pairs if pair[1]]


def _checked(timestamp: str) -> str:
    if len(timestamp) != DIGITS or arc_timestamp(timestamp) != timestamp:
        raise UsageError(f"malformed time {timestamp!r}: expected 14 digits such as '20030415081306'")
    return timestamp


class TianwangWriter:
    """Appends records to a sink, which stays the caller's. One thread at a time."""

    def __init__(self, sink: BinaryIO, *, compress: bool = False) -> None:
        self._sink = sink
        self._compress = compress
        self.offset = 0  # of the next record, from where the sink stood

    def write(self, attributes: Attributes, data: bytes) -> tuple[int, int]:
        """Writes a record of version 1.0; returns its offset and length."""
        record = tianwang_record(attributes, data, compress=self._compress)
        self._sink.write(record)
        offset, self.offset = self.offset, self.offset + len(record)
        return offset, len(record)


def _check_name(name: str) -> None:
    if name in _RESERVED:
        raise UsageError(f"attribute {name!r} cannot be given: it is written in its place by itself")
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"malformed attribute name {name!r}: only a-z, 0-9, '-' and '_' may be in it")
    if len(_known_names) < _KNOWN_NAMES_MAX:
        _known_names.add(name)


def _check_needed(attributes: Attributes) -> None:
    missing = _NEEDED.difference(name for name, value in attributes if value)
    if missing:
        raise UsageError(f"a Tianwang record of version 1.0 needs the attribute {min(missing)!r}")


def _refuse_line_ends(attributes: Attributes) -> None:
    for name, value in attributes:
        _check_name(name)
        if "\n" in value or "\r" in value:
            raise UsageError(f"attribute {name!r} has a line end in its value {value[:80]!r}; encode it (%0A, %0D)")
