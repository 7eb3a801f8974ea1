"""The journal of a hash volume: new images of pages, durable before the first of them is written in its place.

It is a file like a segment (`redo`): a header, then one transaction after the other. A transaction is an entry of kind
`state`, whose `references` says how many entries follow it: `page`, with the bytes of a page, named by its file and
number, and `ticket`. It happens as a whole or not at all: one that is not there to its end was never acknowledged.

Opening writes the last image of each page to its place, wherever a crash interrupted that. Once the pages are synced
(a *checkpoint*), the journal is rewritten: nothing but the state and what is remembered of tickets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast.env import Environment, File, paths
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock
from holdfast.storage import block
from holdfast.storage.block import STATE, TICKET
from holdfast.storage.identity import Identity
from holdfast.storage.volume import BlockKey, Encoded
from holdfast.storage.volumes.hash.page import PageId
from holdfast.storage.volumes.hash.state import HashState, unpack_state
from holdfast.storage.volumes.idempotency import Kept
from holdfast.storage.volumes.journal import JournalFile, acknowledged_bytes, require_own_journal
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, Damage, walk
from holdfast.storage.volumes.operations import Change

REDO_BYTES_MAX: Final = 32 << 20  # beyond this there is a checkpoint
PAGE: Final = b"page"
_PAGE_NAME = struct.Struct(">IQ")


@dataclass(slots=True)
class Redone:
    """What a journal tells."""

    state: HashState
    free: list[int]
    images: dict[PageId, bytes] = field(default_factory=dict)  # the last one of each page
    tickets: list[tuple[bytes, Kept]] = field(default_factory=list)
    serial: int = 0  # of the last entry
    end: int = 0  # where the last whole transaction ends
    excess: int = 0  # bytes behind it, never acknowledged


def read_redo(file: File, identity: Identity) -> Redone:
    """All whole transactions. Raises DamagedBlock or FormatTooNew."""
    require_own_journal(file, identity)
    size, end = file.size(), acknowledged_bytes(file, identity)
    redone: Redone | None = None
    serial = 0
    for step in walk(file, identity.uid, SEGMENT_HEADER_BYTES, end):
        if isinstance(step, Damage) or (redone is None and step.header.kind != STATE):
            raise DamagedBlock(f"cannot read '{file.path}': it is damaged; run 'holdfast check --repair'")
        serial = step.header.serial
        match step.header.kind:
            case block.STATE:
                state, free = unpack_state(bytes(step.data))
                redone = redone or Redone(state, free)
                redone.state, redone.free = state, free
            case block.TICKET if redone is not None:
                redone.tickets.append((step.header.signature, Kept(serial, bytes(step.data))))
            case _ if redone is not None:
                redone.images[PageId(*_PAGE_NAME.unpack(step.header.signature))] = bytes(step.data)
    if redone is None:
        raise DamagedBlock(f"cannot read '{file.path}': it has no state; run 'holdfast check --repair'")
    redone.serial, redone.end, redone.excess = serial, end, size - end
    return redone


class RedoJournal(JournalFile):
    """The writer's journal. One thread at a time."""

    def __init__(self, env: Environment, directory: Path, identity: Identity) -> None:
        super().__init__(env, directory / paths.REDO, identity)
        self._serial = self._durable = 0

    def open(self) -> Redone:
        """What there is; what was torn is cut off, the rest is durable. Raises as `read_redo`."""
        files = self._env.files
        files.remove(self.draft)
        files.sync_directory(self.path.parent)
        self._file = files.open(self.path, writable=True)
        redone = read_redo(self._file, self._identity)
        self.end = redone.end
        if redone.excess:
            self._file.truncate(self.end)
        self._file.sync()  # a killed process may have left it unsynced, and what is done now must not outlive it
        self._serial = self._durable = redone.serial
        return redone

    def begin_behind(self, serial: int) -> None:
        """For a journal that is to be rebuilt: its entries are later than all there were."""
        self._serial = self._durable = serial

    def append(
        self, state: bytes, images: Sequence[tuple[PageId, Buffer]], tickets: Sequence[tuple[bytes, Kept]]
    ) -> None:
        """A transaction, durable on return. If it raises, see `cut_back`."""
        self.write(self._packed(state, images, tickets))
        self._durable = self._serial

    @property
    def next_serial(self) -> int:
        """For what is about to be appended: it gets this one, or a later one."""
        return self._serial + 1

    def read(self) -> Redone:
        """What it says now."""
        assert self._file is not None
        return read_redo(self._file, self._identity)

    def renew(self, state: bytes, tickets: Sequence[tuple[bytes, Kept]]) -> None:
        """Everything before is durable in the pages: a new journal takes the place of this one. See `replace`."""
        self.replace(self._packed(state, (), tickets))
        self._durable = self._serial

    def _packed(
        self, state: bytes, images: Iterable[tuple[PageId, Buffer]], tickets: Sequence[tuple[bytes, Kept]]
    ) -> list[Buffer]:
        pages = [(PAGE, _PAGE_NAME.pack(*page), image) for page, image in images]
        entries = [*pages, *((TICKET, name, kept.data) for name, kept in tickets)]
        buffers: list[Buffer] = []
        for kind, name, data in [(STATE, bytes(8), state), *entries]:
            self._serial += 1
            follow = len(entries) if kind == STATE else 0
            entry = Change(kind, BlockKey(name), Encoded("none", 0, len(data), data), follow)
            buffers += (entry.packed_header(self._identity, self._serial, self._durable), data)
        return buffers
