"""`holdfast cdx`: captures by URL and time, asked and answered as CDX servers do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import CDX_NAMES, archive_option, filter_options, filters_of
from holdfast.cli.output import show, show_stream

if TYPE_CHECKING:
    from holdfast.catalog import CaptureQuery, Row, SearchResult

OUTPUTS = ("cdxj", "json", "text", "link", "cdx")
_QUERY = (
    "offset",
    "sort",
    "closest",
    "collapse",
    "page",
    "page_size",
    "resume_key",
    "dupe_count",
    "skip_count",
    "resolve_revisits",
    "fast_latest",
)
_JSON_FIELDS = ("urlkey", "timestamp", "url", "mime", "status", "digest", "type", "size", "length", "offset")
_JSON_PLACES = ("filename", "record", "collection", "contents")


def _split(_context: click.Context, _parameter: click.Parameter, value: Sequence[str] | str) -> tuple[str, ...]:
    """Lists may be repeated, or parted by commas."""
    texts = [value] if isinstance(value, str) else value
    return tuple(part for text in texts for part in text.split(",") if part)


@click.command(context_settings=CDX_NAMES)
@archive_option
@filter_options
@click.option("--offset", type=int, default=0, metavar="N", help="Leave out the first N.")
@click.option("--sort", type=click.Choice(["default", "reverse", "closest"]), help="Ascending by default.")
@click.option("--closest", metavar="TIME", default="", help="The nearest to this time first.")
@click.option("--fl", "fields", metavar="FIELD,...", callback=_split, default="", help="Only these fields.")
@click.option("--collapse", metavar="FIELD[:N]", multiple=True, help="Of neighbours that agree, the first.")
@click.option("--output", type=click.Choice(OUTPUTS), default="cdxj", show_default=True, help="The form.")
@click.option("--page", type=int, metavar="N", help="One of the pages, from 0 on; for asking in parallel.")
@click.option("--page-size", type=int, metavar="N", help="Of pages, in blocks of about 1,000 captures; 10.")
@click.option("--show-num-pages", is_flag=True, help="Print only how many pages there are.")
@click.option("--show-resume-key", is_flag=True, help="End with a key for --resume-key if there is more.")
@click.option("--resume-key", metavar="KEY", default="", help="Go on where such an answer ended.")
@click.option("--show-dupe-count", "dupe_count", is_flag=True, help="Add dupecount.")
@click.option("--show-skip-count", "skip_count", is_flag=True, help="Add skipcount and endtimestamp.")
@click.option(
    "--resolve-revisits",
    is_flag=True,
    help="Give revisits the type of their original, and its status unless they have one.",
)
@click.option("--fast-latest", is_flag=True, help="Accepted: the last captures are found fast in any case.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def cdx(*, archive: Path, **options: Any) -> None:
    """Print the captures of URL.

    '*.example.com' means a domain with its subdomains, 'example.com/a*' what begins so, '*' everything. Options are
    named after the parameters of CDX servers, whose own spelling (--matchType) works too.
    """
    import holdfast

    query = _query(options)
    with holdfast.open(archive, read_only=True) as opened:
        if query.collection is not None:
            opened.require_collection(query.collection)
        if options["show_num_pages"]:
            pages = opened.catalog.num_pages(query)
            show({"pages": pages}, str(pages), as_json=options["as_json"])
            return
        answer = opened.search(query)
        resume = options["show_resume_key"]
        show_stream(_objects(answer, query, resume) if options["as_json"] else _lines(answer, query, options))


def _query(options: dict[str, Any]) -> CaptureQuery:
    from holdfast.catalog import CaptureQuery

    filters = filters_of(options)
    asked = filters.query | {name: options[name] for name in _QUERY if options[name] is not None}
    if asked["closest"]:
        asked.setdefault("sort", "closest")
    return CaptureQuery(**asked, fields=options["fields"], collection=filters.collection)


def _lines(answer: SearchResult, query: CaptureQuery, options: dict[str, Any]) -> Iterator[str]:
    from holdfast.catalog import render

    resume = (lambda: answer.resume_key) if options["show_resume_key"] else None
    fields = query.fields or _usual(query, options["output"])
    return render(answer, fields, options["output"], resume=resume)


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
