"""A journal file: framed as a segment, appended to, cut back after a failure, replaced when it has grown.

The journals of tree and hash volumes are made of it. What is appended is durable on return. A journal is replaced by
writing a draft, syncing it and renaming it: a crash leaves the old one or the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from holdfast.env import Environment, File, paths
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, VolumeDown, VolumeFull
from holdfast.storage.identity import Identity
from holdfast.storage.volumes.log.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    pack_segment_header,
    read_segment_header,
    torn_from,
)

_NUMBERS: Final = (1, 0, 1)  # segment, generation, through


class JournalFile:
    """The writer's file. One thread at a time.

    After a `failure` nobody knows what the next opening will find: nothing more is appended.
    """

    def __init__(self, env: Environment, path: Path, identity: Identity) -> None:
        self.path = path
        self.failure: BaseException | None = None
        self._env = env
        self._identity = identity
        self._file: File | None = None  # None: there is none yet, or it is closed
        self.end = SEGMENT_HEADER_BYTES

    @property
    def draft(self) -> Path:
        """Where its successor is written."""
        return self.path.with_name(self.path.name + paths.UNFINISHED)

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Appends; durable on return. If it raises, see `cut_back`."""
        if self.failure is not None:
            raise VolumeDown(
                f"'{self.path}' is not written to after a failure ({self.failure}); open the archive again"
            )
        assert self._file is not None
        self._file.append(buffers)
        self._file.sync()
        self.end += sum(map(len, buffers))

    def cut_back(self) -> None:
        """Takes off what a failed `write` has left: after a failed sync, no later one would write it."""
        assert self._file is not None
        self._file.truncate(self.end)
        self._file.sync()

    def replace(self, entries: Sequence[Buffer]) -> None:
        """A journal with these entries takes the place of this one; durable on return.

        Without space for the draft, raises VolumeFull and nothing has happened.
        """
        files = self._env.files
        files.remove(self.draft)
        file = files.open(self.draft, writable=True, create=True)
        try:
            file.append([journal_header(self._identity), *entries])
            file.sync()
        except VolumeFull:
            file.close()
            files.remove(self.draft)
            raise
        file.close()
        try:
            files.rename(self.draft, self.path)
            files.sync_directory(self.path.parent)
            new = files.open(self.path, writable=True)
        except BaseException as error:
            self.failure = error  # the next opening finds one of the two
            raise
        if self._file is not None:
            self._file.close()
        self._file = new
        self.end = SEGMENT_HEADER_BYTES + sum(map(len, entries))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def journal_header(identity: Identity) -> bytes:
    """The first bytes of a volume's journal."""
    return pack_segment_header(SegmentHeader(identity.uid, *_NUMBERS))


def require_own_journal(file: File, identity: Identity) -> None:
    """Raises DamagedBlock or FormatTooNew if it is not a journal of this volume."""
    if read_segment_header(file).uid != identity.uid:
        raise DamagedBlock(f"'{file.path}' is of another volume; run 'holdfast check --repair'")


def acknowledged_bytes(file: File, identity: Identity) -> int:
    """Where the journal of a writer that crashed ends, without what was torn."""
    return torn_from(file, identity.uid, SEGMENT_HEADER_BYTES, file.size(), 0)
