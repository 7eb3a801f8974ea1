"""The rows of the table `contents`, from the keydirs of the volumes: no content is read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import BlockFacts, ReadableVolume

if TYPE_CHECKING:
    import pyarrow

_PROBED_AT_ONCE = 8192


def contents_of(instance: BlockStore) -> Iterator[pyarrow.RecordBatch]:
    """Every content once, volume by volume: no replicas, nor copies that an unfinished migration made."""
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
