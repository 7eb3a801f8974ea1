"""Options that several commands share, how their values are read, and the filters that choose captures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.catalog import CaptureQuery
    from holdfast.records.selection import Selection

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]

PATH = click.Path(path_type=Path)
ARCHIVE_VARIABLE = "HOLDFAST_ARCHIVE"
PICKS = ("nearest", "not-newer")  # spelled out, as other choices are: help must not import the library
ARCHIVE_HELP = "The archive's directory; the current one by default."


def together(*options: Decorator[Any]) -> Decorator[Any]:
    """Several options as one decorator, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# -- values ------------------------------------------------------------------------------------------------------------


def read_bytes(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A callback for options that take a number of bytes: 4096, 50M, 1.5GiB; units are powers of 1024."""
    from holdfast.env.units import parse_size

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


def read_seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A callback for options that take a duration: 90s, 15m, 2h, 7d."""
    from holdfast.env.units import parse_duration

    try:
        return None if value is None else parse_duration(value)
    except UsageError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def read_names(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """A callback for options that take several names, separated by commas."""
    return tuple(part for part in value.replace(" ", "").split(",") if part)


def require_one(options: dict[str, Any], *names: str) -> str | None:
    """The one of these options that is set, or None. Raises UsageError if several are."""
    chosen = [name for name in names if options[name]]
    if len(chosen) > 1:
        first, second = (f"--{name.removeprefix('as_').replace('form', 'format')}" for name in chosen[:2])
        raise click.UsageError(f"{first} and {second} exclude each other")
    return chosen[0] if chosen else None


def format_of(name: str, suffixes: dict[str, Any]) -> Any:
    """The value of the longest suffix that the name ends with, or None."""
    name = Path(name).name.lower()
    return next((suffixes[each] for each in sorted(suffixes, key=len, reverse=True) if name.endswith(each)), None)


# -- options -----------------------------------------------------------------------------------------------------------


def with_default(*names: str, **attributes: Any) -> Decorator[Any]:
    """An option whose help shows its default."""
    return click.option(*names, show_default=True, **attributes)


def duration_option(*names: str, **attributes: Any) -> Decorator[Any]:
    """An option that takes a duration: 90s, 15m, 2h, 7d. Its help shows its default, if it has one."""
    given: dict[str, Any] = {"metavar": "TIME", "callback": read_seconds, "show_default": "default" in attributes}
    return click.option(*names, **given | attributes)


def size_option(*names: str, **attributes: Any) -> Decorator[Any]:
    """An option that takes a number of bytes: 4096, 50M, 1.5G. Its help shows its default, if it has one."""
    given: dict[str, Any] = {"metavar": "BYTES", "callback": read_bytes, "show_default": "default" in attributes}
    return click.option(*names, **given | attributes)


def _chosen_archive(context: click.Context, _: click.Parameter, value: Path | None) -> Path:
    """The option after the command overrides the one before it."""
    root: Path = context.find_root().params["archive"]
    return root if value is None else value


def is_verbose(context: click.Context) -> bool:
    """Whether `-v` was given before the command."""
    return bool(context.find_root().params["verbose"])


archive_option = click.option("-a", "--archive", type=PATH, callback=_chosen_archive, help=ARCHIVE_HELP)
connector_option = click.option(
    "--connector", metavar="FILE", type=PATH, help="Use the volumes that a connector lists, without an archive."
)
store_options = together(archive_option, connector_option)
collection_option = click.option("-c", "--collection", metavar="NAME", help="The collection; all of them by default.")
batch_option = click.option("--batch", metavar="NAME", help="Only records of this batch.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
init_option = click.option("--init", "makes", is_flag=True, help="Make the archive first, if there is none.")
watch_option = click.option(
    "--watch",
    "watch_s",
    is_flag=False,
    flag_value="1",
    metavar="[SECONDS]",
    type=click.FloatRange(0.1),
    help="Refresh at this interval, 1 s by default, until Ctrl-C.",
)


def table_format_options(formats: tuple[str, ...]) -> Callable[[Any], Any]:
    """How tables are printed: `--format`, and its short forms. `table_format` reads them."""
    return together(
        click.option("--format", "form", type=click.Choice(formats), help="By default a table for people."),
        json_option,
        click.option("--csv", "as_csv", is_flag=True, help="The same as --format csv."),
    )


def table_format(options: dict[str, Any], usual: str = "table") -> str:
    """The chosen format. Raises UsageError if several are."""
    require_one(options, "as_json", "as_csv", "form")
    if options["as_json"]:
        return "jsonl"
    return "csv" if options["as_csv"] else options["form"] or usual


pick_option = click.option(
    "--pick", type=click.Choice(PICKS), help="Which capture stands for a time; the setting records.pick by default."
)
index_option = click.option(
    "--index/--no-index", default=None, help="Whether to update the index afterwards; by default as the settings say."
)
rate_limit_option = size_option("--rate-limit", metavar="BYTES/s", help="Read no faster, for example 50M.")
min_dead_option = with_default(
    "--min-dead",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Compact only files of which at least this share is reclaimable.",
)
shape_options = together(  # of a new volume; a command takes them as `**shape`
    with_default("--organization", default="log", help="log, tree, hash or hashed-log."),
    with_default("--depth", default=3, help="Levels of directories, for organization tree."),
    with_default("--logs", default=64, help="Number of logs, for organization hashed-log."),
    with_default("--buckets", default=64, help="Initial buckets, for organization hash."),
    size_option("--bucket-bytes", default="64K", help="Size of a bucket, for organization hash."),
)


# -- filters -----------------------------------------------------------------------------------------------------------

MATCHES = ("exact", "prefix", "host", "domain", "range", "all")
_NAMES = {  # as CDX servers spell them
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

filters_by_url_and_time = together(
    click.option("--match", type=click.Choice(MATCHES), help="How URL matches; exact unless it has a '*'."),
    click.option("--to-url", metavar="URL", default="", help="The end of --match range, exclusive."),
    click.option("--from", "from_", metavar="TIME", default="", help="Not before; 2026, 202611, or up to 14 digits."),
    click.option("--to", metavar="TIME", default="", help="Not after; a partial time includes all of it."),
    click.option("--filter", "filters", metavar="EXPR", multiple=True, help="[!][=|~]FIELD:TEXT; may be repeated."),
    collection_option,
)
filter_options = together(  # arrive as keywords: pass them to `filters_of`
    click.argument("url_argument", metavar="[URL]", required=False),
    click.option("--url", metavar="URL", help="The same as the argument."),
    filters_by_url_and_time,
    click.option("--limit", type=int, metavar="N", help="At most N captures; negative: the last ones."),
)


@dataclass(frozen=True, slots=True)
class Filters:
    query: dict[str, Any]  # keywords of CaptureQuery but the collection
    collection: str | None
    batch: str | None

    @property
    def is_none(self) -> bool:
        """True if everything is selected; a limit alone is not a filter."""
        chosen = {name: value for name, value in self.query.items() if name != "limit" and value}
        return not chosen and self.collection is None and self.batch is None

    def selection(self) -> Selection:
        """Records by a catalog query if one was given, else whole batches."""
        from holdfast.records.selection import Selection

        return Selection(capture_query(self.query), self.batch, self.collection)


def capture_query(keywords: dict[str, Any]) -> CaptureQuery | None:
    """A query from the keywords that are set; None if none is."""
    from holdfast.catalog import CaptureQuery

    given = {name: value for name, value in keywords.items() if value or value == 0}
    if given and not given.get("url") and given.get("match") != "all":
        if given.get("match") or given.get("to_url"):
            raise click.UsageError("--match and --to-url need a URL")
        given["url"] = "*"
    return CaptureQuery(**given) if given else None


def filters_of(options: dict[str, Any]) -> Filters:
    """Removes the shared filters from a command's keywords and returns them."""
    taken = {name: options.pop(name) for name in ("match", "to_url", "from_", "to", "filters", "limit")}
    argument, option = options.pop("url_argument"), options.pop("url")
    if argument and option and argument != option:
        raise click.UsageError(f"two URLs given: '{argument}' and --url '{option}'")
    for name in ("from_", "to"):
        taken[name] = taken[name].strip()
    return Filters({"url": argument or option or ""} | taken, options.pop("collection"), options.pop("batch", None))
