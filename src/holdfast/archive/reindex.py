"""The catalog rebuilt from the batches, while readers go on with the old one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from holdfast.archive.ingest.recovery import enter
from holdfast.archive.write_state import WriteState
from holdfast.batches.scan import Walked
from holdfast.catalog import Catalog
from holdfast.config import RecordSettings
from holdfast.env import Environment, paths
from holdfast.errors import DamagedCatalog

_OUTDATED = ".old"


def open_catalog(root: Path, settings: RecordSettings, env: Environment, *, read_only: bool) -> Catalog:
    """The catalog of an archive. The writer creates it if it is missing. Raises DamagedCatalog."""
    path = root / paths.CATALOG
    if read_only and not path.is_dir():
        raise DamagedCatalog(f"the catalog '{path}' is missing; run 'holdfast reindex'")
    if not read_only:
        for left in (paths.UNFINISHED, _OUTDATED):  # of a reindex that was interrupted
            shutil.rmtree(root / (paths.CATALOG + left), ignore_errors=True)
    return Catalog(path, read_only=read_only, cache_bytes=settings.catalog_cache_bytes, env=env)


def forget_catalog(root: Path) -> None:
    """Deletes a catalog that cannot be opened: the next writer rebuilds it."""
    shutil.rmtree(root / paths.CATALOG, ignore_errors=True)


def reindex(root: Path, state: WriteState, progress: Callable[[int], None] | None) -> Catalog:
    """A new catalog from the batches, put in the place of the old one. For whoever holds the writer's lock."""
    old = state.catalog
    draft = root / (paths.CATALOG + paths.UNFINISHED)
    shutil.rmtree(draft, ignore_errors=True)
    cache = state.settings.catalog_cache_bytes
    with Catalog(draft, cache_bytes=cache, env=state.env, changes=old.changes) as catalog:
        for name in state.journal.names():
            batch = state.journal.batch(name)
            for walked in state.journal.walk(name):
                if isinstance(walked, Walked):
                    enter(catalog, batch, walked)
                    if progress is not None:
                        progress(walked.place.length)
        catalog.sync()
    old.close()
    path, outdated = root / paths.CATALOG, root / (paths.CATALOG + _OUTDATED)
    shutil.rmtree(outdated, ignore_errors=True)
    path.rename(outdated)
    draft.rename(path)
    shutil.rmtree(outdated, ignore_errors=True)
    return Catalog(path, cache_bytes=cache, env=state.env)
