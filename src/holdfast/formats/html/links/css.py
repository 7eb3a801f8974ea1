r"""Style sheets: the positions of their URLs, for links and for rewriting.

    @import "a.css"    url( 'b.png' )    src("c.woff")    image-set("d.png" 1x, url(e.png) 2x)
             ^^^^^           ^^^^^            ^^^^^^                 ^^^^^          ^^^^^

One pattern takes comments and strings as a whole, so a `url(` within them is none. What it has looked at it takes,
closed or not: no text is read twice, however broken. White space and letters are those of ASCII, as in CSS.
"""

from __future__ import annotations

import re

from holdfast.formats.html.links.references import Hop, References

_STRING = r""""((?:[^"\\\n\r\f]++|\\(?s:.))*+)"?+|'((?:[^'\\\n\r\f]++|\\(?s:.))*+)'?+"""
_OTHER_STRING = r""""(?:[^"\\\n\r\f]++|\\(?s:.))*+"?+|'(?:[^'\\\n\r\f]++|\\(?s:.))*+'?+"""
_BARE = r"""((?:[^"'()\\\s]++|\\(?s:.))++)"""
_VALUE = rf"\s*+(?:{_STRING}|{_BARE}\(?+)?+"  # `url(url(` is one that is broken, not two
_COMMENT = r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+"
_GAP = rf"(?:\s++|{_COMMENT})*+"
_NEEDED = re.compile(r"url\(|@import|image-set\(|src\(", re.IGNORECASE | re.ASCII)
# No alternative begins with a letter, so the matcher skips most characters quickly.
_TOKENS = re.compile(
    rf"{_COMMENT}"
    rf"|@(?i:namespace)\b[^;{{}}]*+"
    rf"|@(?i:import){_GAP}(?:(?i:url)\({_VALUE}|{_STRING})?+"
    rf"|\((?:(?<=(?i:url)\()|(?<=(?i:src)\()(?<![\w-]...\()){_VALUE}"
    rf"|\((?<=(?i:image-set)(\())"
    rf"|{_OTHER_STRING}"
    r"|\\(?s:.)",
    re.ASCII,
)
_IMPORTS, _IMAGE_SET = 5, 9  # groups: those up to 5 are of @import
_WITHIN_SET = re.compile(
    rf"{_COMMENT}"
    rf"|\((?<=(?i:type)\(){_GAP}(?:{_OTHER_STRING})?+(?:{_GAP}\))?+"
    rf"|\((?<=(?i:url)\(){_VALUE}(?:\s*+\))?+"
    rf"|{_STRING}"
    r"|(\()|(\))"
    r"|\\(?s:.)",
    re.ASCII,
)
_SET_URLS, _OPENED = 5, 6  # groups: those up to 5 are URLs
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|\s)?|\r\n|([\s\S]))")
_CHARSET_RULE = re.compile(rb'@charset "([^"]{1,40})";')

CssUrl = tuple[int, int, bool]  # start, end, and whether it is an @import; without quotes, its escapes not undone


def css_urls(text: str) -> list[CssUrl]:
    """Where the URLs of a style sheet, or of the `style` of an element, stand. Bytes may be given as Latin-1."""
    found: list[CssUrl] = []
    at = 0 if _NEEDED.search(text) else -1
    while at >= 0:
        start, at = at, -1
        for token in _TOKENS.finditer(text, start):
            group = token.lastindex
            if group is None:
                continue
            if group == _IMAGE_SET:
                at = _add_set(text, token.end(), found)
                break
            start, end = token.span(group)
            found.append((start, end, group <= _IMPORTS))
    return found


def _add_set(text: str, at: int, found: list[CssUrl]) -> int:
    """Adds the URLs within `image-set(`, where strings are URLs too; returns the position after it."""
    depth = 1
    for token in _WITHIN_SET.finditer(text, at):
        group = token.lastindex
        if group is None:
            continue
        if group <= _SET_URLS:
            start, end = token.span(group)
            found.append((start, end, False))
            continue
        depth += 1 if group == _OPENED else -1
        if not depth:
            return token.end()
    return len(text)


def add_css_references(text: str, references: References) -> None:
    """What a style sheet, or the `style` of an element, loads: all of it is EMBED."""
    for start, end, _ in css_urls(text):
        references.add(unescaped(text[start:end].strip()), Hop.EMBED)


def charset_rule(content: bytes) -> str:
    """The charset that a style sheet names itself; '' if none. One that is UTF-16 cannot be, so it is UTF-8."""
    match = _CHARSET_RULE.match(content)
    label = match[1].decode("latin-1").lower() if match else ""
    return "utf-8" if label.startswith("utf-16") else label


def unescaped(text: str) -> str:
    r"""Escapes undone: `\20` is a space, `\(` a parenthesis, a line break after a backslash nothing."""
    return _ESCAPE.sub(_meant, text) if "\\" in text else text


def _meant(match: re.Match[str]) -> str:
    if match[1]:
        number = int(match[1], 16)
        return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    return match[2] if match[2] and match[2] not in "\n\r\f" else ""
