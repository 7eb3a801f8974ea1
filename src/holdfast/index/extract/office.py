"""Office files: docx, xlsx, pptx (ECMA-376) and odt, ods, odp (OpenDocument), which are zip files of XML.

Of each only the parts that have text are opened, in the order in which they are read, and never more than allowed is
unpacked. Formulas, styles, pictures and macros are left alone.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.index.extract.dates import document_date
from holdfast.index.extract.language import declared_language, language_of
from holdfast.index.extract.result import Extracted, ExtractionLimits, Failure, Payload
from holdfast.index.extract.xml import MarkupText

_PARTS_MAX = 20_000  # in a zip file; each takes some memory before anything is read
_END_OF_DIRECTORY = b"PK\x05\x06"
_PIECE = 1 << 16
_TITLE_CHARACTERS_MAX = 1000
_ENCRYPTED = 1  # bit of a part's flags
_NUMBER = re.compile(r"(\d+)")


class _Form(NamedTuple):
    """Where a kind of office file has its text."""

    parts: re.Pattern[str]
    breaks: frozenset[str]  # elements that end a line
    only: frozenset[str] | None  # elements whose text counts; None: all


_WORD = _Form(
    re.compile(r"word/(document|footnotes|endnotes|header\d*|footer\d*)\.xml"),
    frozenset(("p", "tab", "br", "cr", "tc")),
    frozenset(("t",)),
)
_SHEETS = _Form(
    re.compile(r"xl/(sharedStrings|worksheets/sheet\d+)\.xml"), frozenset(("si", "is", "c")), frozenset(("t",))
)
_SLIDES = _Form(
    re.compile(r"ppt/(slides/slide|notesSlides/notesSlide)\d+\.xml"), frozenset(("p", "br")), frozenset(("t",))
)
_OPEN = _Form(re.compile(r"content\.xml"), frozenset(("p", "h", "tab", "line-break", "s")), None)
_MARKS = (("word/document.xml", _WORD), ("xl/workbook.xml", _SHEETS), ("ppt/presentation.xml", _SLIDES))


def is_office(content: bytes) -> bool:
    """Whether bytes begin as a zip file does."""
    return content.startswith(b"PK\x03\x04")


def read_office(payload: Payload, limits: ExtractionLimits) -> Extracted:
    """The text of any of these files; of another zip file nothing, which is no failure."""
    if _parts_count(payload.content) > _PARTS_MAX:
        return Extracted(failure=Failure.TOO_LARGE)
    try:
        with zipfile.ZipFile(io.BytesIO(payload.content)) as parts:
            return _read(_Unpacked(parts, limits.document_bytes), limits)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError, OSError):
        return Extracted(failure=Failure.DAMAGED)


def _parts_count(content: bytes) -> int:
    """How many parts the end of a zip file tells of."""
    at = content.rfind(_END_OF_DIRECTORY)
    return int.from_bytes(content[at + 10 : at + 12], "little") if at >= 0 else 0


class _Unpacked:
    """The parts of a zip file, of which together no more than so many bytes are unpacked."""

    def __init__(self, parts: zipfile.ZipFile, bytes_max: int) -> None:
        self._parts = parts
        self.left = bytes_max
        self.names = list(dict.fromkeys(parts.namelist()))

    @property
    def is_encrypted(self) -> bool:
        return any(each.flag_bits & _ENCRYPTED for each in self._parts.infolist())

    def pieces(self, name: str) -> Iterator[bytes]:
        with self._parts.open(name) as file:
            while self.left > 0 and (piece := file.read(min(_PIECE, self.left))):
                self.left -= len(piece)
                yield piece


def _read(parts: _Unpacked, limits: ExtractionLimits) -> Extracted:
    form = _form_of(parts.names)
    if form is None:
        return Extracted()
    if parts.is_encrypted:
        return Extracted(failure=Failure.ENCRYPTED)
    found = MarkupText(limits.text_characters, form.breaks, form.only)
    is_sound = True
    for name in sorted(filter(form.parts.fullmatch, parts.names), key=_in_order):
        if found.is_full or parts.left <= 0:
            break
        is_sound &= found.read(parts.pieces(name)) or parts.left <= 0
    failure = "" if is_sound else Failure.DAMAGED
    if parts.left <= 0:
        failure = Failure.TOO_LARGE
    facts = _facts(parts)
    date = document_date(facts.get("modified", "")) or document_date(facts.get("date", ""))
    title = " ".join(facts.get("title", "").split())[:_TITLE_CHARACTERS_MAX]
    language = language_of(found.text, declared_language(facts.get("language", "")))
    return Extracted(title, found.text, language, date, failure=failure)


def _form_of(names: list[str]) -> _Form | None:
    for mark, form in _MARKS:
        if mark in names:
            return form
    return _OPEN if "content.xml" in names and "mimetype" in names else None


def _in_order(name: str) -> tuple[str | int, ...]:
    """Slide 10 comes after slide 9."""
    return tuple(int(part) if part.isdigit() else part for part in _NUMBER.split(name))


def _facts(parts: _Unpacked) -> dict[str, str]:
    found = MarkupText(_PIECE, frozenset()).keep("title", "modified", "date", "language")
    for name in ("docProps/core.xml", "meta.xml"):
        if name in parts.names:
            found.read(parts.pieces(name))
    return found.named
