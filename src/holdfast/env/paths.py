"""The names of all files of an archive and of its volumes.

my-archive/
  holdfast.toml              settings and connector
  rules.toml                 rules of replay (see `holdfast.web.replay.rules`)
  writer.lock                held by the writing process
  audit.log                  removals and repairs, one JSON object per line
  filters                    derived: which volume may hold a signature
  catalog/                   derived: captures by URL and time
  batches/<name>/            the record journal (see `holdfast.batches`)
    records-000001.tw.zst    frames of entries; records-000001-2.tw.zst is generation 2, after removals
    SEALED                   present once the batch is closed: its files with sizes and digests
    RESTORING                present while the batch is restored; names the backup
  intent                     contents of an unfinished addition
  removal                    records of an unfinished removal
  refused                    fingerprints of records that must not be added again
  active                     under the batch scheme: the state that streams and queries see
  update                     progress of an unfinished update
  leases/                    locked by long readers of a state
  cluster/                   of a node: key, certificate, members (see `holdfast.cluster.directory`)
  index/                     derived: full text, metadata and links (see `holdfast.index.paths`)
  BACKUP, SHA256SUMS,
  BACKING-UP                 of an archive that is the backup of a batch (see `holdfast.archive.backup`)
  crawls/<name>/             jobs, frontiers and logs (see `holdfast.crawl.paths`)
  volumes/<name>/
    VOLUME                   uid, organization, depth, signature
    000001.seg               organization log: append-only segments; 000001-2.seg is generation 2, compacted
    001000.seg, 001017.seg   organization hashed-log: segments of the front, and of log 17
    keydir/                  organizations log and hashed-log: derived
    tree/AD/EE/2232AF3A...   organization tree: one file per block
    buckets-1                organization hash: buckets, by ascending signatures; buckets-2 has twice as many
    overflow                 organization hash: overflow buckets, and runs of large blocks
    redo                     organizations tree and hash: the journal, with changes that may not be in the files yet
    dictionaries/            two block files per dictionary
    damaged/                 blocks found damaged, an empty file for each
    lost/                    damaged bytes that repairs set aside
    objects                  volumes in an object store: its URL and our ownership
    uploaded                 volumes in an object store: derived; the uploaded segments
"""

from __future__ import annotations

import re
from pathlib import Path

SETTINGS = "holdfast.toml"
RULES = "rules.toml"
LOCK = "writer.lock"
AUDIT = "audit.log"
FILTERS = "filters"
VOLUMES = "volumes"
BATCHES = "batches"
CATALOG = "catalog"
INDEX = "index"
CRAWLS = "crawls"
INTENT = "intent"
REMOVAL = "removal"
REFUSED = "refused"
ACTIVE = "active"
UPDATE = "update"
LEASES = "leases"
CLUSTER = "cluster"
NODES = "nodes.json"  # in it, while the node runs: the table of nodes
MEMBER = "service.jwt"  # in it: the NATS service of the node; an archive without it is not a node
CONTROL = "control"  # in it, while the node runs: the socket for commands
SEALED = "SEALED"
RESTORING = "RESTORING"
BACKUP = "BACKUP"
BACKING_UP = "BACKING-UP"  # beside it, until the backup is whole
CHECKSUMS = "SHA256SUMS"

VOLUME = "VOLUME"
KEYDIR = "keydir"
TREE = "tree"
BUCKETS = "buckets"
OVERFLOW = "overflow"
REDO = "redo"
DICTIONARIES = "dictionaries"
LOST = "lost"
DAMAGED = "damaged"
OBJECTS = "objects"
UPLOADED = "uploaded"
UNFINISHED = ".open"  # suffix of a file that is being written

_RECORDS = re.compile(r"records-(\d{6,8})(?:-(\d{1,6}))?\.tw\.zst")
_SEGMENT = re.compile(r"(\d{6,8})(?:-(\d{1,6}))?\.seg")


def segment_name(segment: int, generation: int) -> str:
    return f"{segment:06d}-{generation}.seg" if generation else f"{segment:06d}.seg"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Number and generation; None if the file is not a segment."""
    match = _SEGMENT.fullmatch(name)
    return (int(match[1]), int(match[2] or 0)) if match else None


def volume_directory(archive: Path, name: str) -> Path:
    return archive / VOLUMES / name


def records_name(number: int, generation: int) -> str:
    return f"records-{number:06d}-{generation}.tw.zst" if generation else f"records-{number:06d}.tw.zst"


def parse_records_name(name: str) -> tuple[int, int] | None:
    """Number and generation; None if the file does not hold records."""
    match = _RECORDS.fullmatch(name)
    return (int(match[1]), int(match[2] or 0)) if match else None


def batch_directory(archive: Path, name: str) -> Path:
    return archive / BATCHES / name
