"""Options that many commands share, and how their values are read.

The filters that `cdx`, `export` and `rm` share: which captures, said once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from holdfast.env.units import parse_size
from holdfast.errors import UsageError
from holdfast.model import Pick

if TYPE_CHECKING:
    from holdfast.records.selection import Selection


T = TypeVar("T")
ARCHIVE_TYPE = click.Path(path_type=Path)
ARCHIVE_HELP = "The archive's directory; without it, the current one."


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
    try:
        count = parse_size(value.removesuffix("/s"))
    except UsageError:
        count = 0
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


MATCHES = ("exact", "prefix", "host", "domain", "range", "all")
_NAMES = {  # as CDX servers have them, for the fingers of their users
    "matchType": "match",
    "toUrl": "to-url",
    "pageSize": "page-size",
    "showNumPages": "show-num-pages",
    "showResumeKey": "show-resume-key",
    "resumeKey": "resume-key",
    "showDupeCount": "show-dupe-count",
    "showSkipCount": "show-skip-count",
    "resolveRevisits": "resolve-revisits",
    "fastLatest": "fast-latest",
}
CDX_NAMES = {"token_normalize_func": lambda name: _NAMES.get(name, name)}
Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("url_argument", metavar="[URL]", required=False),
    click.option("--url", metavar="URL", help="The same as the argument."),
    click.option("--match", type=click.Choice(MATCHES), help="How URL is meant; exact without a '*' in it."),
    click.option("--to-url", metavar="URL", default="", help="The end of --match range, which is not part of it."),
    click.option("--from", "from_", metavar="TIME", default="", help="Not before; 2026, 202611, or up to 14 digits."),
    click.option("--to", metavar="TIME", default="", help="Not after; a partial time means all of it."),
    click.option("--filter", "filters", metavar="EXPR", multiple=True, help="[!][=|~]FIELD:TEXT; may be repeated."),
    collection_option,
    click.option("--limit", type=int, metavar="N", help="At most so many; negative: the last ones."),
)
batch_option = click.option("--batch", metavar="NAME", help="Only records of this batch.")


def filter_options(command: Command) -> Command:
    """Decorates a command with the shared filters. What they say arrives as keywords: hand them to `filters_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Filters:
    """What the shared options said."""

    query: dict[str, Any]  # keywords of CaptureQuery but the collection
    collection: str | None
    batch: str | None

    @property
    def is_none(self) -> bool:
        """Whether everything is meant; a limit alone does not choose."""
        chosen = {name: value for name, value in self.query.items() if name != "limit" and value}
        return not chosen and self.collection is None and self.batch is None

    def selection(self) -> Selection:
        """Records by a question to the catalog if one was asked, else whole batches."""
        from holdfast.catalog import CaptureQuery
        from holdfast.records.selection import Selection

        asked = {name: value for name, value in self.query.items() if value or value == 0}
        if not asked:
            return Selection(None, self.batch, self.collection)
        if not asked.get("url") and asked.get("match") != "all":
            _require_no_match(asked)
            asked["url"] = "*"
        return Selection(CaptureQuery(**asked), self.batch, self.collection)


def _require_no_match(asked: dict[str, Any]) -> None:
    if asked.get("match") or asked.get("to_url"):
        raise click.UsageError("--match and --to-url need a URL")


def filters_of(options: dict[str, Any]) -> Filters:
    """Takes the shared options out of a command's keywords."""
    taken = {name: options.pop(name) for name in ("match", "to_url", "from_", "to", "filters", "limit")}
    argument, option = options.pop("url_argument"), options.pop("url")
    if argument and option and argument != option:
        raise click.UsageError(f"two URLs given: '{argument}' and --url '{option}'")
    for name in ("from_", "to"):
        taken[name] = taken[name].strip()
    return Filters({"url": argument or option or ""} | taken, options.pop("collection"), options.pop("batch", None))
