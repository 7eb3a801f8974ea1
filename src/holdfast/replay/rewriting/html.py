"""Pages rewritten so that a browser which shows them stays within the archive: links, what they embed, and their head.

    pieces ──► encoding told ──► (decoded, if markup cannot be read in it) ──► PageRewriter ──► pieces

Every byte outside of what is rewritten is kept. Nothing raises, whatever the bytes, and time grows with their number;
memory does not: see `page`. A page that comes as one piece is rewritten in one go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from holdfast.formats.charset import UTF_8
from holdfast.replay.rewriting.addresses import Scene
from holdfast.replay.rewriting.charset import codec_of, encoding_of, in_utf_8, is_decoded
from holdfast.replay.rewriting.elements import Setting
from holdfast.replay.rewriting.page import PageRewriter

PIECE_BYTES_MIN = 64 << 10  # smaller pieces are put together


class Html(NamedTuple):
    """A page as it is to be sent: the charset to declare, and the pieces, each made when it is asked for."""

    charset: str
    pieces: Iterator[bytes]


def rewrite_html(
    pieces: Iterable[bytes], scene: Scene, charset: str | None, head: bytes, *, is_xml: bool = False
) -> Html:
    """`charset` is what the HTTP header names; `head` is markup for the beginning of <head>, before all scripts."""
    gathered = _gathered(pieces)
    first = next(gathered, b"")
    second = next(gathered, None)  # so that a page of one piece is known to be whole
    encoding = encoding_of(first, charset, is_whole=second is None)
    if is_xml and encoding != UTF_8 and not charset and not is_decoded(encoding) and b"encoding" not in first[:100]:
        encoding = UTF_8  # as XML has it
    if scene.encoding != encoding:
        scene = replace(scene, encoding=encoding)
    setting = Setting(scene, head, codec_of(encoding), is_xml=is_xml)
    rest = (first,) if second is None else chain((first, second), gathered)
    read = in_utf_8(iter(rest), encoding)
    return Html(UTF_8 if is_decoded(encoding) else encoding, _rewritten(read, setting))


def _rewritten(pieces: Iterator[bytes], setting: Setting) -> Iterator[bytes]:
    page = PageRewriter(setting)
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
