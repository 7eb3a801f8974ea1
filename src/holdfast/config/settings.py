"""The settings of an archive as frozen dataclasses, with their defaults beside them, behaviour first."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    train_after: int = 1000  # compressible contents after which a volume trains its first dictionary; 0: never
    # limits
    content_bytes_max: int = 2 << 30  # one content; it passes through memory
    segment_bytes_max: int = 256 << 20  # compaction needs this much extra disk at a time
    # performance
    keydir_cache_bytes: int = 64 << 20  # per volume; more speeds up random reads of large volumes
    open_segments_max: int = 256  # open files per volume
    dictionary_bytes: int = 112 << 10  # larger ones compress a little better and load slower


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """`[records]`: how records are kept, in batches and in the catalog."""

    # behaviour
    collection: str = "main"  # for records that name none
    batch: str = "month"  # month: one batch for each month of the record's arrival; any other word names the batch
    warc_paths: tuple[
        str, ...
    ] = ()  # where the files lie that records by reference point into; relative to the archive
    # limits
    piece_bytes_max: int = 32 << 20  # larger payloads are kept in pieces of this size; memory is a few times that
    inline_bytes_max: int = 8 << 10  # smaller requests and metadata are kept with their record, not as contents
    # performance
    frame_bytes: int = 64 << 10  # of entries compressed together; larger ones compress better and read slower
    file_bytes_max: int = 256 << 20  # of one journal file; a removal rewrites whole files
    catalog_cache_bytes: int = 64 << 20  # more speeds up random look-ups in large catalogs


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
    header_bytes_max: int = 64 << 10  # of a request's head
    header_count_max: int = 100
    target_bytes_max: int = 32 << 10  # of a request's address
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
    # performance
    cache_bytes: int = 64 << 20  # of rewritten answers
    spool_bytes_max: int = 1 << 30  # of large payloads, on disk in the system's directory for temporary files


@dataclass(frozen=True, slots=True)
class VolumeSettings:
    """`[[volume]]`: one line of the connector (W9)."""

    name: str
    organization: str = "log"
    state: VolumeState = VolumeState.WRITABLE
    weight: float = 1.0  # share of new contents under weighted placement
    depth: int = 3  # of the directory tree, for organization tree
    path: str = ""  # relative to the archive; empty: volumes/<name>


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
    access: tuple[AccessRule, ...] = ()

    def volume_settings(self, name: str) -> VolumeSettings | None:
        return next((volume for volume in self.volume if volume.name == name), None)
