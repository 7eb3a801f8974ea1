"""A worker's part of a shared stream, written to a file of its own: together, the files have each capture once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Self

from holdfast.env import Environment
from holdfast.errors import HoldfastError, UsageError
from holdfast.streams.outputs.delivery import Delivery, DeliveryOptions
from holdfast.streams.outputs.output import Output
from holdfast.streams.work_queue import SharedStream


class SharedDelivery(Delivery):
    """Appends to its file, which is never truncated. One thread at a time.

    A batch is durable in the file before it is acknowledged. What a worker wrote that was not is cut off: by itself
    when it is stopped, else by who gets the unit that it died over, or by who goes on with the file.
    """

    def __init__(self, stream: SharedStream, output: Output, options: DeliveryOptions, env: Environment) -> None:
        if not isinstance(options.target, Path):
            raise UsageError("only a file keeps step with a shared stream: name one")
        super().__init__(stream, output, options, env)
        self._shared = stream
        self._file = options.target
        self._is_whole = False

    @property
    def _is_kept(self) -> bool:
        return True

    def open(self, length: int = 0) -> Self:
        """Opens the file behind what is acknowledged of it. Raises UsageError if it is not this worker's to write."""
        self._path(self._file)
        super().open(self._shared.open_output(self._file))
        self._env.files.sync_directory(self._file.absolute().parent)
        return self

    def note(self, token: str) -> None:
        """Makes durable what was written; how much that is, is noted with the acknowledgement of the batch."""
        self._sync()
        self._shared.has_written(self.bytes)

    def _finish(self) -> None:
        super()._finish()
        self._shared.leave_output(is_whole=True)
        self._is_whole = True

    def close(self) -> None:
        super().close()
        if self._sink is not None and not self._is_whole:
            with suppress(HoldfastError, OSError):  # then who takes what is left of its unit does it
                self._shared.leave_output(is_whole=False)
