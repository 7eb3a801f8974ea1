"""Taking the body of a message apart, whoever wrote it. All numbers are big-endian."""

from __future__ import annotations

import struct
from typing import Final

from holdfast.env.files import Buffer
from holdfast.errors import MalformedInput

ITEMS_MAX: Final = 65_536  # of one list, and of all lists within lists together
_U32 = struct.Struct(">I")


class Reader:
    """Takes a body apart from its beginning. Whatever is wrong with it raises MalformedInput."""

    __slots__ = ("_at", "_inner", "_raw")

    def __init__(self, raw: Buffer) -> None:
        self._raw = memoryview(raw)
        self._at = 0
        self._inner = 0  # items of lists within lists

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        at = self._at
        self._at = at + layout.size
        try:
            return layout.unpack_from(self._raw, at)
        except struct.error:
            raise MalformedInput("a message ends too early") from None

    def u8(self) -> int:
        at = self._at
        self._at = at + 1
        try:
            return self._raw[at]
        except IndexError:
            raise MalformedInput("a message ends too early") from None

    def u32(self) -> int:
        return self.fields(_U32)[0]

    def view(self, length: int) -> memoryview:
        at = self._at
        self._at = end = at + length
        if end > len(self._raw):
            raise MalformedInput("a message ends too early")
        return self._raw[at:end]

    def take(self, length: int) -> bytes:
        return bytes(self.view(length))

    def short(self) -> bytes:
        """Bytes behind their length."""
        return bytes(self.view(self.u8()))

    def count(self, least: int) -> int:
        """How many items follow, each of at least so many bytes: a count that cannot be true is refused here."""
        count = self.u32()
        if count > ITEMS_MAX:
            raise MalformedInput(f"a message announces {count} items, {ITEMS_MAX} are possible")
        if count * least > len(self._raw) - self._at:
            raise MalformedInput(f"a message that announces {count} items is too short for them")
        return count

    def inner_count(self, least: int) -> int:
        """The same of a list that is an item's own: a short message must not stand for millions of items."""
        count = self.count(least)
        self._inner += count
        if self._inner > ITEMS_MAX:
            raise MalformedInput(f"the lists in a message have more than {ITEMS_MAX} items together")
        return count

    def text(self) -> str:
        try:
            return self.short().decode()
        except UnicodeDecodeError:
            raise MalformedInput("a name in a message is no UTF-8") from None

    def rest(self) -> memoryview:
        return self.view(len(self._raw) - self._at)

    def end(self) -> None:
        if self._at != len(self._raw):
            raise MalformedInput(f"a message has {len(self._raw) - self._at} bytes too many")
