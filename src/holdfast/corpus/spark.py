"""An archive as a data source of PySpark.

    from holdfast.corpus import spark as holdfast

    holdfast.register(session)
    pages = session.read.format("holdfast").option("fields", "url,main_text").load("/data/my-archive")

A partition is a shard. Every node that runs tasks needs Holdfast, and the archive's directory at the same path.
The snapshot is taken when Spark plans a job, so each job has its own.

    option        meaning                                                        if it is not given
    path          the archive
    shards        partitions                                                     16
    fields        columns, parted by commas                                      record,url,timestamp,mime,title,text
    query         in the query language                                          everything
    url, match    captures of a URL, a prefix, a host, a domain; as of CaptureQuery
    from, to      their time, 1 to 14 digits
    collection, batch, order, which, at      as of StreamOptions
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from holdfast.arguments import nearest
from holdfast.catalog import CaptureQuery
from holdfast.corpus.shards import DEFAULT, Shard, schema_of, split
from holdfast.errors import UsageError
from holdfast.streams import StreamOptions

SHARDS = 16
_OF_STREAMS = ("query", "collection", "batch", "order", "which", "at")
_OF_CAPTURES = {"url": "url", "match": "match", "from": "from_", "to": "to"}
_KNOWN = ("path", "shards", "fields", *_OF_STREAMS, *_OF_CAPTURES)


class SparkArchiveSource(DataSource):
    """Registered as `holdfast`."""

    @classmethod
    def name(cls) -> str:
        return "holdfast"

    def schema(self) -> StructType:
        return from_arrow_schema(schema_of(stream_options(self.options).fields))

    def reader(self, schema: StructType) -> DataSourceReader:
        return ArchiveReader(dict(self.options), schema.fieldNames())


class ArchiveReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: Mapping[str, str], fields: Sequence[str]) -> None:
        self._path = options.get("path", "")
        self._options = stream_options({**options, "fields": ",".join(fields)})
        self._shards = _whole(options.get("shards", str(SHARDS)))
        if not self._path:
            raise UsageError("no archive: give its path to load()")

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(each) for each in split(self._path, self._options, self._shards)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        shard: Shard = partition.value
        return shard.tables()


def register(session: SparkSession) -> None:
    """Makes the format `holdfast` known to the session."""
    session.dataSource.register(SparkArchiveSource)


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"bad number of shards {text!r}: 1 or more")
    return int(text)


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Stream options from those of a data source, which are all strings. Raises UsageError."""
    for name in given:
        if name not in _KNOWN:
            raise UsageError(f"unknown option {name!r}{nearest(name, _KNOWN)}")
    asked: dict[str, Any] = {field: given[name] for name, field in _OF_CAPTURES.items() if name in given}
    captures = CaptureQuery(url=asked.pop("url", "*"), **asked) if asked else None
    fields = tuple(filter(None, (each.strip() for each in given.get("fields", "").split(","))))
    texts: dict[str, Any] = {name: given[name] for name in _OF_STREAMS if name in given}
    return StreamOptions(**texts, captures=captures, fields=fields or DEFAULT)
