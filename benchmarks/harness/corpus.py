"""The documents of a run: any directory, the same choice and order every time.

Files are ordered by a hash of their relative names, so that a small choice is a fair sample of the whole and does not
depend on the file system. Empty files, files beyond the size limit and repeated contents are passed over.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.measure import SEED
from holdfast.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """What a choice may cost in memory; every child holds all chosen documents."""

    documents_max: int = 5_000
    document_bytes_max: int = 2 << 20
    total_bytes_max: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Corpus:
    """Chosen documents by path. Small enough to send to a child; the bytes are read there."""

    directory: Path
    paths: tuple[Path, ...]
    total_bytes: int

    @property
    def mean_bytes(self) -> float:
        return self.total_bytes / len(self.paths)


def choose(directory: Path, limits: Limits) -> Corpus:
    """Up to `documents_max` distinct documents below the directory. Raises UsageError if there are none."""
    if not directory.is_dir():
        raise UsageError(
            f"no corpus at '{directory}': give a directory of documents with --corpus, or run 'make corpus'"
        )
    seen: set[bytes] = set()
    paths: list[Path] = []
    total = 0
    for path in sorted(_files(directory), key=lambda path: _rank(directory, path)):
        data = _read(path, limits.document_bytes_max)
        signature = hashlib.sha256(data).digest()
        if not data or signature in seen:
            continue
        if len(paths) >= limits.documents_max or total + len(data) > limits.total_bytes_max:
            break
        seen.add(signature)
        paths.append(path)
        total += len(data)
    if not paths:
        raise UsageError(f"no documents in '{directory}': every file is empty, unreadable or too large")
    return Corpus(directory, tuple(paths), total)


def load(corpus: Corpus, documents_max: int | None = None) -> list[bytes]:
    """The documents, or the first of them, in the order of the choice."""
    return [path.read_bytes() for path in corpus.paths[:documents_max]]


def _files(directory: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(directory):
        for name in names:
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _rank(directory: Path, path: Path) -> bytes:
    name = f"{SEED}/{path.relative_to(directory)}"
    return hashlib.blake2b(os.fsencode(name), digest_size=8).digest()


def _read(path: Path, bytes_max: int) -> bytes:
    """The file's bytes; nothing if it is too large or unreadable."""
    try:
        return path.read_bytes() if path.stat().st_size <= bytes_max else b""
    except OSError:
        return b""
