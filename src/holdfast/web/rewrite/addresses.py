"""Archive addresses: changes a reference in a page to an address within the archive.

    http://example.com/a.png     ──►   /main/20200102030405im_/http://example.com/a.png
    //example.com/a.png          ──►   /main/20200102030405im_/https://example.com/a.png   (scheme of the page)
    /a.png                       ──►   /main/20200102030405im_/https://example.com/a.png   (origin of the page)
    ../../../a.png               ──►   the same, where there are more `..` than the page has directories
    a.png, ../a.png, ?b, #c      ──►   as they are: a page's own address ends in its URL, so browsers join them right
    data:, mailto:, blob: ...    ──►   as they are

If a prefix is enough, the reference itself is kept: the browser handles its escapes, case and query encoding. Unusual
references are resolved by the URL Standard.

Never raises; keeps no state but bounded caches. Any thread may call it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import ada_url

from holdfast.formats.html.charset import UTF_8
from holdfast.formats.html.links.join import query_codec, stripped, with_encoded_query
from holdfast.urls.parse import parse, scalar_values

MODIFIERS = ("id_", "mp_", "js_", "cs_", "im_", "if_", "fr_", "oe_")
_HTTP = ("http://", "https://")
_BASES_CACHED = 4096
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*+:")
_PLAIN = re.compile(r"https?://[a-zA-Z0-9][a-zA-Z0-9.\-]*+(?::[0-9]++)?+/")  # needs no normalization
_BARE_HOST = re.compile(r"https?://[a-zA-Z0-9][a-zA-Z0-9.\-]*+(?::[0-9]++)?+")
_CLIMB = re.compile(r"(?:\.\./)++")
_UP = frozenset(("..", ".%2e", "%2e.", "%2e%2e"))
_REWRITTEN = re.compile(rf"[0-9]{{0,14}}(?:{'|'.join(MODIFIERS)})/")


@dataclass(frozen=True, slots=True)
class Scene:
    """The context of references: collection and time of the replay, and the URL of the document or resource."""

    prefix: str  # of the collection: '/main/'
    timestamp: str  # of the page's capture, 14 digits
    url: str  # absolute
    base: str = ""  # what references are relative to; the URL itself if ''
    modifier: str = "mp_"  # of the request; redirects keep it
    encoding: str = UTF_8  # of the document: queries are written in it

    def start(self, modifier: str) -> str:
        """The prefix of an archived URL."""
        return f"{self.prefix}{self.timestamp}{modifier}/"

    @property
    def effective_base(self) -> str:
        return self.base or self.url

    def rebased(self, reference: str) -> Scene:
        """The scene after `<base href="reference">`."""
        joined = parse(stripped(reference), self.url)
        return replace(self, base=joined.href) if joined and joined.scheme in ("http", "https") else self


class BaseUrl(NamedTuple):
    """The parts of a base URL that references inherit; empty and 0 unless it is http or https."""

    origin: str = ""
    scheme: str = ""
    depth: int = 0  # directories below the root


@lru_cache(_BASES_CACHED)
def base_url(base: str) -> BaseUrl:
    url = parse(base)
    if url is None or url.scheme not in ("http", "https"):
        return BaseUrl()
    origin = f"{url.scheme}://{url.host}" + (f":{url.port}" if url.port else "")
    return BaseUrl(origin, f"{url.scheme}:", url.path.count("/") - 1)


def rewrite(reference: str, scene: Scene, modifier: str) -> str:
    """The reference rewritten so that the browser stays within the archive; unchanged if it already does."""
    text = stripped(reference)
    first = text[:1]
    if first in ("/", "\\"):
        if text[1:2] in ("/", "\\"):
            return _absolute(reference, base_url(scene.effective_base).scheme + text, scene, modifier)
        return _rooted(reference, text, scene, modifier)
    if first in ("", "#", "?"):
        return reference
    scheme = _SCHEME.match(text)
    if scheme is not None:
        if scheme[0].lower() in ("http:", "https:"):
            return _absolute(reference, text, scene, modifier)
        return reference
    return _climbing(reference, text, scene, modifier) if _has_dots(text) else reference


def resolved(reference: str, scene: Scene, modifier: str) -> str | None:
    """Like `rewrite`, but absolute even if the reference is relative; None unless it is an http or https URL."""
    rewritten = rewrite(reference, scene, modifier)
    if rewritten != reference or is_rewritten(rewritten, scene):
        return rewritten
    return _by_standard(stripped(reference), scene, modifier)


def is_rewritten(text: str, scene: Scene) -> bool:
    """True for an address of this archive."""
    return text.startswith(scene.prefix) and _REWRITTEN.match(text, len(scene.prefix)) is not None


def _rooted(reference: str, text: str, scene: Scene, modifier: str) -> str:
    if is_rewritten(text, scene):
        return reference
    origin = base_url(scene.effective_base).origin
    if not origin or _has_dots(text):
        return _by_standard(text, scene, modifier) or reference
    return scene.start(modifier) + origin + text


def _absolute(reference: str, text: str, scene: Scene, modifier: str) -> str:
    if _PLAIN.match(text):
        if not _has_dots(text):
            return scene.start(modifier) + text
    elif _BARE_HOST.fullmatch(text):
        return f"{scene.start(modifier)}{text}/"
    return _by_standard(text, scene, modifier) or reference


def _climbing(reference: str, text: str, scene: Scene, modifier: str) -> str:
    """A relative reference stays as it is unless it has more `..` than its base has directories."""
    climb = _CLIMB.match(text)
    if climb is not None and not _has_dots(text[climb.end() :]):  # as nearly always
        base = base_url(scene.effective_base)
        if climb.end() // len("../") <= base.depth:
            return reference
        if base.origin:
            return f"{scene.start(modifier)}{base.origin}/{text[climb.end() :]}"
    return _by_standard(text, scene, modifier) or reference if _leaves_root(text, scene) else reference


def _by_standard(text: str, scene: Scene, modifier: str) -> str | None:
    codec = query_codec(scene.encoding)
    if codec and not text.isascii():
        text = with_encoded_query(text, codec)
    try:
        url: str = ada_url.join_url(scalar_values(scene.effective_base), scalar_values(text))
    except ValueError:
        return None
    return scene.start(modifier) + url if url.startswith(_HTTP) else None


def _leaves_root(text: str, scene: Scene) -> bool:
    """Whether a relative reference with dots in it has more `..` than its base has directories."""
    depth = base_url(scene.effective_base).depth
    path = text.partition("#")[0].partition("?")[0].replace("\\", "/")
    for segment in path.split("/")[:-1]:
        if segment.lower() in _UP:
            depth -= 1
            if depth < 0:
                return True
        elif segment.lower() not in (".", "%2e"):
            depth += 1
    return path.rpartition("/")[2].lower() in _UP and depth < 1


def _has_dots(text: str) -> bool:
    """Whether there may be a `..` to resolve."""
    return ".." in text or ("%2" in text and "%2e" in text.lower())
