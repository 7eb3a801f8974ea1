"""What there is one of in a frontier: its visit, its counters, its tally."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Self

from holdfast.crawl.tally import Tally


@dataclass(slots=True)
class Totals:
    """Kept as one JSON object, committed with every group."""

    visit: int = 0  # how often the crawl went round; 0: not begun
    finished: bool = False  # the visit came to its end
    requeued: str = ""  # while a new visit is being prepared: the last key, in hexadecimal digits, that was looked at
    sequence: int = 0  # of the last URL that was queued
    turn: int = 0  # of the last host that began to wait
    queued: int = 0
    seen: int = 0
    reach: str = ""  # what decides where the crawl may go, in words, as it was for this visit
    thorough: bool = False  # that is not what it was for the last: unchanged pages are looked into again
    allowance_from: int = 0  # URLs fetched when the limit of the job last began to count
    quota_from: int = 0  # bytes transferred when that of the job last began to count
    tally: Tally = field(default_factory=Tally)

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        values = json.loads(raw)
        known = {each.name for each in fields(Tally)}
        tally = Tally(**{name: value for name, value in values.pop("tally").items() if name in known})
        return cls(**values, tally=tally)
