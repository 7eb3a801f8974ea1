"""References of a document, as written, before they are joined to URLs.

Kept by hop, each text once, and without fragments: of a hundred links into one page one is joined. What cannot become a
link is dropped here, as cheaply as possible: fragments of the page itself, data, texts too long for a URL. A hop says
how a URL was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
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


LINKS_MAX = 20_000  # of a document; also the references kept of each hop
REFERENCE_CHARACTERS_MAX = 16_384  # longer ones no server takes
STRONGEST_FIRST = (Hop.REDIRECT, Hop.EMBED, Hop.LINK, Hop.RELATION, Hop.FORM, Hop.SPECULATIVE)


class References:
    """The references of a document, by hop. `by_hop` has them as the keys of dicts, in their order."""

    __slots__ = ("by_hop",)

    def __init__(self) -> None:
        self.by_hop: dict[str, dict[str, None]] = {hop: {} for hop in STRONGEST_FIRST}

    def add(self, reference: str | None, hop: str) -> None:
        """Ignores None, '' and what does not refer to another document."""
        if not reference or reference[0] == "#" or len(reference) > REFERENCE_CHARACTERS_MAX:
            return
        if reference.startswith("data:"):
            return
        kept = self.by_hop[hop]
        if len(kept) < LINKS_MAX:
            kept[reference.partition("#")[0]] = None

    def add_all(self, references: Iterable[str], hop: str) -> None:
        """As `add` of each, but for many."""
        whole = dict.fromkeys([each if "#" not in each else each[: each.index("#")] for each in references])
        whole.pop("", None)
        kept = self.by_hop[hop]
        if len(kept) + len(whole) > LINKS_MAX or (whole and max(map(len, whole)) > REFERENCE_CHARACTERS_MAX):
            short = (each for each in whole if len(each) <= REFERENCE_CHARACTERS_MAX and each not in kept)
            whole = dict.fromkeys(islice(short, LINKS_MAX - len(kept)))
        kept.update(whole)
