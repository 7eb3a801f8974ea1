"""PySpark, the real library, with a master in this process and one worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus_pages import FIELDS

from holdfast.errors import UnknownName, UsageError

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:pyspark.*")
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # it runs for seconds only


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    patch = pytest.MonkeyPatch()
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    patch.setenv("PYSPARK_SUBMIT_ARGS", f"--driver-java-options '{_JAVA}' pyspark-shell")
    patch.setenv("PYTHONPATH", os.pathsep.join(map(str, Path(__file__).parents[2].glob("src"))))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = (
        builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    )
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    patch.undo()


def test_partitions_are_shards_of_one_snapshot(session: Any, archive_path: Path, urls: list[tuple[str, str]]) -> None:
    from holdfast.corpus.spark import register

    register(session)
    reader = session.read.format("holdfast").option("fields", ",".join(FIELDS)).option("shards", "2")
    pages = reader.load(str(archive_path))
    assert pages.columns == list(FIELDS)
    rows = pages.collect()
    assert sorted((row["url"], row["timestamp"]) for row in rows) == urls
    assert rows[0]["status"] == 200 and bytes(rows[0]["payload"]).startswith(b"<html")
    assert rows[0]["headers"][0]["name"] and rows[0]["main_text"].startswith("Page ")
    side = session.read.format("holdfast").option("collection", "side").option("url", "0.example/*")
    some = {row["url"] for row in side.option("fields", "url").option("shards", "1").load(str(archive_path)).collect()}
    assert some and all(url.startswith("http://0.example/") for url in some)


def test_options_are_checked() -> None:
    from holdfast.corpus.spark import ArchiveReader, stream_options

    assert stream_options({"from": "2026"}).captures is not None
    with pytest.raises(UsageError, match="did you mean 'fields'"):
        stream_options({"field": "url"})
    with pytest.raises(UnknownName, match="unknown field 'links'"):
        stream_options({"fields": "links"})
    with pytest.raises(UsageError, match="bad number of shards 'x'"):
        ArchiveReader({"path": "a", "shards": "x"}, ["url"])
    with pytest.raises(UsageError, match="no archive"):
        ArchiveReader({}, ["url"])
