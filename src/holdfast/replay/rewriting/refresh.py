"""Refresh: `5; url=/next`, in a `<meta>` and as a field of a response; read as the HTML Standard does."""

from __future__ import annotations

import re

from holdfast.replay.rewriting.addresses import Scene, rewrite

_REFRESH = re.compile(
    r"\s*+[\d.]*+(?:\s*+[;,]\s*+|\s++)(?:url\s*+=\s*+)?+(?:\"([^\"]*+)|'([^']*+)|(.++))", re.IGNORECASE | re.DOTALL
)


def rewrite_refresh(text: str, scene: Scene, modifier: str) -> str:
    """Leads to the archive's capture of what it led to; one without a URL loads the page again, and stays."""
    match = _REFRESH.match(text)
    if match is None or match.lastindex is None:
        return text
    start, end = match.span(match.lastindex)
    return text[:start] + rewrite(text[start:end], scene, modifier) + text[end:]
