"""Two captures compared: what a page said, linked to and was sent with, then and later (N9).

    two captures ──► side       status, headers, decoded content of each; if it cannot be read, the reason
                       │
                       ├─ text       main text by lines, and by words within changed lines
                       │    └─ sequences   the differences of any two sequences, in bounded time
                       ├─ links      added, removed, kept
                       ├─ headers    status and fields
                       └─ picture    width and height of images
                       ▼
                     Comparison  as a value, and as JSON

Guarantees: whatever the bytes are, time and memory are bounded. Where a limit was reached the result says so; it is
then a correct difference, though not the shortest. No server is needed: `compare_captures` takes an archive's records,
`compare` finds the captures as replay does, under the same access rules.
"""

from __future__ import annotations

from holdfast.web.ui.comparison.compare import VIEWS, Comparison, compare, compare_captures
from holdfast.web.ui.comparison.headers import HeaderDifference, HeaderRow
from holdfast.web.ui.comparison.links import LinkDifference
from holdfast.web.ui.comparison.side import Side
from holdfast.web.ui.comparison.text import TextDifference, TextLine

__all__ = [
    "VIEWS",
    "Comparison",
    "HeaderDifference",
    "HeaderRow",
    "LinkDifference",
    "Side",
    "TextDifference",
    "TextLine",
    "compare",
    "compare_captures",
]
