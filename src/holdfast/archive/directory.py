"""The directory of an archive: the lock of its one writer, and its catalog."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from holdfast.batches.journal import Journal
from holdfast.catalog import Catalog
from holdfast.config import RecordSettings
from holdfast.env import Environment, WriterLock, paths
from holdfast.errors import DamagedCatalog

OUTDATED = ".old"  # the suffix of a catalog that `reindex` has replaced


def open_catalog(root: Path, settings: RecordSettings, env: Environment, *, read_only: bool) -> Catalog:
    """The catalog of an archive. The writer creates it if it is missing.

    Raises DamagedCatalog, or FormatTooOld or FormatTooNew if another release wrote the batches.
    """
    path = root / paths.CATALOG
    if read_only and not path.is_dir():
        raise DamagedCatalog(f"the catalog '{path}' is missing; run 'holdfast reindex'")
    if not read_only:
        for left in (paths.UNFINISHED, OUTDATED):  # of a reindex that was interrupted
            shutil.rmtree(root / (paths.CATALOG + left), ignore_errors=True)
    try:
        return Catalog(path, read_only=read_only, cache_bytes=settings.catalog_cache_bytes, env=env)
    except DamagedCatalog:
        Journal(root, env, writable=False).check_version()  # where that is wrong, a reindex does not help
        raise


def lock_archive(root: Path) -> WriterLock:
    """The lock of an archive's one writer. It shows the command line of this process to those who wait. Raises Busy."""
    command = [Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv and sys.argv[0] else ["a Python program"]
    return WriterLock(root / paths.LOCK, " ".join(command)[:150])
