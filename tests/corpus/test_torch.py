"""PyTorch, the real library: over workers and ranks, and from a state."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from corpus_pages import CAPTURES, OPTIONS

from holdfast.errors import UsageError
from holdfast.streams import StreamOptions

NAMES = StreamOptions(fields=("url", "timestamp"), batch_size=7)


def key(row: dict[str, Any]) -> tuple[str, str]:
    return row["url"], row["timestamp"]


def test_workers_share_the_snapshot(archive_path: Path, urls: list[tuple[str, str]]) -> None:
    from torch.utils.data import DataLoader

    from holdfast.corpus.torch import StreamDataset

    dataset = StreamDataset(archive_path, NAMES, transform=key)
    assert sorted(dataset) == urls
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    assert sorted(map(tuple, loader)) == urls
    assert sorted(map(tuple, loader)) == urls  # the next epoch


def test_ranks_share_the_snapshot(
    archive_path: Path, urls: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch.distributed

    from holdfast.corpus.torch import StreamDataset

    first = StreamDataset(archive_path, NAMES)
    got = []
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    for rank in range(3):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        got.append([key(row) for row in StreamDataset(archive_path, NAMES, snapshot=first.snapshot)])
    assert all(got) and sorted(chain(*got)) == urls


def test_it_goes_on_from_its_state(archive_path: Path) -> None:
    from holdfast.corpus.torch import StreamDataset

    dataset = StreamDataset(archive_path, NAMES, transform=key)
    whole = list(dataset)
    assert len(whole) == CAPTURES
    rows = iter(dataset)
    some = list(islice(rows, 123))
    state = dataset.state_dict()
    rows.close()  # type: ignore[attr-defined]
    again = StreamDataset(archive_path, NAMES, snapshot=dataset.snapshot, transform=key)
    again.load_state_dict(state)
    assert some + list(again) == whole
    assert list(again) == whole  # and the next epoch is whole
    again.load_state_dict({})
    assert list(again) == whole


def test_a_state_of_other_workers_is_refused(archive_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed

    from holdfast.corpus.torch import StreamDataset

    dataset = StreamDataset(archive_path, OPTIONS)
    next(iter(dataset))
    state = dataset.state_dict()
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    dataset.load_state_dict(state)
    with pytest.raises(UsageError, match="part 0 of 1, this is part 1 of 2"):
        next(iter(dataset))
