"""What the nodes report about a crawl, and when it has ended.

Each node reports to all others, every second: what it owns, whether it has anything to do, the number of the
log's last message when it knew that none is missing, and its tally. Reports may get lost; the last one counts.

    finished    all live nodes have nothing to do, name the same last message, and own all partitions together
    limit       nothing is left to draw, and all live nodes have used what they drew, by one revision of the credits

Between two reports that name the same number nobody has appended anything. A node gets work by a message, by a claim,
or by a change of the job: reports name the revision of the job, and a node that claims reports more partitions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from holdfast.crawl.report.crawls import CrawlState

_MOMENTARY = ("seconds",)  # fields of a tally of which the largest counts


@dataclass(frozen=True, slots=True)
class CrawlReport:
    """What one node says about its share."""

    crawl: str
    run: int = 0
    epoch: int = 0  # of the membership that it knows
    job: int = 0  # revision of the job
    incarnation: int = 0  # of the service
    owned: int = 0  # partitions whose log it has read, a bit for each
    is_idle: bool = False  # no queue, no transfers, nothing to publish
    total: int = -1  # number of the last message of the log; -1: it may not know all of its partitions
    is_spent: bool = False  # no transfers, and no credit that is not used
    credit: int = 0  # revision of the credits
    positions: dict[str, int] = field(
        default_factory=dict
    )  # by partition: up to which message all holders have it in checkpoints
    tally: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    sender: str = ""  # id of its frontier, as messages of the log have it

    def to_json(self) -> bytes:
        return json.dumps(asdict(self) | {"owned": f"{self.owned:x}"}).encode()

    @classmethod
    def from_json(cls, data: bytes) -> CrawlReport:
        values = json.loads(data)
        return cls(**values | {"owned": int(values["owned"], 16)})


def end_of(
    reports: Mapping[str, CrawlReport], live: frozenset[str], partitions: int, *, is_spent: bool
) -> tuple[CrawlState, str] | None:
    """How the crawl has ended, if it has. `is_spent`: nothing is left to draw, by this node's last look."""
    chosen = [reports[name] for name in live if name in reports]
    if not live or len(chosen) < len(live):
        return None
    if len({(each.run, each.epoch, each.job, each.incarnation) for each in chosen}) > 1:
        return None
    owned = 0
    for each in chosen:
        owned |= each.owned
    if owned != (1 << partitions) - 1:
        return None
    if all(each.is_idle for each in chosen) and len({each.total for each in chosen}) == 1 and chosen[0].total >= 0:
        return CrawlState.FINISHED, "nothing is left to fetch"
    if is_spent and all(each.is_spent for each in chosen) and len({each.credit for each in chosen}) == 1:
        return CrawlState.LIMIT, "the limit of the job is reached"
    return None


def sum_of(tallies: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The tallies of all nodes as one."""
    result: dict[str, Any] = {}
    for tally in tallies:
        for name, value in tally.items():
            result[name] = max(result.get(name, 0), value) if name in _MOMENTARY else result.get(name, 0) + value
    return result
