"""Relations: what the `rel` of a <link> or a Link field makes of its target."""

from __future__ import annotations

from functools import lru_cache

from holdfast.formats.links.hops import Hop

_RELATIONS_CACHED = 1024

_LOADED = frozenset(
    [
        "stylesheet",
        "icon",
        "apple-touch-icon",
        "apple-touch-icon-precomposed",
        "apple-touch-startup-image",
        "mask-icon",
        "fluid-icon",
        "preload",
        "modulepreload",
        "manifest",
        "image_src",
    ]
)
_NO_DOCUMENT = frozenset(["dns-prefetch", "preconnect", "pingback", "webmention", "edituri"])


@lru_cache(_RELATIONS_CACHED)
def hop_of(relation: str) -> str:
    """EMBED for what the page needs, '' for what is not to be fetched, else RELATION. Several words count as a set."""
    words = frozenset(relation.lower().split())
    if words & _LOADED:
        return Hop.EMBED
    return "" if words & _NO_DOCUMENT else Hop.RELATION
