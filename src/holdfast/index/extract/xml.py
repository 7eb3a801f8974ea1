"""The text in XML, by expat, in pieces: bounded, and without entities of the document's own making."""

from __future__ import annotations

from collections.abc import Iterable
from xml.parsers import expat

_DEPTH_MAX = 1000  # of elements within each other


class StopReading(Exception):
    """Enough has been read."""


class MarkupText:
    """Gathers the text of elements. `breaks` end a line; with `only`, the text of other elements does not count."""

    def __init__(self, characters_max: int, breaks: frozenset[str], only: frozenset[str] | None = None) -> None:
        self.named: dict[str, str] = {}  # first text of each element that is asked for by `keep`
        self._keep: frozenset[str] = frozenset()
        self._left = characters_max
        self._breaks = breaks
        self._only = only
        self._parts: list[str] = []
        self._open: list[str] = []

    def keep(self, *names: str) -> MarkupText:
        """The text of these is in `named` as well."""
        self._keep = frozenset(names)
        return self

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._parts).split("\n"))
        return "\n".join(filter(None, lines))

    @property
    def is_full(self) -> bool:
        return self._left <= 0

    def read(self, pieces: Iterable[bytes]) -> bool:
        """Whether it was well formed as far as it was read; whatever was found before counts."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._refuse
        self._open.clear()
        try:
            for piece in pieces:
                parser.Parse(piece, False)
            parser.Parse(b"", True)
        except StopReading:
            return True
        except (expat.ExpatError, ValueError):
            return False
        return True

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self._open.append(name.rpartition(" ")[2])
        if len(self._open) > _DEPTH_MAX:
            raise ValueError("elements nested too deeply")

    def _end(self, name: str) -> None:
        if self._open.pop() in self._breaks:
            self._parts.append("\n")

    def _characters(self, text: str) -> None:
        name = self._open[-1] if self._open else ""
        if name in self._keep and name not in self.named:
            self.named[name] = text.strip()
        if self._only is not None and name not in self._only:
            return
        self._parts.append(text[: self._left])
        self._left -= len(text)
        if self._left <= 0:
            raise StopReading

    def _refuse(self, *declaration: object) -> None:
        raise ValueError("an entity of the document's own")
