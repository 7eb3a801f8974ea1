"""Where everything is: the names of all files of an archive and of its volumes, in one place.

my-archive/
  holdfast.toml              settings and connector
  writer.lock                held by the one process that writes
  audit.log                  removals and repairs, one JSON object per line
  filters                    derived: which volume may hold a signature
  volumes/<name>/
    VOLUME                   uid, organization, depth, signature
    000001.seg               organization log: append-only segments; 000001-2.seg is its second compacted form
    keydir/                  organization log: derived
    tree/AD/EE/2232AF3A...   organization tree: one file per block
    dictionaries/            organization tree: one block file per dictionary
    lost/                    bytes that no repair could save, set aside for study
"""

from __future__ import annotations

import re
from pathlib import Path

SETTINGS = "holdfast.toml"
LOCK = "writer.lock"
AUDIT = "audit.log"
FILTERS = "filters"
VOLUMES = "volumes"

VOLUME = "VOLUME"
KEYDIR = "keydir"
TREE = "tree"
DICTIONARIES = "dictionaries"
LOST = "lost"
UNFINISHED = ".open"  # suffix of a file that is being written

_SEGMENT = re.compile(r"(\d{6,8})(?:-(\d{1,6}))?\.seg")


def segment_name(segment: int, generation: int) -> str:
    return f"{segment:06d}-{generation}.seg" if generation else f"{segment:06d}.seg"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Number and generation, or None if the file is no segment."""
    match = _SEGMENT.fullmatch(name)
    return (int(match[1]), int(match[2] or 0)) if match else None


def volume_directory(archive: Path, name: str) -> Path:
    return archive / VOLUMES / name
