"""`holdfast content`: store, fetch, remove, show and list contents."""

from __future__ import annotations

import errno
import json
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from holdfast.cli.options import json_option, store_options, with_default
from holdfast.cli.terminal import (
    STANDARD_STREAM,
    progress_bar,
    reading_contents,
    show,
    show_facts,
    show_json,
    show_lines,
    write_pieces,
    writing_contents,
)
from holdfast.env.units import rounded_size
from holdfast.errors import TooLarge, UsageError
from holdfast.model import ContentKey, ContentStat, Stored, StoreMode

BATCH_FILES_MAX = 256
BATCH_BYTES_MAX = 64 << 20  # a larger file is stored alone
_PIECE_BYTES = 1 << 20
_LOOK_S = 0.5  # poll interval for Ctrl-C


@click.group()
def content() -> None:
    """Store, fetch, remove and list contents."""


@content.command()
@store_options
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@with_default(
    "--mode",
    type=click.Choice([mode.value for mode in StoreMode]),
    default=StoreMode.REGULAR.value,
    help="Duplicates have the same signature and size (regular), the same bytes (compare), or are stored again.",
)
@click.option("--codec", help="auto, none, zlib, zstd, zstd-dict, brotli, or an installed one.")
@click.option("--type", "content_type", metavar="MIME", help="MIME type of the files; helps to choose the codec.")
@click.option("--volume", help="Store in this volume only.")
@click.option("--replicas", type=click.IntRange(1), help="Number of copies, each in another volume.")
@json_option
def put(*, archive: Path, connector: Path | None, files: tuple[str, ...], as_json: bool, **how: Any) -> None:
    """Store files and print their contentkeys, one per line; '-' is standard input.

    What was printed is durable. If one of the files cannot be read, nothing is stored.
    """
    from holdfast.storage.store.put import StoreOptions

    options = StoreOptions(**how)
    with writing_contents(archive, connector) as (opened, interruption):
        limit = opened.settings.store.content_bytes_max
        inputs = find_inputs(files, limit)
        total_bytes = sum(each.size or 0 for each in inputs)
        with progress_bar("storing", total_bytes, lines=True) as advance:
            for batch in batches(inputs):
                with interruption.allowed():
                    contents = [each.read(limit) for each in batch]
                stored = opened.contents.store_batch(contents, options)
                show_lines(
                    json.dumps(_values(each) | {"file": source.name}) if as_json else str(each.key)
                    for source, each in zip(batch, stored, strict=True)
                )
                advance(sum(map(len, contents)))


def _values(content: Stored | ContentStat) -> dict[str, Any]:
    """For JSON, without its copies in other volumes."""
    names = [each.name for each in fields(content) if each.name not in ("key", "copies")]
    return {"contentkey": str(content.key)} | {name: getattr(content, name) for name in names}


# -- get, rm, stat -----------------------------------------------------------------------------------------------------


@content.command()
@store_options
@click.argument("key")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE, whole or not at all.")
@json_option
def get(*, archive: Path, connector: Path | None, key: str, output: str | None, as_json: bool) -> None:
    """Write a content to standard output, or to a file."""
    file = None if output == STANDARD_STREAM else output
    if as_json and file is None:
        raise click.UsageError("--json needs -o FILE: standard output takes the content")
    wanted = ContentKey.parse(key)
    with reading_contents(archive, connector) as opened:
        data = opened.contents.get(wanted)
    if file is None:
        sys.stdout.buffer.write(data)
        return
    write_pieces(Path(file), [data])
    if as_json:
        show_json({"contentkey": key, "size": len(data), "file": output})


@content.command()
@store_options
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@json_option
def rm(*, archive: Path, connector: Path | None, keys: tuple[str, ...], as_json: bool) -> None:
    """Remove one reference from each content and print how many are left; without any, it is deleted.

    If one of the keys is unknown, nothing is removed.
    """
    wanted = [ContentKey.parse(key) for key in keys]
    with writing_contents(archive, connector) as (opened, _):
        for key, left in zip(wanted, opened.contents.delete_batch(wanted), strict=True):
            show({"contentkey": str(key), "references": left}, f"{key} {left}", as_json=as_json)


@content.command("stat")
@store_options
@click.argument("key")
@json_option
def stat_(*, archive: Path, connector: Path | None, key: str, as_json: bool) -> None:
    """Print what is known of a content."""
    wanted = ContentKey.parse(key)
    with reading_contents(archive, connector) as opened:
        known = opened.contents.stat(wanted)
    lines = {
        "contentkey": str(known.key),
        "size": f"{known.size} ({rounded_size(known.size)})",
        "stored size": f"{known.stored_size} ({rounded_size(known.stored_size)})",
        "references": str(known.references),
        "codec": known.codec,
        "place": known.place,
        "copies": ", ".join(known.copies) or "none",
    }
    show_facts(_values(known) | {"copies": list(known.copies)}, lines, as_json=as_json)


@content.command("list")
@store_options
@click.option("--volume", help="Only contents of this volume.")
@json_option
def list_(*, archive: Path, connector: Path | None, volume: str | None, as_json: bool) -> None:
    """Print the contentkey of every content, volume by volume, in the order of storing."""
    with reading_contents(archive, connector) as opened:
        for known in opened.contents.listing(volume):
            show_lines(json.dumps(_values(each)) if as_json else str(each.key) for each in known)


# -- the files to store ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ContentInput:
    """A file, or standard input."""

    name: str  # as the caller gave it
    size: int | None  # None: unknown before it is read

    def read(self, limit: int) -> bytearray:
        """The content. Raises TooLarge as soon as it exceeds the limit."""
        if self.name == STANDARD_STREAM:
            return self._read(_read_input, limit)
        with open(self.name, "rb") as file:
            return self._read(file.read, limit)

    def _read(self, read: Callable[[int], bytes], limit: int) -> bytearray:
        content = bytearray()
        while piece := read(_PIECE_BYTES):
            content += piece
            if len(content) > limit:
                raise _too_large(self.name, limit)
        return content


def _read_input(most: int) -> bytes:
    """Reads standard input; empty at its end. Polls, because a Ctrl-C just before a blocking read would not end it."""
    while not select.select([sys.stdin], [], [], _LOOK_S)[0]:
        pass
    return os.read(sys.stdin.fileno(), most)


def find_inputs(names: Sequence[str], limit: int) -> list[ContentInput]:
    """The inputs. Raises if one cannot be read or is known to exceed the limit."""
    if names.count(STANDARD_STREAM) > 1:
        raise UsageError("standard input ('-') can be read only once")
    inputs = [_find(name) for name in names]
    for each in inputs:
        if each.size is not None and each.size > limit:
            raise _too_large(each.name, limit)
    return inputs


def _find(name: str) -> ContentInput:
    if name == STANDARD_STREAM:
        return ContentInput(name, None)
    facts = os.stat(name)
    if stat.S_ISDIR(facts.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not os.access(name, os.R_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), name)
    return ContentInput(name, facts.st_size if stat.S_ISREG(facts.st_mode) else None)


def _too_large(name: str, limit: int) -> TooLarge:
    return TooLarge(f"'{name}' has more than {limit} bytes, the limit for one content (store.content_bytes_max)")


def batches(inputs: Sequence[ContentInput]) -> Iterator[list[ContentInput]]:
    """The inputs in order, in groups; one of unknown size is a group alone."""
    batch: list[ContentInput] = []
    room = BATCH_BYTES_MAX
    for each in inputs:
        size = BATCH_BYTES_MAX if each.size is None else each.size
        if batch and (len(batch) == BATCH_FILES_MAX or size > room):
            yield batch
            batch, room = [], BATCH_BYTES_MAX
        batch.append(each)
        room -= size
    if batch:
        yield batch
