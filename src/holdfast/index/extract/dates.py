"""Dates that documents give themselves, as 14 digits."""

from __future__ import annotations

import re

# 2003-04-15, 2003-04-15T08:13:06Z, 20030415081306, D:20030415081306+02'00'; what is missing counts as its first.
_DATE = re.compile(
    r"\s*(?:D:)?((?:19|20)\d\d)-?(0[1-9]|1[0-2])(?:-?(0[1-9]|[12]\d|3[01]))?"
    r"(?:[T ]?([01]\d|2[0-3]):?([0-5]\d)(?::?([0-5]\d))?)?(?!\d)",
    re.ASCII,
)
_DEFAULTS = ("", "", "01", "00", "00", "00")


def document_date(text: str) -> str:
    """The date at the start of a text, in the forms of HTML, PDF and office files; '' if there is none.

    Zones are left aside: it is the day that people ask for.
    """
    match = _DATE.match(text)
    if match is None:
        return ""
    return "".join(part or default for part, default in zip(match.groups(), _DEFAULTS, strict=True))
