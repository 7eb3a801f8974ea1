"""What the paper concludes, set against what is found here: table 6, and its sentences as ratios."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.webbase import paper
from benchmarks.webbase.paper import TABLE_3, TABLE_4, TABLE_6, Row
from benchmarks.webbase.run import WebbaseOutcome

# The least share of the best of a column that earns a sign.
SIGNS = (("++", 0.8), ("+", 0.4), ("+-", 0.15), ("-", 0.05), ("--", 0.0))


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence of the paper, as a ratio, there and here."""

    words: str
    paper: float
    here: float | None  # None: not measured

    @property
    def holds(self) -> bool | None:
        """Whether it points the same way here."""
        return None if self.here is None else (self.here >= 1) == (self.paper >= 1)


def findings(outcome: WebbaseOutcome) -> list[Finding]:
    return [
        _ratio(outcome, "a log streams faster than buckets", ("log", Row.STREAM), ("hash", Row.STREAM)),
        _ratio(outcome, "buckets find a page faster than a log", ("hash", Row.RANDOM), ("log", Row.RANDOM)),
        _ratio(
            outcome,
            "a log takes pages faster than buckets, one by one",
            ("log", Row.ADD_RANDOM),
            ("hash", Row.ADD_RANDOM),
        ),
        _ratio(
            outcome,
            "a log takes pages faster than buckets, buffered",
            ("log", Row.ADD_BUFFERED),
            ("hash", Row.ADD_BUFFERED),
        ),
        _ratio(
            outcome,
            "buckets take sorted pages faster than buffered ones",
            ("hash", Row.ADD_SORTED),
            ("hash", Row.ADD_BUFFERED),
        ),
        _ratio(
            outcome,
            "a hashed log takes pages faster than buckets",
            ("hashed-log", Row.ADD_BUFFERED),
            ("hash", Row.ADD_BUFFERED),
        ),
        _updates(outcome),
    ]


def _ratio(outcome: WebbaseOutcome, words: str, above: tuple[str, Row], below: tuple[str, Row]) -> Finding:
    (over, over_row), (under, under_row) = above, below
    there = TABLE_3[over][over_row] / TABLE_3[under][under_row]
    one, other = outcome.rate(over, over_row), outcome.rate(under, under_row)
    return Finding(words, there, one / other if one and other else None)


def _updates(outcome: WebbaseOutcome) -> Finding:
    words = "updating buckets takes longer from a log than from a hashed log"
    log, sorted_ = ("log", "hash"), ("hashed-log", "hash")
    one, other = outcome.table_4.get(log), outcome.table_4.get(sorted_)
    here = one.seconds["transfer"] / other.seconds["transfer"] if one and other else None
    return Finding(words, TABLE_4[log][1] / TABLE_4[sorted_][1], here)


def table_6(outcome: WebbaseOutcome) -> dict[str, tuple[str, str, str, str]]:
    """Signs for each configuration, by what was measured: a share of the best in its column. Empty: not measured."""
    raw = {name: _measured(outcome, *organizations) for name, (organizations, _) in TABLE_6.items()}
    best = [max((each[column] for each in raw.values()), default=0.0) for column in range(4)]
    found = {}
    for name, values in raw.items():
        signs = [_sign(value / top) if value and top else "" for value, top in zip(values, best, strict=True)]
        found[name] = (signs[0], signs[1], signs[2], signs[3])
    return found


def _measured(outcome: WebbaseOutcome, read: str, update: str) -> tuple[float, float, float, float]:
    """Streaming, random access, addition, and updates per second; 0 where there is nothing."""
    adding = outcome.rate(update or read, Row.ADD_BUFFERED) or 0.0
    cost = outcome.table_4.get((update, read))
    if (update, read) == paper.PROTOTYPE:
        cost = next((each for each in outcome.figure_6 if each.ratio == paper.UPDATE_RATIO), None)
    return (
        outcome.rate(read, Row.STREAM) or 0.0,
        outcome.rate(read, Row.RANDOM) or 0.0,
        adding,
        1 / cost.total_s if cost is not None and cost.total_s else 0.0,
    )


def _sign(share: float) -> str:
    return next(sign for sign, least in SIGNS if share >= least)
