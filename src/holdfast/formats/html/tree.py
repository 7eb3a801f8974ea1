"""HTML as browsers read it: by turbohtml, which follows the WHATWG HTML Standard and is written in C.

Any bytes give a tree, in time that grows with their number: the parser nests no deeper than browsers do. It is loaded
at first use. Scripting counts as off, so that what is meant for those without scripts (<noscript>) is there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.formats.http import HTML_TYPES, media_type

if TYPE_CHECKING:
    from turbohtml import Document

HTML_BYTES_MAX = 32 << 20  # of a page; what lies beyond is not looked at
_LOOKS_HTML = re.compile(
    rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|title|meta|div|p|h1|table)\b", re.I | re.S
)
_SNIFFED_BYTES = 1024


def is_html(content: bytes, content_type: str = "") -> bool:
    """Whether it is HTML: by its type, or where it has none by how it begins."""
    kind = media_type(content_type)
    return kind in HTML_TYPES or (not kind and looks_like_html(content))


def looks_like_html(content: bytes) -> bool:
    """Whether bytes of unknown type begin as a page does."""
    return _LOOKS_HTML.match(content[:_SNIFFED_BYTES]) is not None


def parsed_page(content: bytes, charset: str = "") -> Document:
    """The tree of a page; `charset` is what the HTTP header names, if it does."""
    from turbohtml import parse

    try:
        return parse(content, encoding=charset or None, positions=False, allow_declarative_shadow_roots=False)
    except (LookupError, ValueError):  # no charset that a browser knows
        return parse(content, positions=False, allow_declarative_shadow_roots=False)
