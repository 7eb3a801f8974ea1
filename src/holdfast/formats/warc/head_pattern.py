"""Repeating heads: one compiled pattern parses and checks a head.

The records of a file come in a few shapes: the same fields in the same order, only the values differ. When a head has
been parsed line by line and breaks no rule, `HeadPatterns.learn` compiles a pattern of its shape, and one match parses
and checks the next head of that shape. A head that no pattern matches goes through the parser. So patterns only have to
be strict: what one accepts, parser and rules accept with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from holdfast.formats.dates import warc_timestamp
from holdfast.formats.record import Headers, Record
from holdfast.formats.warc.rules import is_address, is_media

_LEARNED_MAX = 16  # patterns of one file
_TRIES_MAX = 64  # heads of one file that are compiled at most, which costs as much as parsing ten of them
_LOOK_BYTES = 4096  # longer heads go through the parser
_URI = r"[A-Za-z][A-Za-z0-9+.-]*:"
_ID = rf"(<{_URI}[^\x00-\x20<>\"{{}}|\\^`\x7f-\xff]+>)"
_TARGET = rf"({_URI}[^\x00-\x20<>\x7f-\xff]*)"
_DATE = r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
_DIGEST = r"(sha1:(?:[A-Z2-7]{32}|[0-9a-f]{40})|sha256:[0-9a-f]{64})"
_TEXT = r"([!-~](?:[ -~]*[!-~])?)"
_VALUES = {
    "content-length": r"([0-9]{1,18})",
    "content-type": _TEXT,
    "warc-block-digest": _DIGEST,
    "warc-concurrent-to": _ID,
    "warc-date": _DATE,
    "warc-identified-payload-type": _TEXT,
    "warc-ip-address": r"([0-9A-Fa-f:.]+)",
    "warc-payload-digest": _DIGEST,
    "warc-profile": _TARGET,
    "warc-record-id": _ID,
    "warc-refers-to": _ID,
    "warc-refers-to-date": _DATE,
    "warc-refers-to-target-uri": _TARGET,
    "warc-target-uri": _TARGET,
    "warc-warcinfo-id": _ID,
}
_CHECKS: dict[str, Callable[[str], object]] = {  # of values whose form a pattern cannot check; their results are cached
    "content-type": is_media,
    "warc-date": warc_timestamp,
    "warc-identified-payload-type": is_media,
    "warc-ip-address": is_address,
    "warc-refers-to-date": warc_timestamp,
}
_UNLEARNED = re.compile(r"warc-(?:truncated|filename|segment-.*)")
_TYPES = frozenset(("response", "request", "revisit", "resource", "metadata", "conversion"))


class _Shape:
    """The heads that differ from one head only in their values."""

    def __init__(self, record: Record) -> None:
        """The record's head breaks no rule."""
        fields = record.headers.items()
        self.format, self.type, self.has_http = record.format, record.type, record.has_http
        self.names = [name for name, _ in fields]
        self.lower = [name.lower() for name in self.names]
        self.repeats = len(set(self.lower)) < len(self.lower)
        self.checks = [(place, _CHECKS[name]) for place, name in enumerate(self.lower) if name in _CHECKS]
        lines = [f"{re.escape(name)}: {self._value(name.lower(), value)}\r\n" for name, value in fields]
        version = re.escape(record.head[:8].decode("latin-1"))
        self.match = re.compile("".join([version, "\r\n", *lines, "\r\n"])).match

    def _value(self, name: str, value: str) -> str:
        if name == "warc-type" or (name == "content-type" and self.has_http):
            return f"({re.escape(value)})"
        return _VALUES.get(name, _TEXT)


class HeadPatterns:
    """What was learned from the heads of one file. One thread."""

    def __init__(self) -> None:
        self._shapes: list[_Shape] = []
        self._tries = 0

    def record(self, data: bytes, at: int) -> Record | None:
        """The record whose head stands at `at`, without block and offset; None if no pattern matches the head."""
        text = str(data[at : at + _LOOK_BYTES], "latin-1")
        for shape in self._shapes:
            match = shape.match(text)
            if match is not None:
                return _record(shape, match, data[at : at + match.end()])
        return None

    def learn(self, record: Record) -> None:
        """Takes up the shape of a record whose head breaks no rule, unless it is too rare or too irregular."""
        if self._tries >= _TRIES_MAX or len(self._shapes) >= _LEARNED_MAX or record.type not in _TYPES:
            return
        names = record.headers.first()
        if "content-type" not in names or "warc-date" not in names or any(map(_UNLEARNED.fullmatch, names)):
            return
        if not record.has_http and record.type in ("response", "request", "revisit"):
            return  # whether its block is a message is not in its head
        self._tries += 1
        shape = _Shape(record)
        match = shape.match(record.head.decode("latin-1"))
        if match is not None and match.end() == len(record.head) and _record(shape, match, record.head) is not None:
            self._shapes.append(shape)


def _record(shape: _Shape, match: re.Match[str], head: bytes) -> Record | None:
    """The record of a head that matches; None if a value is not what its field needs."""
    if b"=?" in head or head.find(b"WARC/", 1) >= 0:  # an encoded word, or the start of another record
        return None
    values = match.groups()
    for place, check in shape.checks:
        if not check(values[place]):
            return None
    if shape.repeats:
        fields = dict(zip(reversed(shape.lower), reversed(values), strict=True))
    else:
        fields = dict(zip(shape.lower, values, strict=True))
    return Record(
        shape.format,
        shape.type,
        fields.get("warc-target-uri", ""),
        warc_timestamp(fields["warc-date"]),
        Headers(zip(shape.names, values, strict=True), fields),
        head,
        int(fields["content-length"]),
        None,  # type: ignore[arg-type]  # the reader sets it
        0,
        fields.get("warc-ip-address", ""),
        shape.has_http,
    )
