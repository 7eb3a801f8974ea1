"""The files of the index verified: everything that its state names is there, and holds what was written."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import DamagedIndex, NotFound
from holdfast.index import paths
from holdfast.index.ranks.generations import generations
from holdfast.index.tables import read_rows
from holdfast.index.words import committed_opstamp, open_words

if TYPE_CHECKING:
    from holdfast.index.index import Index

# Every file of a segment ends with {"version": ..., "crc": ...}, the length of that, and a magic number, 4 bytes each.
_MAGIC = 1337
_NUMBER = 4
_PIECE = 1 << 20


def verify_index(index: Index, progress: Callable[[int], None] | None = None) -> Iterator[str]:
    """What is wrong with the index, if there is one; reads every byte of it, also while another process writes."""
    state = index.state()
    if state.generation == 0:
        return
    index.removed.read()
    words = index.directory / paths.words_name(state.generation)
    committed_opstamp(words)
    for path in sorted(words.glob(f"{'[0-9a-f]' * 32}.*")):
        yield from _segment_faults(path, progress)
    open_words(words).searcher()
    tables = index.directory / paths.tables_name(state.generation)
    for files in state.tables.values():
        for file in files:
            yield from _table_faults(index, tables / file.name, file.rows)
    for generation in generations(index.env.files, index.directory):
        yield from _rank_faults(index, generation)


def _segment_faults(path: Path, progress: Callable[[int], None] | None) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(0, size - 2 * _NUMBER))
            tail = file.read()
            length, magic = (int.from_bytes(tail[at : at + _NUMBER], "little") for at in (0, _NUMBER))
            body = size - 2 * _NUMBER - length
            if magic != _MAGIC or body < 0:
                yield f"'{path}' has no end"
                return
            file.seek(body)
            wanted = json.loads(file.read(length))["crc"]
            file.seek(0)
            found = 0
            while body > 0 and (piece := file.read(min(_PIECE, body))):
                found = zlib.crc32(piece, found)
                body -= len(piece)
                if progress is not None:
                    progress(len(piece))
    except FileNotFoundError:
        return  # merged meanwhile
    except (ValueError, KeyError, TypeError):
        yield f"'{path}' has no end that makes sense"
        return
    if found != wanted:
        yield f"'{path}' has checksum {found:08x}, expected {wanted:08x}"


def _rank_faults(index: Index, generation: int) -> Iterator[str]:
    try:
        index.ranks_of(generation).verify()
    except NotFound:
        return  # newer ones were computed meanwhile
    except DamagedIndex as error:
        yield str(error)


def _table_faults(index: Index, path: Path, rows: int) -> Iterator[str]:
    try:
        found = read_rows(path, verify=True).num_rows
    except FileNotFoundError:
        if any(each.name == path.name for files in index.state().tables.values() for each in files):
            yield f"'{path}' is missing"
        return
    except DamagedIndex as error:
        yield str(error)
        return
    if found != rows:
        yield f"'{path}' has {found} rows, expected {rows}"
