"""Hops: how a URL was found."""

from __future__ import annotations

from typing import Final


class Hop:
    """How a URL was found; the letters are Heritrix's, which people know from its logs."""

    SEED: Final = "-"
    LINK: Final = "L"
    RELATION: Final = "l"  # stated in a head, for programs; a crawl follows it as a LINK
    EMBED: Final = "E"  # a requisite of a page
    REDIRECT: Final = "R"
    SPECULATIVE: Final = "X"  # looks like a URL in a script
    MANIFEST: Final = "M"  # a sitemap
    FORM: Final = "F"
    PREREQUISITE: Final = "P"  # robots.txt
