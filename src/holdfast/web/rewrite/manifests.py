"""Manifests of streamed media (HLS, DASH): the addresses of what a player requests next.

    HLS   a line that is not a tag is an address; tags name others as URI="..."
    DASH  <BaseURL>, <Location>, <PatchLocation>, and attributes of segments (templates such as $Number$ are kept)

Relative addresses stay: the player resolves them by the manifest's own address, which ends in its archived URL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from xml.sax.saxutils import escape, quoteattr

from holdfast.web.rewrite.addresses import Scene, rewrite

MODIFIER = "im_"  # what a player requests is never a page

_HLS_LINE = re.compile(rb"^[ \t]*+(?!#)([^\s#][^\r\n]*?)[ \t]*+\r?$", re.MULTILINE)
_HLS_URI = re.compile(rb'^(#[^\r\n]*?\b(?:X-ASSET-URI|X-ASSET-LIST|URI)=")([^"\r\n]*+)(")', re.MULTILINE)
_DASH_ELEMENT = re.compile(
    rb"(<(?:[\w.-]+:)?(?:BaseURL|Location|PatchLocation)(?:\s[^<>]*+)?>\s*+)([^<>]*?)(\s*+</)", re.IGNORECASE
)
_DASH_ATTRIBUTE = re.compile(
    rb"""(\s(?:media|initialization|index|sourceURL|bitstreamSwitching|xlink:href|href)\s*+=\s*+)("[^"<]*+"|'[^'<]*+')"""
)


def rewrite_hls(text: bytes, scene: Scene) -> bytes:
    """A playlist; whatever does not begin as one stays as it is."""
    if not text.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"#EXTM3U"):
        return text
    text = _HLS_URI.sub(lambda found: found[1] + _address(found[2], scene) + found[3], text)
    return _HLS_LINE.sub(lambda found: found[0].replace(found[1], _address(found[1], scene), 1), text)


def rewrite_dash(text: bytes, scene: Scene) -> bytes:
    """A media presentation description; anything else stays as it is."""
    if b"MPD" not in text:
        return text
    text = _DASH_ELEMENT.sub(lambda found: found[1] + _element(found[2], scene) + found[3], text)
    return _DASH_ATTRIBUTE.sub(lambda found: found[1] + _attribute(found[2], scene), text)


def _element(text: bytes, scene: Scene) -> bytes:
    return _changed(text, text, scene, escape)


def _attribute(quoted: bytes, scene: Scene) -> bytes:
    return _changed(quoted, quoted[1:-1], scene, quoteattr)


def _changed(old: bytes, text: bytes, scene: Scene, escaped: Callable[[str], str]) -> bytes:
    """`old` itself where the address needs no change, so that its spelling is kept."""
    plain = unescape(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    new = _address(plain, scene)
    return old if new == plain else escaped(new.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _address(reference: bytes, scene: Scene) -> bytes:
    if not reference.lower().startswith((b"http:", b"https:", b"/")):
        return reference
    text = reference.decode("utf-8", "surrogateescape")
    return rewrite(text, scene, MODIFIER).encode("utf-8", "surrogateescape")
