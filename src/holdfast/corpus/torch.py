"""An archive as an `IterableDataset` of PyTorch, shared by workers of a `DataLoader` and by ranks, and resumable.

rank 0                  rank 1
├─ worker 0: part 0     ├─ worker 0: part 2     parts of one snapshot, which do not overlap;
└─ worker 1: part 1     └─ worker 1: part 3     together they are all of it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch.distributed
from torch.utils.data import IterableDataset, get_worker_info

from holdfast.archive import Archive
from holdfast.corpus.shards import DEFAULT, row_of
from holdfast.errors import UsageError
from holdfast.streams import Stream, StreamOptions

Row = dict[str, Any]


class StreamDataset(IterableDataset[Any]):
    """The captures of a snapshot, a row each, delivered once among all workers and ranks.

    The snapshot is taken where the dataset is created. Ranks need the same one: create the dataset on one of them and
    send its `snapshot` to the others. A copy in each worker opens the archive for itself.
    """

    def __init__(
        self,
        path: str | Path,
        options: StreamOptions = StreamOptions(),  # noqa: B008
        *,
        snapshot: str = "",
        transform: Callable[[Row], Any] | None = None,
    ) -> None:
        """`transform` is applied to each row. Raises as opening an archive and streaming do."""
        super().__init__()
        if options.shard is not None:
            raise UsageError("workers and ranks are the shards: leave 'shard' out")
        self._path = str(Path(path).resolve())
        self._options = options if options.fields else replace(options, fields=DEFAULT)
        self._transform = transform
        with (
            self._opened() as archive,
            archive.stream(replace(self._options, token=snapshot or options.token)) as stream,
        ):
            self.snapshot = stream.token  # gives another rank the same snapshot
        self._stream: Stream | None = None
        self._state: dict[str, Any] = {}
        self._is_loaded = False

    def _opened(self) -> Archive:
        return Archive(self._path, read_only=True)

    def __iter__(self) -> Iterator[Any]:
        """The rows of this worker's part, after a loaded state, else from the start."""
        part = _part()
        token = self._loaded_token(part)
        with self._opened() as archive:
            with archive.stream(replace(self._options, token=self.snapshot)) as whole:
                options = whole.part(*part)
            with archive.stream(replace(options, token=token or options.token)) as stream:
                self._stream = stream
                try:
                    for page in stream:
                        row = row_of(page, self._options.fields)
                        yield row if self._transform is None else self._transform(row)
                finally:
                    self._state = {"part": list(part), "token": stream.token}
                    self._stream = None

    def _loaded_token(self, part: tuple[int, int]) -> str:
        """The token of a loaded state not used yet. Raises UsageError if it belongs to another part."""
        if not self._is_loaded:
            return ""
        self._is_loaded = False
        if self._state and tuple(self._state["part"]) != part:
            index, count = self._state["part"]
            raise UsageError(
                f"the state is of part {index} of {count}, this is part {part[0]} of {part[1]}: "
                "use as many workers and ranks as before"
            )
        return str(self._state.get("token", ""))

    def state_dict(self) -> dict[str, Any]:
        """The position of this worker's copy: after its last row."""
        if self._stream is not None:
            return {"part": list(_part()), "token": self._stream.token}
        return dict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration resumes there."""
        self._state = dict(state)
        self._is_loaded = True


def _part() -> tuple[int, int]:
    """The part of this worker of this rank, and the number of parts."""
    worker = get_worker_info()
    index, count = (worker.id, worker.num_workers) if worker is not None else (0, 1)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        index += torch.distributed.get_rank() * count
        count *= torch.distributed.get_world_size()
    return index, count
