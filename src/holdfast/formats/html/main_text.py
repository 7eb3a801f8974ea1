"""The main text of a page: what it says, without navigation, banners, side bars and footers.

By resiliparse, whose heuristics builders of corpora know. Its time grows with the number of elements times their depth,
so pages that nest deeper than people write, or have more elements than people read, go to turbohtml instead, which
finds the main element in linear time and less exactly. Where it finds none, all text counts.
"""

from __future__ import annotations

import re

from holdfast.formats.html.charset import charset_of, decoded
from holdfast.formats.html.tree import parsed_page
from holdfast.formats.wet import text_of

_BYTES_MAX = 8 << 20  # of a page; what lies beyond is not looked at
_TAGS_ANY_DEPTH = 2_000  # up to so many, depth does not matter
_TAGS_MAX = 50_000
_DEPTH_MAX = 256
# Elements that nest: those without an end, or whose end is commonly left out, do not make a page deeper.
_NESTING = re.compile(
    r"<(/?)(?!(?:area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|option|p|param|source|td|th|tr|wbr)\b)[a-z]",
    re.IGNORECASE | re.ASCII,
)


def main_text_of(content: bytes, content_type: str = "") -> str:
    """The main text of a page in HTML; '' if nothing in it reads like one. `content` is without its content coding.

    Any thread may call. Whatever the bytes, it takes seconds at most.
    """
    from resiliparse.extract.html2text import extract_plain_text
    from turbohtml.detect import detect

    content, charset = content[:_BYTES_MAX], charset_of(content_type)
    markup = decoded(content, charset, detect(content).encoding or "").text
    if _is_endless(markup):
        return parsed_page(content, charset).main_text().strip() or text_of(content, content_type)
    text: str = extract_plain_text(markup, main_content=True, links=False, list_bullets=False)
    return text.strip()


def _is_endless(markup: str) -> bool:
    """Whether a page would take long: by the number of its tags and, if they are many, by their depth."""
    tags = markup.count("<")
    if tags <= _TAGS_ANY_DEPTH or tags > _TAGS_MAX:
        return tags > _TAGS_MAX
    depth = 0
    for tag in _NESTING.finditer(markup):
        depth = max(0, depth - 1) if tag[1] else depth + 1
        if depth > _DEPTH_MAX:
            return True
    return False
