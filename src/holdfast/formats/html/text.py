"""The tree of a page, and its text: the title, all visible text, and the main text.

`parsed_page` parses as browsers do, with turbohtml, which follows the WHATWG HTML Standard and is written in C. Any
bytes give a tree, in linear time. Scripting is off, so the contents of <noscript> are included.

`text_of` has the title, then one line for each block, without scripts and styles. `main_text_of` leaves out
navigation, banners, side bars and footers. It is resiliparse's, whose heuristics are well known to builders of corpora.
Its time grows with the number of elements times their depth, so very deep or very large pages go to turbohtml, which
finds the main element in linear time, less exactly. If it finds none, the main text is all text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from holdfast.formats.html.charset import charset_of, decoded
from holdfast.formats.http import HTML_TYPES, media_type

if TYPE_CHECKING:
    from turbohtml import Document, PlainText

HTML_BYTES_MAX = 32 << 20  # of a page; the rest is ignored
_LOOKS_HTML = re.compile(
    rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|title|meta|div|p|h1|table)\b", re.I | re.S
)
_SNIFFED_BYTES = 1024


def is_html(content: bytes, content_type: str = "") -> bool:
    """True if it is HTML, by its type or, without a type, by its first bytes."""
    kind = media_type(content_type)
    return kind in HTML_TYPES or (not kind and looks_like_html(content))


def looks_like_html(content: bytes) -> bool:
    """True if bytes of unknown type begin like a page."""
    return _LOOKS_HTML.match(content[:_SNIFFED_BYTES]) is not None


def parsed_page(content: bytes, charset: str = "") -> Document:
    """The tree of a page; `charset` is that of the HTTP header, if it has one."""
    from turbohtml import parse

    try:
        return parse(content, encoding=charset or None, positions=False, allow_declarative_shadow_roots=False)
    except (LookupError, ValueError):  # unknown to browsers
        return parse(content, positions=False, allow_declarative_shadow_roots=False)


# The renderer lays out tables in columns and numbers lists. It would drop captions and join words of nested tables,
# which are common in old pages. As plain blocks, nothing is lost, added or joined.
_AS_BLOCKS = [
    "button",
    "caption",
    "center",
    "fieldset",
    "legend",
    "ol",
    "option",
    "table",
    "td",
    "textarea",
    "th",
    "tr",
]
_MAIN_BEGIN, _MAIN_END = "\ufdd0", "\ufdd1"  # noncharacters, which are dropped from texts


def title_of(page: Document) -> str:
    """On one line; '' if there is none."""
    title = page.find("title")
    return " ".join(title.text.split()) if title is not None else ""


def lines_of(page: Document) -> str:
    """The non-empty lines. Consumes the tree."""
    for element in page.iter_elements(_AS_BLOCKS):  # an eighth of the time of `find_all`
        element.tag = "div"
    return "\n".join([text for line in page.to_text(_form()).split("\n") if (text := line.strip())])


def text_with_main(page: Document) -> tuple[str, int, int]:
    """`lines_of` a page, and the range of its main text in them; all lines if it has none.

    The main text is that of <main>, else of the element that turbohtml takes for the content, by text and link density.
    Consumes the tree.
    """
    from turbohtml import Text

    main = page.find("main") or page.main_content()
    if main is None:
        lines = lines_of(page)
        return lines, 0, len(lines)
    main.insert(0, Text(_MAIN_BEGIN))
    main.append(Text(_MAIN_END))
    before, _, rest = lines_of(page).partition(_MAIN_BEGIN)
    within, _, after = rest.rpartition(_MAIN_END)
    before, within, after = (_unmarked(each) for each in (before, within, after))
    if not within:
        before, within, after = "", "\n".join(filter(None, (before, after))), ""
    start = len(before) + 1 if before else 0
    return "\n".join(filter(None, (before, within, after))), start, start + len(within)


def _unmarked(text: str) -> str:
    return text.replace(_MAIN_BEGIN, "").replace(_MAIN_END, "").strip()


@cache
def _form() -> PlainText:
    from turbohtml import PlainText

    return PlainText(layout="strict", bullet="")


_PLAIN = "text/plain"


def has_text(content_type: str) -> bool:
    """True if `text_of` can find text in contents of this type; one without a type may be a page."""
    kind = media_type(content_type)
    return not kind or kind in HTML_TYPES or kind == _PLAIN


def text_of(content: bytes, content_type: str = "") -> str:
    """The text of a page, or plain text itself; '' for other types. `content` is without its content coding."""
    content = content[:HTML_BYTES_MAX]
    if media_type(content_type) == _PLAIN:
        return decoded(content, charset_of(content_type)).text
    if is_html(content, content_type):
        page = parsed_page(content, charset_of(content_type))
        return "\n".join(filter(None, (title_of(page), lines_of(page))))
    return ""


_BYTES_MAX = 8 << 20  # of a page; the rest is ignored
_TAGS_ANY_DEPTH = 2_000  # up to this number, depth is not checked
_TAGS_MAX = 50_000
_DEPTH_MAX = 256
# Elements that nest: those without an end, or whose end is commonly left out, do not make a page deeper.
_NESTING = re.compile(
    r"<(/?)(?!(?:area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|option|p|param|source|td|th|tr|wbr)\b)[a-z]",
    re.IGNORECASE | re.ASCII,
)


def main_text_of(content: bytes, content_type: str = "") -> str:
    """The main text of an HTML page; '' if it has none. `content` is without its content coding.

    Thread-safe. Takes seconds at most, whatever the bytes.
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
    """True if a page would take long, by the number of its tags and their depth."""
    tags = markup.count("<")
    if tags <= _TAGS_ANY_DEPTH or tags > _TAGS_MAX:
        return tags > _TAGS_MAX
    depth = 0
    for tag in _NESTING.finditer(markup):
        depth = max(0, depth - 1) if tag[1] else depth + 1
        if depth > _DEPTH_MAX:
            return True
    return False
