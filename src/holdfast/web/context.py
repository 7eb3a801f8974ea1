"""What all handlers of one worker share: the open archive, the settings, and where the two origins are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from holdfast.archive import Archive
from holdfast.config import ServeSettings
from holdfast.model import Pick
from holdfast.web.archive_identity import ArchiveIdentity
from holdfast.web.auth.access import Access
from holdfast.web.auth.tokens import Tokens
from holdfast.web.capture.cache import ReplyCache
from holdfast.web.capture.spool import Spool
from holdfast.web.memento.links import LinkCache
from holdfast.web.operations.volumes import Volumes
from holdfast.web.request import ALL, DEFAULT
from holdfast.web.search import FullText
from holdfast.web.server.counters import Counters
from holdfast.web.stream.shared_scans import SharedStreams


@dataclass(slots=True)
class WebContext:
    """One in each worker. Handlers run on its event loop; the archive may be read from any thread."""

    archive: Archive  # open for reading
    settings: ServeSettings
    access: Access
    tokens: Tokens
    controls_origin: str  # 'http://127.0.0.1:8080'
    replay_origin: str
    counters: Counters
    standing: ArchiveIdentity
    replies: ReplyCache = field(init=False)
    spool: Spool = field(init=False)
    links: LinkCache = field(init=False)
    volumes: Volumes = field(init=False)
    streams: SharedStreams = field(init=False)
    full_text: FullText = field(init=False)

    def __post_init__(self) -> None:
        self.replies = ReplyCache(self.settings.cache_bytes)
        self.spool = Spool(self.settings.spool_bytes_max)
        self.links = LinkCache()
        self.volumes = Volumes(self.archive)
        self.streams = SharedStreams(self.archive, self.settings)
        self.full_text = FullText(self)

    @property
    def default_collection(self) -> str:
        return self.archive.settings.records.collection

    @property
    def pick(self) -> Pick:
        """Which capture stands for a time, where a request does not say."""
        return Pick(self.archive.settings.records.pick)

    def collection(self, name: str) -> str | None:
        """The collection that an address names; None: all of them. Raises UnknownCollection."""
        if name == ALL:
            return None
        if name == DEFAULT:
            return self.default_collection
        self.archive.require_collection(name)
        return name

    def has_collection(self, name: str) -> bool:
        return name in (ALL, DEFAULT) or name in self.collections()

    def collections(self) -> tuple[str, ...]:
        """Those with captures, and the default one."""
        return self.archive.collections()


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the two origins are, as browsers name them."""

    controls: str  # 'http://127.0.0.1:8080'
    replay: str


def open_site(path: Path, settings: ServeSettings, origins: Origins, counters: Counters, tokens: Tokens) -> WebContext:
    """Opens the archive for reading, and follows its access rules. Raises what opening an archive may."""
    archive = Archive(path, read_only=True)
    try:
        access = Access.following(path)
        return WebContext(
            archive, settings, access, tokens, origins.controls, origins.replay, counters, ArchiveIdentity(path)
        )
    except BaseException:
        archive.close()
        raise
