r"""Style sheets rewritten: the URLs of `url(...)`, `src(...)`, `@import "..."` and `image-set(...)`.

    @import "/a.css"               ──►   @import "/main/20200102030405cs_/http://example.com/a.css"
    url( '//x/a\.png' )            ──►   url( '/main/20200102030405im_/http://x/a\.png' )

Bytes that are not rewritten stay, in any ASCII-compatible encoding; `@charset` stays valid. Never raises.
"""

from __future__ import annotations

import re

from holdfast.formats.html.links.css import css_urls, unescaped
from holdfast.web.rewrite.addresses import Scene, rewrite

_TO_ESCAPE = re.compile(r"[\"'()\\\s]")


def rewrite_css(text: bytes, scene: Scene) -> bytes:
    """A style sheet, or the `style` of an element, with its references in the archive."""
    parts: list[bytes] = []
    written = 0
    for start, end, is_import in css_urls(text.decode("latin-1")):
        parts += (text[written:start], _rewritten(text[start:end], scene, "cs_" if is_import else "im_"))
        written = end
    return b"".join((*parts, text[written:])) if parts else text


def _rewritten(raw: bytes, scene: Scene, modifier: str) -> bytes:
    text = raw.decode("utf-8", "surrogateescape")
    meant = unescaped(text)
    new = rewrite(meant, scene, modifier)
    if new == meant:
        return raw
    if new.endswith(meant):  # only a prefix is added: the escapes stay
        return _escaped(new[: len(new) - len(meant)]) + raw
    return _escaped(new)


def _escaped(text: str) -> bytes:
    return _TO_ESCAPE.sub(lambda match: f"\\{ord(match[0]):x} ", text).encode("utf-8", "surrogateescape")
