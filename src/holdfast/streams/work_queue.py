"""One stream shared by any number of processes of a machine; each takes the next unit of work when it is done.

    work.json          the stream's token, where the next unit begins, which units are under way, by whom, and how much
                       of the workers' files is acknowledged
    work.json.lock     held by who reads or changes it
    work.json.<name>   locked (`flock`) by a worker for as long as it lives

A unit is a range of the stream. By requesting the next batch, a worker acknowledges the last one: that is
recorded durably, and nobody gets it again. What a dead worker had taken and not acknowledged goes to another,
from its current batch on: so each capture is acknowledged once, and delivered once unless its worker died. In
files listed here it is written once even then.

The output files of the workers, and how much of each is acknowledged:

    {"/data/0.jsonl": {"worker": "5b1c90ae77d2f013", "bytes": 1048576}, ...}

The list is part of the stream's file and changes atomically with the acknowledged units. What follows
`bytes` in a file was not acknowledged: it is cut off before its captures are given to another worker.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from holdfast.env.files import read_file, replace_file, translated_errors
from holdfast.env.lock import is_locked
from holdfast.errors import MalformedToken, UsageError
from holdfast.streams.batch import StreamBatch
from holdfast.streams.options import StreamOptions
from holdfast.streams.order.ranges import Bound, Position, Ranges
from holdfast.streams.page_reader import StreamFault
from holdfast.streams.source import StreamSource
from holdfast.streams.stream import Stream
from holdfast.streams.token import StreamToken, decode, require_own

Outputs = dict[str, dict[str, Any]]
NOBODY = ""


def claim(outputs: Outputs, path: str, worker: str, is_alive: Callable[[str], bool]) -> int:
    """Registers a file as a worker's output, truncated to the returned length.

    Raises UsageError if it belongs to another live worker, is not an output of this stream, or has become shorter.
    """
    size = os.stat(path).st_size if os.path.exists(path) else 0
    known = outputs.get(path)
    if known is None:
        if size:
            raise UsageError(
                f"'{path}' exists and is not an output of this shared stream: name another file, or delete it"
            )
        outputs[path] = {"worker": worker, "bytes": 0}
        return 0
    length = int(known["bytes"])
    if known["worker"] not in (NOBODY, worker) and is_alive(known["worker"]):
        raise UsageError(f"another worker of this shared stream writes to '{path}': name a file for each")
    if size < length:
        raise UsageError(
            f"'{path}' has {size} bytes, but {length} were delivered: restore it, or name another file for the rest"
        )
    cut(path, length)
    known["worker"] = worker
    return length


def cut_of(outputs: Outputs, worker: str) -> None:
    """Truncates the files of a dead worker to their acknowledged length; durable on return."""
    for path, known in outputs.items():
        if known["worker"] == worker:
            cut(path, int(known["bytes"]))
            known["worker"] = NOBODY


def cut(path: str, length: int) -> None:
    """Does nothing if the file is missing or not longer."""
    with suppress(FileNotFoundError), translated_errors(Path(path)), open(path, "r+b") as file:
        if file.seek(0, os.SEEK_END) > length:
            file.truncate(length)
            os.fsync(file.fileno())


FORMAT = 1
UNIT = 1024  # captures, about


class SharedStream:
    """A worker's part of a stream. One thread at a time; close it, or use it as a context manager."""

    def __init__(self, source: StreamSource, options: StreamOptions, path: Path) -> None:
        """The first worker begins the stream; others join it with the same options. Raises MalformedToken."""
        self.options = options
        self.faults: list[StreamFault] = []
        self.fault_count = 0
        self.delivered: int = 0  # to this worker
        self._source = source
        self._path = path
        self._worker = source.env.random_bytes(8).hex()
        self._output: str | None = None  # its output file
        self._written = 0  # durable bytes in it
        self._alive = os.open(self._life(self._worker), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(self._alive, fcntl.LOCK_EX)
        try:
            with self._state() as state:
                self._token = self._joined(state)
            self._whole = Stream(source, replace(options, token=self._token.encode()))
        except BaseException:
            self.close()
            raise

    def _joined(self, state: dict[str, Any]) -> StreamToken:
        if "token" not in state:
            begun = Stream(self._source, self.options).state
            _require_one_part(begun.left)
            state.update(
                format=FORMAT, token=begun.encode(), next=list(begun.left.first) if begun.left else None, units={}
            )
            return begun
        token = decode(state["token"])
        require_own(token, self._source.settings.uid, self.options)
        return token

    # -- units, as the file has them ----------------------------------------------------------------------------

    @contextmanager
    def _state(self) -> Iterator[dict[str, Any]]:
        """The contents of the file, under its lock; changes are durable on exit."""
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before: dict[str, Any] = {}
            with suppress(FileNotFoundError):
                before = self._read()
            state = json.loads(json.dumps(before))
            yield state
            if state != before:
                replace_file(self._source.env.files, self._path, json.dumps(state).encode() + b"\n")
        finally:
            os.close(lock)

    def _read(self) -> dict[str, Any]:
        try:
            facts = json.loads(read_file(self._source.env.files, self._path))
            if facts["format"] != FORMAT or not isinstance(facts["units"], dict):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise MalformedToken(
                f"'{self._path}' is not the file of a shared stream: name another, or delete it"
            ) from None
        return dict(facts)

    def _life(self, worker: str) -> str:
        return f"{self._path}.{worker}"

    def _is_alive(self, worker: str) -> bool:
        """Whether a worker holds its lock; the lock file of a dead one is removed."""
        life = Path(self._life(worker))
        try:
            if is_locked(life):
                return True
        except FileNotFoundError:
            return False
        life.unlink(missing_ok=True)
        return False

    def _take(self) -> tuple[Position, Bound] | None:
        """The unit of a dead worker, else the next one; None if nothing is left."""
        with self._state() as state:
            for worker, unit in list(state["units"].items()):
                if not self._is_alive(worker):
                    cut_of(state.get("outputs", {}), worker)
                    del state["units"][worker]
                    state["units"][self._worker] = unit
                    return tuple(unit[0]), None if unit[1] is None else tuple(unit[1])
            if state["next"] is None:
                return None
            start: Position = tuple(state["next"])
            end = self._end_of_unit(start)
            state["next"] = None if end is None else list(end)
            state["units"][self._worker] = [list(start), None if end is None else list(end)]
            return start, end

    def _end_of_unit(self, start: Position) -> Bound:
        """Where the next unit begins; None: this one reaches to the end."""
        if self.options.order == "log" and start:
            return start[0], int(start[1]) + UNIT  # units may be shorter or empty, so no record is read here
        step = self._whole.order.step(start, UNIT)
        return step.position if step is not None else None

    def _acknowledge(self, behind: Position | None) -> None:
        """Acknowledges a unit up to a position; None: the whole unit."""
        with self._state() as state:
            if behind is None:
                state["units"].pop(self._worker, None)
            else:
                state["units"][self._worker][0] = list(behind)
            if self._output is not None:
                state["outputs"][self._output]["bytes"] = self._written

    # -- output files -------------------------------------------------------------------------------------------

    def open_output(self, path: Path) -> int:
        """Takes a file for this worker, truncated to its acknowledged bytes, which are returned.

        Raises UsageError if another worker has it, or it is not an output of this stream.
        """
        output = str(path.resolve())
        with self._state() as state:
            self._written = claim(state.setdefault("outputs", {}), output, self._worker, self._is_alive)
        self._output = output
        return self._written

    def has_written(self, length: int) -> None:
        """Declares bytes of the file durable; recorded with the acknowledgement of the current batch."""
        self._written = length

    def leave_output(self, *, is_whole: bool) -> None:
        """Releases the file; an incomplete one is truncated to its acknowledged length."""
        output, self._output = self._output, None
        if output is None:
            return
        with self._state() as state:
            known = state["outputs"][output]
            if not is_whole:
                cut(output, int(known["bytes"]))
            known["worker"] = NOBODY

    # -- delivery -----------------------------------------------------------------------------------------------

    def batches(self, most: int | None = None) -> Iterator[StreamBatch]:
        """Batches until nothing is left, or `most` captures. Requesting one acknowledges the last."""
        left = most
        while (left is None or left > 0) and (unit := self._take()) is not None:
            start, end = unit
            if self._is_beyond(start):
                self._skip_to_next_batch(str(start[0]))
                continue
            token = replace(self._token, left=Ranges(((start, end),)), delivered=0)
            with Stream(self._source, replace(self.options, token=token.encode())) as stream:
                for batch in stream.batches(left):
                    self.delivered += len(batch)
                    yield batch
                    self._acknowledge(stream.left.first if stream.left else None)
                    left = None if left is None else left - len(batch)
                self.note(stream.faults)
                self.fault_count += stream.fault_count - len(stream.faults)
                if not stream.left or left is None or left > 0:
                    self._acknowledge(None)

    def _is_beyond(self, start: Position) -> bool:
        """Whether a unit lies after the last record of its batch."""
        if self.options.order != "log" or not start:
            return False
        return int(start[1]) >= self._token.snapshot.ends.get(str(start[0]), 0)

    def _skip_to_next_batch(self, batch: str) -> None:
        following = next((name for name in self._token.snapshot.ends if name > batch), None)
        with self._state() as state:
            state["units"].pop(self._worker, None)
            if state["next"] is not None and state["next"][0] == batch:
                state["next"] = None if following is None else [following, 1]

    def note(self, faults: Sequence[StreamFault]) -> None:
        """As for a stream."""
        self.fault_count += len(faults)
        self.faults += faults
        if faults and self.options.strict:
            raise faults[0].error

    @property
    def token(self) -> str:
        """The token of the whole stream, from its beginning; only the file knows what is left."""
        return self._token.encode()

    def close(self) -> None:
        """Leaves unacknowledged work to others."""
        alive, self._alive = self._alive, -1
        if alive >= 0:
            Path(self._life(self._worker)).unlink(missing_ok=True)
            os.close(alive)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _require_one_part(left: Ranges) -> None:
    """The one position from which nothing has been taken."""
    if left and left != Ranges.behind(left.first):
        raise MalformedToken(
            "the token leaves several ranges of its stream, and only one range can be shared: "
            "resume it with a stream or a multicast"
        )
