"""`srcset`: URLs with descriptors, `small.jpg 1x, large.jpg 2x`, each URL rewritten and all else kept."""

from __future__ import annotations

import re

from holdfast.replay.rewriting.addresses import Scene, rewrite

_URL = re.compile(r"[\t\n\f\r ,]*+([^\t\n\f\r ]++)")
_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?+)*+")


def rewrite_srcset(text: str, scene: Scene, modifier: str) -> str:
    """A URL may hold commas, but not end with one; a descriptor may hold commas in parentheses."""
    parts: list[str] = []
    at = written = 0
    while match := _URL.match(text, at):
        url, at = match[1], match.end()
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            descriptors = _DESCRIPTORS.match(text, at)
            assert descriptors is not None, "they may be empty, so there is always a match"
            at = descriptors.end()
        start = match.start(1)
        parts += (text[written:start], rewrite(url, scene, modifier))
        written = start + len(url)
    return "".join(parts) + text[written:] if parts else text
