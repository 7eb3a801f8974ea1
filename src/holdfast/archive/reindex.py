"""The catalog made anew from the batches, while readers go on with the old one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from holdfast.archive.adding import Parts
from holdfast.archive.recovery import enter
from holdfast.batches.walk import Walked
from holdfast.catalog import Catalog
from holdfast.config import RecordSettings
from holdfast.env import Environment
from holdfast.errors import DamagedCatalog
from holdfast.storage import layout

_OUTDATED = ".old"


def open_catalog(root: Path, settings: RecordSettings, env: Environment, *, read_only: bool) -> Catalog:
    """The catalog of an archive. The writer makes it where it is missing. Raises DamagedCatalog."""
    path = root / layout.CATALOG
    if read_only and not path.is_dir():
        raise DamagedCatalog(f"the catalog '{path}' is missing; run 'holdfast reindex'")
    if not read_only:
        for left in (layout.UNFINISHED, _OUTDATED):  # of a reindex that was interrupted
            shutil.rmtree(root / (layout.CATALOG + left), ignore_errors=True)
    return Catalog(path, read_only=read_only, cache_bytes=settings.catalog_cache_bytes, env=env)


def forget_catalog(root: Path) -> None:
    """Deletes a catalog that cannot be opened: the next writer makes it anew."""
    shutil.rmtree(root / layout.CATALOG, ignore_errors=True)


def reindex(root: Path, old: Catalog, parts: Parts, progress: Callable[[int], None] | None) -> Catalog:
    """A new catalog from the batches, put in the place of the old one."""
    draft = root / (layout.CATALOG + layout.UNFINISHED)
    shutil.rmtree(draft, ignore_errors=True)
    cache = parts.settings.catalog_cache_bytes
    with Catalog(draft, cache_bytes=cache, env=parts.env, changes=old.changes) as catalog:
        for name in parts.journal.names():
            batch = parts.journal.batch(name)
            for walked in parts.journal.walk(name):
                if isinstance(walked, Walked):
                    enter(catalog, batch, walked)
                    if progress is not None:
                        progress(walked.place.length)
        catalog.sync()
    old.close()
    path, outdated = root / layout.CATALOG, root / (layout.CATALOG + _OUTDATED)
    shutil.rmtree(outdated, ignore_errors=True)
    path.rename(outdated)
    draft.rename(path)
    shutil.rmtree(outdated, ignore_errors=True)
    return Catalog(path, cache_bytes=cache, env=parts.env)
