"""Ray Data, the real library, with a cluster of one process on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus_pages import FIELDS, OPTIONS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*", "ignore::FutureWarning:ray.*")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    patch.setenv("PYTHONPATH", os.pathsep.join(map(str, Path(__file__).parents[2].glob("src"))))
    import ray

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    yield ray
    ray.shutdown()
    patch.undo()


def test_read_tasks_are_shards_of_one_snapshot(cluster: Any, archive_path: Path, urls: list[tuple[str, str]]) -> None:
    from holdfast.corpus.ray import source

    dataset = cluster.data.read_datasource(source(archive_path, OPTIONS, shards=2))
    rows = dataset.take_all()
    assert sorted((row["url"], row["timestamp"]) for row in rows) == urls
    assert set(rows[0]) == set(FIELDS)
    assert rows[0]["main_text"].startswith("Page ") and isinstance(rows[0]["payload"], bytes)
