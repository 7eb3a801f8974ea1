"""The status and the header fields of two responses."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from holdfast.formats.record import Headers
from holdfast.web.ui.comparison.side import Side

USUAL = frozenset(  # differ from one response to the next, even if the page does not change
    ("date", "age", "expires", "set-cookie", "etag", "x-request-id", "cf-ray", "x-served-by", "x-timer", "x-cache")
)
FIELDS_MAX = 1000


@dataclass(frozen=True, slots=True)
class HeaderRow:
    """A field by its name in lower case, and its values on each side."""

    name: str
    a: tuple[str, ...]
    b: tuple[str, ...]

    @property
    def state(self) -> str:
        """`same`, `added`, `removed` or `changed`."""
        if self.a == self.b:
            return "same"
        return "added" if not self.a else "removed" if not self.b else "changed"

    @property
    def is_usual(self) -> bool:
        """Whether it differs in most pairs of responses, and so says little."""
        return self.name in USUAL


@dataclass(frozen=True, slots=True)
class HeaderDifference:
    """Status and fields; those that differ first."""

    a_status: int
    b_status: int
    rows: list[HeaderRow]

    @property
    def changed(self) -> int:
        return sum(row.state != "same" for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        rows = [asdict(row) | {"state": row.state, "is_usual": row.is_usual} for row in self.rows]
        return {"status": [self.a_status, self.b_status], "changed": self.changed, "fields": rows}


def header_difference(a: Side, b: Side) -> HeaderDifference:
    old, new = _by_name(a.headers), _by_name(b.headers)
    rows = [HeaderRow(name, old.get(name, ()), new.get(name, ())) for name in sorted(old.keys() | new.keys())]
    rows.sort(key=lambda row: (row.state == "same", row.is_usual))
    return HeaderDifference(a.status, b.status, rows)


def _by_name(headers: Headers) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items()[:FIELDS_MAX]:
        found[name.lower()] = (*found.get(name.lower(), ()), value)
    return found
