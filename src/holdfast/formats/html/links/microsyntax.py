"""Microsyntaxes of the HTML Standard that contain URLs: `srcset` and refresh.

    srcset    small.jpg 1x, large.jpg 2x          in <img>, <source> and <link imagesrcset>
    refresh   5; url=/next                        in <meta http-equiv> and as a field of a response

Both give where the URLs stand, so that links can be read and rewritten by the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

CANDIDATES_MAX = 1000
# In srcset, a URL may hold commas but not end with one; a descriptor may hold commas in parentheses.
_URL = re.compile(r"[\t\n\f\r ,]*+([^\t\n\f\r ]++)")
_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?+)*+")
# A number, then `;`, `,` or a space, then `url=` or not, then the URL, in quotes or not.
_REFRESH = re.compile(
    r"\s*+[\d.]*+(?:\s*+[;,]\s*+|\s++)(?:url\s*+=\s*+)?+(?:\"([^\"]*+)|'([^']*+)|(.++))", re.IGNORECASE | re.DOTALL
)


def srcset_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the URLs of a srcset begin and end."""
    at = 0
    while match := _URL.match(text, at):
        url, at = match[1], match.end()
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            descriptors = _DESCRIPTORS.match(text, at)
            assert descriptors is not None, "they may be empty, so there is always a match"
            at = descriptors.end()
        yield match.start(1), match.start(1) + len(url)


def srcset_urls(text: str) -> list[str]:
    """The URLs as written, at most `CANDIDATES_MAX`."""
    return [text[start:end] for start, end in islice(srcset_spans(text), CANDIDATES_MAX)]


def refresh_span(text: str) -> tuple[int, int] | None:
    """Where the URL of a refresh begins and ends; None if there is none, so that the page itself is loaded again."""
    match = _REFRESH.match(text)
    return match.span(match.lastindex or 0) if match else None


def refresh_url(text: str) -> str:
    """The URL of a refresh; '' if there is none."""
    span = refresh_span(text)
    return text[slice(*span)].strip() if span else ""
