"""The state of the index: the current generation, and how far it reaches.

    holdfast-index 4 6b1f0c22                 the file's format, and the CRC-32 of the line below
    {"generation": 1, "batches": [["202610", 812], ["202611", 4712]], "opstamp": 5120, "tables": {...}, "next_file": 9,
     "unresolved": []}

`batches` lists each batch with the first serial that is not indexed, in the order in which batches were first indexed.
The position of a batch in this list is its *batch number*. `opstamp` is tantivy's stamp of the last valid commit: if
the words have another one, documents beyond the state are ignored. `tables` lists the files of each table, with their
rows and checksums; no file name is used twice. `unresolved` lists revisits whose originals were not in the archive:
each update checks whether they have arrived.

The file is replaced atomically, after words and tables are durable. Anything beyond it does not count.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.batches.batch import BatchState
from holdfast.catalog import Catalog
from holdfast.env import Environment
from holdfast.env.files import read_file, replace_file
from holdfast.errors import DamagedIndex, FormatTooNew
from holdfast.index import paths
from holdfast.index.schema import record_number, split_record_number
from holdfast.model import RecordId

FORMAT = 4
TABLES = ("captures", "links", "backlinks")
REPAIR = "run 'holdfast index build'"
UNRESOLVED_MAX = 10_000
_MAGIC = "holdfast-index"


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a table."""

    name: str
    rows: int
    crc: int  # CRC-32 of its bytes


@dataclass(frozen=True, slots=True)
class IndexState:
    """The index as of one commit."""

    generation: int = 0  # 0: there is no index
    batches: tuple[tuple[str, int], ...] = ()  # name, and first serial that is not indexed
    opstamp: int = 0
    tables: dict[str, tuple[TableFile, ...]] = field(default_factory=lambda: dict.fromkeys(TABLES, ()))
    next_file: int = 1
    unresolved: tuple[int, ...] = ()  # the last `UNRESOLVED_MAX` revisits without an original

    def end_of(self, batch: str) -> int:
        """The first serial of a batch that is not indexed."""
        return next((end for name, end in self.batches if name == batch), 1)

    def batch_number(self, batch: str) -> int | None:
        """None for a batch of which nothing was indexed."""
        return next((number for number, (name, _) in enumerate(self.batches) if name == batch), None)

    def number_of(self, record: RecordId) -> int | None:
        """The number of a record; None if it is not indexed."""
        number = self.batch_number(record.batch)
        return None if number is None or record.serial >= self.batches[number][1] else record_number(number, record[1])

    def record_of(self, number: int) -> RecordId:
        """The record of a number from the index."""
        batch, serial = split_record_number(number)
        return RecordId(self.batches[batch][0], serial)


def read_state(directory: Path, env: Environment, name: str = paths.STATE) -> IndexState:
    """The state in a directory; generation 0 if there is none. Raises DamagedIndex or FormatTooNew."""
    path = directory / name
    try:
        head, _, body = read_file(env.files, path).decode().partition("\n")
    except FileNotFoundError:
        return IndexState()
    except UnicodeDecodeError:
        raise DamagedIndex(f"cannot read '{path}': invalid UTF-8; {REPAIR}") from None
    words = head.split(" ")
    if words[0] == _MAGIC and words[1:2] and words[1].isdigit() and int(words[1]) != FORMAT:
        if int(words[1]) > FORMAT:
            raise FormatTooNew(f"'{path}' has format {words[1]}; this release reads {FORMAT}: use a later one")
        raise DamagedIndex(f"'{path}' has format {words[1]} of an earlier release; this one reads {FORMAT}: {REPAIR}")
    if words != [_MAGIC, str(FORMAT), _checksum(body)]:
        raise DamagedIndex(f"cannot read '{path}': its checksum is wrong; {REPAIR}")
    facts = json.loads(body)
    return IndexState(
        facts["generation"],
        tuple((name, end) for name, end in facts["batches"]),
        facts["opstamp"],
        {name: tuple(TableFile(*each) for each in files) for name, files in facts["tables"].items()},
        facts["next_file"],
        tuple(facts["unresolved"]),
    )


def is_outdated(directory: Path, env: Environment) -> bool:
    """True if an earlier release wrote the index, so that it must be rebuilt."""
    try:
        words = read_file(env.files, directory / paths.STATE).partition(b"\n")[0].split(b" ")
    except FileNotFoundError:
        return False
    return words[0] == _MAGIC.encode() and len(words) > 1 and words[1].isdigit() and int(words[1]) < FORMAT


def write_state(directory: Path, env: Environment, state: IndexState, name: str = paths.STATE) -> None:
    """Replaces the state. Durable on return."""
    facts: dict[str, Any] = {
        "generation": state.generation,
        "batches": state.batches,
        "opstamp": state.opstamp,
        "tables": {name: [(each.name, each.rows, each.crc) for each in files] for name, files in state.tables.items()},
        "next_file": state.next_file,
        "unresolved": state.unresolved[-UNRESOLVED_MAX:],
    }
    body = json.dumps(facts) + "\n"
    replace_file(env.files, directory / name, f"{_MAGIC} {FORMAT} {_checksum(body)}\n{body}".encode())


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"


def targets(state: IndexState, catalog: Catalog) -> list[tuple[str, int, int]]:
    """Name, first serial and end of the unindexed part of each batch, in the order of their numbers."""
    names = [name for name, _ in state.batches]
    names += sorted(set(catalog.batches()).difference(names))
    return [(name, state.end_of(name), BatchState.unpack(catalog.batch_state(name)).next_serial) for name in names]
