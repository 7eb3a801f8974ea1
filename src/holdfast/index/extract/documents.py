"""Text of PDF, office files and XML.

PDF, by pdfium: the text of the pages in order, title and date.

Office files, docx, xlsx, pptx (ECMA-376) and odt, ods, odp (OpenDocument), are zip files of XML. Only parts with text
are opened, in reading order, and unpacked up to a limit. Formulas, styles, pictures and macros are ignored.

XML, by expat, incrementally: bounded, and without custom entities.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.parsers import expat

from holdfast.index.extract.extract import (
    TITLE_CHARACTERS_MAX,
    Extracted,
    ExtractionLimits,
    Failure,
    declared_language,
    document_date,
    language_of,
)

_PARTS_MAX = 20_000  # in a zip file; listing them takes memory
_END_OF_DIRECTORY = b"PK\x05\x06"
_PIECE = 1 << 16
_ENCRYPTED = 1  # bit of a part's flags
_NUMBER = re.compile(r"(\d+)")


class _Form(NamedTuple):
    """The parts and elements of an office format that have text."""

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


def read_office(content: bytes, limits: ExtractionLimits) -> Extracted:
    """The text of an office file; nothing for another zip file, which is not a failure."""
    if _parts_count(content) > _PARTS_MAX:
        return Extracted(failure=Failure.TOO_LARGE)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            return _read(_Unpacked(parts, limits.document_bytes), limits)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError, OSError):
        return Extracted(failure=Failure.DAMAGED)


def _parts_count(content: bytes) -> int:
    """The number of parts according to the zip file's end record."""
    at = content.rfind(_END_OF_DIRECTORY)
    return int.from_bytes(content[at + 10 : at + 12], "little") if at >= 0 else 0


class _Unpacked:
    """The parts of a zip file, unpacked up to `bytes_max` bytes in all."""

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
    title = " ".join(facts.get("title", "").split())[:TITLE_CHARACTERS_MAX]
    language = language_of(found.text, declared_language(facts.get("language", "")))
    return Extracted(title, found.text, language, date, failure=failure)


def _form_of(names: list[str]) -> _Form | None:
    for mark, form in _MARKS:
        if mark in names:
            return form
    return _OPEN if "content.xml" in names and "mimetype" in names else None


def _in_order(name: str) -> tuple[str | int, ...]:
    """Sorts slide 10 after slide 9."""
    return tuple(int(part) if part.isdigit() else part for part in _NUMBER.split(name))


def _facts(parts: _Unpacked) -> dict[str, str]:
    found = MarkupText(_PIECE, frozenset()).keep("title", "modified", "date", "language")
    for name in ("docProps/core.xml", "meta.xml"):
        if name in parts.names:
            found.read(parts.pieces(name))
    return found.named


_PAGES_MAX = 10_000


def read_pdf(content: bytes, limits: ExtractionLimits) -> Extracted:
    """Reads truncated PDFs as far as pdfium can."""
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(content)
    except PdfiumError as error:
        return Extracted(failure=Failure.ENCRYPTED if "assword" in str(error) else Failure.DAMAGED)
    try:
        facts = document.get_metadata_dict(skip_empty=True)
        text, failure = _text(document, limits.text_characters)
    finally:
        document.close()
    title = " ".join(facts.get("Title", "").split())[:TITLE_CHARACTERS_MAX]
    date = document_date(facts.get("ModDate", "")) or document_date(facts.get("CreationDate", ""))
    return Extracted(title, text, language_of(text), date, failure=failure)


def _text(document, characters_max: int) -> tuple[str, str]:  # type: ignore[no-untyped-def]
    """The text of all readable pages, and the failure of others."""
    from pypdfium2 import PdfiumError

    parts: list[str] = []
    left, failure = characters_max, ""
    for number in range(min(len(document), _PAGES_MAX)):
        if left <= 0:
            break
        try:
            page = document[number]
            shown = page.get_textpage()
            part = shown.get_text_bounded().replace("\r\n", "\n")[:left]
            shown.close()
            page.close()
        except PdfiumError:
            failure = Failure.DAMAGED
            continue
        parts.append(part)
        left -= len(part) + 1
    return "\n".join(filter(None, parts)), failure


_DEPTH_MAX = 1000  # of nested elements


class StopReading(Exception):
    """Enough has been read."""


class MarkupText:
    """Collects the text of elements. `breaks` end a line; with `only`, the text of other elements is ignored."""

    def __init__(self, characters_max: int, breaks: frozenset[str], only: frozenset[str] | None = None) -> None:
        self.named: dict[str, str] = {}  # first text of each element in `keep`
        self._keep: frozenset[str] = frozenset()
        self._left = characters_max
        self._breaks = breaks
        self._only = only
        self._parts: list[str] = []
        self._open: list[str] = []

    def keep(self, *names: str) -> MarkupText:
        """Also collects the text of these elements in `named`."""
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
        """False if malformed; text before the fault is kept."""
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
        raise ValueError("custom entity")
