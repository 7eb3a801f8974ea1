"""`holdfast cdx`: captures by URL and time, with the parameters and formats of CDX servers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import CDX_NAMES, archive_option, filter_options, filters_of, json_option, read_names
from holdfast.cli.terminal import STANDARD_STREAM, asking, require_whole, show, show_stream, write_pieces

if TYPE_CHECKING:
    from holdfast.catalog import CaptureQuery, Row, SearchResult

OUTPUTS = ("cdxj", "json", "text", "link", "cdx")
_JSON_FIELDS = ("urlkey", "timestamp", "url", "mime", "status", "digest", "type", "size", "length", "offset")
_JSON_PLACES = ("filename", "record", "collection", "contents")


@click.command(context_settings=CDX_NAMES)
@archive_option
@filter_options
@click.option("--offset", type=int, default=0, metavar="N", help="Skip the first N.")
@click.option("--sort", type=click.Choice(["default", "reverse", "closest"]), help="Ascending by default.")
@click.option("--closest", metavar="TIME", default="", help="Nearest to this time first.")
@click.option("--fl", "fields", metavar="FIELD,...", callback=read_names, default="", help="Only these fields.")
@click.option("--collapse", metavar="FIELD[:N]", multiple=True, help="Only the first of neighbours that agree.")
@click.option("--format", "form", type=click.Choice(OUTPUTS), help="By default cdxj.")
@click.option(
    "-o", "--output", metavar="FILE", default=STANDARD_STREAM, help="Write to FILE; the name of a format is a --format."
)
@click.option("--page", type=int, metavar="N", help="One of the pages, from 0; for parallel requests.")
@click.option("--page-size", type=int, metavar="N", help="Blocks of about 1,000 captures in a page; 10 by default.")
@click.option("--show-num-pages", is_flag=True, help="Print only how many pages there are.")
@click.option("--show-resume-key", is_flag=True, help="Print a key for --resume-key at the end if there is more.")
@click.option("--resume-key", metavar="KEY", default="", help="Continue after that result.")
@click.option("--show-dupe-count", "dupe_count", is_flag=True, help="Add dupecount.")
@click.option("--show-skip-count", "skip_count", is_flag=True, help="Add skipcount and endtimestamp.")
@click.option(
    "--resolve-revisits",
    is_flag=True,
    help="Give revisits the type of their original, and its status unless they have one.",
)
@click.option("--fast-latest", is_flag=True, help="Accepted; the last captures are always found fast.")
@json_option
def cdx(*, archive: Path, **options: Any) -> None:
    """Print the captures of URL.

    '*.example.com' means a domain with its subdomains, 'example.com/a*' what begins so, '*' everything. Options are
    named after the parameters of CDX servers, whose spelling (--matchType) works too.
    """
    query, target = _query(options), _output(options)
    with asking(archive) as opened:
        if query.collection is not None:
            opened.require_collection(query.collection)
        if options["show_num_pages"]:
            pages = opened.num_pages(query)
            show({"pages": pages}, str(pages), as_json=options["as_json"])
            return
        answer = opened.search(query)
        resume = options["show_resume_key"]
        lines = _objects(answer, query, resume) if options["as_json"] else _lines(answer, query, options)
        if target == STANDARD_STREAM:
            show_stream(lines)
        else:
            write_pieces(Path(target), (f"{line}\n".encode("utf-8", "surrogateescape") for line in lines))
        require_whole(answer.coverage)


def _output(options: dict[str, Any]) -> str:
    """Where to write; sets the format. `output` of CDX servers is a format, and is understood so."""
    if options["output"] in OUTPUTS and options["form"] is None:
        options["form"], options["output"] = options["output"], STANDARD_STREAM
    if options["form"] is not None and options["as_json"]:
        raise click.UsageError("--json and --format exclude each other")
    options["form"] = options["form"] or OUTPUTS[0]
    return str(options["output"])


def _query(options: dict[str, Any]) -> CaptureQuery:
    from holdfast.catalog import CaptureQuery

    filters = filters_of(options)
    given = {each.name: options.get(each.name) for each in fields(CaptureQuery)}
    asked = filters.query | {name: value for name, value in given.items() if value is not None}
    if asked["closest"]:
        asked.setdefault("sort", "closest")
    return CaptureQuery(**asked, collection=filters.collection)


def _lines(answer: SearchResult, query: CaptureQuery, options: dict[str, Any]) -> Iterator[str]:
    from holdfast.catalog import render

    resume = (lambda: answer.resume_key) if options["show_resume_key"] else None
    names = query.fields or _usual(query, options["form"])
    return render(answer, names, options["form"], resume=resume)


def _usual(query: CaptureQuery, output: str) -> tuple[str, ...]:
    """No fields, or if the query adds some, the usual ones and these."""
    from holdfast.catalog.query.render import ARCHIVE_FIELDS, CDXJ_FIELDS

    added = _added(query)
    if not added:
        return ()
    return (*(CDXJ_FIELDS if output == "cdxj" else ARCHIVE_FIELDS), *added)


def _added(query: CaptureQuery) -> tuple[str, ...]:
    from holdfast.catalog.query.render import counters

    return counters(dupe_count=query.dupe_count, skip_count=query.skip_count, resolve_revisits=query.resolve_revisits)


def _objects(answer: SearchResult, query: CaptureQuery, with_resume_key: bool) -> Iterator[str]:
    names = query.fields or (*_JSON_FIELDS, *_JSON_PLACES, *_added(query))
    yield from _values(answer, names)
    if with_resume_key and (key := answer.resume_key):
        yield json.dumps({"resume_key": key})


def _values(rows: Iterable[Row], names: Sequence[str]) -> Iterator[str]:
    from holdfast.catalog.query.fields import canonical_field, getter

    getters = [(name, getter(name), canonical_field(name) in ("size", "length", "offset")) for name in names]
    for row in rows:
        yield json.dumps({name: int(get(row)) if number else get(row) for name, get, number in getters})
