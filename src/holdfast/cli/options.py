"""Options that many commands share, and how their values are read."""

from __future__ import annotations

import re
from pathlib import Path

import click

ARCHIVE_TYPE = click.Path(path_type=Path)
ARCHIVE_HELP = "The archive's directory; without it, the current one."

_BYTES = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?:i?B)?(?:/s)?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def _chosen_archive(context: click.Context, _: click.Parameter, value: Path | None) -> Path:
    """What stands after the command wins over what stands before it."""
    root: Path = context.find_root().params["archive"]
    return root if value is None else value


archive_option = click.option("-a", "--archive", type=ARCHIVE_TYPE, callback=_chosen_archive, help=ARCHIVE_HELP)
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
