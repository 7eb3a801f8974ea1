"""Captures that other processes of a node hand to its writer: drafts in, outcomes out, over a socket in its directory.

    with NodeWriter("n1") as node:
        added = node.add([holdfast.page("http://example.com/", b"...", "text/html")])
        node.wait_safe([each.record for each in added], timeout_s=60)

Messages are pickled, so both ends must be one installation. Who can write to the directory can write to the archive.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from holdfast.archive.ingest.exchange import Exchange, drafts_of
from holdfast.archive.ingest.file_reader import ImportInput
from holdfast.archive.ingest.importer import ImportOptions, ImportReport
from holdfast.archive.ingest.writer import Added
from holdfast.cluster.control import send_command, short_address
from holdfast.config import load
from holdfast.env import REAL
from holdfast.env.child_process import receive_pickled, send_pickled
from holdfast.env.paths import CLUSTER, SETTINGS
from holdfast.errors import ClusterDown, Denied, HoldfastError, MalformedInput
from holdfast.formats.record import Finding, FindingKind
from holdfast.model import RecordId, batch_name
from holdfast.records.draft import Drafting, RecordDraft

SOCKET = "write"
NOT_SAFE = "not yet on as many nodes as make a record safe: see 'holdfast nodes'"
_TIMEOUT_S = 60
_PAUSE_S, _PAUSE_MAX_S = 0.05, 1.0  # between two looks whether a record is safe
_LOOK_S = 1.0  # that a look may take at least


def is_safe(archive: Path, records: Sequence[RecordId], timeout_s: float) -> bool:
    """Whether so many nodes have these records of a running node that they are safe.

    Raises ClusterDown if the node does not respond in time, CaptureNotFound if it does not have a record.
    """
    command = {"command": "is_safe", "records": [str(each) for each in records]}
    return bool(send_command(archive / CLUSTER, command, timeout_s)["safe"])


def looks(timeout_s: float) -> Iterator[tuple[float, float]]:
    """Of a wait: how long to sleep before each look, and how long that may take. The last one is at its end."""
    end_s, pause_s = time.monotonic() + timeout_s, 0.0
    while True:
        left_s = end_s - time.monotonic()
        yield min(pause_s, max(0.0, left_s)), max(_LOOK_S, left_s)
        if left_s <= pause_s:
            return
        pause_s = min(max(2 * pause_s, _PAUSE_S), _PAUSE_MAX_S)


def import_by_node(
    archive: Path,
    paths: Sequence[Path],
    options: ImportOptions,
    *,
    names: Sequence[str] | None = None,
    wait_safe_s: float | None = None,
) -> tuple[list[ImportReport], bool]:
    """Has a running node import files of this machine; with `names`, of which none is a WACZ, under these names.

    Returns the reports, and whether so many nodes have the records that they are safe, if that was to be waited for.
    Raises ClusterDown if the node ends meanwhile; what was imported stays.
    """
    command = {
        "command": "import",
        "paths": [str(each.resolve()) for each in paths],
        "names": names,
        "options": asdict(options),
        "wait_safe_s": wait_safe_s,
    }
    done = send_command(archive / CLUSTER, command, timeout_s=None)
    return [_report(values) for values in done["reports"]], done["safe"]


def _report(values: dict[str, Any]) -> ImportReport:
    findings = [Finding(**{**each, "kind": FindingKind(each["kind"])}) for each in values["findings"]]
    error = MalformedInput(values["error"]) if values["error"] else None
    return ImportReport(**{**values, "findings": findings, "error": error})


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
    """The archive of a running node, as its web workers and programs of its machine write to it: a context manager.

    For one thread.
    """

    def __init__(self, archive: str | Path) -> None:
        """Raises ClusterDown if the node does not run."""
        self._archive = archive = Path(archive)
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

    def add(self, exchanges: Sequence[Exchange] | Exchange, *, collection: str = "") -> list[Added]:
        """As `Archive.add`."""
        given = [exchanges] if isinstance(exchanges, Exchange) else exchanges
        name = collection or load(self._archive / SETTINGS).records.collection
        return self.add_drafts(drafts_of(given, Drafting(batch_name(name)), REAL))

    def import_files(self, inputs: Sequence[ImportInput], options: ImportOptions) -> list[ImportReport]:
        """As `Archive.import_files`, of files that are no WACZ."""
        paths = [each.path for each in inputs if each.path is not None]
        assert len(paths) == len(inputs), "streams cannot be handed over"
        return import_by_node(self._archive, paths, options, names=[each.name for each in inputs])[0]

    def wait_safe(self, records: Iterable[RecordId | None], timeout_s: float) -> None:
        """Returns when so many nodes have these records that they are safe. What was refused has no record.

        Raises ClusterDown if they are not safe in time, or the node ends: the records stay, and others still get them.
        """
        waiting = [each for each in records if each is not None]
        for pause_s, look_s in looks(timeout_s):
            time.sleep(pause_s)
            if is_safe(self._archive, waiting, look_s):
                return
        raise ClusterDown(NOT_SAFE)

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
