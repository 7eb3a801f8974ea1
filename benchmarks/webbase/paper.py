"""What the authors of WebBase measured, by table; pages per second and node, seconds, or signs."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Row(StrEnum):
    """What is measured of an organization (table 3)."""

    STREAM = "streaming"
    RANDOM = "random page access"
    ADD_RANDOM = "page addition, random order"
    ADD_BUFFERED = "page addition, random order, 10 MB buffer"
    ADD_SORTED = "page addition, sorted order"


ORGANIZATIONS: Final = ("log", "hash", "hashed-log")
READS: Final = (Row.STREAM, Row.RANDOM)

TABLE_3: Final[dict[str, dict[Row, float]]] = {
    "log": {
        Row.STREAM: 6300,
        Row.RANDOM: 35,
        Row.ADD_RANDOM: 6100,
        Row.ADD_BUFFERED: 6100,
        Row.ADD_SORTED: 6100,
    },
    "hash": {Row.STREAM: 3900, Row.RANDOM: 51, Row.ADD_RANDOM: 23, Row.ADD_BUFFERED: 35, Row.ADD_SORTED: 1300},
    "hashed-log": {Row.ADD_BUFFERED: 660},
}

# By organization of the update volumes and of the read volumes: pages added per second, seconds of a batch update.
TABLE_4: Final[dict[tuple[str, str], tuple[float, float]]] = {
    ("log", "hash"): (6100, 11_700),
    ("hash", "hash"): (35, 1260),
    ("hashed-log", "hash"): (660, 1260),
}
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
