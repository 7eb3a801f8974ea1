"""PDF, by pdfium: the text of its pages in their order, its title and its date."""

from __future__ import annotations

from holdfast.index.extract.dates import document_date
from holdfast.index.extract.language import language_of
from holdfast.index.extract.result import Extracted, ExtractionLimits, Failure, Payload

_TITLE_CHARACTERS_MAX = 1000
_PAGES_MAX = 10_000


def read_pdf(payload: Payload, limits: ExtractionLimits) -> Extracted:
    """Cut off PDFs are read as far as pdfium can; of others their failure is given."""
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(payload.content)
    except PdfiumError as error:
        return Extracted(failure=Failure.ENCRYPTED if "assword" in str(error) else Failure.DAMAGED)
    try:
        facts = document.get_metadata_dict(skip_empty=True)
        text, failure = _text(document, limits.text_characters)
    finally:
        document.close()
    title = " ".join(facts.get("Title", "").split())[:_TITLE_CHARACTERS_MAX]
    date = document_date(facts.get("ModDate", "")) or document_date(facts.get("CreationDate", ""))
    return Extracted(title, text, language_of(text), date, failure=failure)


def _text(document, characters_max: int) -> tuple[str, str]:  # type: ignore[no-untyped-def]
    """The text of all pages that can be read, and why some cannot."""
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
