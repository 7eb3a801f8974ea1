"""The copies of a node as a service of its process: opens the archive for writing, and begins when the cluster answers.

The node's process is the one writer of its archive. Other processes of the machine hand their changes to it, through
the socket of commands: imports, removals, and the captures that web workers receive (`write_socket`).
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from holdfast.archive import Archive
from holdfast.archive.ingest.file_reader import ImportInput
from holdfast.archive.ingest.importer import ImportOptions
from holdfast.archive.removal import RemovalOptions
from holdfast.archive.update import UpdateOptions
from holdfast.catalog import CaptureQuery
from holdfast.cluster.copies.service import Copies, CopyLinks, CopyOptions
from holdfast.cluster.copies.write_socket import WriteSocket
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.node import NodeContext
from holdfast.crawl.schedule.retention import expire
from holdfast.errors import ClusterDown, HoldfastError, UsageError
from holdfast.model import RecordId
from holdfast.records.selection import Selection

log = logging.getLogger("holdfast.cluster")

NEWS = b"copies"  # notification: this node has new records
_RETRY_S = 0.2
_CERTIFICATE_LOOK_S = 60.0
_DRAIN_S = 10.0  # for other holders to get what this node has recorded
_CONFIRM_S = 20.0  # for nodes that are alive to confirm a removal


class CopyService:
    """A `NodeService`. Any thread may call."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._archive: Archive | None = None
        self._copies: Copies | None = None
        self._writes: WriteSocket | None = None
        self._identity = context.identity()
        self._server_tls = self._identity.server_context()
        self._client_tls = _by_key(self._identity.client_context())
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="copy service")

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Raises Busy if another process writes to the archive."""
        self._archive = Archive(self._context.archive)
        try:
            self._writes = WriteSocket(self._context.archive, self._add)
        except BaseException:
            self._archive.close()
            raise
        self._writes.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._writes is not None:
            self._writes.stop()
        if self._copies is not None:
            self._copies.stop()
        if self._archive is not None:
            self._archive.close()

    def _run(self) -> None:
        """Begins when this node has a lease and can read the log of removals; then follows its certificate."""
        while not self._stopping.wait(_RETRY_S):
            context = self._context
            if context.address.name in context.live():
                try:
                    self._copies = self._begun()
                    break
                except (HoldfastError, OSError) as error:
                    log.warning("node '%s' cannot copy yet: %s", context.address.name, error)
        while not self._stopping.wait(_CERTIFICATE_LOOK_S):
            try:
                self._follow_certificate()
            except (HoldfastError, OSError) as error:  # a full disk: there may be room again
                log.warning("node '%s' cannot show its renewed certificate: %s", self._context.address.name, error)

    def _follow_certificate(self) -> None:
        identity = self._context.identity()
        if identity != self._identity:
            for each in (self._server_tls, self._client_tls):
                identity.show_in(each)
            self._identity = identity

    def _begun(self) -> Copies:
        context, archive = self._context, self._archive
        assert archive is not None
        links = CopyLinks(
            node=context.address.name,
            server_tls=self._server_tls,
            client_tls=self._client_tls,
            members=context.members,
            alive=context.live,
            notify=lambda _: context.notify(NEWS),
            removals=context.removals,
        )
        copies = Copies(archive, context.settings, links, CopyOptions(address=_listening(context)))
        try:
            copies.start()
        except BaseException:
            copies.stop()
            raise
        return copies

    # -- for the node -------------------------------------------------------------------------------------------

    def in_sync(self) -> frozenset[int]:
        copies = self._copies
        return copies.in_sync() if copies is not None else frozenset()

    def drain(self, partition: int) -> None:
        """Waits until the other live holders have what this node has recorded in the partition."""
        if self._copies is not None:
            self._copies.drain(partition, _DRAIN_S)

    def members_changed(self, members: MemberList) -> None:
        self._wake()

    def notified(self, sender: str, data: bytes) -> None:
        if data == NEWS:
            self._wake()

    def _wake(self) -> None:
        if self._copies is not None:
            self._copies.wake()

    def status(self) -> dict[str, Any]:
        copies = self._copies
        if copies is None:
            return {}
        counts = copies.counts()
        figures = {name: counts[name] for name in ("pages_per_s", "lag_s")}
        return figures | {"outstanding": {"copies": counts["behind"], "peers": counts["connections"]}}

    # -- commands -----------------------------------------------------------------------------------------------

    def command(self, command: dict[str, Any]) -> dict[str, Any] | None:
        """What a program of this machine asks for; None if it is not about records."""
        match command["command"]:
            case "import":
                return self._import(command)
            case "is_safe":
                copies = self._running()
                return {"safe": all(copies.is_safe(RecordId.parse(each)) for each in command["records"])}
            case "remove":
                return self._remove(command)
            case "update":
                self._running()
                return asdict(self._open().updates.run(UpdateOptions(**command["options"])))
            case "expire":
                return self._expire(command["name"])
            case _:
                return None

    @property
    def archive(self) -> Archive | None:
        """Open for writing, from `start` to `stop`, for other services of the node."""
        return self._archive

    def is_held(self, record: RecordId, partition: int) -> bool:
        """Whether all holders of a partition have a record of this node."""
        copies = self._copies
        return copies is not None and copies.is_held(record, partition)

    def _open(self) -> Archive:
        if self._archive is None:
            raise ClusterDown("the node has not opened its archive yet")
        return self._archive

    def _running(self) -> Copies:
        if self._copies is None:
            raise ClusterDown("the node has not reached its cluster yet")
        return self._copies

    def _import(self, command: dict[str, Any]) -> dict[str, Any]:
        options = ImportOptions(**command["options"])
        paths, names = [Path(each) for each in command["paths"]], command["names"]
        inputs: list[Path] | list[ImportInput] = paths
        if names is not None:  # read by the thread of the command: they are small
            inputs = [ImportInput(name, path, size=0) for name, path in zip(names, paths, strict=True)]
        summary = self._open().import_files(inputs, options)
        reports = [_report(each) for each in summary]
        self._wake()
        wait_s = command["wait_safe_s"]
        return {"reports": reports, "safe": wait_s is None or self._running().wait_all_safe(wait_s)}

    def _remove(self, command: dict[str, Any]) -> dict[str, Any]:
        query = CaptureQuery(**_tuples(command["query"])) if command["query"] is not None else None
        selection = Selection(query, command["batch"], command["collection"], any_method=True)
        copies = self._running()
        if command["dry_run"]:
            return asdict(copies.removals.count(selection))
        if not command["reason"]:
            raise UsageError("a removal needs a reason")
        options = RemovalOptions(command["reason"], refuse=command["refuse"])
        found = copies.remove(selection, options, command["who"])
        members = [each.name for each in self._context.members()]
        confirmed = self._confirmed(copies, found.id)
        return {
            "id": found.id,
            "records": sum(confirmed.values()),
            "confirmed": sorted(confirmed),
            "waiting": [name for name in members if name not in confirmed],
        }

    def _expire(self, name: str) -> dict[str, Any]:
        self._running()  # pages are removed from all nodes, or not at all
        pages = expire(self._open(), name, dry_run=False)
        self._wake()
        return {
            "pages": [
                {"url": row.url, "visited": row.visited, "status": row.status, "found": [seen, lifetime_s, reason]}
                for _, row, seen, lifetime_s, reason in pages
            ]
        }

    def _confirmed(self, copies: Copies, removal: str) -> dict[str, int]:
        """The nodes that have confirmed a removal, after a wait for those that are alive."""
        end_s = time.monotonic() + _CONFIRM_S
        while True:
            copies.removals.apply()
            confirmed = copies.removals.status(removal).confirmed
            if self._context.live() <= confirmed.keys() or time.monotonic() >= end_s:
                return confirmed
            time.sleep(_RETRY_S)

    def _add(self, drafts: list[Any]) -> list[Any]:
        """What web workers receive."""
        added = self._open().add_drafts(drafts)
        self._wake()
        return added


def _by_key(context: ssl.SSLContext) -> ssl.SSLContext:
    """Of a peer its key is checked, against the list of members, not its name."""
    context.check_hostname = False
    return context


def _listening(context: NodeContext) -> str:
    host = context.address.listen_host or "0.0.0.0"
    return f"[{host}]:{context.address.port}" if ":" in host else f"{host}:{context.address.port}"


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _report(report: Any) -> dict[str, Any]:
    values = asdict(report)
    values["error"] = str(report.error) if report.error is not None else None
    return values
