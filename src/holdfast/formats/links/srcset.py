"""`srcset`: URLs with descriptors, `small.jpg 1x, large.jpg 2x`, split as the HTML Standard does.

A URL may hold commas, but not end with one; a descriptor may hold commas in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

CANDIDATES_MAX = 1000
_URL = re.compile(r"[\t\n\f\r ,]*+([^\t\n\f\r ]++)")
_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?+)*+")


def urls_of_srcset(text: str) -> list[str]:
    """The URLs as written, at most `CANDIDATES_MAX`."""
    return [text[start:end] for start, end in islice(places_in_srcset(text), CANDIDATES_MAX)]


def places_in_srcset(text: str) -> Iterator[tuple[int, int]]:
    """Where the URLs begin and end."""
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
