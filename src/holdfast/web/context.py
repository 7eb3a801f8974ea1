"""The state shared by the handlers of a worker: the open archive, the settings, the two origins, caches and limits.

A server on all addresses of its machine has several names. Each name has its own context (`at`), which differs only in
its origins: counters and limits are shared.
"""

from __future__ import annotations

import copy
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.archive import Archive, VolumeReport
from holdfast.archive.usage import ArchiveUsage, archive_usage
from holdfast.catalog.query.search import Permits
from holdfast.config import ServeSettings
from holdfast.env.lru import LruCache
from holdfast.env.paths import CATALOG, CLUSTER, NODES, SETTINGS
from holdfast.errors import UnknownCollection, VolumeDown
from holdfast.model import Pick
from holdfast.query.results import QueryOptions, QueryResult
from holdfast.web.answers import Answers
from holdfast.web.api.stream.shared_scans import SharedStreams
from holdfast.web.api.write.writer import IndexUpkeep, Writer
from holdfast.web.auth.access import Access
from holdfast.web.auth.tokens import Tokens
from holdfast.web.replay.cache import CachedReply, Spool
from holdfast.web.replay.rules import ReplayRules
from holdfast.web.request import ALL, DEFAULT
from holdfast.web.server.bounded_scan import ScanWatch
from holdfast.web.server.counters import Counters
from holdfast.web.ui.study_runs import StudyRuns

if TYPE_CHECKING:
    from holdfast.web.forward import Forwarder

SPOOL_BYTES_MAX = 1 << 30  # of large payloads on disk, in the temporary directory
_LINKS_KEPT = 4096
_VOLUME_ANSWER_S = 1.0
_NODES_OLD_S = 10.0  # the node's process writes its table every second
_VOLUME_REPORTS_KEPT_S = 1.0
_USAGE_KEPT_S = 10.0


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the two origins are, as browsers name them."""

    controls: str  # 'http://127.0.0.1:8080'
    replay: str


class WebContext:
    """One per worker and server name. Handlers run on the event loop; any thread may read."""

    def __init__(
        self,
        archive: Archive,
        settings: ServeSettings,
        access: Access,
        tokens: Tokens,
        origins: Origins,
        counters: Counters,
        identity: ArchiveIdentity,
        rules: ReplayRules,
    ) -> None:
        self.archive = archive  # open for reading
        self.settings = settings
        self.access = access
        self.tokens = tokens
        self.controls_origin = origins.controls
        self.replay_origin = origins.replay
        self.counters = counters
        self.identity = identity
        self.rules = rules
        self.replies: LruCache[Hashable, CachedReply] = LruCache(settings.cache_bytes, lambda reply: reply.size)
        self.spool = Spool(SPOOL_BYTES_MAX)
        self.links: LruCache[Hashable, bytes] = LruCache(_LINKS_KEPT)  # `Link` headers
        self.volumes = Volumes(archive)
        self.streams = SharedStreams(archive, settings)
        self.studies = StudyRuns()
        self.writer = Writer(archive.path)
        self.index_upkeep = IndexUpkeep(archive.path)
        self.forwarder: Forwarder | None = None  # to other nodes, in a cluster
        self.answers: Answers = archive  # to what concerns several URLs; in a cluster, of all nodes
        self.peer_answers: Answers = archive  # to what other nodes forward

    def at(self, host: str) -> WebContext:
        """The same worker under another host name; both origins keep their ports."""
        ports = [urlsplit(each).port for each in (self.controls_origin, self.replay_origin)]
        controls, replay = (f"http://{host}:{port}" for port in ports)
        if (controls, replay) == (self.controls_origin, self.replay_origin):
            return self
        return self._with(Origins(controls, replay))

    def for_peer(self, origins: Origins) -> WebContext:
        """For requests that another node forwards, and has let pass: everybody may read, under its origins."""
        other = self._with(origins)
        other.tokens, other.forwarder, other.answers = Tokens(), None, self.peer_answers
        return other

    def _with(self, origins: Origins) -> WebContext:
        other = copy.copy(self)
        other.controls_origin, other.replay_origin = origins.controls, origins.replay
        return other

    @property
    def origins(self) -> Origins:
        return Origins(self.controls_origin, self.replay_origin)

    @property
    def default_collection(self) -> str:
        return self.archive.settings.records.collection

    @property
    def pick(self) -> Pick:
        """The rule that picks the capture for a time, unless a request names another."""
        return Pick(self.archive.settings.records.pick)

    def collection(self, name: str) -> str | None:
        """The collection that an address names; None: all of them. Raises UnknownCollection."""
        if name == ALL:
            return None
        if name == DEFAULT:
            return self.default_collection
        if name not in self.archive.catalog.collections():
            self.archive.require_collection(name)  # it may be the default one
        return name

    def known_collection(self, name: str) -> str | None:
        """As `collection`, of all nodes of a cluster. Not for an event loop."""
        if name in (ALL, DEFAULT) or self.answers is self.archive or name in self.collections():
            return self.collection(name)
        if name not in (known := self.answers.collections()):
            raise UnknownCollection(f"no collection {name[:80]!r}: known are {', '.join(known)}")
        return name

    @property
    def is_clustered(self) -> bool:
        """Whether other nodes answer, too."""
        return self.forwarder is not None

    def has_collection(self, name: str) -> bool:
        return name in (ALL, DEFAULT) or name in self.collections()

    def collections(self) -> tuple[str, ...]:
        """Collections with captures, and the default one."""
        return self.archive.collections()

    @property
    def permits(self) -> Permits | None:
        """Which captures the access rules let anybody know of; None: all."""
        return None if self.access.is_open else self.access.permits

    def watch(self, permits: Permits | None, captures_max: int | None = None) -> ScanWatch:
        """A limit on one scan of the catalog, which counts scans that reach it."""
        cut = lambda: self.counters.add("queries_cut")  # noqa: E731
        return ScanWatch(permits, self.settings.query_seconds_max, captures_max, cut=cut)

    def nodes(self) -> dict[str, Any]:
        """The table of the cluster's nodes as this node's process wrote it last (B5). Not for an event loop.

        `current` is false if that was long ago. Outside a cluster there are no `nodes`.
        """
        try:
            table: dict[str, Any] = json.loads((self.archive.path / CLUSTER / NODES).read_bytes())
        except (OSError, ValueError):
            return {"nodes": [], "current": False}
        return {**table, "current": time.time() - table["time"] < _NODES_OLD_S}

    def query(self, text: str, options: QueryOptions) -> QueryResult:
        """A query of the index. Hits, counts and facets leave out what the access rules hide. Not for an event loop.

        Raises MalformedQuery, or IndexNotFound if there is no index, or no ranks where they are needed.
        """
        hidden = self.access.index_filter()
        found = self.answers.query(text, options, hidden)
        return found if hidden is None else replace(found, pending=0)  # the count would reveal hidden captures


def open_site(path: Path, settings: ServeSettings, origins: Origins, counters: Counters, tokens: Tokens) -> WebContext:
    """Opens the archive for reading, and follows its access rules. Raises what opening an archive may."""
    archive = Archive(path, read_only=True)
    try:
        access = Access.following(path)
        return WebContext(
            archive, settings, access, tokens, origins, counters, ArchiveIdentity(path), ReplayRules.load(path)
        )
    except BaseException:
        archive.close()
        raise


class ArchiveIdentity:
    """Tells whether the directory still holds the archive that was opened. Any thread may call it.

    A directory may be deleted and restored from a copy, and `holdfast reindex` replaces the catalog; a process with the
    old files open would keep reading them. The directories are held open so that their inode numbers are not reused.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held: dict[Path, int] = {}
        weakref.finalize(self, _close, self._held)
        for path in (root, root / CATALOG):
            self._held[path] = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def is_same(self) -> bool:
        """Raises OSError if nothing is in its place."""
        (self._root / SETTINGS).stat()
        return all(os.path.samestat(os.fstat(held), path.stat()) for path, held in self._held.items())

    def require_same(self) -> None:
        """Raises VolumeDown, and OSError if nothing is in its place."""
        if not self.is_same:
            raise VolumeDown(f"the archive in '{self._root}' was replaced; the new one is being opened: try again")


def _close(held: dict[Path, int]) -> None:
    for descriptor in held.values():
        os.close(descriptor)


class Volumes:
    """The latest reports of the archive's volumes. Any thread may call it, but not an event loop.

    Volumes are queried at most once a second, in parallel; one that does not answer within a second counts as down. So
    neither many readers nor a hung machine slows a page down.
    """

    def __init__(self, archive: Archive, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._archive = archive
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._reports: list[VolumeReport] = []
        self._due_s = 0.0
        self._usage_lock = threading.Lock()
        self._usage: ArchiveUsage | None = None
        self._usage_due_s = 0.0

    def reports(self) -> list[VolumeReport]:
        """One for each volume, in the order of the connector."""
        with self._lock:  # waiting callers share one query
            if self._monotonic() >= self._due_s:
                self._reports = list(self._archive.volumes(_VOLUME_ANSWER_S))
                self._due_s = self._monotonic() + _VOLUME_REPORTS_KEPT_S
            return self._reports

    def usage(self) -> ArchiveUsage:
        """Disk usage and savings. Counted at most every ten seconds, and for at most a twentieth of the time."""
        reports = self.reports()
        with self._usage_lock:
            began_s = self._monotonic()
            if self._usage is None or began_s >= self._usage_due_s:
                self._usage = archive_usage(self._archive, reports)
                took_s = self._monotonic() - began_s
                self._usage_due_s = began_s + max(_USAGE_KEPT_S, 20 * took_s)
            return self._usage

    def listing(self) -> list[dict[str, Any]]:
        """The reports for JSON: with addresses of machines, without local directories."""
        return [_volume_values(report) for report in self.reports()]


VOLUME_FIGURES = (
    *("blocks", "replicas", "references", "content_bytes", "stored_bytes", "referenced_bytes", "disk_bytes"),
    *("dead_bytes", "free_bytes", "dictionaries"),
)


def _volume_values(report: VolumeReport) -> dict[str, Any]:
    settings, stat, activity = report.settings, report.stat, report.activity
    figures = {} if stat is None else asdict(stat)
    return {
        "name": settings.name,
        "organization": settings.organization if stat is None else stat.organization,
        "state": settings.state.value,
        "activity": activity.state,
        "up": stat is not None,
        "reason": report.reason or None,
        "address": settings.address or settings.url or None,
        "weight": settings.weight,
        "outstanding": None if stat is None else activity.outstanding,
        "clients": None if stat is None else activity.clients,
        "capacity_bytes": report.capacity_bytes,
        "fragmentation": report.fragmentation,
        **{name: figures.get(name) for name in VOLUME_FIGURES},
    }
