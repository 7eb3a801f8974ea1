"""Style sheets: `url(...)` and `@import "..."`; all of it is loaded by browsers, so EMBED.

Read by one pattern that takes comments and strings as a whole, so that a `url(` within them is none. What it has looked
at it takes, closed or not: no text is read twice, however broken.
"""

from __future__ import annotations

import re

from holdfast.formats.html.links.references import Hop, References

_STRING = r""""((?:[^"\\\n\r\f]++|\\(?s:.))*+)"?+|'((?:[^'\\\n\r\f]++|\\(?s:.))*+)'?+"""
_BARE = r"""((?:[^"'()\\\s]++|\\(?s:.))*+)"""
_TOKENS = re.compile(
    rf"/\*(?s:(?:.*?\*/|.*))"
    rf"|@namespace\b[^;{{}}]*+"
    rf"|(?P<import>@import)(?:\s|/\*[^*]*+\*/)*+(?:{_STRING})"
    rf"|url\(\s*+(?:{_STRING}|{_BARE})"
    rf"""|"(?:[^"\\\n\r\f]++|\\(?s:.))*+"?+|'(?:[^'\\\n\r\f]++|\\(?s:.))*+'?+"""
    r"|\\(?s:.)",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|\s)?|\r\n|([\s\S]))")
_CHARSET_RULE = re.compile(rb'@charset "([^"]{1,40})";')


def add_css_references(text: str, references: References) -> None:
    """What a style sheet, or the `style` of an element, loads."""
    for token in _TOKENS.finditer(text):
        if token.lastindex is not None:
            reference = next(filter(None, token.groups()[1:]), "")
            references.add(unescaped(reference.strip()), Hop.EMBED)


def charset_rule(content: bytes) -> str:
    """The charset that a style sheet names itself; '' if none. One that is UTF-16 cannot be, so it is UTF-8."""
    match = _CHARSET_RULE.match(content)
    label = match[1].decode("latin-1").lower() if match else ""
    return "utf-8" if label.startswith("utf-16") else label


def unescaped(text: str) -> str:
    r"""Escapes undone: `\20` is a space, `\(` a parenthesis, a line break behind a backslash nothing."""
    return _ESCAPE.sub(_meant, text) if "\\" in text else text


def _meant(match: re.Match[str]) -> str:
    if match[1]:
        number = int(match[1], 16)
        return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    return match[2] if match[2] and match[2] not in "\n\r\f" else ""
