"""Facets and the timeline: exact counts of all matches by the values of a field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.errors import TooLarge
from holdfast.index.schema import short_type
from holdfast.query.language.fields import UNKNOWN_LANGUAGE
from holdfast.query.language.syntax import Compare, Expression, Match, canonical, conjunction
from holdfast.query.results import Facet, FacetValue, Month
from holdfast.query.snapshot import QuerySnapshot

if TYPE_CHECKING:
    import tantivy

_FIELDS = {
    "site": "host",
    "type": "mime",
    "lang": "lang",
    "status": "status",
    "year": "month",
    "collection": "collection",
}
_MONTHS = "month"
# tantivy rejects results with more than 65,000 values in all. So only as many are requested as are shown, except where
# several are combined here: types with one short name, months of a year.
_SUMMED = ("mime", _MONTHS)
_SUMMED_MAX = 30_000
_EVERY_VALUE = 2**32 - 1  # per segment: with fewer, counts of rare values would be approximate


def count_facets(
    snapshot: QuerySnapshot, query: tantivy.Query, names: Sequence[str], most: int, *, timeline: bool
) -> tuple[tuple[Facet, ...], tuple[Month, ...]]:
    """The facets in the requested order, `most` values each, and the months, in one pass over the matches.

    A field may have any number of values. Raises TooLarge if counting needs more memory than tantivy allows.
    """
    fields = {_FIELDS[name] for name in names} | ({_MONTHS} if timeline else set())
    if not fields:
        return (), ()
    asked = {field: _terms(field, most) for field in fields}
    try:
        found = snapshot.searcher.aggregate(snapshot.seen(query), asked)
    except ValueError as error:  # tantivy's own limit
        raise TooLarge(f"cannot count by {', '.join(names)}: {error}; leave facets out, or narrow the query") from None
    counted = {field: _counts(each) for field, each in found.items()}
    facets = tuple(_facet(name, counted[_FIELDS[name]], most) for name in names)
    months = sorted(counted[_MONTHS].items()) if timeline else ()
    return facets, tuple(Month(f"{month:06d}", count) for month, count in months)


def _terms(field: str, most: int) -> dict[str, Any]:
    """The aggregations; one value more than is shown, because the one for "none" is dropped."""
    size = _SUMMED_MAX if field in _SUMMED else most + 1
    return {"terms": {"field": field, "size": size, "segment_size": _EVERY_VALUE}}


def _counts(aggregation: dict[str, Any]) -> Counter[Any]:
    """Numbers come as integers or floats, whatever the field."""
    return Counter(
        {
            int(each["key"]) if isinstance(each["key"], float) else each["key"]: each["doc_count"]
            for each in aggregation["buckets"]
        }
    )


def _facet(name: str, counted: Counter[Any], most: int) -> Facet:
    values: Counter[str] = Counter()
    for value, count in counted.items():
        values[_value(name, value)] += count
    values.pop("", None)  # captures without a host, or without an HTTP status
    return facet_of(name, values, most)


def facet_of(name: str, values: Mapping[str, int], most: int) -> Facet:
    found = sorted(values.items(), key=lambda each: (-each[1], each[0]))[:most]
    if name == "year":
        found.sort()
    return Facet(name, tuple(FacetValue(value, count, canonical(_term(name, value))) for value, count in found))


def _value(name: str, value: Any) -> str:
    if name == "type":
        return short_type(value)
    if name == "year":
        return f"{value // 100:04d}"
    return "" if value == 0 else str(value)


def _term(name: str, value: str) -> Expression:
    if name == "year":
        return conjunction([Match("from", value), Match("to", value)])
    if name == "status":
        return Compare("status", "=", int(value))
    return Match(name, value or UNKNOWN_LANGUAGE)
