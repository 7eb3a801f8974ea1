"""What a sample is to be: its size, its strata, its seed and its form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from holdfast.arguments import check_fields
from holdfast.errors import UnknownName, UsageError
from holdfast.query.language.parser import parse
from holdfast.study.engine.periods import PeriodUnit

STRATA = ("site", "type", "time", "topic")
ALLOCATIONS = ("proportional", "equal")
FORMATS = ("warc", "warc.gz", "warc.zst", "parquet")
TOPICS_MAX = 6
_SEED_MAX = 64  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOptions:
    """`captures` or `bytes_max` is the size; strata are the values of all names in `by` together."""

    captures: int = 0
    bytes_max: int = 0  # of payloads
    by: tuple[str, ...] = ()  # of STRATA; none: one stratum
    topics: tuple[str, ...] = ()  # queries: the strata of `topic`
    unit: str = "month"  # the strata of `time`
    allocation: str = "proportional"  # to the captures of a stratum; or the same number from each
    within: str = ""  # a query for what can be drawn
    collection: str | None = None
    seed: str = "1"
    format: str = "warc.gz"

    def __post_init__(self) -> None:
        check_fields(self)
        if (self.captures > 0) == (self.bytes_max > 0) or min(self.captures, self.bytes_max) < 0:
            raise UsageError("give the size of a sample either in captures or in bytes, 1 or more")
        for name in self.by:
            if name not in STRATA:
                raise UnknownName(f"cannot stratify by {name!r}: one of {', '.join(STRATA)}")
        if len(set(self.by)) < len(self.by):
            raise UsageError("strata are named twice")
        for what, value, known in (("allocation", self.allocation, ALLOCATIONS), ("format", self.format, FORMATS)):
            if value not in known:
                raise UnknownName(f"unknown {what} {value!r}: one of {', '.join(known)}")
        if self.unit not in tuple(PeriodUnit):
            raise UnknownName(f"cannot stratify time by {self.unit!r}: one of {', '.join(PeriodUnit)}")
        if ("topic" in self.by) != bool(self.topics) or len(self.topics) > TOPICS_MAX:
            raise UsageError(f"strata by topic need 1 to {TOPICS_MAX} topics, and topics need strata by topic")
        if not self.seed or len(self.seed) > _SEED_MAX or not self.seed.isprintable():
            raise UsageError(f"bad seed {self.seed!r}: 1 to {_SEED_MAX} printable characters")
        for query in (*self.topics, self.within):
            parse(query)

    def as_json(self) -> dict[str, Any]:
        """What a manifest keeps."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Of a manifest. Raises UsageError."""
        known = {field.name for field in fields(cls)}
        if set(values) != known:
            odd = ", ".join(sorted(set(values) ^ known))
            raise UsageError(f"the manifest's options are not those of this version of Holdfast: {odd}")
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**given)
