"""What to import: files, what lies in folders, pipes and standard input, all looked at before anything is added."""

from __future__ import annotations

import errno
import io
import os
import select
import shutil
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import MalformedInput, NotFound, UsageError

if TYPE_CHECKING:
    from holdfast.archive.input import Input

STANDARD_INPUT = "-"
NAME_OF_STANDARD_INPUT = "standard-input"
SUFFIXES = (*(f".{kind}{coding}" for kind in ("warc", "arc", "tw") for coding in ("", ".gz", ".zst")), ".wacz")
_ZIP_MAGIC = b"PK\x03\x04"
_WAIT_S = 0.2


@dataclass(slots=True)
class Found:
    """What there is to import, what was passed over, and what cannot be opened."""

    inputs: list[Input] = field(default_factory=list)
    paths: dict[str, list[str]] = field(default_factory=dict)  # by the names of the inputs, as the caller gave them
    passed_over: list[Path] = field(default_factory=list)
    broken: list[tuple[str, MalformedInput]] = field(default_factory=list)

    @property
    def total_bytes(self) -> int | None:
        """None if only reading tells."""
        sizes = [each.size for each in self.inputs if each.size is not None]
        return sum(sizes) if len(sizes) == len(self.inputs) else None

    def path_of(self, name: str) -> str:
        """An input as the caller knows it."""
        paths = self.paths.get(name, [])
        return paths[0] if len(paths) == 1 else name

    def add(self, path: str, inputs: Sequence[Input]) -> None:
        self.inputs += inputs
        for each in inputs:
            inner = each.name.partition(":")[2]
            self.paths.setdefault(each.name, []).append(f"{path}:{inner}" if inner else path)


def find_inputs(names: Sequence[str], pressed: Callable[[], bool], closing: ExitStack) -> Found:
    """All inputs; raises OSError or NotFound if one is not there. `pressed` ends a wait for standard input."""
    if names.count(STANDARD_INPUT) > 1:
        raise UsageError("standard input ('-') can be read only once")
    found = Found()
    for name in names:
        if name == STANDARD_INPUT:
            _add_stream(found, name, _Waiting(sys.stdin.fileno(), pressed), closing)
        elif stat.S_ISDIR(mode := os.stat(name).st_mode):
            _add_folder(found, Path(name))
        elif stat.S_ISREG(mode):
            _add_file(found, Path(name))
        else:  # a pipe or a device, which can be read but once
            descriptor = os.open(name, os.O_RDONLY)
            closing.callback(os.close, descriptor)
            _add_stream(found, name, _Waiting(descriptor, pressed), closing)
    if not found.inputs and not found.broken:
        folders = ", ".join(f"'{name}'" for name in names)
        raise NotFound(
            f"nothing to import in {folders}: no name there ends in {', '.join(SUFFIXES)}; "
            "a file that is named itself is imported whatever its name"
        )
    return found


def _add_folder(found: Found, folder: Path) -> None:
    for directory, subfolders, names in os.walk(folder, onerror=_refuse):
        subfolders.sort()
        for name in sorted(names):
            path = Path(directory, name)
            if name.lower().endswith(SUFFIXES) and path.is_file():
                _add_file(found, path)
            else:
                found.passed_over.append(path)


def _refuse(error: OSError) -> None:
    raise error


def _add_file(found: Found, path: Path) -> None:
    from holdfast.archive.input import inputs_of

    if not os.access(path, os.R_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    try:
        found.add(str(path), inputs_of(path))
    except MalformedInput as error:
        found.broken.append((str(path), error))


# -- what can be read but once ----------------------------------------------------------------------------------------


def _add_stream(found: Found, name: str, source: _Waiting, closing: ExitStack) -> None:
    from holdfast.archive.input import Input, inputs_of

    stream = io.BufferedReader(source, 1 << 16)
    title = NAME_OF_STANDARD_INPUT if name == STANDARD_INPUT else Path(name).name
    if not stream.peek(len(_ZIP_MAGIC)).startswith(_ZIP_MAGIC):
        found.add(name, [Input(title, stream=stream)])
        return
    copy = closing.enter_context(ScratchDirectory("import")).path / f"{Path(title).stem}.wacz"
    with copy.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    try:
        found.add(name, inputs_of(copy))
    except MalformedInput as error:
        found.broken.append((name, error))


class _Waiting(io.RawIOBase):
    """A stream that stops waiting for more when Ctrl-C was pressed, in whatever thread it is read."""

    def __init__(self, descriptor: int, pressed: Callable[[], bool]) -> None:
        self._descriptor = descriptor
        self._pressed = pressed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        from holdfast.archive.reader import Stopped

        while not select.select([self._descriptor], [], [], _WAIT_S)[0]:
            if self._pressed():
                raise Stopped
        piece = os.read(self._descriptor, len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)
