"""The settings of an archive as frozen dataclasses, with their defaults, bounds and choices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.arguments import check_fields, checked
from holdfast.model import Pick, VolumeState


def at_least(bound: float, default: Any, most: float | None = None) -> Any:
    """A number with bounds; others must not be negative. Checked when a file is read."""
    return field(default=default, metadata={"least": bound, "most": most})


def one_of(default: Any, *others: Any) -> Any:
    """A word, of a few. Checked when a file is read."""
    return field(default=default, metadata={"choices": (default, *others)})


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """`[store]`: how contents are kept."""

    # behaviour
    signature: str = "sha256"  # fixed once the archive exists
    codec: str = "auto"  # default codec; `auto` chooses by type and uses a dictionary where there is one
    placement: str = "mod"  # mod: signature mod n; weighted: in proportion to the volumes' weights
    replicas: int = at_least(1, 1)  # copies of every content, in distinct volumes
    update: str = one_of("incremental", "batch")  # batch: new contents become visible at the next update
    train_after: int = 1000  # compressible contents before a volume trains its first dictionary; 0: never
    # limits
    content_bytes_max: int = at_least(1, 2 << 30, 10**12 - 1)  # of one content, which is held in memory
    segment_bytes_max: int = at_least(4096, 256 << 20)  # compaction needs this much extra disk
    stage_bytes_max: int = at_least(1, 4 << 30)  # segments that wait for upload to an object store
    # performance
    keydir_cache_bytes: int = 64 << 20  # per volume; more speeds up random reads of large volumes

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """`[records]`: how records are kept, in batches and in the catalog."""

    # behaviour
    collection: str = "main"  # for records that name none
    batch: str = "month"  # one batch per month of arrival; any other word names the batch
    node: str = ""  # of an archive in a cluster: this node's name, which ends the names of its batches
    keep: str = one_of("all", "latest")  # latest: 'holdfast update run' removes superseded captures
    pick: str = one_of(*Pick)  # which capture is shown for a time; not-newer: the last up to it, or none
    warc_paths: tuple[str, ...] = ()  # directories, relative to the archive, of files that records refer to
    # limits
    # performance
    catalog_cache_bytes: int = 64 << 20  # more speeds up random lookups in large catalogs

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """`[serve]`: the server and its limits, which hold per worker."""

    # behaviour
    host: str = "127.0.0.1"  # address to listen on
    port: int = at_least(0, 8080, 65535)  # of the pages with controls; 0: any free one
    replay_port: int = at_least(0, 0, 65535)  # of the archived pages; 0: `port` + 1, or any free one
    workers: int = 0  # processes; 0: one for each core
    controls_url: str = ""  # public address behind a proxy, such as https://archive.example.org; empty: host and port
    replay_url: str = ""  # of the archived pages; must be another origin
    hosts: tuple[str, ...] = ()  # names accepted in `Host`, in addition to `host`, the public addresses and loopback
    proxies: tuple[str, ...] = ()  # addresses or networks of proxies whose `X-Forwarded-For` is believed
    read_token_file: str = ""  # relative to the archive; one token a line, needed to read; empty: none needed
    write_token_file: str = ""  # the same for writing; empty: no writing, except with `serve --write`
    access_log: str = ""  # file, relative to the archive; -: standard error; empty: none
    coherence_warning_s: int = 30 * 86400  # spread of a page's resources beyond which the banner warns
    capture_time: bool = True  # the clock of archived scripts starts at the moment of the capture
    seeded_random: bool = True  # their random numbers are the same each time a capture is shown
    # limits
    body_bytes_max: int = 64 << 20  # of a request's body
    client_timeout_s: float = at_least(0.1, 60.0)  # for a request's head; without a byte sent or received
    stop_s: float = 10.0  # for requests in flight when the server stops
    query_seconds_max: float = at_least(0.1, 30.0)  # of one catalog scan
    connections_max: int = at_least(1, 1000)
    download_bytes_max: int = at_least(1, 10 << 30)  # payload bytes in one
    streams_max: int = at_least(1, 16)  # streams at a time
    # performance
    cache_bytes: int = 64 << 20  # of rewritten responses


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """`[index]`: the full-text index."""

    # behaviour
    automatic: bool = True  # imports and crawls update it
    # limits
    # performance
    workers: int = 0  # processes that extract; 0: one for each core


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """`[query]`: limits of an SQL statement."""

    # limits
    sql_seconds_max: float = 600.0  # of one statement; 0: no limit
    sql_memory_bytes: int = at_least(64 << 20, 1 << 30)  # beyond it, sorts and aggregates spill to disk
    sql_spill_bytes_max: int = 16 << 30  # spilled, in the temporary directory
    # performance
    sql_threads: int = 0  # 0: one for each core


@dataclass(frozen=True, slots=True)
class VolumeSettings:
    """`[[volume]]`: one line of the connector (W9)."""

    name: str
    organization: str = "log"
    state: VolumeState = field(default=VolumeState.WRITABLE, metadata={"choices": tuple(VolumeState)})
    weight: float = 1.0  # share of new contents under weighted placement
    depth: int = 3  # of the directory tree, for organization tree
    path: str = ""  # relative to the archive; empty: volumes/<name>
    address: str = ""  # host:port of its volume server; empty: a volume on this machine
    url: str = ""  # s3://bucket/prefix or file:///directory of its segments; empty: its own directory
    role: str = one_of("", "update", "read")  # where store.update is batch; empty: read
    logs: int = 64  # ranges of signatures with a log each, for organization hashed-log
    buckets: int = 64  # at first, for organization hash; they double as the volume fills
    bucket_bytes: int = 64 << 10  # of each, for organization hash

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """`[remote]`: connections to volume servers. Paths are relative to the file that names them."""

    # behaviour
    secret_file: str = ""  # shared with the servers; empty: none, a certificate identifies the client
    tls_ca_file: str = ""  # certificate of the CA that signed the servers' certificates; empty: no TLS
    tls_cert_file: str = ""  # our own, for servers that ask for one
    tls_key_file: str = ""
    # limits
    request_timeout_s: float = at_least(0.01, 30.0)  # without a byte of the response
    retry_s: float = 10.0  # how long a request is retried before the volume counts as down
    down_s: float = 2.0  # how long a volume that is down is not tried again
    # performance
    follow_s: float = at_least(0.01, 1.0)  # how old the view of other clients' stores and of the connector may be


@dataclass(frozen=True, slots=True)
class AccessRule:
    """`[[access]]`: the first rule that matches a capture applies; without one the capture is shown."""

    rule: str = field(metadata={"choices": ("allow", "block", "exclude")})  # block: listed, not shown; exclude: hidden
    collection: str = "*"  # *: all
    url: str = ""  # this URL; http or https, with or without www
    prefix: str = ""  # URLs that begin with it
    domain: str = ""  # this host and its subdomains
    from_: str = ""  # `from` in the file: captures from this time on; partial times are padded
    to: str = ""  # up to this time
    embargo: str = ""  # captures younger than '30 days', '1 year'; or any, until a date such as '2030-01-01'


@dataclass(frozen=True, slots=True)
class Settings:
    """`holdfast.toml`."""

    store: StoreSettings = field(default_factory=StoreSettings)
    volume: tuple[VolumeSettings, ...] = ()
    records: RecordSettings = field(default_factory=RecordSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    connector: str = ""  # file that lists more volumes, relative to the archive; read again when it changes
    access: tuple[AccessRule, ...] = ()
    index: IndexSettings = field(default_factory=IndexSettings)
    query: QuerySettings = field(default_factory=QuerySettings)
    uid: str = ""  # of the archive, chosen at its creation: stream tokens are valid for one archive
    said: frozenset[str] = field(
        default=frozenset(), compare=False, repr=False
    )  # keys in the file, such as store.replicas

    def __post_init__(self) -> None:
        check_fields(self)

    @checked
    def volume_settings(self, name: str) -> VolumeSettings | None:
        return next((volume for volume in self.volume if volume.name == name), None)
