"""Extraction: from a payload to its title, text, language, date and links.

    Payload       URL, headers, and content without its content coding
       │
       └─ by its type, or by its first bytes where that says nothing
            ├─ page      HTML, by turbohtml: title, lines of text, links with the words that lead to them
            ├─ plain     any other text; XML without its marks
            ├─ pdf       by pdfium
            └─ office    docx, xlsx, pptx, odt, ods, odp: parts of a zip file, read as XML
       │
    Extracted     bounded, and never an error: what cannot be read has a `failure` that says why

Guarantees: of a content at most `document_bytes` are looked at, unpacked ones at most so many bytes again, and at most
`text_characters` of text are given. What none of this can bound, a library that loops or crashes, is bounded from
outside: the index extracts in processes of their own (`holdfast.index.workers`). No state is kept: any thread may call.
"""

from __future__ import annotations

from holdfast.index.extract.extract import extract
from holdfast.index.extract.result import Extracted, ExtractionLimits, LinkKind, OutLink, Payload

__all__ = ["Extracted", "ExtractionLimits", "LinkKind", "OutLink", "Payload", "extract"]
