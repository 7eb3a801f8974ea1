"""What goes into extraction, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast.formats.record import Headers


class LinkKind:
    """What a link is for."""

    LINK: Final = "link"  # what a person may follow
    RELATION: Final = "relation"  # what a <link>, a <meta> or a header field states; nobody clicks on it
    EMBED: Final = "embed"  # what a browser loads by itself
    REDIRECT: Final = "redirect"
    FORM: Final = "form"


class Failure:
    """Why a document has no text, or not all of it."""

    TOO_LARGE: Final = "too large"  # beyond `document_bytes`, and of no use in part
    ENCRYPTED: Final = "encrypted"
    DAMAGED: Final = "damaged"  # not what its type says
    CRASHED: Final = "crashed"  # the process that read it died
    TIMEOUT: Final = "timeout"  # it took longer than allowed
    MEMORY: Final = "memory"  # it took more memory than allowed
    CONTENT: Final = "no content"  # the payload is lost, or that of a revisit is not in the archive


@dataclass(frozen=True, slots=True)
class ExtractionLimits:
    """How much of a document is looked at."""

    document_bytes: int = 32 << 20
    text_characters: int = 4 << 20


class Payload(NamedTuple):
    """A capture to extract from. `content` is without its content coding."""

    url: str
    content: bytes
    content_type: str  # with its parameters; '' where none is known
    headers: Headers
    status: int


class OutLink(NamedTuple):
    """A canonical http or https URL without fragment, what it is for, and the words that lead to it."""

    url: str
    kind: str
    anchor: str


class Extracted(NamedTuple):
    """What was found. Texts are '' where there is nothing."""

    title: str = ""
    text: str = ""
    language: str = "-"  # ISO 639-1; - where it is unknown
    date: str = ""  # of the document, as it says itself; 14 digits
    links: tuple[OutLink, ...] = ()
    failure: str = ""
