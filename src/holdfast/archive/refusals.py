"""Records that were removed and are not to come back, by fingerprint: one line of 32 hexadecimal digits for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.archive.adding import REFUSED
from holdfast.catalog import Catalog, CatalogChange
from holdfast.env import Environment
from holdfast.env.files import read_file
from holdfast.storage import layout

_LINE = 33
_MARK = re.compile(rb"[0-9a-f]{32}")
_STEP = 1000


class Refusals:
    """One thread at a time."""

    def __init__(self, root: Path, env: Environment) -> None:
        self._path = root / layout.REFUSED
        self._env = env

    def add(self, fingerprints: Sequence[bytes]) -> None:
        """Durable on return. Those that are there already do no harm."""
        if not fingerprints:
            return
        files = self._env.files
        fresh = not files.exists(self._path)
        file = files.open(self._path, writable=True, create=fresh)
        try:
            file.truncate(file.size() - file.size() % _LINE)  # a line that was torn
            file.append(["".join(f"{each.hex()}\n" for each in fingerprints).encode()])
            file.sync()
        finally:
            file.close()
        if fresh:
            files.sync_directory(self._path.parent)

    def all(self) -> Iterator[bytes]:
        try:
            text = read_file(self._env.files, self._path)
        except FileNotFoundError:
            return
        for start in range(0, len(text), _LINE):  # by place, for a power cut may have spoiled a line and its end
            if _MARK.fullmatch(line := text[start : start + _LINE - 1]):
                yield bytes.fromhex(line.decode())

    def enter(self, catalog: Catalog) -> None:
        """Tells a catalog that is being made anew."""
        everyone = list(self.all())
        for start in range(0, len(everyone), _STEP):
            catalog.add(CatalogChange(fingerprints=dict.fromkeys(everyone[start : start + _STEP], REFUSED)))
