"""Removal everywhere (N2): a log that is kept for good, and what a node does about each of its entries.

    {"kind": "removal", "id", "time", "reason", "who", "refuse", "selection"}   somebody asks for a removal
    {"kind": "records", "id", "node", "reason", "origins", "refusals"}          what a node is about to remove
    {"kind": "confirmed", "id", "node", "records"}                              the node has removed it

Every node applies the log before it pulls or serves. For a removal it selects among its own records, captured up to the
time of the removal, also those that no other node has; it announces them, removes them, writes a line to `audit.log`,
and confirms. Records that another node has announced are removed by their origins: so the request and the metadata of
a capture go everywhere with it. Fingerprints of what must not come back are kept by all nodes.

What a node removes by a choice of its own, as captures that later ones supersede, has no first entry: it is announced,
and removed by origin.

A selection is applied once: which ones were is read from `audit.log`, so that captures which are imported again later,
and were not refused, stay. Removal by origin is idempotent: an origin is never given to another record.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

from holdfast.archive.archive import Archive
from holdfast.archive.removal import Removal, RemovalOptions
from holdfast.batches.entry import REMOVED, JournalEntry
from holdfast.catalog import CaptureQuery
from holdfast.cluster.copies.origins import OriginTable
from holdfast.env import paths
from holdfast.env.files import read_file
from holdfast.errors import ClusterDown, UsageError
from holdfast.model import RecordId
from holdfast.records.draft import origin_of, refusal_mark, signatures_of
from holdfast.records.selection import ChosenRecords, ChosenUrls, Selection, with_companions
from holdfast.storage.audit import audit

log = logging.getLogger("holdfast.cluster")

HEARD_S = 60.0  # a node that has not read the log for so long does not serve
_ANNOUNCED_MAX = 5000  # records in one entry: messages of NATS have at most a megabyte
_REMOVED_TOGETHER = 10_000
_ENTRIES_KEPT = 256
_APPLIED = "removal of the cluster"


class RemovalLog(Protocol):
    """The log of all removals, the same for all nodes, durable, never cut. Any thread may call."""

    def append(self, entry: bytes) -> int:
        """Durable on return. Returns the entry's number; numbers ascend from 1 on. Raises ClusterDown."""

    def read_after(self, number: int) -> Sequence[tuple[int, bytes]]:
        """All entries behind a number, ascending, with their numbers. Raises ClusterDown."""


@dataclass(frozen=True, slots=True)
class ClusterRemoval:
    """A removal, and the nodes that have confirmed it so far, with the number of records that each removed."""

    id: str
    confirmed: dict[str, int]


class Removals:
    """Any thread may call any method. Whoever holds `lock` keeps removals from being applied meanwhile."""

    def __init__(self, archive: Archive, origins: OriginTable, removal_log: RemovalLog, node: str) -> None:
        self.lock = threading.RLock()
        self.position = 0  # the last entry of the log that was applied
        self._archive = archive
        self._origins = origins
        self._log = removal_log
        self._node = node
        self._done = set(_applied_here(archive))
        self._unconfirmed: dict[str, int] = {}  # applied here, with the number of records
        self._confirmed: dict[str, dict[str, int]] = {}
        self._heard_s = float("-inf")

    @property
    def is_current(self) -> bool:
        """Whether the log was read lately: only then may the node serve."""
        return self._archive.env.monotonic() - self._heard_s < HEARD_S

    def apply(self, least: int = 0) -> int:
        """Applies what is new in the log; returns how far this node has come.

        Raises ClusterDown if the log cannot be read, and it was not read lately, or an entry up to `least` is lacking.
        """
        with self.lock:
            try:
                while entries := self._log.read_after(self.position):
                    for found, raw in entries:
                        self._apply_entry(json.loads(raw))
                        self.position = found
                    self._confirm_rest()
                self._heard_s = self._archive.env.monotonic()
            except ClusterDown:
                if not self.is_current:
                    raise
            if self.position < least:
                raise ClusterDown(f"node '{self._node}' does not know of removal {least} yet")
            return self.position

    def applied(self, least: int) -> int:
        """How far this node has come; reads the log only if that is not far enough, or was long ago."""
        if self.position < least or not self.is_current:
            return self.apply(least)
        return self.position

    # -- asking for a removal -----------------------------------------------------------------------------------

    def remove(self, selection: Selection, options: RemovalOptions, who: str = "") -> ClusterRemoval:
        """Removes captures from all nodes. Durable on return, and done on this node; others confirm when they can.

        Raises UsageError without a reason, for a selection of records by id, and for what `Archive.remove` refuses.
        """
        if type(selection) not in (Selection, ChosenUrls):
            raise UsageError("only a query, URLs, a batch or a collection can be removed from a cluster")
        self._archive.remove_here(
            replace(selection, batch=None), replace(options, dry_run=True)
        )  # raises if it is not valid
        removal = uuid.uuid4().hex
        entry = {
            "kind": "removal",
            "id": removal,
            "time": _now(self._archive),
            "reason": options.reason,
            "who": who or self._node,
            "refuse": options.refuse,
            "selection": asdict(selection),
        }
        try:
            number = self._log.append(json.dumps(entry).encode())
        except ClusterDown as error:  # the response may be lost
            raise ClusterDown(f"the removal may not have begun: {error}; give it again in a moment") from error
        self.apply(number)
        return self.status(removal)

    def remove_records(self, selection: Selection, options: RemovalOptions) -> Removal:
        """Removes records of this node, which others remove by their origins. Durable on return.

        For what was chosen here, as what a later capture has superseded: captures that only other nodes have stay.
        """
        with self.lock:  # else a copy that is being added may be noted as an alias of what has just gone
            removal = self._archive.remove_here(
                selection,
                options,
                announce=lambda found: self._announce(uuid.uuid4().hex, list(found.items()), options),
            )
            self._origins.catch_up()
        return removal

    def count(self, selection: Selection) -> Removal:
        """What a removal would remove here."""
        records = tuple(record for record, _ in self._selected(selection))
        return self._archive.remove_here(ChosenRecords(records=records), RemovalOptions("count", dry_run=True))

    def status(self, removal: str) -> ClusterRemoval:
        """Which nodes have confirmed a removal, as far as this node has read the log."""
        return ClusterRemoval(removal, dict(self._confirmed.get(removal, {})))

    # -- applying -----------------------------------------------------------------------------------------------

    def _apply_entry(self, entry: dict[str, Any]) -> None:
        kind, removal = entry["kind"], entry["id"]
        if kind == "removal":
            if removal not in self._done:
                self._apply_selection(entry)
            self._unconfirmed.setdefault(removal, 0)
        elif kind == "records":
            self._remove_origins(entry)  # also this node's own: it may have been killed before it removed them
        elif kind == "confirmed":
            self._confirmed.setdefault(removal, {})[entry["node"]] = entry["records"]
            if entry["node"] == self._node:
                self._unconfirmed.pop(removal, None)

    def _confirm_rest(self) -> None:
        """Confirms what was applied here, in this life or in one that ended before it could say so."""
        for removal, records in list(self._unconfirmed.items()):
            confirmation = {"kind": "confirmed", "id": removal, "node": self._node, "records": records}
            self._log.append(json.dumps(confirmation).encode())
            del self._unconfirmed[removal]

    def _apply_selection(self, entry: dict[str, Any]) -> None:
        self._origins.catch_up()
        selection = _selection(entry["selection"])
        options = RemovalOptions(entry["reason"], refuse=entry["refuse"])
        found = list(self._selected(_limited(selection, entry["time"])))
        self._announce(entry["id"], found, options)
        for at in range(0, len(found), _REMOVED_TOGETHER):
            records = tuple(record for record, _ in found[at : at + _REMOVED_TOGETHER])
            self._archive.remove_here(ChosenRecords(records=records), options)
        self._origins.catch_up()
        event = {"event": _APPLIED, "id": entry["id"], "reason": entry["reason"], "who": entry["who"]}
        with self._archive.writer.lock:
            audit(self._archive.path, self._archive.env, [event | {"records": len(found)}])
        self._done.add(entry["id"])
        self._unconfirmed[entry["id"]] = len(found)

    def _selected(self, selection: Selection) -> Iterator[tuple[RecordId, JournalEntry]]:
        """The records here that are selected, by their origins where a batch is named, with their companions."""
        archive = self._archive
        if selection.batch is None:
            ids: Iterable[RecordId] = selection.record_ids(archive.catalog, archive.journal)
        else:
            ids = self._of_batch(selection)
        read = lru_cache(_ENTRIES_KEPT)(archive.records.entry)
        if selection.takes_companions:
            return with_companions(read, sorted(set(ids)))
        entries = ((record, read(record)) for record in sorted(set(ids)))
        return ((record, entry) for record, entry in entries if entry is not None and entry.type != REMOVED)

    def _of_batch(self, selection: Selection) -> Iterator[RecordId]:
        """Records of an origin batch: on other nodes they are in other batches."""
        assert selection.batch is not None
        mine = {row.record for row in self._origins.rows(selection.batch)}
        rest = replace(selection, batch=None)
        yield from (each for each in rest.record_ids(self._archive.catalog, self._archive.journal) if each in mine)

    def _announce(self, removal: str, found: Sequence[tuple[RecordId, JournalEntry]], options: RemovalOptions) -> None:
        """Before anything is removed: if this node is killed, the others know."""
        pairs = iter(found)
        while some := list(islice(pairs, _ANNOUNCED_MAX)):
            origins = sorted(
                {origin_of(entry, record.batch) for record, entry in some}
                | {origin for record, _ in some for origin in self._origins.origins_of(record)}
            )
            serials: dict[str, list[int]] = {}
            for origin in origins:
                serials.setdefault(origin.batch, []).append(origin.serial)
            marks = [refusal_mark(entry, signatures_of(entry)).hex() for _, entry in some] if options.refuse else []
            message = {"kind": "records", "id": removal, "node": self._node, "reason": options.reason}
            self._log.append(json.dumps(message | {"origins": serials, "refusals": marks}).encode())

    def _remove_origins(self, entry: dict[str, Any]) -> None:
        self._origins.catch_up()
        writer = self._archive.writer
        marks = [bytes.fromhex(mark) for mark in entry["refusals"]]
        with writer.lock:
            writer.refusals.add([mark for mark in marks if mark not in writer.refusals])
        origins = [RecordId(batch, serial) for batch, serials in entry["origins"].items() for serial in serials]
        records = {row.record for row in self._origins.find_all(origins) if row is not None}
        if records:
            reason = f"{entry['reason']} (node '{entry['node']}', removal {entry['id']})"
            self._archive.remove_here(ChosenRecords(records=tuple(sorted(records))), RemovalOptions(reason))
            self._origins.catch_up()


def _now(archive: Archive) -> str:
    return datetime.fromtimestamp(archive.env.clock(), UTC).strftime("%Y%m%d%H%M%S")


def _limited(selection: Selection, time: str) -> Selection:
    """The selection among what was captured up to a time: a node that returns late keeps what came after it."""
    if isinstance(selection, ChosenUrls):
        return replace(selection, upto=time, any_method=True)
    query = selection.query
    if query is None:
        return selection  # a batch or a collection, with records of all types
    upto = query.to if query.to and query.to.ljust(14, "9") < time else time
    return replace(selection, query=replace(query, to=upto), any_method=True)


def _selection(values: dict[str, Any]) -> Selection:
    query = values["query"]
    if query is not None:
        lists = {name: tuple(query[name]) for name in ("filters", "collapse", "fields")}
        query = CaptureQuery(**{**query, **lists})
    if "urls" in values:
        return ChosenUrls(collection=values["collection"], urls=tuple(values["urls"]))
    return Selection(query, values["batch"], values["collection"], values["any_method"])


def _applied_here(archive: Archive) -> Iterator[str]:
    """The ids of removals that this archive's audit log says were applied."""
    try:
        lines = read_file(archive.env.files, archive.path / paths.AUDIT).split(b"\n")
    except FileNotFoundError:
        return
    for line in lines:
        if _APPLIED.encode() in line:
            try:
                event = json.loads(line)
                if event["event"] == _APPLIED:
                    yield event["id"]
            except (ValueError, KeyError, TypeError):  # a torn line, or one about something else
                continue
