"""Pages rewritten: links, embedded resources, and insertions into their head.

    bytes ──► encoding ──► (as UTF-8, if markup cannot be read in it) ──► walk: skip, mark, stop ──► bytes

All other bytes are kept. Never raises; time is linear.

The encoding is the one a browser would choose:

    a byte-order mark  >  the charset of the HTTP header  >  <meta charset>  >  UTF-8 if it is that  >  windows-1252

It is declared in the response header: the inserted markup may push a <meta> out of the bytes that browsers scan. Pages
in an encoding that is not a superset of ASCII are sent as UTF-8; others keep their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from holdfast.formats.html.charset import FALLBACK, UTF_8, codec_of, encoding_by_mark, encoding_named
from holdfast.web.rewrite.addresses import Scene, base_url
from holdfast.web.rewrite.elements import PageState, rewrite_attributes, rewrite_inline
from holdfast.web.rewrite.markup import (
    ATTRIBUTE,
    ENDS,
    HEAD,
    MARKED,
    PROLOGUE,
    STOP,
    TAG,
    Tag,
    escaped,
    raw_text_end,
    walk_pattern,
)

INLINE_BYTES_MAX: Final = 4 << 20  # longer scripts and styles within a page stay as they are
_SCENES_CACHED = 1024
_CODECS_CACHED = 64
_PRESCAN_BYTES = 64 << 10  # browsers look at the first 1,024 bytes, and again when they meet a <meta> later
_DECODED = {"UTF-16LE": "utf-16-le", "UTF-16BE": "utf-16-be", "ISO-2022-JP": "iso2022_jp"}
_META = re.compile(rb"<!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>)?+)|<meta(?=[\t\n\f\r />])")
_IN_CONTENT = re.compile(rb"charset[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\t\n\f\r ;\"']++))")
_XML = re.compile(rb"<\?xml\s[^>]*?\bencoding\s*+=\s*+[\"']([\w.:\-]++)[\"']")
_Match = Callable[[bytes, int, int], re.Match[bytes] | None]


class Html(NamedTuple):
    """A rewritten page, and the charset to declare."""

    charset: str
    content: bytes


def rewrite_html(content: bytes, scene: Scene, charset: str, head: bytes, *, is_xml: bool = False) -> Html:
    """`charset` is what the HTTP header names, '' if nothing; `head` is markup that goes first into <head>."""
    encoding = _encoding_of(content, charset)
    if is_xml and not charset and encoding not in (UTF_8, *_DECODED) and b"encoding" not in content[:100]:
        encoding = UTF_8  # the default of XML
    if scene.encoding != encoding:
        scene = replace(scene, encoding=encoding)
    state = PageState(scene, head, _value_codec(encoding), _rewritten, is_xml=is_xml)
    if encoding in _DECODED:
        text = content.decode(_DECODED[encoding], "replace").removeprefix("\ufeff")
        return Html(UTF_8, _rewritten(text.encode("utf-8", "replace"), state))
    return Html(encoding, _rewritten(content, state))


def _rewritten(content: bytes, state: PageState) -> bytes:
    return _PageRewriter(content, state).rewritten()


class _PageRewriter:
    """Rewrites one page. For one thread."""

    def __init__(self, data: bytes, state: PageState) -> None:
        self._data, self._low = data, data.lower()
        self._state = state
        self._was_drawing = False  # within <svg> or <math>, as of `_looked`
        self._looked = 0
        self._out: list[bytes] = []
        self._enter(state.scene)

    def rewritten(self) -> bytes:
        self._walk(self._prologue(), len(self._data))
        return b"".join(self._out)

    def _enter(self, scene: Scene) -> None:
        """Selects pattern and marks for the base URL."""
        self._match, self._marks = _fitted(scene.prefix, scene.timestamp, scene.effective_base)

    def _prologue(self) -> int:
        """Inserts our markup at the start of <head>, or where an implied head begins."""
        passed = PROLOGUE.match(self._low)
        assert passed is not None, "it may be empty"
        head = HEAD.match(self._low, passed.end())
        self._walk(0, passed.end())
        if head is None:
            self._out.append(self._state.head)
            return passed.end()
        tag = self._data[head.start() : head.end()]
        if self._state.is_xml and tag.endswith(b"/>"):
            self._out += (tag[:-2], b">", self._state.head, b"</head>")
        else:
            self._out += (tag, self._state.head)
        return head.end()

    def _walk(self, at: int, end: int) -> None:
        """Writes everything up to `end`, rewritten."""
        data, low, match, marks, add = self._data, self._low, self._match, self._marks, self._out.append
        written = at
        while True:
            found = match(low, at, end)
            assert found is not None, "the pattern takes anything"
            group = found.lastindex
            if group is None:
                break
            at = found.start(group)
            add(data[written:at])
            if group != STOP:
                add(marks[group])
                written, at = at, found.end()
            else:
                written = at = self._token(at, end)
                match, marks = self._match, self._marks
        add(data[written:end])

    def _token(self, at: int, end: int) -> int:
        """Writes the token at `at`, with its content if that is raw text; returns where it ends."""
        found = TAG.match(self._low, at, end)
        if found is None:
            after = self._cdata_end(at, end) if self._low.startswith(b"<![cdata[", at) else end
            self._out.append(self._data[at:after])
            return after
        tag = Tag(found, self._data, self._state.codec)
        after = found.end()
        has_content = tag.name in ENDS and not (tag.is_closed and (self._state.is_xml or self._is_drawing(at)))
        scene = self._state.scene
        rewrite_attributes(tag, self._state)
        self._out += tag.written()
        if self._state.scene is not scene:
            self._enter(self._state.scene)
        if not has_content:
            return after
        close = raw_text_end(self._low, after, tag.name)
        if close < 0:
            close = end
        content = self._data[after:close]
        if tag.name in (b"script", b"style") and len(content) <= INLINE_BYTES_MAX:
            content = rewrite_inline(tag, content, self._state.scene)
        self._out.append(content)
        return close

    def _cdata_end(self, at: int, end: int) -> int:
        """In XML and drawings a section ends with `]]>`; elsewhere it is a comment up to the next `>`."""
        is_section = self._data.startswith(b"<![CDATA[", at) and (self._state.is_xml or self._is_drawing(at))
        mark = b"]]>" if is_section else b">"
        close = self._low.find(mark, at, end)
        return close + len(mark) if close >= 0 else end

    def _is_drawing(self, at: int) -> bool:
        """True within <svg> or <math>, where CDATA and `/>` are significant."""
        low, start = self._low, self._looked
        opened = max(low.rfind(b"<svg", start, at), low.rfind(b"<math", start, at))
        closed = max(low.rfind(b"</svg", start, at), low.rfind(b"</math", start, at))
        if opened != closed:
            self._was_drawing = opened > closed
        self._looked = at
        return self._was_drawing


@lru_cache(_SCENES_CACHED)
def _fitted(prefix: str, timestamp: str, base: str) -> tuple[_Match, tuple[bytes, ...]]:
    """The pattern's match, and what is to be written at its marks."""
    here = base_url(base)
    marks = [""]
    for modifier in MARKED:
        start = f"{prefix}{timestamp}{modifier}/"
        marks += (start + here.origin, start, start + here.scheme) if here.origin else ("", start, "")
    pattern = walk_pattern(prefix.encode("ascii", "replace"), here.depth)
    return pattern.match, tuple(escaped(mark).encode("ascii", "xmlcharrefreplace") for mark in marks)


def _encoding_of(content: bytes, label: str) -> str:
    """The standard's name of the encoding of a page; `label` is the charset of the HTTP header."""
    named = encoding_by_mark(content) or encoding_named(label) or _declared(content[:_PRESCAN_BYTES].lower())
    if named or content.isascii():
        return named or FALLBACK
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return FALLBACK
    return UTF_8


def _declared(low: bytes) -> str:
    """The encoding that a <meta> or the XML declaration names; '' if none does. `low` is in lower case."""
    at = 0
    while found := _META.search(low, at):
        at = found.end()
        if not found[0].startswith(b"<meta"):
            continue
        tag = TAG.match(low, found.start())
        if tag is None:  # it has no end, so nothing after it is a tag
            break
        at = tag.end()
        if encoding := encoding_named(_label(tag)):
            if encoding.startswith("UTF-16"):  # it could not have been read
                return UTF_8
            return FALLBACK if encoding == "x-user-defined" else encoding
    xml = _XML.match(low)
    return encoding_named(xml[1].decode("ascii", "replace")) if xml else ""


def _label(tag: re.Match[bytes]) -> str:
    """What a <meta> says of the encoding; '' if nothing."""
    values: dict[bytes, bytes] = {}
    for attribute in ATTRIBUTE.finditer(tag.string, tag.start(2), tag.end(2)):
        values.setdefault(attribute[1], attribute[attribute.lastindex or 1] if attribute.lastindex != 1 else b"")
    label = values.get(b"charset", b"")
    if not label and values.get(b"http-equiv", b"").strip() == b"content-type":
        content = _IN_CONTENT.search(values.get(b"content", b""))
        label = next(filter(None, content.groups()), b"") if content else b""
    return label.decode("ascii", "replace").strip()


@lru_cache(_CODECS_CACHED)
def _value_codec(encoding: str) -> str:
    """Python's name of the codec by which values of attributes are read and written."""
    if encoding == UTF_8 or encoding in _DECODED:
        return "utf-8"
    name = codec_of(encoding)
    try:
        "&".encode(name)
    except (LookupError, UnicodeError):
        return "latin-1"
    return name
