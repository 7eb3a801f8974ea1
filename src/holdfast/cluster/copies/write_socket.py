"""Captures that other processes of a node hand to its writer: drafts in, outcomes out, over a socket in its directory.

Messages are pickled, so both ends must be one installation. Who can write to the directory can write to the archive.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from holdfast.archive.ingest.writer import Added
from holdfast.cluster.control import short_address
from holdfast.env.child_process import receive_pickled, send_pickled
from holdfast.env.paths import CLUSTER
from holdfast.errors import ClusterDown, Denied, HoldfastError
from holdfast.records.draft import RecordDraft

SOCKET = "write"
_TIMEOUT_S = 60


class WriteSocket:
    """Serves the socket with a thread for each connection."""

    def __init__(self, archive: Path, add: Callable[[list[RecordDraft]], list[Added]]) -> None:
        self._add = add
        self._listener = socket.socket(socket.AF_UNIX)
        path = archive / CLUSTER / SOCKET
        path.unlink(missing_ok=True)
        with short_address(path) as address:
            self._listener.bind(address)
        path.chmod(0o600)
        self._listener.listen()
        self._path = path
        self._thread = threading.Thread(target=self._accept, name="write socket", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], name="write connection", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, EOFError):
            while True:
                drafts = receive_pickled(connection)
                try:
                    result: list[Added] | HoldfastError = self._add(drafts)
                except HoldfastError as error:
                    result = error
                send_pickled(connection, result)


class NodeWriter:
    """The archive of a running node, as its web workers write to it: a context manager."""

    def __init__(self, archive: Path) -> None:
        """Raises ClusterDown if the node does not run."""
        self._connection = socket.socket(socket.AF_UNIX)
        wait = struct.pack("ll", _TIMEOUT_S, 0)  # not `settimeout`: frames are received whole
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        try:
            with short_address(archive / CLUSTER / SOCKET) as address:
                self._connection.connect(address)
        except OSError as error:
            self._connection.close()
            raise ClusterDown(f"the node in '{archive}' takes no captures: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def add_drafts(self, drafts: Sequence[RecordDraft]) -> list[Added]:
        """As `Archive.add_drafts`."""
        try:
            send_pickled(self._connection, list(drafts))
            result: list[Added] | HoldfastError = receive_pickled(self._connection)
        except (OSError, EOFError) as error:
            raise ClusterDown(f"the node ended before it had added the captures: {error}") from None
        if isinstance(result, HoldfastError):
            raise result
        return result

    def __getattr__(self, name: str) -> Any:
        raise Denied("on a node of a cluster only captures can be added here; to remove some: 'holdfast rm'")
