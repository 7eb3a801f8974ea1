"""A commit that stops in its sync, so that a test can act at the moment between written and durable."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from holdfast.env.files import Buffer
from holdfast.errors import HoldfastError
from holdfast.storage.volume import Operation, OperationResult
from holdfast.storage.volumes.log.volume import LogVolume

PATIENCE_S = 60.0  # how long a broken test hangs before it fails


class GatedCommit:
    """A commit in a thread of its own. Constructed, it waits in the tail's sync; `finish` lets it go on or fail."""

    def __init__(self, volume: LogVolume, operations: Sequence[Operation]) -> None:
        assert volume._tail is not None
        self.outcomes: list[OperationResult] | None = None
        self.error: HoldfastError | None = None
        self._volume, self._operations = volume, operations
        self._failure: HoldfastError | None = None
        self._file = volume._tail
        self._reached, self._open = threading.Event(), threading.Event()
        volume._tail = self
        self._thread = threading.Thread(target=self._commit)
        self._thread.start()
        assert self._reached.wait(PATIENCE_S), "the commit never came to its sync"

    def finish(self, failure: HoldfastError | None = None) -> None:
        self._failure = failure
        self._open.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _commit(self) -> None:
        try:
            self.outcomes = self._volume.commit(self._operations)
        except HoldfastError as error:
            self.error = error

    # -- the tail's part: File ------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self._file.path

    def append(self, buffers: Sequence[Buffer]) -> None:
        self._file.append(buffers)

    def read(self, offset: int, length: int) -> bytes:
        return self._file.read(offset, length)

    def size(self) -> int:
        return self._file.size()

    def sync(self) -> None:
        self._volume._tail = self._file  # only this once
        self._reached.set()
        assert self._open.wait(PATIENCE_S), "nobody let the commit go on"
        if self._failure is not None:
            raise self._failure
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()
