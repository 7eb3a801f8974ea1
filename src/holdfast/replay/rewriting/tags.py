"""A start tag that is looked at: its attributes, each as it is meant, and the changes made to them.

What is not changed keeps its bytes. A value that only gets something put before it keeps its own; a value that becomes
another is written anew between double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from html.entities import html5

from holdfast.replay.rewriting.patterns import ATTRIBUTE

Edit = tuple[int, int, bytes]
_UNQUOTED = 4  # the group of ATTRIBUTE that has a value without quotes; 1 is the name, 2 and 3 are the quoted ones
_REFERENCE = re.compile(r"&(?:#(?:[xX]([0-9a-fA-F]++)|([0-9]++));?+|([a-zA-Z][a-zA-Z0-9]*+)(;?+)(=?+))")
_STARTS_CACHED = 1024
_SCALARS_END = 0x110000
_CODE_POINT_DIGITS_MAX = 8
_ESCAPES = {ord("&"): "&amp;", ord('"'): "&quot;", ord("'"): "&#39;", ord("<"): "&lt;", ord(">"): "&gt;"}


class Tag:
    """One start tag of the markup `data`, of which `low` is the lower case."""

    __slots__ = ("_attributes", "_codec", "_data", "_found", "edits", "name")

    def __init__(self, found: re.Match[bytes], data: bytes, codec: str) -> None:
        self.name: bytes = found[1]
        self.edits: list[Edit] = []
        self._found, self._data, self._codec = found, data, codec
        attributes: dict[bytes, re.Match[bytes]] = {}
        for attribute in ATTRIBUTE.finditer(found.string, *found.span(2)):
            name = attribute[1]
            if name not in attributes:  # the first of a name counts
                attributes[name] = attribute
        self._attributes = attributes

    @property
    def is_closed(self) -> bool:
        """`<a/>`, which counts in XML and in drawings only."""
        return self._data[self._found.end() - 2] == ord("/")

    def names(self) -> Iterable[bytes]:
        return self._attributes

    def written(self) -> list[bytes]:
        """The tag with its changes, in parts."""
        at, end = self._found.span()
        edits = self.edits
        if not edits:
            return [self._data[at:end]]
        if len(edits) > 1:
            edits.sort()
        parts: list[bytes] = []
        for start, stop, instead in edits:
            parts += (self._data[at:start], instead)
            at = stop
        parts.append(self._data[at:end])
        return parts

    def value(self, name: bytes) -> str:
        """As it is meant; '' if there is none."""
        attribute = self._attributes.get(name)
        if attribute is None or (group := attribute.lastindex or 1) == 1:
            return ""
        start, end = attribute.span(group)
        text = self._data[start:end].decode(self._codec, "replace")
        if "\0" in text:
            text = text.replace("\0", "\ufffd")
        return unreferenced(text) if "&" in text else text

    def word(self, name: bytes) -> str:
        """A value in which neither case nor white space around it counts."""
        return self.value(name).strip().lower()

    def change(self, name: bytes, old: str, new: str) -> None:
        """Gives an attribute that has a value another; `old` is what `value` told."""
        if old == new:
            return
        attribute = self._attributes[name]
        group = attribute.lastindex or 1
        start, end = attribute.span(group)
        if new.endswith(old):
            self.edits.append((start, start, _put_before(new[: len(new) - len(old)])))
            return
        written = b'"' + escaped(new).encode(self._codec, "xmlcharrefreplace") + b'"'
        self.edits.append((start, end, written) if group == _UNQUOTED else (start - 1, end + 1, written))

    def disarm(self, name: bytes) -> None:
        """Renames an attribute, so that browsers do not know it."""
        start = self._attributes[name].start(1)
        self.edits.append((start, start, b"data-hf-"))


def escaped(text: str) -> str:
    """For an attribute's value, of HTML and XML, with or without quotes."""
    return text.translate(_ESCAPES)


@lru_cache(_STARTS_CACHED)
def _put_before(text: str) -> bytes:
    """The beginning of an address, which is the same for many."""
    return escaped(text).encode("ascii", "xmlcharrefreplace")


def unreferenced(text: str) -> str:
    """Character references undone as in attributes: `&copy=1` is none there, `&copy;` and `&copy ` are."""
    return _REFERENCE.sub(_meant, text)


def _meant(match: re.Match[str]) -> str:
    hexadecimal, decimal, name, semicolon, equals = match.groups()
    if name is None:
        return _by_number(hexadecimal, 16) if hexadecimal else _by_number(decimal, 10)
    if semicolon:
        return html5.get(name + semicolon, name and f"&{name};") + equals
    return match[0] if equals or name not in html5 else html5[name]


def _by_number(digits: str, radix: int) -> str:
    digits = digits.lstrip("0")
    number = int(digits or "0", radix) if len(digits) <= _CODE_POINT_DIGITS_MAX else _SCALARS_END
    if number == 0 or number >= _SCALARS_END or 0xD800 <= number < 0xE000:
        return "\ufffd"
    if 0x80 <= number < 0xA0:  # meant as windows-1252, says the standard
        return bytes((number,)).decode("cp1252", "ignore") or chr(number)
    return chr(number)
