"""Hugging Face `datasets`, the real library, reading an archive."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from corpus_pages import CAPTURES, FIELDS, OPTIONS

from holdfast.streams import StreamOptions


@pytest.fixture(scope="module", autouse=True)
def offline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The library looks for its cache when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hugging-face")))
        yield


def key(row: dict[str, Any]) -> tuple[str, str]:
    return row["url"], row["timestamp"]


def test_rows_of_all_shards_are_the_snapshot(archive_path: Path, urls: list[tuple[str, str]]) -> None:
    from datasets import IterableDataset
    from datasets.distributed import split_dataset_by_node

    from holdfast.corpus.datasets import load

    dataset = load(archive_path, OPTIONS, shards=4)
    assert isinstance(dataset, IterableDataset) and dataset.num_shards == 4
    assert list(dataset.features) == list(FIELDS)
    assert sorted(map(key, dataset)) == urls
    assert sorted(map(key, dataset.shuffle(seed=1, buffer_size=50))) == urls
    nodes = [split_dataset_by_node(dataset, rank, 2) for rank in range(2)]
    parts = [sorted(map(key, node)) for node in nodes]
    assert all(parts) and sorted(parts[0] + parts[1]) == urls
    row = next(iter(dataset))
    assert row["headers"][0].keys() == {"name", "value"} and isinstance(row["payload"], bytes)


def test_it_goes_on_from_its_state(archive_path: Path) -> None:
    from holdfast.corpus.datasets import load

    dataset = load(archive_path, StreamOptions(fields=("url", "timestamp")), shards=3)
    whole = list(map(key, dataset))
    assert len(whole) == CAPTURES
    some = [key(row) for row in islice(dataset, 150)]
    state = dataset.state_dict()
    again = load(archive_path, StreamOptions(fields=("url", "timestamp")), shards=3)
    again.load_state_dict(state)
    assert some + list(map(key, again)) == whole
