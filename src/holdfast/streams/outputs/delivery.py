"""Delivery: a stream written to a file or a pipe, with a durable note of the position after each batch.

The note, in the token file, is made durable after the bytes it covers. A killed delivery resumes from it: the
output is truncated to the noted length, so that nothing is missing and nothing is there twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol, Self

from holdfast.env import Environment
from holdfast.env.files import Buffer, read_file, replace_file, require_parent, translated_errors
from holdfast.errors import CaptureNotFound, Damaged, HoldfastError, MalformedToken, NotFound, UsageError, VolumeDown
from holdfast.streams.batch import StreamBatch
from holdfast.streams.options import StreamOptions
from holdfast.streams.outputs.output import Output
from holdfast.streams.page_reader import StreamFault
from holdfast.streams.work_queue import SharedStream

FORMAT = 1
_DRAFT = ".open"


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """Where a stream is written, and how."""

    target: Path | BinaryIO
    token_file: Path | None = None
    resume: bool = False  # resume from the token file, if there is one


@dataclass(frozen=True, slots=True)
class DeliveryNote:
    """The contents of a token file."""

    token: str
    length: int  # of the output in bytes; for a directory, the number of complete files
    delivered: int  # captures

    def pack(self) -> bytes:
        facts = {"format": FORMAT, "token": self.token, "bytes": self.length, "delivered": self.delivered}
        return json.dumps(facts).encode() + b"\n"


def read_note(env: Environment, path: Path) -> DeliveryNote | None:
    """None if there is no such file. Raises MalformedToken."""
    try:
        facts = json.loads(read_file(env.files, path))
        if facts["format"] != FORMAT or not isinstance(facts["token"], str):
            raise ValueError
        return DeliveryNote(facts["token"], int(facts["bytes"]), int(facts["delivered"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise MalformedToken(f"'{path}' is not the token file of a stream: name another, or delete it") from None


def begun(options: StreamOptions, delivery: DeliveryOptions, env: Environment) -> tuple[StreamOptions, int]:
    """The options of the stream to resume, and the length of its output so far.

    Raises UsageError if the token file is in use, or its output has changed.
    """
    note = read_note(env, delivery.token_file) if delivery.token_file is not None else None
    if note is None:
        return options, 0
    if not delivery.resume:
        raise UsageError(f"'{delivery.token_file}' exists: resume from it, or delete it to start over")
    if options.token:
        raise UsageError("two tokens: one given, one in the token file")
    if isinstance(delivery.target, Path) and not delivery.target.is_dir():
        size = delivery.target.stat().st_size if delivery.target.exists() else 0
        if size < note.length:
            raise UsageError(
                f"'{delivery.target}' has {size} bytes, '{delivery.token_file}' was written at {note.length}: "
                "give the output that belongs to it, or delete the token file to start over"
            )
    return replace(options, token=note.token), note.length


class Deliverable(Protocol):
    """What can be delivered: a stream, or a worker's part of a shared one."""

    @property
    def delivered(self) -> int: ...
    @property
    def token(self) -> str: ...
    def batches(self, most: int | None = None) -> Iterator[StreamBatch]: ...
    def note(self, faults: Sequence[StreamFault]) -> None: ...


def readable(batch: StreamBatch, stream: Deliverable, fields: Sequence[str]) -> StreamBatch:
    """The batch with large payloads secured, without pages that turn out to be damaged or removed."""
    if "payload" in fields:
        for page in [page for page in batch if page.is_large]:
            try:
                page.secure()
            except CaptureNotFound:
                batch.pages.remove(page)
            except (Damaged, VolumeDown, NotFound) as error:
                batch.pages.remove(page)
                stream.note([StreamFault(page.record, page.url, error)])
    return batch


def release(batch: StreamBatch) -> None:
    for page in batch:
        if page.is_large:
            page.release()


class Delivery:
    """Writes a stream to its output. One thread at a time.

    A file that outlives a stopped delivery grows under its own name, and is complete at every note but for its
    end. Any other has the suffix `.open` until it is complete.
    """

    def __init__(self, stream: Deliverable, output: Output, options: DeliveryOptions, env: Environment) -> None:
        self._stream = stream
        self._output = output
        self._options = options
        self._env = env
        self._sink: BinaryIO | None = None
        self.bytes = 0
        self.captures = 0  # of this run

    @property
    def _is_kept(self) -> bool:
        """Whether the output outlives a stopped delivery, because it can be resumed."""
        return self._options.token_file is not None

    def open(self, length: int) -> Self:
        """Opens the output at `length` bytes; writes its beginning if that is 0."""
        target = self._options.target
        if isinstance(target, Path):
            path = self._path(target)
            with translated_errors(path):
                self._sink = path.open("r+b" if length else "wb")
                self._sink.truncate(length)
                self._sink.seek(length)
        else:
            self._sink = target
        self.bytes = length
        if not length:
            self._write([self._output.begin()])
        return self

    def _path(self, target: Path) -> Path:
        if target.is_dir():
            raise UsageError(f"'{target}' is a directory: name a file")
        require_parent(target)
        return target if self._is_kept else target.with_name(target.name + _DRAFT)

    def run(self, limit: int | None = None, progress: Callable[[int], None] | None = None) -> None:
        """Writes the rest of the stream, or `limit` captures. Exceptions of `progress` stop it between two batches."""
        for batch in self._stream.batches(limit):
            before = self.bytes
            try:
                self._write(self._output.encode(readable(batch, self._stream, self._output.fields)))
            finally:
                release(batch)
            self.captures += len(batch)
            self.note(batch.token)
            if progress is not None:
                progress(self.bytes - before)
        self._write([self._output.end()], counted=False)
        self._finish()

    def note(self, token: str) -> None:
        """Syncs the output, then the note."""
        path = self._options.token_file
        if path is None:
            if not isinstance(self._options.target, Path):
                self._sync()  # the reader of a pipe must not wait
            return
        self._sync()
        replace_file(self._env.files, path, DeliveryNote(token, self.bytes, self._stream.delivered).pack())

    def _write(self, pieces: Iterable[Buffer], *, counted: bool = True) -> None:
        assert self._sink is not None
        target = self._options.target
        for piece in pieces:
            if isinstance(target, Path):
                with translated_errors(target):
                    self._sink.write(piece)
            else:
                self._sink.write(piece)
            if counted:
                self.bytes += len(piece)

    def _sync(self) -> None:
        """Flushes a pipe; makes a file durable."""
        assert self._sink is not None
        target = self._options.target
        if not isinstance(target, Path):
            self._sink.flush()
            return
        with translated_errors(target):
            self._sink.flush()
            os.fsync(self._sink.fileno())

    def _finish(self) -> None:
        self._sync()
        target = self._options.target
        if isinstance(target, Path):
            assert self._sink is not None
            self._sink.close()
            with translated_errors(target):
                self._path(target).replace(target)

    def close(self) -> None:
        """Removes an incomplete output, unless it is kept."""
        target = self._options.target
        if isinstance(target, Path) and self._sink is not None:
            with suppress(OSError):  # the error was reported already
                self._sink.close()
            if not self._is_kept:
                self._path(target).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SharedDelivery(Delivery):
    """Appends to its file, which is never truncated. One thread at a time.

    A batch is durable in the file before it is acknowledged. Unacknowledged bytes are cut off: by the worker itself
    when it stops, or else by whoever takes over its unit or its file.
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
        """Opens the file after its acknowledged bytes. Raises UsageError if another worker owns it."""
        self._path(self._file)
        super().open(self._shared.open_output(self._file))
        self._env.files.sync_directory(self._file.absolute().parent)
        return self

    def note(self, token: str) -> None:
        """Syncs the output; its length is recorded with the acknowledgement of the batch."""
        self._sync()
        self._shared.has_written(self.bytes)

    def _finish(self) -> None:
        super()._finish()
        self._shared.leave_output(is_whole=True)
        self._is_whole = True

    def close(self) -> None:
        super().close()
        if self._sink is not None and not self._is_whole:
            with suppress(HoldfastError, OSError):  # then whoever takes over its unit does it
                self._shared.leave_output(is_whole=False)
