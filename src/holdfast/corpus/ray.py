"""An archive as a `Datasource` of Ray Data.

    import ray
    from holdfast.corpus.ray import source

    dataset = ray.data.read_datasource(source("/data/my-archive", StreamOptions(fields=("url", "main_text"))))

A read task is a shard. Every node that runs tasks needs the archive's directory at the same path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyarrow import Table
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from holdfast.corpus.shards import Shard, schema_of, split
from holdfast.streams import StreamOptions


class RayArchiveSource(Datasource):
    """A snapshot of the archive, taken when it is read. Created by `source`."""

    def __init__(self, path: str, options: StreamOptions, shards: int | None) -> None:
        super().__init__()
        self._path = path
        self._options = options
        self._shards = shards

    def get_name(self) -> str:
        return "Holdfast"

    def estimate_inmemory_data_size(self) -> int | None:
        return None  # a filter's yield is unknown before it is read

    def get_read_tasks(self, parallelism: int, *_: Any, **limits: Any) -> list[ReadTask]:
        """One per shard: the requested number, else the one Ray suggests."""
        row_limit = limits.get("per_task_row_limit")
        parts = split(self._path, self._options, self._shards or parallelism)
        return [_task(part, row_limit) for part in parts]


def source(
    path: str | Path,
    options: StreamOptions = StreamOptions(),  # noqa: B008
    *,
    shards: int | None = None,
) -> RayArchiveSource:
    """The captures of an archive, a row each, for `ray.data.read_datasource`."""
    return RayArchiveSource(str(Path(path).resolve()), options, shards)


def _task(part: Shard, row_limit: int | None) -> ReadTask:
    metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
    return ReadTask(lambda: _tables(part), metadata, schema=schema_of(part.fields), per_task_row_limit=row_limit)


def _tables(part: Shard) -> Any:
    for batch in part.tables():
        yield Table.from_batches([batch])
