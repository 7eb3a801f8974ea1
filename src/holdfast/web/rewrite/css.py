r"""Style sheets: `url(...)`, `src(...)`, `@import "..."` and the strings of `image-set(...)`.

    @import "/a.css"               ──►   @import "/main/20200102030405cs_/http://example.com/a.css"
    url( '//x/a\.png' )            ──►   url( '/main/20200102030405im_/http://x/a\.png' )

One pattern takes comments and strings as a whole, so that a `url(` within them is none. Bytes in, bytes out: what is
not rewritten keeps its bytes, in whatever ASCII-compatible encoding; `@charset` stays and stays true. Never raises.
"""

from __future__ import annotations

import re

from holdfast.web.rewrite.addresses import Scene, rewrite

_STRING = rb"""(?:"((?:[^"\\\n\r\f]++|\\(?s:.))*+)"?+|'((?:[^'\\\n\r\f]++|\\(?s:.))*+)'?+)"""
_QUIET_STRING = rb"""(?:"(?:[^"\\\n\r\f]++|\\(?s:.))*+"?+|'(?:[^'\\\n\r\f]++|\\(?s:.))*+'?+)"""
_BARE = rb"""((?:[^"'()\\\s]++|\\(?s:.))++)"""
_COMMENT = rb"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+"
_GAP = rb"(?:\s++|" + _COMMENT + rb")*+"
_NEEDED = re.compile(rb"url\(|@import|image-set\(|src\(", re.IGNORECASE)
# What has been looked at is taken, whole or not: nothing is read twice.
_TOKENS = re.compile(
    _COMMENT
    + (rb"|@namespace\b[^;{}]*+|@import" + _GAP + rb"(?:(?:url\(\s*+)?+(?:" + _STRING + rb"|" + _BARE + rb"))?+")
    + (rb"|(?:url|(?<![\w-])src)\(\s*+(?:" + _STRING + rb"|" + _BARE + rb")?+")
    + (rb"|image-set(\()|" + _QUIET_STRING + rb"|\\(?s:.)"),
    re.IGNORECASE,
)
_IMPORTS = 3  # groups up to this one are of @import
_IMAGE_SET = 7
_WITHIN_SET = re.compile(
    (_COMMENT + rb"|type\(" + _GAP + _QUIET_STRING + rb"?+")
    + (rb"|url\(\s*+(?:" + _STRING + rb"|" + _BARE + rb")?+|" + _STRING + rb"|(\()|(\))|\\(?s:.)"),
    re.IGNORECASE,
)
_SET_URLS, _OPENED, _CLOSED = 5, 6, 7
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|\s)?|\r\n|([\s\S]))")
_TO_ESCAPE = re.compile(r"[\"'()\\\s]")


def rewrite_css(text: bytes, scene: Scene) -> bytes:
    """A style sheet, or the `style` of an element, with its references in the archive."""
    if not _NEEDED.search(text):
        return text
    parts: list[bytes] = []
    at = written = 0
    while token := _TOKENS.search(text, at):
        at, group = token.end(), token.lastindex
        if group is None:
            continue
        if group == _IMAGE_SET:
            parts.append(text[written:at])
            at = written = _rewrite_set(text, at, scene, parts)
            continue
        start, end = token.span(group)
        parts += (text[written:start], _rewritten(text[start:end], scene, "cs_" if group <= _IMPORTS else "im_"))
        written = end
    parts.append(text[written:])
    return b"".join(parts)


def _rewrite_set(text: bytes, at: int, scene: Scene, parts: list[bytes]) -> int:
    """The inside of `image-set(`, where strings are URLs too; the position behind it."""
    written, depth = at, 1
    while depth and (token := _WITHIN_SET.search(text, at)):
        at, group = token.end(), token.lastindex
        if group is None:
            continue
        if group > _SET_URLS:  # parentheses are counted
            depth += 1 if group == _OPENED else -1
            continue
        start, end = token.span(group)
        parts += (text[written:start], _rewritten(text[start:end], scene, "im_"))
        written = end
    parts.append(text[written:at])
    return at


def _rewritten(raw: bytes, scene: Scene, modifier: str) -> bytes:
    text = raw.decode("utf-8", "surrogateescape")
    meant = _ESCAPE.sub(_meant, text) if "\\" in text else text
    new = rewrite(meant, scene, modifier)
    if new == meant:
        return raw
    if new.endswith(meant):  # put before it: its escapes stay
        return _escaped(new[: len(new) - len(meant)]) + raw
    return _escaped(new)


def _escaped(text: str) -> bytes:
    return _TO_ESCAPE.sub(lambda match: f"\\{ord(match[0]):x} ", text).encode("utf-8", "surrogateescape")


def _meant(match: re.Match[str]) -> str:
    if match[1]:
        number = int(match[1], 16)
        return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    return match[2] if match[2] and match[2] not in "\n\r\f" else ""
