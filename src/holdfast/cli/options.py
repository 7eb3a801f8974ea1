"""Options that many commands share, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import click

from holdfast.model import Pick

T = TypeVar("T")
ARCHIVE_TYPE = click.Path(path_type=Path)
ARCHIVE_HELP = "The archive's directory; without it, the current one."

_BYTES = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?:i?B)?(?:/s)?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def _chosen_archive(context: click.Context, _: click.Parameter, value: Path | None) -> Path:
    """What stands after the command wins over what stands before it."""
    root: Path = context.find_root().params["archive"]
    return root if value is None else value


archive_option = click.option("-a", "--archive", type=ARCHIVE_TYPE, callback=_chosen_archive, help=ARCHIVE_HELP)
connector_option = click.option(
    "--connector",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Use the volumes that a connector lists, without an archive.",
)
collection_option = click.option("-c", "--collection", metavar="NAME", help="The collection; without it, all of them.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")


def is_verbose(context: click.Context) -> bool:
    """Whether `-v` stands before the command."""
    return bool(context.find_root().params["verbose"])


def read_bytes(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A callback for options that take a number of bytes: 4096, 50M, 1.5GiB; units are powers of 1024."""
    if value is None:
        return None
    match = _BYTES.fullmatch(value)
    count = int(float(match["number"]) * 1024 ** _POWERS[match["unit"].upper()]) if match else 0
    if count < 1:
        message = f"{value!r} is not a number of bytes such as 4096, 50M or 1.5G"
        raise click.BadParameter(message, context, parameter)
    return count


_SHAPE = (
    click.option("--organization", default="log", show_default=True, help="log, tree, hash or hashed-log."),
    click.option("--depth", default=3, show_default=True, help="Of the directories of organization tree."),
    click.option("--logs", default=64, show_default=True, help="Of organization hashed-log."),
    click.option("--buckets", default=64, show_default=True, help="Of organization hash, to begin with."),
    click.option(
        "--bucket-bytes", metavar="SIZE", default="64K", show_default=True, callback=read_bytes, help="Of each of them."
    ),
)


class Shape(TypedDict):
    """What the options of a new volume's organization say."""

    organization: str
    depth: int
    logs: int
    buckets: int
    bucket_bytes: int


def shape_options(command: Callable[..., T]) -> Callable[..., T]:
    """The organization of a new volume, and its measures; the command gets them as `shape`."""

    @wraps(command)
    def shaped(*, organization: str, depth: int, logs: int, buckets: int, bucket_bytes: int, **others: Any) -> T:
        return command(
            shape=Shape(organization=organization, depth=depth, logs=logs, buckets=buckets, bucket_bytes=bucket_bytes),
            **others,
        )

    for option in reversed(_SHAPE):
        shaped = option(shaped)
    return shaped


pick_option = click.option(
    "--pick",
    type=click.Choice([each.value for each in Pick]),
    help="Which capture stands for a time; as the setting records.pick says.",
)
