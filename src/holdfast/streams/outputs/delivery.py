"""Delivery: a stream written to a file or a pipe, and after each batch a note of how far it came.

The note, in the token file, is made durable after the bytes that it tells of. Whoever is killed goes on from it: the
output is cut to the noted length, so that nothing is missing in it and nothing twice.
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
from holdfast.env.files import Buffer, read_file, replace_file, translated_errors
from holdfast.errors import CaptureNotFound, Damaged, MalformedToken, NotFound, UsageError, VolumeDown
from holdfast.streams.batch import StreamBatch
from holdfast.streams.options import StreamOptions
from holdfast.streams.outputs.output import Output
from holdfast.streams.page_reader import StreamFault

FORMAT = 1
_DRAFT = ".open"


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """Where a stream goes."""

    target: Path | BinaryIO
    token_file: Path | None = None
    resume: bool = False  # go on from the token file, if there is one


@dataclass(frozen=True, slots=True)
class DeliveryNote:
    """What a token file says."""

    token: str
    length: int  # of the output, in bytes; of a directory of files, how many are whole
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
        raise MalformedToken(f"'{path}' is no token file of a stream: name another, or delete it") from None


def begun(options: StreamOptions, delivery: DeliveryOptions, env: Environment) -> tuple[StreamOptions, int]:
    """The options of the stream to go on with, and how much of its output there is already.

    Raises UsageError if the token file is in use, or its output is not what it was.
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
    """What can be delivered: a stream, or a part of one that is shared."""

    @property
    def delivered(self) -> int: ...
    @property
    def token(self) -> str: ...
    def batches(self, most: int | None = None) -> Iterator[StreamBatch]: ...
    def note(self, faults: Sequence[StreamFault]) -> None: ...


def readable(batch: StreamBatch, stream: Deliverable, fields: Sequence[str]) -> StreamBatch:
    """The batch with its large payloads secured; without those that turn out to be damaged, or removed."""
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
    """A stream on its way to its output. One thread at a time.

    A file that is kept when the delivery is stopped grows under its own name, and is whole at every note but for its
    end. Another has the suffix `.open` until it is whole.
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
        """Whether what is written stays when the delivery is stopped, because it is noted how to go on."""
        return self._options.token_file is not None

    def open(self, length: int) -> Self:
        """Opens the output, which has `length` bytes already, and writes its beginning."""
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
        return target if self._is_kept else target.with_name(target.name + _DRAFT)

    def run(self, limit: int | None = None, progress: Callable[[int], None] | None = None) -> None:
        """Writes the rest of the stream, or so many captures. What `progress` raises stops it between two batches."""
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
        """Makes durable what was written, then the note of it."""
        path = self._options.token_file
        if path is None:
            if not isinstance(self._options.target, Path):
                self._sync()  # who reads a pipe is not to wait
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
        """A pipe has taken what was written; a file has it for good."""
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
        """What is not whole is removed, unless it is kept."""
        target = self._options.target
        if isinstance(target, Path) and self._sink is not None:
            with suppress(OSError):  # what could not be written before cannot be now
                self._sink.close()
            if not self._is_kept:
                self._path(target).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
