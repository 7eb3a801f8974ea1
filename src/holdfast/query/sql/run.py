"""Runs a statement: checks it here, then hands it to its own process, over the current tables.

The rows of the table `contents` come from the keydirs of the volumes: no content is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from holdfast.arguments import checked
from holdfast.config import QuerySettings
from holdfast.errors import DamagedIndex
from holdfast.index.index import Index
from holdfast.index.words import beyond
from holdfast.query.sql.database import TABLES, SqlSources
from holdfast.query.sql.result import SqlResult
from holdfast.query.sql.statement import checked_alone
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import BlockFacts, ReadableVolume

if TYPE_CHECKING:
    import pyarrow

_TRIES = 5


@checked
def run_sql(
    text: str, parameters: Sequence[Any], index: Index, instance: BlockStore, settings: QuerySettings
) -> SqlResult:
    """Runs one SELECT on the current state of the archive; `?` marks parameters.

    Raises IndexNotFound, MalformedQuery, Denied, or TooLarge if it takes more than the settings allow.
    """
    statement = checked_alone(text, TABLES)
    for left in reversed(range(_TRIES)):
        view = index.view()
        sources = SqlSources(
            captures=view.table_files("captures"),
            links=view.table_files("links"),
            removed=[number for each in view.removed if (number := view.state.number_of(each)) is not None],
            beyond=beyond(view.reached) if view.reached != view.state else (),
            ranks=ranks.path if (ranks := index.ranks()) is not None else None,
        )
        contents = contents_of(instance) if "contents" in statement.tables else iter(())
        try:
            return SqlResult(statement, parameters, sources, contents, settings)
        except DamagedIndex:  # unless table files were replaced while they were being opened
            files = (*sources.captures, *sources.links, *([sources.ranks] if sources.ranks is not None else []))
            if left == 0 or all(path.exists() for path in files):
                raise
    raise AssertionError("the last try raises")


_PROBED_AT_ONCE = 8192


def contents_of(instance: BlockStore) -> Iterator[pyarrow.RecordBatch]:
    """Every content once, volume by volume, without replicas and copies of an unfinished migration."""
    import pyarrow

    text, whole = pyarrow.string(), pyarrow.int64()
    names = ("contentkey", "volume", "signature", "size", "stored_size", "references")
    schema = pyarrow.schema(list(zip(names, (text, text, text, whole, whole, whole), strict=True)))
    for name in list(instance.volumes):
        for rows in _rows(instance, instance.volume(name)):
            columns = zip(*rows, strict=True)
            arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            yield pyarrow.record_batch(arrays, schema=schema)


def _rows(instance: BlockStore, volume: ReadableVolume) -> Iterator[list[tuple[str, str, str, int, int, int]]]:
    signatures = iter(volume.signatures())
    while some := list(islice(signatures, _PROBED_AT_ONCE)):
        found = [facts for each in volume.probe(some) for facts in each if not facts.replica and not facts.moving]
        if found:
            yield [_row(instance, volume, facts) for facts in found]


def _row(instance: BlockStore, volume: ReadableVolume, facts: BlockFacts) -> tuple[str, str, str, int, int, int]:
    key = str(instance.content_key(volume, facts.key))
    return key, volume.name, facts.key.signature.hex(), facts.size, facts.stored, facts.references
