"""Tables of captures and links as the index writes them, as far as ranks need them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.index.ranks.ranks import Tables

CAPTURES = pa.schema({"page": pa.uint64(), "number": pa.uint64(), "timestamp": pa.string(), "type": pa.string()})
LINKS = pa.schema({"page": pa.uint64(), "number": pa.uint64(), "target_page": pa.uint64(), "kind": pa.string()})


class LinkTables:
    """Captures, each with what it links to; `tables` writes them all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._captures: list[tuple[int, int, str, str]] = []
        self._links: list[tuple[int, int, int, str]] = []
        self._written = 0

    def add(
        self,
        page: int,
        targets: Sequence[int] = (),
        timestamp: str = "20260101000000",
        *,
        type: str = "response",
        kind: str = "link",
    ) -> None:
        number = len(self._captures) + 1
        self._captures.append((page, number, timestamp, type))
        self._links += [(page, number, target, kind) for target in targets]

    def tables(self) -> Tables:
        self._written += 1
        paths = [self._directory / f"{name}-{self._written}.parquet" for name in ("captures", "links")]
        for path, schema, rows in zip(paths, (CAPTURES, LINKS), (self._captures, self._links), strict=True):
            pq.write_table(
                pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema), path
            )
        return Tables((paths[0],), (paths[1],))
