"""The names of all files of an archive and of its volumes.

my-archive/
  holdfast.toml              settings and connector
  writer.lock                held by the one process that writes
  audit.log                  removals and repairs, one JSON object per line
  filters                    derived: which volume may hold a signature
  catalog/                   derived: captures by URL and time
  batches/<name>/            the record journal (see `holdfast.batches`)
    records-000001.tw.zst    frames of entries; records-000001-2.tw.zst is its second form, after removals
    SEALED                   present once the batch is closed: its files with sizes and digests
    RESTORING                present while the batch is being restored from a backup, which is named in it
  intent                     contents that an unfinished addition was about to store
  removal                    records that an unfinished removal was about to take away
  refused                    fingerprints of records that are not to come back
  active                     under the batch scheme: what streams and queries see
  update                     how far an unfinished update has come
  leases/                    locked by those who read a state of the archive for long
  index/                     derived: words, metadata and links of captures (see `holdfast.index.paths`)
  BACKUP, SHA256SUMS         of an archive that is the backup of a batch (see `holdfast.archive.backup.backup`)
  crawls/<name>/             jobs, frontiers and logs (see `holdfast.crawl.paths`)
  volumes/<name>/
    VOLUME                   uid, organization, depth, signature
    000001.seg               organization log: append-only segments; 000001-2.seg is its second compacted form
    001000.seg, 001017.seg   organization hashed-log: segments of the front, and of log 17
    keydir/                  organizations log and hashed-log: derived
    tree/AD/EE/2232AF3A...   organization tree: one file per block
    buckets-1                organization hash: buckets, by ascending signatures; buckets-2 has twice as many
    overflow                 organization hash: overflow buckets, and runs of large blocks
    redo                     organization hash: its state, and what may still have to be written to the pages
    tickets                  organization tree: commits that may be asked for again, once there were some
    dictionaries/            two block files per dictionary
    damaged/                 blocks that were found damaged, an empty file for each
    lost/                    bytes that no repair could save, set aside for study
    objects                  volumes in an object store: where that is, and that it is ours
    uploaded                 volumes in an object store: derived; which segments are there
"""

from __future__ import annotations

import re
from pathlib import Path

SETTINGS = "holdfast.toml"
LOCK = "writer.lock"
AUDIT = "audit.log"
FILTERS = "filters"
VOLUMES = "volumes"
BATCHES = "batches"
CATALOG = "catalog"
INDEX = "index"
INTENT = "intent"
REMOVAL = "removal"
REFUSED = "refused"
ACTIVE = "active"
UPDATE = "update"
LEASES = "leases"
SEALED = "SEALED"
RESTORING = "RESTORING"
BACKUP = "BACKUP"
CHECKSUMS = "SHA256SUMS"

VOLUME = "VOLUME"
KEYDIR = "keydir"
TREE = "tree"
BUCKETS = "buckets"
OVERFLOW = "overflow"
REDO = "redo"
TICKETS = "tickets"
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
    """Number and generation, or None if the file is no segment."""
    match = _SEGMENT.fullmatch(name)
    return (int(match[1]), int(match[2] or 0)) if match else None


def volume_directory(archive: Path, name: str) -> Path:
    return archive / VOLUMES / name


def records_name(number: int, generation: int) -> str:
    return f"records-{number:06d}-{generation}.tw.zst" if generation else f"records-{number:06d}.tw.zst"


def parse_records_name(name: str) -> tuple[int, int] | None:
    """Number and generation, or None if the file holds no records."""
    match = _RECORDS.fullmatch(name)
    return (int(match[1]), int(match[2] or 0)) if match else None


def batch_directory(archive: Path, name: str) -> Path:
    return archive / BATCHES / name
