"""The canonical form of a URL: what a browser would request, so without the fragment."""

from __future__ import annotations

from holdfast.urls.parse import parsed_url


def canonical(url: str) -> str:
    """`url` as the WHATWG URL Standard writes it, without its fragment. What cannot be parsed is only stripped."""
    parsed = parsed_url(url)
    return url.strip() if parsed is None else parsed.href.partition("#")[0]
