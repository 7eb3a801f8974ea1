"""The records of an archive opened for reading, by processes that are given no more than its path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast import config
from holdfast.batches.journal import Journal
from holdfast.catalog import Catalog
from holdfast.env import REAL, Environment, paths
from holdfast.records.records import Records
from holdfast.records.references import ReferencedFiles
from holdfast.storage.store.contents import Contents
from holdfast.storage.store.store import BlockStore


def _catalog(root: Path, cache_bytes: int, env: Environment) -> Catalog:
    return Catalog(root / paths.CATALOG, read_only=True, cache_bytes=cache_bytes, env=env)


@contextmanager
def opened_records(root: Path, env: Environment = REAL) -> Iterator[Records]:
    """Follows the process that writes. Raises what opening an archive may."""
    path = root / paths.SETTINGS
    settings = config.merged(config.load(path), path)
    with ExitStack() as closing:
        instance = BlockStore(root, settings, env, writable=False)
        closing.callback(instance.close)
        contents = Contents(instance)
        closing.callback(contents.close)
        journal = Journal(root, env, settings.records, writable=False)
        closing.callback(journal.close)
        cache_bytes = settings.records.catalog_cache_bytes
        catalog = closing.enter_context(_catalog(root, cache_bytes, env))
        files = ReferencedFiles([root / each for each in settings.records.warc_paths])
        yield Records(journal, catalog, contents, files)
