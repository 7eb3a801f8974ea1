"""`holdfast stream`: captures in bulk, each once, and resumable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from holdfast.cli.options import (
    CDX_NAMES,
    PATH,
    archive_option,
    batch_option,
    capture_query,
    filters_by_url_and_time,
    format_of,
    json_option,
    read_names,
    with_default,
)
from holdfast.cli.terminal import STANDARD_STREAM, Interruption, asking, counted, note, output_target, show

if TYPE_CHECKING:
    from holdfast.env import Environment
    from holdfast.formats.warc.writer import Compression
    from holdfast.streams import StreamOptions
    from holdfast.streams.outputs import Delivery, DeliveryOptions, Output, ParquetDelivery
    from holdfast.streams.stream import Feed
    from holdfast.streams.work_queue import SharedStream

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


@click.command(context_settings=CDX_NAMES)
@archive_option
@click.argument("query", nargs=-1)
@click.option("--url", metavar="URL", default="", help="Only captures of this URL; '*.edu', 'example.com/a*'.")
@filters_by_url_and_time
@batch_option
@with_default("--order", type=click.Choice(ORDERS), default="log", help="Order of the captures.")
@click.option("--reverse", is_flag=True, help="With order date, modified or rank: descending.")
@click.option("--all", "which", flag_value="all", default=True, help="All captures; this is the default.")
@click.option("--latest", "which", flag_value="latest", help="Of each URL the newest.")
@click.option("--at", metavar="TIME", default="", help="Of each URL the newest up to this time.")
@click.option("--fields", metavar="FIELD,...", callback=read_names, default="", help="Fields of each capture.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="By default by the suffix of PATH, or jsonl.")
@click.option(
    "--compress", type=click.Choice(COMPRESSIONS), help="Compression of WARC; by default by the suffix of PATH."
)
@click.option("--bare", is_flag=True, help="With --format raw: payloads without their lengths.")
@click.option("-o", "--output", metavar="PATH", default=STANDARD_STREAM, help="The file; standard output by default.")
@click.option("--shard", metavar="I/N", help="Part I of N, counted from 0.")
@click.option("--share", metavar="PATH", type=PATH, help="Share the stream of this file with other workers.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N captures.")
@click.option("--token", metavar="TOKEN", default="", help="Continue after what the stream of this token delivered.")
@click.option("--token-file", metavar="PATH", type=PATH, help="Write the token here after each batch.")
@click.option("--resume", is_flag=True, help="Continue from the token file, if it exists.")
@with_default("--batch-size", type=int, default=256, metavar="N", help="Captures read together.")
@click.option("--strict", is_flag=True, help="Stop at the first record that cannot be read.")
@json_option
def stream(*, archive: Path, query: tuple[str, ...], **options: Any) -> None:
    """Deliver captures in bulk, each once.

    All captures, or the ones that QUERY and filters select, as of the start of the command, whatever is written or
    removed meanwhile.
    """
    from holdfast.streams.outputs import DeliveryOptions, find_output
    from holdfast.streams.outputs.delivery import begun

    form, compression = _format(options)
    _require_sense(options, form)
    output = find_output(form, options["fields"], bare=options["bare"], compression=compression)
    wanted = _options(" ".join(query), options, output)
    with (
        Interruption() as interruption,
        asking(archive) as opened,
        interruption.progress_bar("streaming") as progress,
        output_target(options["output"]) as target,
    ):
        delivery = DeliveryOptions(target, options["token_file"], options["resume"])
        wanted, length = begun(wanted, delivery, opened.env)
        if wanted.collection is not None and not wanted.token:  # of a begun stream all may be removed by now
            opened.require_collection(wanted.collection)
        share = options["share"]
        with (
            opened.stream(wanted) if share is None else opened.share(wanted, share) as running,
            _delivery(running, output, delivery, opened.env, form) as delivering,
        ):
            try:
                delivering.open(length).run(options["limit"], progress)
            except KeyboardInterrupt:
                _note_token(running, target, options)
                raise
            _show_delivered(running, delivering, options)


def _delivery(
    running: Feed | SharedStream, output: Output, options: DeliveryOptions, env: Environment, form: str
) -> Delivery | ParquetDelivery:
    from holdfast.streams.outputs import Delivery, ParquetDelivery, SharedDelivery
    from holdfast.streams.work_queue import SharedStream

    if form == "parquet":
        return ParquetDelivery(running, output, options, env)
    if isinstance(running, SharedStream) and isinstance(options.target, Path):
        return SharedDelivery(running, output, options, env)
    return Delivery(running, output, options, env)


def _format(options: dict[str, Any]) -> tuple[str, Compression]:
    """As the options say, or by the suffix of the output."""
    form, compression = format_of(options["output"], _SUFFIXES) or (None, "none")
    if form is None and options["output"] == STANDARD_STREAM:
        form = "jsonl"
    form = options["form"] or form
    if form is None:
        raise click.UsageError(f"no format is known by the name '{options['output']}': give --format")
    return form, cast("Compression", options["compress"] or compression)


def _require_sense(options: dict[str, Any], form: str) -> None:
    if options["bare"] and form != "raw":
        raise click.UsageError("--bare is for --format raw")
    if options["compress"] and form != "warc":
        raise click.UsageError("--compress is for --format warc")
    if options["fields"] and form in ("raw", "warc"):
        raise click.UsageError(
            f"--fields is not for --format {form}: it has whole {'records' if form == 'warc' else 'payloads'}"
        )
    if options["as_json"] and options["output"] == STANDARD_STREAM:
        raise click.UsageError("--json needs -o PATH: standard output takes the captures, --format jsonl as JSON")
    if form == "parquet" and options["output"] == STANDARD_STREAM:
        raise click.UsageError("parquet cannot be written to standard output: give -o PATH")
    if options["share"] is not None and (options["token"] or options["token_file"] is not None or options["shard"]):
        raise click.UsageError("--share keeps its own position: leave out --token, --token-file and --shard")
    if options["share"] is not None and form == "parquet":
        raise click.UsageError(
            "nothing can be appended to parquet, so it does not go with --share: give --format arrow, or each worker a "
            "directory, --token-file and --shard I/N"
        )
    if options["resume"] and options["token_file"] is None:
        raise click.UsageError("--resume needs --token-file")


def _options(query: str, options: dict[str, Any], output: Output) -> StreamOptions:
    from holdfast.streams import StreamOptions

    names = ("url", "match", "to_url", "from_", "to", "filters")
    given = ("batch", "collection", "order", "reverse", "which", "at", "shard", "token", "batch_size", "strict")
    return StreamOptions(
        query=query,
        captures=capture_query({name: options[name] for name in names}),
        fields=output.fields,
        **{name: options[name] for name in given},
    )


def _note_token(running: Feed | SharedStream, target: Path | BinaryIO, options: dict[str, Any]) -> None:
    """Says how to continue after an interruption. A token is useless if the output before it was not kept."""
    if options["share"] is not None:
        note(f"continue with the same --share; '{options['share']}' says what was done")
    elif options["token_file"] is not None:
        note(f"continue with --resume; the token is in '{options['token_file']}'")
    elif isinstance(target, Path):
        note(f"the unfinished '{target}' is removed; with --token-file it stays, and the stream can continue")
    else:
        note(f"token: {running.token}")


def _show_delivered(
    running: Feed | SharedStream, delivering: Delivery | ParquetDelivery, options: dict[str, Any]
) -> None:
    for fault in running.faults[:_FAULTS_SHOWN]:
        note(f"note: left out {fault}")
    if running.fault_count > _FAULTS_SHOWN:
        note(f"note: {counted(running.fault_count, 'capture')} left out in all; run 'holdfast check'")
    has_token = options["token_file"] is not None or options["share"] is not None
    if options["limit"] is not None and delivering.captures == options["limit"] and not has_token:
        note(f"token: {running.token}")
    if options["output"] != STANDARD_STREAM:
        report = {"captures": delivering.captures, "left_out": running.fault_count, "output": options["output"]}
        text = f"delivered {counted(delivering.captures, 'capture')} to '{options['output']}'"
        show(report, text, as_json=options["as_json"])
