"""A table with changes that are collected and then written in one durable step; reads see them before that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.env.table import Table, TableKind
from holdfast.errors import DamagedFrontier

KIND = TableKind("frontier", DamagedFrontier, "holdfast crawl SEED... --name ANOTHER", packed=True)
CACHE_BYTES = 128 << 20


class TableTransaction:
    """One thread. Nothing of a group of changes is on disk before `commit`, all of it after."""

    def __init__(self, path: Path, *, follow: bool = False) -> None:
        self._table = Table(path, KIND, cache_bytes=CACHE_BYTES, follow=follow)
        self._changes: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        if key in self._changes:
            return self._changes[key]
        return self._table.get(key)

    def changed_value(self, key: bytes) -> bytes | None:
        """What the key was given since the last commit, if it was."""
        return self._changes.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        changes = self._changes
        unchanged = [key for key in keys if key not in changes]
        if len(unchanged) == len(keys):
            return self._table.get_many(unchanged) if unchanged else []
        found = dict(zip(unchanged, self._table.get_many(unchanged), strict=True)) if unchanged else {}
        return [changes[key] if key in changes else found[key] for key in keys]

    def put(self, key: bytes, value: bytes) -> None:
        self._changes[key] = value

    def delete(self, key: bytes) -> None:
        self._changes[key] = None

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Of what is committed."""
        return self._table.scan(start, end)

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """Of what is committed."""
        return self._table.last(start, end)

    @property
    def changed(self) -> int:
        return len(self._changes)

    def commit(self) -> None:
        """Durable on return."""
        if self._changes:
            changes = self._changes
            puts = ((key, value) for key, value in changes.items() if value is not None)
            self._table.write(puts, [key for key, value in changes.items() if value is None])
            self._table.sync()
            self._changes = {}

    def close(self) -> None:
        self._table.close()
