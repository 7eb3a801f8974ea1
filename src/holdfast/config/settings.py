"""The settings of an archive as frozen dataclasses, with their defaults beside them, behaviour first."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.arguments import check_fields, checked
from holdfast.model import VolumeState

CONTENT_BYTES_LIMIT = 10**12 - 1  # twelve digits in a block's header

# Names seen in the wild: jQuery's `_`, the usual spellings of "no cache", of a random number and
# of the time; and marks of where a visitor came from.
DEFAULT_BUSTERS = (
    *("_", "_t", "_ts", "__t", "t", "ts", "timestamp", "_rand", "rand", "random", "rnd", "ord", "cb", "cacheb", "bust"),
    *("buster", "cachebust", "cachebuster", "nc", "nocache", "_nocache", "no_cache", "no-cache"),
    *("utm_*", "fbclid", "gclid"),
)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """`[store]`: how contents are kept."""

    # behaviour
    signature: str = "sha256"  # fixed once the archive exists
    codec: str = "auto"  # for stores that name none; `auto` chooses by type and uses a dictionary where there is one
    placement: str = "mod"  # mod: signature mod n; weighted: in proportion to the volumes' weights
    replicas: int = 1  # copies of every content, in distinct volumes
    update: str = "incremental"  # batch: new contents go to the update volumes, and are seen after the next switch
    train_after: int = 1000  # compressible contents after which a volume trains its first dictionary; 0: never
    # limits
    content_bytes_max: int = 2 << 30  # one content; it passes through memory
    segment_bytes_max: int = 256 << 20  # compaction needs this much extra disk at a time
    log_bytes_max: int = 16 << 20  # the same for organization hashed-log; so much is gathered before it is distributed
    bucket_buffer_bytes: int = 16 << 20  # of organization hash: buckets kept in memory
    stage_bytes_max: int = 4 << 30  # of segments that wait to be uploaded to an object store; then the volume is full
    object_timeout_s: float = 30.0  # of one request to an object store
    # performance
    keydir_cache_bytes: int = 64 << 20  # per volume; more speeds up random reads of large volumes
    open_segments_max: int = 256  # open files per volume
    dictionary_bytes: int = 112 << 10  # larger ones compress a little better and load slower
    object_cache_bytes: int = 32 << 20  # of what was read last from an object store, per volume
    object_requests_max: int = 16  # to an object store at once, per volume

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """`[records]`: how records are kept, in batches and in the catalog."""

    # behaviour
    collection: str = "main"  # for records that name none
    batch: str = "month"  # month: one batch for each month of the record's arrival; any other word names the batch
    keep: str = "all"  # latest: 'holdfast update run' removes captures that a later one of their URL has superseded
    pick: str = "nearest"  # which capture stands for a time; not-newer: the last up to it, or none
    warc_paths: tuple[str, ...] = ()  # directories, relative to the archive, of the files that records refer to
    # limits
    piece_bytes_max: int = 32 << 20  # larger payloads are kept in pieces of this size; memory is a few times that
    inline_bytes_max: int = 8 << 10  # smaller requests and metadata are kept with their record, not as contents
    # performance
    frame_bytes: int = 64 << 10  # of entries compressed together; larger ones compress better and read slower
    file_bytes_max: int = 256 << 20  # of one journal file; a removal rewrites whole files
    catalog_cache_bytes: int = 64 << 20  # more speeds up random look-ups in large catalogs

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """`[serve]`: how the archive is shown and what a request may cost. Limits hold for each worker."""

    # behaviour
    host: str = "127.0.0.1"  # address to listen on; this machine only unless another is named
    port: int = 8080  # of the pages with controls; 0: any free one
    replay_port: int = 0  # of the archived pages; 0: the one after `port`, or any free one if that is 0
    workers: int = 0  # processes; 0: one for each core
    controls_url: str = ""  # public address behind a proxy, such as https://archive.example.org; empty: host and port
    replay_url: str = ""  # of the archived pages; must be another origin
    hosts: tuple[str, ...] = ()  # names accepted in `Host` besides `host`, the public addresses and loopback
    read_token_file: str = ""  # relative to the archive; one token a line, any of which is needed to read; empty: none
    write_token_file: str = ""  # the same for writing; empty: nobody may write, except with `serve --write`
    access_log: str = ""  # file, relative to the archive; -: standard error; empty: none
    coherence_warning_s: int = 30 * 86400  # spread of a page's resources beyond which the banner warns
    busters: tuple[str, ...] = DEFAULT_BUSTERS  # parameters that only defeat caches; * and ? stand for characters
    # limits
    body_bytes_max: int = 64 << 20  # of a request's body
    rewrite_bytes_max: int = 32 << 20  # larger scripts and styles are served as they are
    request_timeout_s: float = 10.0  # until a request's head is complete
    body_timeout_s: float = 30.0  # without a byte of the body
    write_stall_s: float = 60.0  # without a byte taken by a client that does not read
    keep_alive_s: float = 15.0  # between two requests of a connection
    stop_s: float = 10.0  # for requests under way when the server stops
    query_seconds_max: float = 30.0  # of one look through the catalog
    connections_max: int = 1000
    cdx_limit: int = 1_000_000  # lines of one answer of the CDX server; a resume key goes on
    timemap_mementos_max: int = 5000  # of one page of a TimeMap
    download_records_max: int = 100_000  # captures of one WARC that is made for a client
    download_bytes_max: int = 10 << 30  # payloads of these
    streams_max: int = 16  # streams at a time
    streams_per_client_max: int = 4  # of one address
    # performance
    cache_bytes: int = 64 << 20  # of rewritten answers
    stream_buffer_bytes: int = 64 << 20  # of pages that are kept for clients who share a stream and are behind
    spool_bytes_max: int = 1 << 30  # of large payloads, on disk in the system's directory for temporary files


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """`[index]`: words, metadata and links of captures."""

    # behaviour
    automatic: bool = True  # imports and crawls bring it up to date
    crawl_every_s: float = 300.0  # beside a crawl, so often
    # limits
    document_bytes_max: int = 32 << 20  # of a document that are looked at; larger PDF and office files are left out
    document_seconds_max: float = 20.0  # of processor time for one document
    worker_bytes_max: int = 2 << 30  # of memory for one process that extracts
    # performance
    workers: int = 0  # processes that extract; 0: one for each core
    writer_threads: int = 2  # of tantivy
    writer_bytes: int = 256 << 20  # of memory for words that are not yet on disk
    commit_records: int = 20_000  # after so many, what was indexed is made durable and can be found


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """`[query]`: what a statement in SQL may cost."""

    # limits
    sql_seconds_max: float = 600.0  # of one statement; 0: as long as it takes
    sql_rows_max: int = 0  # of one answer; 0: any number
    sql_memory_bytes: int = 1 << 30  # beyond it, what is sorted or gathered goes to disk
    sql_spill_bytes_max: int = 16 << 30  # there, in the system's directory for temporary files
    # performance
    sql_threads: int = 0  # 0: one for each core


@dataclass(frozen=True, slots=True)
class VolumeSettings:
    """`[[volume]]`: one line of the connector (W9)."""

    name: str
    organization: str = "log"
    state: VolumeState = VolumeState.WRITABLE
    weight: float = 1.0  # share of new contents under weighted placement
    depth: int = 3  # of the directory tree, for organization tree
    path: str = ""  # relative to the archive; empty: volumes/<name>
    address: str = ""  # host:port of the volume server that holds it; empty: it is on this machine
    url: str = ""  # s3://bucket/prefix or file:///directory that its segments are kept in; empty: its own directory
    role: str = ""  # update or read, where store.update is batch; empty: read
    logs: int = 64  # ranges of signatures, each with a log of its own, for organization hashed-log
    buckets: int = 64  # to begin with, for organization hash; they double as the volume fills
    bucket_bytes: int = 64 << 10  # of each, for organization hash

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """`[remote]`: how volume servers are reached. Paths are relative to the file that names them."""

    # behaviour
    secret_file: str = ""  # shared with the servers; empty: none, they know us by our certificate
    tls_ca_file: str = ""  # certificate of who signed the servers'; empty: no TLS
    tls_cert_file: str = ""  # our own, for servers that ask for one
    tls_key_file: str = ""
    # limits
    connect_timeout_s: float = 3.0
    request_timeout_s: float = 30.0  # without a byte of the answer
    retry_s: float = 10.0  # for how long a request is tried again before the volume counts as down
    down_s: float = 2.0  # for how long a volume that is down is left alone
    # performance
    connections_max: int = 32  # to one volume
    follow_s: float = 1.0  # at most this old is what is known of others' new contents, and of the connector file


@dataclass(frozen=True, slots=True)
class AccessRule:
    """`[[access]]`: what may be seen. The first rule that fits a capture decides; without one it may be seen."""

    rule: str  # allow; block: listed, but not shown; exclude: as if it were not there
    collection: str = "*"  # *: all of them
    url: str = ""  # this URL; http or https, with or without www
    prefix: str = ""  # URLs that begin with it
    domain: str = ""  # hosts of this name, and below it
    from_: str = ""  # `from` in the file: captures of this time and later; partial times are padded
    to: str = ""  # and up to this time
    embargo: str = ""  # captures younger than '30 days', '1 year'; or any, until a date such as '2030-01-01'


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole of `holdfast.toml`."""

    store: StoreSettings = field(default_factory=StoreSettings)
    volume: tuple[VolumeSettings, ...] = ()
    records: RecordSettings = field(default_factory=RecordSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    connector: str = ""  # file that lists further volumes, relative to the archive; read again when it changes
    access: tuple[AccessRule, ...] = ()
    index: IndexSettings = field(default_factory=IndexSettings)
    query: QuerySettings = field(default_factory=QuerySettings)
    uid: str = ""  # of the archive, given when it is founded: tokens of streams belong to one archive
    said: frozenset[str] = field(default=frozenset(), compare=False, repr=False)  # in the file, such as store.replicas

    def __post_init__(self) -> None:
        check_fields(self)

    @checked
    def volume_settings(self, name: str) -> VolumeSettings | None:
        return next((volume for volume in self.volume if volume.name == name), None)
