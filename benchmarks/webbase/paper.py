"""What the authors of WebBase measured, by table; pages per second and node, seconds, or signs."""

from __future__ import annotations

from typing import Final

from holdfast.plan.disk_model import ORGANIZATIONS
from holdfast.plan.disk_model import PAPER_TABLE_3 as TABLE_3
from holdfast.plan.disk_model import PAPER_TABLE_4 as TABLE_4
from holdfast.plan.disk_model import PageOperation as Row

__all__ = ["ORGANIZATIONS", "READS", "TABLE_3", "TABLE_4", "TABLE_5", "TABLE_6", "Row"]

READS: Final = (Row.STREAM, Row.RANDOM)
PROTOTYPE: Final = ("log", "log")
UPDATE_RATIO: Final = 0.25

# Of the prototype: pages streamed, pages added, seconds of a batch update, pages accessed at random.
TABLE_5: Final = {"streaming": 2800.0, "page addition": 3200.0, "batch update": 2451.0, "random page access": 33.0}

# Streaming, random page access, page addition, update time; the organization of read volumes, and of update volumes.
TABLE_6: Final[dict[str, tuple[tuple[str, str], tuple[str, str, str, str]]]] = {
    "Incr [hash, log]": (("log", ""), ("+", "-", "--", "")),
    "Incr [uniform, log]": (("log", ""), ("+", "--", "+", "")),
    "Incr [hash, hash]": (("hash", ""), ("+", "+", "-", "")),
    "Batch [U(hash, log), R(hash, log)]": (("log", "log"), ("++", "-", "+", "+")),
    "Batch [U(hash, log), R(hash, hash)]": (("hash", "log"), ("+", "+", "+", "-")),
    "Batch [U(hash, hash), R(hash, hash)]": (("hash", "hash"), ("+", "+", "-", "+")),
    "Batch [U(hash, hashed-log), R(hash, hash)]": (("hash", "hashed-log"), ("+", "+", "+-", "+")),
}

FIGURE_4_PAGES: Final = 16  # in a bucket, on average
FIGURE_4_BEST: Final = (64 << 10, 20.7)  # bytes of a bucket, milliseconds of a random access
FIGURE_6: Final = {"catalog update": 26, "identifier transfer": 84, "B-tree": 88, "compaction": 1244, "transfer": 1008}
