"""`srcset`: URLs with descriptors, `small.jpg 1x, large.jpg 2x`, split as the HTML Standard does.

A URL may hold commas, but not end with one; a descriptor may hold commas in parentheses.
"""

from __future__ import annotations

import re

CANDIDATES_MAX = 1000
_URL = re.compile(r"[\s,]*+(\S++)")
_DESCRIPTORS = re.compile(r"(?:[^,(]++|\([^)]*+\)?+)*+")


def urls_of_srcset(text: str) -> list[str]:
    """The URLs as written, at most `CANDIDATES_MAX`."""
    found: list[str] = []
    at = 0
    while len(found) < CANDIDATES_MAX and (match := _URL.match(text, at)):
        url, at = match[1], match.end()
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            descriptors = _DESCRIPTORS.match(text, at)
            assert descriptors is not None, "they may be empty, so there is always a match"
            at = descriptors.end()
        found.append(url)
    return found
