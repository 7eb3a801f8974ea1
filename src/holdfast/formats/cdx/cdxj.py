"""CDXJ: one capture per line, sorted bytewise (C locale).

    com,example)/ 20200102030405 {"url": "http://example.com/", "mime": "text/html", "status": "200", ...}
    │             │              └ JSON object in ASCII
    url key       14 digits, UTC

Keys are `url mime status digest length offset filename`, then `method requestBody redirect languages charset truncated
dateFrom` where they apply. Values are written as texts, as cdxj-indexer does, and read as texts or numbers. What is not
known is left out. Non-GET requests have the method and body in their url key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple

from holdfast.errors import MalformedInput
from holdfast.model import Capture

EXTRA = ("method", "requestBody", "redirect", "languages", "charset", "truncated", "dateFrom")
_UNKNOWN = "-"


class CdxjRow(NamedTuple):
    """One line: the key, the time, and the object's fields as texts."""

    urlkey: str
    timestamp: str
    fields: Mapping[str, str]


def cdxj_line(capture: Capture) -> str:
    """The line of a capture, without its end."""
    parts = [f'"url": {quoted(capture.url)}']
    if capture.mime != _UNKNOWN:
        parts.append(f'"mime": {quoted(capture.mime)}')
    if capture.status != _UNKNOWN:
        parts.append(f'"status": {quoted(capture.status)}')
    if capture.digest != _UNKNOWN:
        parts.append(f'"digest": {quoted(capture.digest)}')
    parts.append(f'"length": "{capture.length}", "offset": "{capture.offset}"')
    if capture.filename != _UNKNOWN:
        parts.append(f'"filename": {quoted(capture.filename)}')
    if capture.extra != _UNKNOWN:
        extra = json.loads(capture.extra)
        parts.extend(f'"{name}": {quoted(str(extra[name]))}' for name in EXTRA if name in extra)
    return f"{capture.urlkey} {capture.timestamp} {{{', '.join(parts)}}}"


def object_line(urlkey: str, timestamp: str, fields: Iterable[tuple[str, str]]) -> str:
    """A line with the fields that are given."""
    inner = ", ".join([f"{quoted(name)}: {quoted(value)}" for name, value in fields])
    return f"{urlkey} {timestamp} {{{inner}}}"


def parse_cdxj(line: str) -> CdxjRow:
    """Raises MalformedInput. The time is padded to 14 digits by the caller where a file has shorter ones."""
    urlkey, _, rest = line.rstrip("\r\n").partition(" ")
    timestamp, _, text = rest.partition(" ")
    if not (urlkey and timestamp.isascii() and timestamp.isdigit()):
        raise MalformedInput(f"malformed CDXJ line {line[:200]!r}: expected 'urlkey timestamp {{json}}'")
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise MalformedInput(f"malformed CDXJ line {line[:200]!r}: no JSON object after the time: {error}") from error
    if not isinstance(fields, dict):
        raise MalformedInput(f"malformed CDXJ line {line[:200]!r}: no JSON object after the time")
    return CdxjRow(urlkey, timestamp, {name: _text(value) for name, value in fields.items() if value is not None})


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)


def is_header(line: str) -> bool:
    """Lines such as `!meta 0 {...}` that some writers put first."""
    return line.startswith("!")
