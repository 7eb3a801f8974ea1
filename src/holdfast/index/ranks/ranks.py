"""The file `ranks-<generation>`: rank and in-links of every page, in columns that are mapped into memory.

    offset  size
         0   512   head: 'HOLDFAST-RANKS/1 ' + crc32 of the rest of the head, 8 hex digits + '\\n',
                   one line of JSON, spaces, '\\n'
       512  8 n    page      u64   page numbers, ascending
           8 n    rank      f64   of the page at the same place; the mean is 1.0
           4 n    inlinks   u32   from how many pages it is linked to
           4 n    order     u32   places of the pages by falling rank; of equal ranks, the smaller page number first

Numbers are little endian; n is `pages` in the JSON line. A file is written once, under a name with the suffix `.open`,
and never changed: whoever has it mapped reads on, also when it was removed. It is derived, and can be computed again.
"""

from __future__ import annotations

import json
import mmap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from isal.isal_zlib import crc32
from numpy.typing import NDArray

from holdfast.env.files import File, Files
from holdfast.errors import DamagedIndex, FormatTooNew

Pages = NDArray[np.uint64]
Vector = NDArray[np.float64]
Counts = NDArray[np.uint32]

HEAD_BYTES = 512
_MAGIC = b"HOLDFAST-RANKS/"
_VERSION = 1
_CHECKED_AT = len(b"HOLDFAST-RANKS/1 00000000\n")
_COLUMNS = (("pages", "<u8"), ("rank", "<f8"), ("inlinks", "<u4"), ("order", "<u4"))
_PAGE_BYTES = 24
_BYTES_PER_WRITE = 1 << 24


@dataclass(frozen=True, slots=True)
class RanksHead:
    """What a file of ranks says of itself."""

    generation: int
    pages: int
    links: int  # edges of the graph
    basis: str  # names the state of the tables that the ranks were computed from
    crc32: str = ""  # of the columns


class Ranked(NamedTuple):
    """What is known of some pages, in the order in which they were asked for. Of others, both are 0."""

    rank: Vector
    inlinks: Counts


class Ranks:
    """One generation of ranks, open for reading. Any thread may ask; nothing is read but what is asked for."""

    def __init__(self, path: Path) -> None:
        """Raises FileNotFoundError if there is no such file; Damaged if its head or its length is wrong."""
        self.path = path
        with path.open("rb") as file:
            self.head = _parse(file.read(HEAD_BYTES), path)
            length = file.seek(0, 2)
            expected = HEAD_BYTES + self.head.pages * _PAGE_BYTES
            if length != expected:
                raise _damaged(path, f"{length} bytes, expected {expected}")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        columns = self._columns()
        self.pages: Pages = columns["pages"]
        self.rank: Vector = columns["rank"]
        self.inlinks: Counts = columns["inlinks"]
        self.order: Counts = columns["order"]

    def _columns(self) -> dict[str, NDArray[Any]]:
        columns, offset = {}, HEAD_BYTES
        for name, kind in _COLUMNS:
            columns[name] = np.frombuffer(self._map, kind, self.head.pages, offset)
            offset += columns[name].nbytes
        return columns

    def __len__(self) -> int:
        return self.head.pages

    def of(self, pages: Pages) -> Ranked:
        """Rank and in-links of the pages. A page that came after the computation, or is nowhere linked to, has 0."""
        asked = np.asarray(pages, np.uint64)
        if not len(self):
            return Ranked(np.zeros(asked.shape), np.zeros(asked.shape, np.uint32))
        places = np.minimum(np.searchsorted(self.pages, asked), len(self) - 1)
        known = self.pages[places] == asked
        zero = np.uint32(0)
        return Ranked(np.where(known, self.rank[places], 0.0), np.where(known, self.inlinks[places], zero))

    def above(self, threshold: float, *, inclusive: bool = False) -> Pages:
        """Pages with a greater rank, or with `inclusive` an equal one, the highest first."""
        return self.by_rank(0, self._place(threshold, inclusive))

    def by_rank(self, start: int = 0, count: int | None = None) -> Pages:
        """Pages by falling rank, from the `start`-th on: what a stream in this order goes through."""
        end = len(self) if count is None else min(start + count, len(self))
        return self.pages[self.order[start:end]]

    def _place(self, threshold: float, inclusive: bool) -> int:
        """How many pages come before the threshold in the order: bisection, so that few pages of the file are read."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            rank = self.rank[self.order[middle]]
            if rank > threshold or (inclusive and rank == threshold):
                low = middle + 1
            else:
                high = middle
        return low

    def verify(self) -> None:
        """Reads the whole file; raises Damaged if a byte of it is not what was written."""
        found = f"{crc32(memoryview(self._map)[HEAD_BYTES:]):08x}"
        if found != self.head.crc32:
            raise _damaged(self.path, f"checksum {found}, expected {self.head.crc32}")


class RankColumns(NamedTuple):
    """What a file of ranks is made of; pages ascending."""

    pages: Pages
    rank: Vector
    inlinks: Counts


def write_ranks(files: Files, path: Path, head: RanksHead, columns: RankColumns) -> None:
    """Writes the file; durable when it returns. After a crash it is whole, or not there."""
    order = np.argsort(-columns.rank, kind="stable").astype("<u4")
    arrays = [np.ascontiguousarray(column, kind) for column, (_, kind) in zip((*columns, order), _COLUMNS, strict=True)]
    checksum = 0
    for array in arrays:
        checksum = crc32(array.data.cast("B") if len(array) else b"", checksum)
    facts = asdict(head) | {"pages": len(columns.pages), "crc32": f"{checksum:08x}"}
    draft = path.with_name(path.name + ".open")
    files.remove(draft)
    file = files.open(draft, writable=True, create=True)
    try:
        file.append([_head(facts)])
        for array in arrays:
            _append(file, array)
        file.sync()
    finally:
        file.close()
    files.rename(draft, path)
    files.sync_directory(path.parent)


def _append(file: File, array: NDArray[Any]) -> None:
    if len(array):
        data = array.data.cast("B")
        for start in range(0, len(data), _BYTES_PER_WRITE):
            file.append([data[start : start + _BYTES_PER_WRITE]])


def _head(facts: dict[str, Any]) -> bytes:
    rest = json.dumps(facts).encode().ljust(HEAD_BYTES - _CHECKED_AT - 1) + b"\n"
    assert len(rest) == HEAD_BYTES - _CHECKED_AT, "the basis outgrew the head"
    return b"%b%d %08x\n%b" % (_MAGIC, _VERSION, crc32(rest), rest)


def _parse(raw: bytes, path: Path) -> RanksHead:
    if not raw.startswith(_MAGIC):
        raise _damaged(path, "it does not begin with 'HOLDFAST-RANKS/'")
    version, _, _ = raw[len(_MAGIC) :].partition(b" ")
    if version.isdigit() and int(version) > _VERSION:
        raise FormatTooNew(f"cannot read ranks in '{path}': version {int(version)}; use a later release of Holdfast")
    rest = raw[_CHECKED_AT:]
    if raw[:_CHECKED_AT] != b"%b%d %08x\n" % (_MAGIC, _VERSION, crc32(rest)) or len(raw) != HEAD_BYTES:
        raise _damaged(path, "its head fails its checksum")
    return RanksHead(**json.loads(rest))


def _damaged(path: Path, found: str) -> DamagedIndex:
    return DamagedIndex(f"cannot read ranks in '{path}': {found}; run 'holdfast index rank' to compute them again")
