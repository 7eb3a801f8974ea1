"""Pages rewritten as they stream through: links, embedded resources, and what is put into their head.

    pieces ──► encoding ──► (decoded, if markup cannot be read in it) ──► PageRewriter ──► pieces

    feed(piece) ──► rest of the last piece + piece ──► walk: skip, mark, stop ──► bytes out, and a new rest

Every byte outside of what is rewritten is kept. Never raises, whatever the bytes. Time grows with their number; memory
does not: between pieces at most one token is kept, a tag or an element whose content is a script or a style, and one
longer than `TOKEN_BYTES_MAX` is passed on as it is. However the pieces are cut, the result is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from holdfast.formats.html.charset import UTF_8
from holdfast.web.rewrite.addresses import Scene, base_url
from holdfast.web.rewrite.charset import encoding_of, in_utf_8, is_decoded, value_codec
from holdfast.web.rewrite.elements import PageState, rewrite_attributes
from holdfast.web.rewrite.inline import rewrite_inline
from holdfast.web.rewrite.markup import (
    COMMENT_END,
    END_BYTES_MAX,
    ENDS,
    HEAD,
    MARKED,
    NEVER,
    PROLOGUE,
    STOP,
    TAG,
    Tag,
    escaped,
    raw_text_end,
    walk_pattern,
)

TOKEN_BYTES_MAX: Final = 4 << 20
_SCENES_CACHED = 1024
_Match = Callable[[bytes, int, int], re.Match[bytes] | None]
_HEAD_BEGINS = re.compile(rb"<(?:!--|h(?:tml|ead)(?=[\t\n\f\r />]))|<[^>]*\Z")
_CDATA = b"<![cdata["
_CDATA_END = re.compile(rb"\]\]>")


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


class PageRewriter:
    """Rewrites one page. For one thread."""

    def __init__(self, state: PageState, token_bytes_max: int = TOKEN_BYTES_MAX) -> None:
        self._state = state
        state.rewrite_page = rewrite_page
        self._token_bytes_max = token_bytes_max
        self._needs_head = True
        self._until: re.Pattern[bytes] | None = None  # what ends the token that is passed on as it is
        self._was_drawing = False  # within <svg> or <math>, up to where was looked for them
        self._looked = 0
        self._out: list[bytes] = []
        self._data = self._low = b""
        self._enter(state.scene)

    def feed(self, data: bytes, *, final: bool) -> tuple[bytes, bytes]:
        """What can be sent, and what has to be given again before the next piece."""
        self._data, self._low = data, data.lower()
        self._looked = at = 0
        while at < len(data) or (final and self._needs_head and not self._until):
            before = (at, self._until, self._needs_head)
            if self._until:
                at = self._pass(at, final=final)
            elif self._needs_head:
                at = self._prologue(at, final=final)
            else:
                at = self._walk(at, len(data), final=final)
            if before == (at, self._until, self._needs_head):
                break
        if not final:
            self._is_drawing(at)
        sent = b"".join(self._out)
        self._out.clear()
        return sent, data[at:]

    # -- the walk -----------------------------------------------------------------------------------------------

    def _enter(self, scene: Scene) -> None:
        """Fits pattern and marks to what references are relative to."""
        self._match, self._marks = _fitted(scene.prefix, scene.timestamp, scene.effective_base)

    def _walk(self, at: int, end: int, *, final: bool) -> int:
        """Rewrites from here; where it could not go on."""
        data, low, match, marks, add = self._data, self._low, self._match, self._marks, self._out.append
        written = at
        while True:
            found = match(low, at, end)
            assert found is not None, "the pattern takes anything"
            group = found.lastindex
            if group is None:
                break
            if group != STOP:
                mark = found.start(group)
                add(data[written:mark])
                add(marks[group])
                written, at = mark, found.end()
                continue
            at = found.start(STOP)
            add(data[written:at])
            written = self._stopped(at, end, final=final)
            if written == at or self._until:
                return written
            at, match, marks = written, self._match, self._marks
        add(data[written:end])
        return end

    def _stopped(self, at: int, end: int, *, final: bool) -> int:
        """Writes the token at `at`, with its content if that is raw text; returns its end, `at` if it has none yet."""
        found = TAG.match(self._low, at, end)
        if found is None:
            return self._odd(at, end, final=final)
        tag = Tag(found, self._data, self._state.codec)
        after = found.end()
        name = tag.name
        if name not in ENDS or (tag.is_closed and (self._state.is_xml or self._is_drawing(at))):
            return self._write_tag(tag, after)
        close = raw_text_end(self._low, after, name)
        if close < 0:
            if not final and len(self._data) - at <= self._token_bytes_max:
                return at
            close = len(self._data)
            if not final or close - after > self._token_bytes_max:
                self._write_tag(tag, after)
                self._until = ENDS[name]
                return self._pass(after, final=final)
        content = self._data[after:close]
        self._write_tag(tag, after)
        if name in (b"script", b"style") and len(content) <= self._token_bytes_max:
            content = rewrite_inline(tag, content, self._state.scene)
        self._out.append(content)
        return close

    def _write_tag(self, tag: Tag, end: int) -> int:
        scene = self._state.scene
        rewrite_attributes(tag, self._state)
        self._out += tag.written()
        if self._state.scene is not scene:
            self._enter(self._state.scene)
        return end

    # -- what has no end, or another one ------------------------------------------------------------------------

    def _odd(self, at: int, end: int, *, final: bool) -> int:
        """A token that is none of the usual: what has no end yet, or a CDATA section."""
        if self._low.startswith(_CDATA, at):
            return self._cdata(at, end, final=final)
        if final:
            self._out.append(self._data[at:])
            return len(self._data)
        if len(self._data) - at <= self._token_bytes_max:
            return at
        if self._low.startswith(b"<!--", at):
            self._until = COMMENT_END
            return self._pass(at, final=False)
        self._out.append(self._data[at : at + self._token_bytes_max])
        return at + self._token_bytes_max

    def _cdata(self, at: int, end: int, *, final: bool) -> int:
        """In XML and drawings all to `]]>`; elsewhere a comment to the next `>`."""
        is_section = self._data.startswith(b"<![CDATA[", at) and (self._state.is_xml or self._is_drawing(at))
        close = self._low.find(b"]]>" if is_section else b">", at, end)
        if close >= 0:
            close += 3 if is_section else 1
        elif final:
            close = len(self._data)
        elif len(self._data) - at <= self._token_bytes_max:
            return at
        else:
            self._until = _CDATA_END
            return self._pass(at, final=False)
        self._out.append(self._data[at:close])
        return close

    def _pass(self, at: int, *, final: bool) -> int:
        """Passes on the token that is too long to be kept."""
        assert self._until is not None, "there is such a token"
        found = self._until.search(self._low, at)
        if found is not None:
            close = found.start() if found[0].startswith(b"</") else found.end()
            self._until = None
        elif final or self._until is NEVER:
            close = len(self._data)
        else:
            close = max(at, len(self._data) - END_BYTES_MAX)
        self._out.append(self._data[at:close])
        return close

    def _is_drawing(self, at: int) -> bool:
        """Whether `at` lies within <svg> or <math>: CDATA and `/>` mean something there."""
        low, start = self._low, self._looked
        opened = max(low.rfind(b"<svg", start, at), low.rfind(b"<math", start, at))
        closed = max(low.rfind(b"</svg", start, at), low.rfind(b"</math", start, at))
        if opened != closed:
            self._was_drawing = opened > closed
        self._looked = at
        return self._was_drawing

    # -- the head -----------------------------------------------------------------------------------------------

    def _prologue(self, at: int, *, final: bool) -> int:
        """Puts our own markup at the beginning of <head>, or where the head begins that is not written."""
        low = self._low
        passed = PROLOGUE.match(low, at)
        assert passed is not None, "it may be empty"
        end = passed.end()
        head = HEAD.match(low, end)
        if head is None and not final and self._may_be_head(end):
            return at
        if end > at:
            self._walk(at, end, final=final)
        if head is not None:
            end = self._head_tag(head)
        else:
            self._out.append(self._state.head)
        self._needs_head = False
        return end

    def _may_be_head(self, at: int) -> bool:
        """Whether what begins here is not whole yet, and may be a part of what stands before the first element."""
        if len(self._low) - at > self._token_bytes_max or len(self._low) > 2 * self._token_bytes_max:
            return False
        return at == len(self._low) or _HEAD_BEGINS.match(self._low, at) is not None

    def _head_tag(self, head: re.Match[bytes]) -> int:
        tag = self._data[head.start() : head.end()]
        if self._state.is_xml and tag.endswith(b"/>"):
            self._out += (tag[:-2], b">", self._state.head, b"</head>")
        else:
            self._out += (tag, self._state.head)
        return head.end()


def rewrite_page(data: bytes, state: PageState) -> bytes:
    """A page that is there as a whole."""
    sent, _ = PageRewriter(state).feed(data, final=True)
    return sent


PIECE_BYTES_MIN = 64 << 10  # smaller pieces are put together


class Html(NamedTuple):
    """A page as it is to be sent: the charset to declare, and the pieces, each made on demand."""

    charset: str
    pieces: Iterator[bytes]


def rewrite_html(pieces: Iterable[bytes], scene: Scene, charset: str, head: bytes, *, is_xml: bool = False) -> Html:
    """`charset` is what the HTTP header names, '' if nothing; `head` is markup that goes first into <head>."""
    gathered = _gathered(pieces)
    first = next(gathered, b"")
    second = next(gathered, None)  # so that a page of one piece is known to be whole
    encoding = encoding_of(first, charset, is_whole=second is None)
    if is_xml and encoding != UTF_8 and not charset and not is_decoded(encoding) and b"encoding" not in first[:100]:
        encoding = UTF_8  # as XML has it
    if scene.encoding != encoding:
        scene = replace(scene, encoding=encoding)
    state = PageState(scene, head, value_codec(encoding), is_xml=is_xml)
    rest = (first,) if second is None else chain((first, second), gathered)
    read = in_utf_8(iter(rest), encoding)
    return Html(UTF_8 if is_decoded(encoding) else encoding, _rewritten(read, state))


def _rewritten(pieces: Iterator[bytes], state: PageState) -> Iterator[bytes]:
    page = PageRewriter(state)
    rest, current = b"", next(pieces, b"")
    for piece in pieces:
        if len(current) < len(rest):  # a long token is looked at again only when there is twice as much of it
            current += piece
            continue
        sent, rest = page.feed(rest + current, final=False)
        if sent:
            yield sent
        current = piece
    sent, rest = page.feed(rest + current, final=True)
    assert not rest, "the last piece is sent as a whole"
    yield sent


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces that are worth the while."""
    small: list[bytes] = []
    size = 0
    for piece in pieces:
        small.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES_MIN:
            yield small[0] if len(small) == 1 else b"".join(small)
            small, size = [], 0
    if small:
        yield b"".join(small)
