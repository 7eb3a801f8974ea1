"""A sample as a directory that stands for itself.

    sample.warc.gz       the records; or .warc, .warc.zst, .parquet
    captures.jsonl       what was drawn, one capture a line: record, URL, time, stratum, weight
    distributions.csv    archive and sample side by side
    distances.csv        how far they are apart
    strata.csv           what each stratum has and gave
    manifest.json        format, options, seed, snapshot, numbers, and the SHA-256 of every other file
    README.md            the same for people, and how to make it again

Nothing in it depends on the time or the machine: the same archive, options and version of Holdfast make the same bytes.
The directory has its name once it is complete.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

import holdfast
from holdfast.archive import Archive
from holdfast.archive.export import ArchiveSource, Exporter, ExportOptions, ExportSource
from holdfast.catalog import CaptureQuery
from holdfast.catalog.timestamps import seconds
from holdfast.env import Environment
from holdfast.env.files import translated_errors
from holdfast.env.units import rounded_size
from holdfast.errors import CaptureNotFound, HoldfastError, UsageError
from holdfast.formats.http import decoded_content
from holdfast.model import RecordId
from holdfast.records.selection import ChosenRecords
from holdfast.records.stored_record import StoredRecord
from holdfast.streams.snapshot import Snapshot
from holdfast.study.engine.database import StudyDatabase
from holdfast.study.engine.run import ClusterArchive
from holdfast.study.result import StudyResult
from holdfast.study.samples.options import SampleOptions

FORMAT = "holdfast-sample 1"
MANIFEST = "manifest.json"
_BUFFER = 1 << 20
_ROW_GROUP = 256
_EPOCH_S = seconds("19700101000000")
_ROWS = "SELECT * FROM sample ORDER BY batch, serial"


@dataclass(frozen=True, slots=True)
class SampleManifest:
    """What is needed to make a sample again, and to know that it is the same."""

    options: SampleOptions
    snapshot: Snapshot
    files: dict[str, str]  # SHA-256 by name

    @classmethod
    def read(cls, path: Path) -> SampleManifest:
        """Of a file, or of the directory of a sample. Raises UsageError."""
        file = path
        try:
            file = path / MANIFEST if path.is_dir() else path
            values = json.loads(file.read_bytes())
            if values["format"] != FORMAT:
                raise UsageError(f"'{file}' has format {values['format']!r}: this version reads {FORMAT!r}")
            files = {name: facts["sha256"] for name, facts in values["files"].items()}
            return cls(SampleOptions.from_json(values["options"]), Snapshot(values["snapshot"]), files)
        except OSError as error:
            raise UsageError(f"cannot read '{file}': {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"'{file}' is not the manifest of a sample") from None


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """A directory that becomes `target` at the end; after an exception it is gone. Raises UsageError if that exists."""
    if target.exists():
        raise UsageError(f"'{target}' exists already: name a new directory")
    draft = target.with_name(target.name + ".open")
    with translated_errors(target):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
    try:
        yield draft
        with translated_errors(target):
            draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


class SampleWriter:
    """Writes the files of a sample, whose captures are in the table `sample`."""

    def __init__(
        self,
        archive: Archive | ClusterArchive,
        options: SampleOptions,
        database: StudyDatabase,
        progress: Callable[[int], None],
    ) -> None:
        self._archive = archive
        self._node = archive if isinstance(archive, Archive) else archive.archive
        self._options = options
        self._database = database
        self._progress = progress

    def write(self, directory: Path, result: StudyResult, snapshot: Snapshot) -> list[str]:
        """All files; returns notes."""
        name = f"sample.{self._options.format}"
        notes = list(result.notes)
        if self._options.format == "parquet":
            notes += self._parquet(directory / name)
        else:
            notes += self._warc(directory / name)
        with (directory / "captures.jsonl").open("w", encoding="utf-8", newline="\n") as file:
            for batch in self._database.batches(_ROWS):
                for row in batch.to_pylist():
                    file.write(json.dumps(_capture_line(row), ensure_ascii=False) + "\n")
        for table in ("distributions", "distances", "strata"):
            (directory / f"{table}.csv").write_text(_csv(result.rows(table)), encoding="utf-8", newline="\n")
        (directory / "README.md").write_text(_readme(self._options, result, notes), encoding="utf-8", newline="\n")
        (directory / MANIFEST).write_text(self._manifest(directory, result, snapshot, notes), encoding="utf-8")
        for path in directory.iterdir():
            with path.open("rb") as file_:
                os.fsync(file_.fileno())
        return notes

    def _records(self) -> Iterator[tuple[RecordId, str]]:
        """Each with its URL."""
        for batch in self._database.batches("SELECT batch, serial, url FROM sample ORDER BY batch, serial"):
            for row in batch.to_pylist():
                yield _record(row), row["url"]

    def _chosen(self) -> tuple[ExportSource, ChosenRecords]:
        """Where the records are, and what selects them there."""
        every = CaptureQuery(url="*")
        if not isinstance(self._archive, Archive):
            return self._archive.chosen(self._records()), ChosenRecords(query=every)
        return ArchiveSource(self._archive), ChosenRecords(every, records=tuple(each for each, _ in self._records()))

    def _warc(self, path: Path) -> list[str]:
        source, selection = self._chosen()
        exporter = Exporter(self._node, self._progress, self._fixed(), source)
        report = exporter.run(selection, path, ExportOptions(self._options.format))
        return list(report.notes)

    def _fixed(self) -> Environment:
        """Time and randomness of the record that begins the WARC file: those of the sample."""
        identity = blake2b(json.dumps(self._options.as_json(), sort_keys=True).encode(), digest_size=16).digest()
        newest = seconds(self._database.value("SELECT max(timestamp) FROM sample")) - _EPOCH_S
        return replace(self._node.env, clock=lambda: float(newest), random_bytes=lambda count: identity[:count])

    def _parquet(self, path: Path) -> list[str]:
        import pyarrow
        from pyarrow import parquet

        schema = pyarrow.schema(_PARQUET)
        unread = 0
        columns = ", ".join(("batch", "serial", "url", "stratum"))
        with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in self._database.batches(f"SELECT {columns} FROM sample ORDER BY batch, serial", _ROW_GROUP):
                rows, drawn = [], batch.to_pylist()
                read = self._reader(drawn)
                for row in drawn:
                    try:
                        rows.append(_page(row, read))
                    except HoldfastError:
                        unread += 1
                self._progress(sum(len(row["content"]) for row in rows))
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
        return [f"{unread:,} captures could not be read and are not in the file"] if unread else []

    def _reader(self, rows: Sequence[Mapping[str, Any]]) -> Callable[[RecordId], StoredRecord]:
        """Reads the records of some rows; those of a cluster are fetched together."""
        if isinstance(self._archive, Archive):
            return self._archive.records.read
        source = self._archive.chosen((_record(row), row["url"]) for row in rows)
        found = {stored.id: stored for stored in source.records(ChosenRecords())}

        def read(record: RecordId) -> StoredRecord:
            if record not in found:
                raise CaptureNotFound(f"record {record} is gone")
            return found[record]

        return read

    def _manifest(self, directory: Path, result: StudyResult, snapshot: Snapshot, notes: list[str]) -> str:
        files: dict[str, dict[str, Any]] = {}
        for path in sorted(directory.iterdir()):
            files[path.name] = {"bytes": path.stat().st_size, "sha256": _digest(path)}
            if path.name.endswith((".warc.gz", ".warc.zst")):
                files[path.name]["sha256_uncompressed"] = _digest(path, unpacked=True)
        values = {
            "format": FORMAT,
            "holdfast": holdfast.__version__,
            "options": self._options.as_json(),
            "snapshot": snapshot.ends,
            "population": result.rows("sizes")[0],
            "sample": result.rows("sizes")[1],
            "notes": notes,
            "files": files,
        }
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


_PARQUET = (
    *((name, "string") for name in ("record", "url", "timestamp", "status", "mime", "digest", "collection", "stratum")),
    ("content", "large_binary"),
)


def _record(row: Mapping[str, Any]) -> RecordId:
    return RecordId(row["batch"], row["serial"])


def _page(row: Mapping[str, Any], read: Callable[[RecordId], StoredRecord]) -> dict[str, Any]:
    stored = read(_record(row))
    capture = stored.capture
    payload = stored.payload()
    head = stored.http_head
    values = {
        "record": str(stored.id),
        "url": capture.url,
        "timestamp": capture.timestamp,
        "status": capture.status,
        "mime": capture.mime,
        "digest": capture.digest,
        "collection": capture.collection,
    }
    return {
        **{name: value.encode("utf-8", "replace").decode() for name, value in values.items()},
        "stratum": row["stratum"],
        "content": decoded_content(payload, head.headers) if head is not None else payload,
    }


def _capture_line(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("url", "timestamp", "mime", "digest", "size", "site", "type", "stratum")
    return {"record": str(_record(row)), **{name: row[name] for name in names}}


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if rows:
        writer.writerow(rows[0])
        writer.writerows(row.values() for row in rows)
    return text.getvalue()


def _digest(path: Path, *, unpacked: bool = False) -> str:
    found = sha256()
    with path.open("rb") as raw:
        file: BinaryIO = raw
        if unpacked and path.suffix == ".gz":
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw))
        elif unpacked:
            reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
            file = cast(BinaryIO, reader)
        while piece := file.read(_BUFFER):
            found.update(piece)
    return found.hexdigest()


def _readme(options: SampleOptions, result: StudyResult, notes: list[str]) -> str:
    population, sample = result.rows("sizes")
    drawn = f"{sample['captures']:,} captures ({rounded_size(sample['bytes'])})"
    source = f"{population['captures']:,} ({rounded_size(population['bytes'])})"
    lines = [
        "# A sample of a web archive",
        "",
        f"{drawn}, drawn from {source} by `holdfast sample`, version {holdfast.__version__}.",
        "",
        "## What can be drawn",
        "",
        "Captures with a payload that were answered with 2xx, or have no status, and are not revisits"
        + (f", of the collection `{options.collection}`" if options.collection else "")
        + (f", that the query `{options.within}` finds" if options.within else "")
        + ".",
        "",
        "## How it was drawn",
        "",
        f"- Strata: {', '.join(options.by) if options.by else 'none'}"
        + (f"; times by {options.unit}" if "time" in options.by else "")
        + (f"; topics: {', '.join(f'`{topic}`' for topic in options.topics)}" if options.topics else "")
        + ".",
        f"- Allocation: {options.allocation}.",
        f"- Size: {f'{options.captures:,} captures' if options.captures else f'{options.bytes_max:,} bytes at most'}.",
        f"- Seed: `{options.seed}`.",
        "",
        "Each capture has a number, a BLAKE2b hash of its URL key, time and digest under the seed. In a stratum of N",
        "captures, ordered by these numbers, the capture at place i has the fraction (i + u) / N, with u between 0 and",
        "1, a hash of the stratum under the seed; allocated equally, it has i + u. The captures with the lowest",
        "fractions are the sample. `weight` in `strata.csv` is how many captures one of the sample stands for.",
        "",
        "## How to make it again",
        "",
        "From the same archive, also if it has grown since:",
        "",
        "    holdfast sample NEW-DIRECTORY --again manifest.json",
        "",
        "Every file then has the SHA-256 that `manifest.json` names. Compressed files depend on the version of the",
        "compressor as well; `sha256_uncompressed` does not.",
        "",
        "## How well it represents the archive",
        "",
        "| dimension | values | total variation | by chance | Jensen-Shannon | Kolmogorov-Smirnov |",
        "|---|---|---|---|---|---|",
    ]
    for row in result.rows("distances"):
        step = "" if row["kolmogorov_smirnov"] is None else f"{row['kolmogorov_smirnov']:.4f}"
        lines.append(
            f"| {row['dimension']} | {row['values']:,} | {row['total_variation']:.4f} | {row['expected']:.4f} "
            f"| {row['jensen_shannon']:.4f} | {step} |"
        )
    lines += ["", "`distributions.csv` has both distributions side by side.", ""]
    lines += [f"Note: {each}." for each in notes]
    return "\n".join(lines).rstrip() + "\n"
