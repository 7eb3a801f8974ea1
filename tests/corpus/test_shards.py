"""Shards: values that go to other processes, and together are one snapshot."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow
import pytest
from corpus_pages import CAPTURES, FIELDS, OPTIONS, body

import holdfast
from holdfast.corpus import Shard, shards, split
from holdfast.errors import UsageError
from holdfast.streams import StreamOptions


def test_shards_are_the_snapshot_in_parts(archive_path: Path, urls: list[tuple[str, str]]) -> None:
    shards = [pickle.loads(pickle.dumps(each)) for each in split(archive_path, OPTIONS, 5)]
    rows = [[(row["url"], row["timestamp"]) for row in shard.rows()] for shard in shards]
    assert sorted(chain(*rows)) == urls
    assert sum(map(bool, rows)) > 1
    assert rows[0] == [(row["url"], row["timestamp"]) for row in shards[0].rows()]


def test_what_comes_later_is_in_none(tmp_path: Path) -> None:
    holdfast.init(tmp_path)
    with holdfast.open(tmp_path) as archive:
        archive.add([holdfast.page("http://a.example/", b"old", timestamp="20260101000000")])
        shards = split(tmp_path, OPTIONS, 3)
        archive.add([holdfast.page("http://a.example/new", b"new", timestamp="20260102000000")])
        assert [row["url"] for shard in shards for row in shard.rows()] == ["http://a.example/"]


def test_rows_and_tables_have_the_fields(archive_path: Path) -> None:
    (shard,) = split(archive_path, OPTIONS, 1)
    row = next(shard.rows())
    assert tuple(row) == FIELDS
    assert row["payload"] == body(1) and row["title"] == "Page 1" and row["status"] == 200
    assert row["main_text"].startswith("Page 1 tells of") and "Start here" not in row["main_text"]
    assert row["language"] == "en"
    assert {"name": "Content-Type", "value": "text/html"} in row["headers"]
    tables = list(shard.tables())
    assert sum(table.num_rows for table in tables) == CAPTURES
    assert {table.schema for table in map(pyarrow.Table.from_batches, ([each] for each in tables))} == {
        shards.schema_of(FIELDS)
    }
    assert tables[0].to_pylist()[0] == row


def test_a_shard_goes_on_from_a_token(archive_path: Path) -> None:
    shard: Shard = split(archive_path, OPTIONS, 2)[0]
    batches = shard.batches()
    first = next(batches)
    token, rest = first.token, [page.record for batch in batches for page in batch]
    assert [page.record for batch in shard.batches(token) for page in batch] == rest


def test_bad_numbers_and_shards_of_shards_are_refused(archive_path: Path) -> None:
    with pytest.raises(UsageError, match="1 or more"):
        split(archive_path, OPTIONS, 0)
    with pytest.raises(UsageError, match="split again"):
        split(archive_path, replace(OPTIONS, shard=(0, 2)), 2)


def test_without_fields_a_corpus_has_its_own(archive_path: Path) -> None:
    (shard,) = split(archive_path, StreamOptions(), 1)
    assert tuple(next(shard.rows())) == shards.DEFAULT
