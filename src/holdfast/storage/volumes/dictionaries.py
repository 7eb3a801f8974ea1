"""The dictionaries of a volume: each in two block files, in every organization.

    dictionaries/1a2b3c4d     the dictionary with this id, as a block of kind `dict`
    dictionaries/1a2b3c4d~1   a second copy

Every content that was encoded with a dictionary needs it, so either copy is enough. Serials number the dictionaries
of a volume; the highest is the newest. Dictionaries are never removed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

from holdfast.env import Environment
from holdfast.env import paths as layout
from holdfast.env.files import read_file, replace_file
from holdfast.errors import DamagedBlock
from holdfast.model import Fault
from holdfast.storage import block
from holdfast.storage.block import DICT, HEADER_BYTES, Header
from holdfast.storage.identity import Identity
from holdfast.storage.volumes.damage import MISSING_DICTIONARY

COPIES = 2
_NAME = re.compile(r"([0-9a-f]{8})(?:~1)?")


class DictionaryShelf:
    """Any thread may read; `add` and `repair` exclude each other."""

    def __init__(self, env: Environment, volume_directory: Path, identity: Identity) -> None:
        self._env = env
        self._directory = volume_directory / layout.DICTIONARIES
        self._identity = identity
        self._lock = threading.Lock()

    def numbers(self) -> list[int]:
        """The ids of all dictionaries, readable or not."""
        matches = map(_NAME.fullmatch, self._env.files.names(self._directory))
        return sorted({int(match[1], 16) for match in matches if match})

    def newest(self) -> tuple[int, bytes] | None:
        """Id and bytes of the dictionary that was added last."""
        found = [entry for number in self.numbers() if (entry := self._sound(number)) is not None]
        if not found:
            return None
        header, data = max(found, key=lambda entry: entry[0].serial)
        return header.dictionary, data

    def read(self, number: int) -> tuple[int, bytes] | None:
        """The dictionary; None if the volume never had it. Raises DamagedBlock if neither copy can be read."""
        found = self._sound(number)
        if found is not None:
            return number, found[1]
        if number in self.numbers():
            raise DamagedBlock(f"cannot read dictionary {number:08x} in '{self._directory}': both copies are damaged")
        return None

    def add(self, number: int, data: bytes) -> None:
        """Adds a dictionary. Durable on return."""
        with self._lock:
            serials = [found[0].serial for each in self.numbers() if (found := self._sound(each)) is not None]
            self._write(number, data, max(serials, default=0) + 1)

    def settle(self) -> None:
        """After a crash: makes existing dictionaries durable and restores missing copies."""
        if not self._env.files.exists(self._directory):
            return
        self._env.files.sync_directory(self._directory)
        for number in self.numbers():
            found = self._sound(number)
            paths = [self._path(number, copy) for copy in range(COPIES)]
            if found is not None and not all(map(self._env.files.exists, paths)):
                self._write(number, found[1], found[0].serial)

    def _write(self, number: int, data: bytes, serial: int) -> None:
        self._env.files.make_directory(self._directory)
        for copy in range(COPIES):
            header = Header(
                DICT,
                self._identity.uid,
                serial,
                serial - 1,
                self._identity.signature.encode(),
                block.checksum(data).to_bytes(4, "big"),
                copy,
                b"",
                b"none",
                number,
                len(data),
                len(data),
                1,
                block.checksum(data),
            )
            replace_file(self._env.files, self._path(number, copy), block.pack(header) + data)

    def _path(self, number: int, copy: int) -> Path:
        return self._directory / (f"{number:08x}~{copy}" if copy else f"{number:08x}")

    def _sound(self, number: int) -> tuple[Header, bytes] | None:
        """The first readable copy."""
        return next((found for copy in range(COPIES) if (found := self._copy(number, copy)) is not None), None)

    def _copy(self, number: int, copy: int) -> tuple[Header, bytes] | None:
        try:
            raw = read_file(self._env.files, self._path(number, copy))
        except FileNotFoundError:
            return None
        header, data = block.parse(raw[:HEADER_BYTES]), raw[HEADER_BYTES:]
        if header is None or header.kind != DICT or header.dictionary != number or header.overflow != copy:
            return None
        sound = header.uid == self._identity.uid and len(data) == header.stored
        return (header, data) if sound and block.checksum(data) == header.checksum else None

    # -- checking and repairing -----------------------------------------------------------------------------------

    def check(self, volume: str, needed: set[int]) -> Iterator[Fault]:
        """Each damaged copy, and each missing dictionary that blocks were encoded with."""
        present = self.numbers()
        for number in present:
            for copy in range(COPIES):
                if self._copy(number, copy) is None:
                    path, wanted = str(self._path(number, copy)), f"dictionary {number:08x}"
                    yield Fault(volume, path, 0, "damaged dictionary", wanted, "no sound copy of it")
        for number in sorted(needed - {0} - set(present)):
            path = str(self._path(number, 0))
            yield Fault(volume, path, 0, MISSING_DICTIONARY, f"dictionary {number:08x}", "nothing")

    def repair(self) -> list[int]:
        """Restores copies from each other; returns the ids without a readable copy, whose files go to `lost/`."""
        lost = []
        for number in self.numbers():
            found = self._sound(number)
            if found is not None:
                self._write(number, found[1], found[0].serial)
                continue
            lost.append(number)
            for copy in range(COPIES):
                self._set_aside(self._path(number, copy))
        return lost

    def _set_aside(self, path: Path) -> None:
        lost = self._directory.parent / layout.LOST
        if self._env.files.exists(path):
            self._env.files.make_directory(lost)
            self._env.files.rename(path, lost / f"dictionary-{path.name}")
            self._env.files.sync_directory(lost)
            self._env.files.sync_directory(self._directory)
