"""An archive as a `Datasource` of Ray Data.

    import ray
    from holdfast.corpus.ray import source

    dataset = ray.data.read_datasource(source("/data/my-archive", StreamOptions(fields=("url", "main_text"))))

A read task is a shard. Whatever node a task runs on must have the archive's directory, at the same path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyarrow import Table
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from holdfast.corpus import columns
from holdfast.corpus.shards import Shard, split
from holdfast.streams import StreamOptions


class RayArchiveSource(Datasource):
    """The captures of the moment at which it is read. It is made by `source`."""

    def __init__(self, path: str, options: StreamOptions, shards: int | None) -> None:
        super().__init__()
        self._path = path
        self._options = options
        self._shards = shards

    def get_name(self) -> str:
        return "Holdfast"

    def estimate_inmemory_data_size(self) -> int | None:
        return None  # what a filter leaves is not known before it is read

    def get_read_tasks(self, parallelism: int, *_: Any, **limits: Any) -> list[ReadTask]:
        """One for each shard: as many as were asked for, else as Ray takes for right."""
        row_limit = limits.get("per_task_row_limit")
        parts = split(self._path, self._options, self._shards or parallelism)
        return [_task(part, row_limit) for part in parts]


def source(
    path: str | Path,
    options: StreamOptions = StreamOptions(),  # noqa: B008
    *,
    shards: int | None = None,
) -> RayArchiveSource:
    """The captures of an archive, a row for each, for `ray.data.read_datasource`."""
    return RayArchiveSource(str(Path(path).resolve()), options, shards)


def _task(part: Shard, row_limit: int | None) -> ReadTask:
    metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
    return ReadTask(
        lambda: _tables(part), metadata, schema=columns.schema_of(part.fields), per_task_row_limit=row_limit
    )


def _tables(part: Shard) -> Any:
    for batch in part.tables():
        yield Table.from_batches([batch])
