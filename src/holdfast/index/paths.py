"""The files of the index.

index/
  LOCK                   held by the one process that writes the index
  STATE                  the current generation, how far it reaches, and its table files
  BUILD                  the state of a generation that is being built
  removed                removed records that are still in words or tables
  removed.lock           held briefly while `removed` is changed
  words-000001/          generation 1: the words, written by tantivy
  tables-000001/         generation 1: the tables
    captures-000001.parquet
    links-000001.parquet
    backlinks-000001.parquet
  ranks-000001           page ranks; a new generation for each computation, the last few are kept
"""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.env import paths

LOCK = "LOCK"
STATE = "STATE"
BUILD = "BUILD"
REMOVED = "removed"
REMOVED_LOCK = "removed.lock"
META = "meta.json"  # tantivy's own state, among the words
RANKING = "ranking-"  # prefix of scratch directories of rank computations
_RANKS = re.compile(r"ranks-(\d{6,10})")
_GENERATION = re.compile(r"(?:words|tables)-(\d{6,9})")


def index_directory(archive: Path) -> Path:
    return archive / paths.INDEX


def words_name(generation: int) -> str:
    return f"words-{generation:06d}"


def tables_name(generation: int) -> str:
    return f"tables-{generation:06d}"


def generation_of(name: str) -> int | None:
    """The generation of a directory; None if it is something else."""
    match = _GENERATION.fullmatch(name)
    return int(match[1]) if match else None


def ranks_name(generation: int) -> str:
    return f"ranks-{generation:06d}"


def ranks_generation_of(name: str) -> int | None:
    """The generation of a file of ranks; None if it is something else."""
    match = _RANKS.fullmatch(name)
    return int(match[1]) if match else None


def table_file_name(table: str, number: int) -> str:
    return f"{table}-{number:06d}.parquet"
