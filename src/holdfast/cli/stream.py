"""`holdfast stream`: captures in bulk, each once, and from where it stopped."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from holdfast.cli.interrupt import Interruption
from holdfast.cli.options import CDX_NAMES, MATCHES, archive_option
from holdfast.cli.output import counted, note

if TYPE_CHECKING:
    from holdfast.env import Environment
    from holdfast.formats.warc.writer import Compression
    from holdfast.streams import Stream, StreamOptions
    from holdfast.streams.outputs import Delivery, DeliveryOptions, Output, ParquetDelivery
    from holdfast.streams.work_queue import SharedStream

STANDARD_OUTPUT = "-"
ORDERS = ("log", "url", "date", "modified", "rank")
FORMATS = ("jsonl", "warc", "arrow", "parquet", "raw")
COMPRESSIONS = ("none", "gzip", "zstd")
_SUFFIXES: dict[str, tuple[str, Compression]] = {
    ".jsonl": ("jsonl", "none"),
    ".warc": ("warc", "none"),
    ".warc.gz": ("warc", "gzip"),
    ".warc.zst": ("warc", "zstd"),
    ".arrow": ("arrow", "none"),
    ".arrows": ("arrow", "none"),
    ".parquet": ("parquet", "none"),
    ".raw": ("raw", "none"),
}
_FAULTS_SHOWN = 10


def _shard(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not I/N, such as 0/4 for the first of four", context, parameter)
    return int(match[1]), int(match[2])


def _names(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(part for part in value.replace(" ", "").split(",") if part)


@click.command(context_settings=CDX_NAMES)
@archive_option
@click.argument("query", nargs=-1)
@click.option("--url", metavar="URL", default="", help="Only captures of this URL; '*.edu', 'example.com/a*'.")
@click.option("--match", type=click.Choice(MATCHES), help="How URL is meant; exact without a '*' in it.")
@click.option("--to-url", metavar="URL", default="", help="The end of --match range, which is not part of it.")
@click.option("--from", "from_", metavar="TIME", default="", help="Not before; 2026, 202611, or up to 14 digits.")
@click.option("--to", metavar="TIME", default="", help="Not after; a partial time means all of it.")
@click.option("--filter", "filters", metavar="EXPR", multiple=True, help="[!][=|~]FIELD:TEXT; may be repeated.")
@click.option("-c", "--collection", metavar="NAME", help="The collection; without it, all of them.")
@click.option("--batch", metavar="NAME", help="Only records of this batch.")
@click.option("--order", type=click.Choice(ORDERS), default="log", show_default=True, help="In which order.")
@click.option("--reverse", is_flag=True, help="With order date, modified or rank: the other way round.")
@click.option("--all", "which", flag_value="all", default=True, help="All captures; this is the default.")
@click.option("--latest", "which", flag_value="latest", help="Of each URL the newest.")
@click.option("--at", metavar="TIME", default="", help="Of each URL the newest up to this time.")
@click.option("--fields", metavar="FIELD,...", callback=_names, default="", help="What to tell of each.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="By default as the suffix of PATH says, or jsonl.")
@click.option("--compress", type=click.Choice(COMPRESSIONS), help="Of WARC; by default as the suffix of PATH says.")
@click.option("--bare", is_flag=True, help="With --format raw: payloads without their lengths.")
@click.option("-o", "--output", metavar="PATH", default=STANDARD_OUTPUT, help="The file; without it, standard output.")
@click.option("--shard", metavar="I/N", callback=_shard, help="The I-th of N parts, from 0 on.")
@click.option("--share", metavar="PATH", type=click.Path(path_type=Path), help="Take part in the stream of this file.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most so many captures.")
@click.option("--token", metavar="TOKEN", default="", help="Go on behind what the stream of this token handed out.")
@click.option("--token-file", metavar="PATH", type=click.Path(path_type=Path), help="Note the token after each batch.")
@click.option("--resume", is_flag=True, help="Go on from the token file, if it is there.")
@click.option("--batch-size", type=int, default=256, show_default=True, metavar="N", help="Captures read together.")
@click.option("--strict", is_flag=True, help="Stop at the first record that cannot be read.")
def stream(*, archive: Path, query: tuple[str, ...], **options: Any) -> None:
    """Deliver captures in bulk, each once.

    All of them, or those that QUERY and filters choose, as they are when the command begins, whatever is written or
    removed meanwhile.
    """
    import holdfast
    from holdfast.streams.outputs import DeliveryOptions, find_output
    from holdfast.streams.outputs.delivery import begun

    form, compression = _format(options)
    _require_sense(options, form)
    output = find_output(form, options["fields"], bare=options["bare"], compression=compression)
    wanted = _options(" ".join(query), options, output)
    with (
        Interruption() as interruption,
        holdfast.open(archive, read_only=True) as opened,
        interruption.progress_bar("streaming") as progress,
        _target(options["output"]) as target,
    ):
        delivery = DeliveryOptions(target, options["token_file"], options["resume"])
        wanted, length = begun(wanted, delivery, opened.env)
        if wanted.collection is not None and not wanted.token:  # of one that has begun, all may be removed by now
            opened.require_collection(wanted.collection)
        share = options["share"]
        with (
            opened.stream(wanted) if share is None else opened.share(wanted, share) as running,
            _delivery(running, output, delivery, opened.env, form) as delivering,
        ):
            try:
                delivering.open(length).run(options["limit"], progress)
            except KeyboardInterrupt:
                _tell_token(running, target, options)
                raise
            _tell(running, delivering, options)


def _delivery(
    running: Stream | SharedStream, output: Output, options: DeliveryOptions, env: Environment, form: str
) -> Delivery | ParquetDelivery:
    from holdfast.streams.outputs import Delivery, ParquetDelivery, SharedDelivery
    from holdfast.streams.work_queue import SharedStream

    if form == "parquet":
        return ParquetDelivery(running, output, options, env)
    if isinstance(running, SharedStream) and isinstance(options.target, Path):
        return SharedDelivery(running, output, options, env)
    return Delivery(running, output, options, env)


def _format(options: dict[str, Any]) -> tuple[str, Compression]:
    """What was named, or what the longest suffix says that is known."""
    name = Path(options["output"]).name.lower()
    known = next((_SUFFIXES[each] for each in sorted(_SUFFIXES, key=len, reverse=True) if name.endswith(each)), None)
    form, packed = known or (None, "none")
    compression: Compression = options["compress"] or packed
    if form is None and options["output"] == STANDARD_OUTPUT:
        form = "jsonl"
    form = options["form"] or form
    if form is None:
        raise click.UsageError(f"no format is known by the name '{options['output']}': give --format")
    return form, compression


def _require_sense(options: dict[str, Any], form: str) -> None:
    if options["bare"] and form != "raw":
        raise click.UsageError("--bare is for --format raw")
    if options["compress"] and form != "warc":
        raise click.UsageError("--compress is for --format warc")
    if options["fields"] and form in ("raw", "warc"):
        raise click.UsageError(
            f"--fields is not for --format {form}: it has whole {'records' if form == 'warc' else 'payloads'}"
        )
    if form == "parquet" and options["output"] == STANDARD_OUTPUT:
        raise click.UsageError("parquet cannot be written to standard output: give -o PATH")
    if options["share"] is not None and (options["token"] or options["token_file"] is not None or options["shard"]):
        raise click.UsageError("--share keeps account by itself: leave out --token, --token-file and --shard")
    if options["share"] is not None and form == "parquet":
        raise click.UsageError(
            "nothing can be appended to parquet, so it does not go with --share: give --format arrow, or each worker a "
            "directory, --token-file and --shard I/N"
        )
    if options["resume"] and options["token_file"] is None:
        raise click.UsageError("--resume needs --token-file")
    if (options["match"] or options["to_url"]) and not options["url"] and options["match"] != "all":
        raise click.UsageError("--match and --to-url need --url")


def _options(query: str, options: dict[str, Any], output: Output) -> StreamOptions:
    from holdfast.catalog import CaptureQuery
    from holdfast.streams import StreamOptions

    names = ("url", "match", "to_url", "from_", "to", "filters")
    asked = {name: options[name] for name in names if options[name]}
    if asked and "url" not in asked and asked.get("match") != "all":
        asked["url"] = "*"
    given = ("batch", "collection", "order", "reverse", "which", "at", "shard", "token", "batch_size", "strict")
    return StreamOptions(
        query=query,
        captures=CaptureQuery(**asked) if asked else None,
        fields=output.fields,
        **{name: options[name] for name in given},
    )


@contextmanager
def _target(output: str) -> Iterator[Path | BinaryIO]:
    """A path; what is no file, such as a pipe, is written to as it is."""
    path = Path(output)
    if output == STANDARD_OUTPUT:
        yield sys.stdout.buffer
    elif path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as sink:
            yield sink
    else:
        yield path


def _tell_token(running: Stream | SharedStream, target: Path | BinaryIO, options: dict[str, Any]) -> None:
    """For who was interrupted. A token is of no use where what it lies behind was not kept."""
    if options["share"] is not None:
        note(f"go on with the same --share; what was done is noted in '{options['share']}'")
    elif options["token_file"] is not None:
        note(f"go on with --resume; the token is in '{options['token_file']}'")
    elif isinstance(target, Path):
        note(f"what was not whole of '{target}' is removed; with --token-file it stays, and the stream can go on")
    else:
        note(f"token: {running.token}")


def _tell(running: Stream | SharedStream, delivering: Delivery | ParquetDelivery, options: dict[str, Any]) -> None:
    for fault in running.faults[:_FAULTS_SHOWN]:
        note(f"note: left out {fault}")
    if running.fault_count > _FAULTS_SHOWN:
        note(f"note: {counted(running.fault_count, 'capture')} left out in all; run 'holdfast check'")
    if (
        options["limit"] is not None
        and delivering.captures == options["limit"]
        and options["token_file"] is None
        and options["share"] is None
    ):
        note(f"token: {running.token}")
    if options["output"] != STANDARD_OUTPUT:
        click.echo(f"delivered {counted(delivering.captures, 'capture')} to '{options['output']}'")
