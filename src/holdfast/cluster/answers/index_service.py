"""The index of a node, kept up to date as a service of its process: copies are indexed, too (B12).

A process of low priority does it, one at a time, whenever records wait. `index.automatic = false` turns it off.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Any

from holdfast.archive import Archive
from holdfast.archive.index_update import is_automatic, start_process
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.node import NodeContext
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.cluster")

_LOOK_S = 2.0
_PAUSE_S = 30.0  # after a failure
_WAITING_MAX = 1000  # records; with more, other nodes are asked first


class IndexService:
    """A `NodeService`."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._stopping = threading.Event()
        self._is_behind = True  # until it has looked
        self._thread = threading.Thread(target=self._run, name="index service")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """An update under way ends with the state of its last commit."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause_s = _LOOK_S
        while not self._stopping.wait(pause_s):
            try:
                with Archive(self._context.archive, read_only=True) as archive:
                    while not self._stopping.wait(_LOOK_S):
                        waiting = archive.index.pending()
                        self._is_behind = waiting > _WAITING_MAX or not archive.index.exists
                        if waiting and is_automatic(archive.settings.index):
                            self._update()
            except HoldfastError as error:
                log.warning("the index of this node is not kept up to date: %s", error)
            except Exception:  # the edge of the thread: it must go on
                log.exception("the index of this node is not kept up to date")
            else:
                return
            self._is_behind = True
            pause_s = _PAUSE_S

    def _update(self) -> None:
        try:
            with start_process("catch_up", self._context.archive) as process:
                while process.poll() is None and not self._stopping.wait(0.1):
                    pass
                assert process.stdin is not None
                with suppress(OSError):
                    process.stdin.close()  # it ends, too
        except OSError as error:
            log.warning("cannot update the index: %s", error)

    # -- what other services are for ---------------------------------------------------------------------------

    def in_sync(self) -> frozenset[int]:
        return frozenset(range(self._context.settings.partitions))

    def drain(self, partition: int) -> None:
        """Nothing of an index moves."""

    def members_changed(self, members: MemberList) -> None:
        """It does not matter who else has copies."""

    def notified(self, sender: str, data: bytes) -> None:
        """Nothing is sent to it."""

    def status(self) -> dict[str, Any]:
        return {"is_indexing": self._is_behind}

    def command(self, command: dict[str, Any]) -> dict[str, Any] | None:
        return None
