"""Files to store: looked at before anything is stored, read a batch at a time."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.errors import TooLarge, UsageError

STANDARD_INPUT = "-"
BATCH_FILES_MAX = 256
BATCH_BYTES_MAX = 64 << 20  # a larger file is a batch of its own
_PIECE_BYTES = 1 << 20
_LOOK_S = 0.5  # between two looks for Ctrl-C while nothing comes


@dataclass(frozen=True, slots=True)
class ContentInput:
    """A file, or standard input."""

    name: str  # as the caller gave it
    size: int | None  # None: only reading tells

    def read(self, limit: int) -> bytearray:
        """The content; of one beyond the limit no more than needed to know that."""
        if self.name == STANDARD_INPUT:
            return self._read(_read_input, limit)
        with open(self.name, "rb") as file:
            return self._read(file.read, limit)

    def _read(self, read: Callable[[int], bytes], limit: int) -> bytearray:
        content = bytearray()
        while piece := read(_PIECE_BYTES):
            content += piece
            if len(content) > limit:
                raise _too_large(self.name, limit)
        return content


def _read_input(most: int) -> bytes:
    """Of standard input what there is; empty at its end. A Ctrl-C that comes just before a read would not wake that."""
    while not select.select([sys.stdin], [], [], _LOOK_S)[0]:
        pass
    return os.read(sys.stdin.fileno(), most)


def find_inputs(names: Sequence[str], limit: int) -> list[ContentInput]:
    """The inputs, if all of them can be read and none is known to be beyond the limit; raises otherwise."""
    if names.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input ('-') can be read only once")
    inputs = [_find(name) for name in names]
    for each in inputs:
        if each.size is not None and each.size > limit:
            raise _too_large(each.name, limit)
    return inputs


def _find(name: str) -> ContentInput:
    if name == STANDARD_INPUT:
        return ContentInput(name, None)
    facts = os.stat(name)
    if stat.S_ISDIR(facts.st_mode):
        raise _refusal(errno.EISDIR, name)
    if not os.access(name, os.R_OK):
        raise _refusal(errno.EACCES, name)
    return ContentInput(name, facts.st_size if stat.S_ISREG(facts.st_mode) else None)


def _refusal(code: int, name: str) -> OSError:
    return OSError(code, os.strerror(code), name)


def _too_large(name: str, limit: int) -> TooLarge:
    return TooLarge(f"'{name}' has more than {limit} bytes, the limit for one content (store.content_bytes_max)")


def batches(inputs: Sequence[ContentInput]) -> Iterator[list[ContentInput]]:
    """The inputs in order, grouped; one of unknown size stands alone."""
    batch: list[ContentInput] = []
    room = BATCH_BYTES_MAX
    for each in inputs:
        size = BATCH_BYTES_MAX if each.size is None else each.size
        if batch and (len(batch) == BATCH_FILES_MAX or size > room):
            yield batch
            batch, room = [], BATCH_BYTES_MAX
        batch.append(each)
        room -= size
    if batch:
        yield batch
