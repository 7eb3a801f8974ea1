"""`srcset`: URLs with descriptors, `small.jpg 1x, large.jpg 2x`, each URL rewritten and all else kept."""

from __future__ import annotations

from holdfast.formats.links.srcset import places_in_srcset
from holdfast.replay.rewriting.addresses import Scene, rewrite


def rewrite_srcset(text: str, scene: Scene, modifier: str) -> str:
    parts: list[str] = []
    written = 0
    for start, end in places_in_srcset(text):
        parts += (text[written:start], rewrite(text[start:end], scene, modifier))
        written = end
    return "".join(parts) + text[written:] if parts else text
