"""`holdfast content`: store, fetch, remove, look at and list contents."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.inputs import STANDARD_INPUT, ContentInput, batches, find_inputs
from holdfast.cli.interrupt import writing_contents
from holdfast.cli.options import archive_option, connector_option, json_option
from holdfast.cli.output import progress_bar, show, show_fields, show_lines, write_file
from holdfast.env.units import rounded_size
from holdfast.model import ContentKey, ContentStat, Stored, StoreMode

if TYPE_CHECKING:
    from holdfast.archive import Archive, Connection


@click.group()
def content() -> None:
    """Store, fetch, remove and list contents."""


def reading(archive: Path, connector: Path | None) -> Archive | Connection:
    """What has contents, open for reading."""
    import holdfast

    return holdfast.connect(connector, read_only=True) if connector else holdfast.open(archive, read_only=True)


# -- put ---------------------------------------------------------------------------------------------------------------


@content.command()
@archive_option
@connector_option
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in StoreMode]),
    default=StoreMode.REGULAR.value,
    show_default=True,
    help="Duplicates have the same signature and size (regular), the same bytes (compare), or are not sought.",
)
@click.option("--codec", help="auto, none, zlib, zstd, zstd-dict, brotli, or an installed one.")
@click.option("--type", "content_type", metavar="MIME", help="What the files are; helps to choose the codec.")
@click.option("--volume", help="Store here and nowhere else.")
@click.option("--replicas", type=click.IntRange(1), help="Copies, in as many volumes.")
@json_option
def put(
    *,
    archive: Path,
    connector: Path | None,
    files: tuple[str, ...],
    mode: str,
    codec: str | None,
    content_type: str | None,
    volume: str | None,
    replicas: int | None,
    as_json: bool,
) -> None:
    """Store files and print their contentkeys, one per line; '-' is standard input.

    What was printed is durable. If one of the files cannot be read, nothing is stored.
    """
    from holdfast.storage.store.put import StoreOptions

    options = StoreOptions(StoreMode(mode), codec, content_type, volume, replicas)
    with writing_contents(archive, connector) as (opened, interruption):
        limit = opened.settings.store.content_bytes_max
        inputs = find_inputs(files, limit)
        total_bytes = sum(each.size or 0 for each in inputs)
        with progress_bar("storing", total_bytes, lines=True) as advance:
            for batch in batches(inputs):
                with interruption.allowed():
                    contents = [each.read(limit) for each in batch]
                stored = opened.contents.put_batch(contents, options)
                show_lines(
                    json.dumps(_stored_values(source, each)) if as_json else str(each.key)
                    for source, each in zip(batch, stored, strict=True)
                )
                advance(sum(map(len, contents)))


def _stored_values(source: ContentInput, stored: Stored) -> dict[str, Any]:
    return {
        "contentkey": str(stored.key),
        "duplicate": stored.duplicate,
        "size": stored.size,
        "stored_size": stored.stored_size,
        "references": stored.references,
        "file": source.name,
    }


# -- get, rm, stat -----------------------------------------------------------------------------------------------------


@content.command()
@archive_option
@connector_option
@click.argument("key")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE, whole or not at all.")
@json_option
def get(*, archive: Path, connector: Path | None, key: str, output: str | None, as_json: bool) -> None:
    """Write a content to standard output, or to a file."""
    to_file = output not in (None, STANDARD_INPUT)
    if as_json and not to_file:
        raise click.UsageError("--json needs -o FILE: standard output takes the content")
    wanted = ContentKey.parse(key)
    with reading(archive, connector) as opened:
        data = opened.contents.get(wanted)
    if not to_file:
        sys.stdout.buffer.write(data)
        return
    assert output is not None
    write_file(Path(output), data)
    if as_json:
        show({"contentkey": key, "size": len(data), "file": output}, "", as_json=True)


@content.command()
@archive_option
@connector_option
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@json_option
def rm(*, archive: Path, connector: Path | None, keys: tuple[str, ...], as_json: bool) -> None:
    """Take one reference away from each content and print how many are left; with the last one it is gone.

    If one of the keys is unknown, nothing is removed.
    """
    wanted = [ContentKey.parse(key) for key in keys]
    with writing_contents(archive, connector) as (opened, _):
        for key, left in zip(wanted, opened.contents.delete_batch(wanted), strict=True):
            show({"contentkey": str(key), "references": left}, f"{key} {left}", as_json=as_json)


@content.command()
@archive_option
@connector_option
@click.argument("key")
@json_option
def stat(*, archive: Path, connector: Path | None, key: str, as_json: bool) -> None:
    """Tell what is known of a content."""
    wanted = ContentKey.parse(key)
    with reading(archive, connector) as opened:
        known = opened.contents.stat(wanted)
    if as_json:
        show(_stat_values(known) | {"copies": list(known.copies)}, "", as_json=True)
        return
    show_fields(
        {
            "contentkey": str(known.key),
            "size": f"{known.size} ({rounded_size(known.size)})",
            "stored size": f"{known.stored_size} ({rounded_size(known.stored_size)})",
            "references": str(known.references),
            "codec": known.codec,
            "place": known.place,
            "copies": ", ".join(known.copies) or "none",
        }
    )


def _stat_values(known: ContentStat) -> dict[str, Any]:
    return {
        "contentkey": str(known.key),
        "size": known.size,
        "stored_size": known.stored_size,
        "references": known.references,
        "codec": known.codec,
        "place": known.place,
    }


# -- list --------------------------------------------------------------------------------------------------------------


@content.command("list")
@archive_option
@connector_option
@click.option("--volume", help="Only what stands in this volume.")
@json_option
def list_(*, archive: Path, connector: Path | None, volume: str | None, as_json: bool) -> None:
    """Print the contentkey of every content, volume by volume, in the order of storing."""
    with reading(archive, connector) as opened:
        for known in opened.contents.listing(volume):
            show_lines(json.dumps(_stat_values(each)) if as_json else str(each.key) for each in known)
