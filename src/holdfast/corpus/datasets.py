"""An archive as an `IterableDataset` of Hugging Face `datasets`.

    from holdfast.corpus.datasets import load

    dataset = load("my-archive", StreamOptions(query="lang:en", fields=("url", "main_text")))
    for row in dataset.shuffle(seed=1, buffer_size=1000): ...

Everything that works on sharded iterable datasets works: `shuffle`, `map`, `split_dataset_by_node`, workers of a
`DataLoader`, `state_dict` and `load_state_dict`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datasets import Features, IterableDataset

from holdfast.corpus.shards import Shard, schema_of, split
from holdfast.streams import StreamOptions

SHARDS = 64


def load(path: str | Path, options: StreamOptions = StreamOptions(), *, shards: int = SHARDS) -> IterableDataset:  # noqa: B008
    """A snapshot of the archive, a row per capture.

    Resuming from a state reads its shard from the start and skips the rows already delivered, so more shards mean
    less to skip. Raises as `split`.
    """
    parts = split(path, options, shards)
    features = Features.from_arrow_schema(schema_of(parts[0].fields))
    return IterableDataset.from_generator(_rows, features=features, gen_kwargs={"parts": parts})


def _rows(parts: list[Shard]) -> Iterator[dict[str, Any]]:
    for part in parts:
        yield from part.rows()
