"""What is known of damage in a volume: which blocks a read, a scrub or a check could not read (N13).

A volume's directory has a directory `damaged` with an empty file for each such block, named by its key as a block file
of a tree is: `<signature>[~overflow][@home]`. Whoever meets damage makes the file, be it a reader beside the writer;
the writer removes it when the block has been written again or is gone. The next store of the content sees the file, and
heals the block with the bytes at hand.

The files are hints. One that is missing costs nothing but that the damage must be met again; one that is left over, by
a crash between a repair and the removal of the file, costs that the block is written once more.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from holdfast.env import Environment, paths
from holdfast.errors import HoldfastError
from holdfast.storage.volume import BlockKey, Effect, OperationResult

log = logging.getLogger("holdfast.storage")

DAMAGED_MAX: Final = 10_000  # blocks that are remembered of a volume; more are left to `check --repair`
_NAME = re.compile(r"((?:[0-9a-f]{2}){1,64})(?:~([0-9]{1,5}))?(?:@([a-z0-9][a-z0-9_-]{0,15}))?")
_NONE: Final[frozenset[BlockKey]] = frozenset()
_SETTLING = frozenset([Effect.NEW, Effect.HEALED, Effect.REMOVED])


class KnownDamage:
    """The damaged blocks of one volume. Any thread and any process may call any method."""

    def __init__(self, env: Environment, directory: Path) -> None:
        self._files = env.files
        self._volume = directory / paths.VOLUME
        self._directory = directory / paths.DAMAGED
        self._seen = _NONE  # by this process, at its last look

    def keys(self) -> frozenset[BlockKey]:
        """All that is known now, also by other processes. As a rule nothing, at the price of one look."""
        if not self._files.exists(self._directory):
            return _NONE
        names = self._files.names(self._directory)
        self._seen = frozenset(key for name in names if (key := _key(name)) is not None)
        return self._seen

    def note(self, keys: Iterable[BlockKey]) -> None:
        """The blocks are damaged. Durable on return, unless that is not possible: then it is as if nobody had looked.

        A volume whose directory is gone stays gone.
        """
        try:
            known = self.keys()
            fresh = [key for key in dict.fromkeys(keys) if key not in known]
            if not fresh or not self._files.exists(self._volume):
                return
            if len(known) + len(fresh) > DAMAGED_MAX:
                log.error("'%s' has more than %d damaged blocks; run 'holdfast check'", self._directory, DAMAGED_MAX)
                fresh = fresh[: max(0, DAMAGED_MAX - len(known))]
            self._files.make_directory(self._directory)
            for key in fresh:
                self._make(self._directory / _name(key))
            self._files.sync_directory(self._directory)
        except HoldfastError as error:
            log.warning("damage in '%s' cannot be remembered: %s", self._directory.parent, error)

    def _make(self, path: Path) -> None:
        if not self._files.exists(path):
            try:
                self._files.open(path, writable=True, create=True).close()
            except HoldfastError:
                if not self._files.exists(path):  # else another process was faster
                    raise

    def settle(self, outcomes: Iterable[OperationResult]) -> None:
        """What the volume has written or removed, durably, is damaged no more."""
        if self._seen:
            gone = [each.key for each in outcomes if each.effect in _SETTLING and each.key in self._seen]
            self.forget(gone)

    def clear(self) -> None:
        """A repair has seen to all of them."""
        self.forget(self.keys())

    def forget(self, keys: Iterable[BlockKey]) -> None:
        """The blocks are sound again, or gone. By the volume's writer, or by a repair."""
        gone = list(keys)
        if not gone:
            return
        try:
            for key in gone:
                self._files.remove(self._directory / _name(key))
            self._files.sync_directory(self._directory)
            self._seen = self._seen.difference(gone)
        except HoldfastError as error:
            log.warning("'%s' cannot be brought up to date: %s", self._directory, error)


def _name(key: BlockKey) -> str:
    overflow = f"~{key.overflow}" if key.overflow else ""
    home = f"@{key.home.decode()}" if key.home else ""
    return key.signature.hex() + overflow + home


def _key(name: str) -> BlockKey | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return BlockKey(bytes.fromhex(match[1]), int(match[2] or 0), (match[3] or "").encode())
