"""Short ways to ask a volume, for tests: made-up signatures, plain contents, and what a volume says of them."""

from __future__ import annotations

import hashlib

from holdfast.storage.volume import (
    Adopt,
    BlockFacts,
    BlockKey,
    Encoded,
    Mark,
    Operation,
    Outcome,
    ReadableVolume,
    Recount,
    Refer,
    Release,
    Store,
    Volume,
)


def sign(name: object) -> bytes:
    """A made-up signature, of the length that `sha256` has."""
    return hashlib.sha256(repr(name).encode()).digest()


def plain(data: bytes) -> Encoded:
    """A content as it is."""
    return Encoded("none", 0, len(data), data)


def perform(volume: Volume, operation: Operation) -> Outcome:
    """The outcome of a commit of one operation."""
    (outcome,) = volume.commit([operation])
    return outcome


def fetched(volume: ReadableVolume, key: BlockKey) -> tuple[bytes, int] | None:
    """Data and counter of a block; None if there is none."""
    (block,) = volume.fetch([key])
    return None if block is None else (bytes(block.encoded.data), block.references)


def scanned(volume: ReadableVolume, after: Mark | None = None) -> list[tuple[BlockKey, bytes, int]]:
    """Key, data and counter of every block, in the volume's order; of those behind the mark."""
    blocks = (block for batch in volume.scan(after=after) for block in batch)
    return [(block.key, bytes(block.encoded.data), block.references) for block in blocks]


def marks(volume: ReadableVolume) -> list[Mark]:
    """The mark of every block, in the volume's order."""
    return [block.mark for batch in volume.scan() for block in batch]


def probed(volume: ReadableVolume, signature: bytes) -> set[BlockFacts]:
    """What the volume knows of a signature."""
    (found,) = volume.probe([signature])
    assert len(found) == len(set(found))
    return set(found)


def totals(volume: ReadableVolume) -> tuple[int, ...]:
    """Blocks, replicas, references; bytes of contents, as stored, and as referred to."""
    stat = volume.stat()
    exact = (stat.blocks, stat.replicas, stat.references)
    return (*exact, stat.content_bytes, stat.stored_bytes, stat.referenced_bytes)


def fill(volume: Volume) -> list[tuple[BlockKey, bytes, int]]:
    """Some of everything: removed and recounted blocks, overflows, replicas and moved blocks. Returns what is left."""
    stores = [Store(sign(number % 15), plain(b"%d" % number * (number // 15 + 1))) for number in range(45)]
    held = {
        outcome.key: (bytes(store.encoded.data), 1)
        for store, outcome in zip(stores, volume.commit(stores), strict=True)
    }
    for number in range(10):
        key = BlockKey(sign(number), 0, b"v7")
        held[key] = (b"copy", 2)
        perform(volume, Adopt(key, plain(b"copy"), 2, number % 2 == 0))
    for number, (key, (data, references)) in enumerate(list(held.items())):
        counted = references + (1 if number % 4 == 0 else -1)
        held[key] = (data, counted)
        if key.home:  # replicas are not counted, but told
            perform(volume, Recount(key, counted))
        else:
            perform(volume, Refer(key) if number % 4 == 0 else Release(key))
    return [(key, data, references) for key, (data, references) in held.items() if references]
