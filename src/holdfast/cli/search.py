"""`holdfast search`: captures by words, metadata and links, in the query language."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import archive_option, collection_option, json_option
from holdfast.cli.output import counted, note, show_lines, show_stream, table_lines, visible

if TYPE_CHECKING:
    from holdfast.query import Hit, QueryResult

SORTS = ("relevance", "newest", "oldest", "rank")
FACETS = ("site", "type", "lang", "status", "year", "collection")


def _facets(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    names = FACETS if value == "all" else tuple(part for part in value.split(",") if part)
    for name in names:
        if name not in FACETS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(FACETS)}, all", context, parameter)
    return names


@click.command()
@archive_option
@click.argument("query", nargs=-1)
@collection_option
@click.option("--sort", type=click.Choice(SORTS), help="By relevance if there are words to look for, else newest.")
@click.option("--limit", type=int, default=10, show_default=True, metavar="N", help="At most N hits; 0 counts only.")
@click.option("--offset", type=int, default=0, metavar="N", help="Leave out the first N.")
@click.option("--latest", is_flag=True, help="Of the captures of each URL only the newest that matches.")
@click.option("--facets", metavar="NAME,...", callback=_facets, help="Count all matches by site, type, ..., or all.")
@click.option("--timeline", is_flag=True, help="Count all matches by month.")
@click.option("--no-snippets", is_flag=True, help="Do not show the text around the words.")
@json_option
def search(*, archive: Path, query: tuple[str, ...], as_json: bool, no_snippets: bool, **options: Any) -> None:
    """Find captures by words, metadata and links.

    \b
    holdfast search stanford library              both words
    holdfast search 'title:stanford -type:pdf'    a word in the title, no PDF files
    holdfast search '"digital library"'           side by side
    holdfast search 'links-to:http://example.com/ from:2020'

    The whole language: docs/reference/query.md. It needs the index ('holdfast index update').
    """
    import holdfast
    from holdfast.query import QueryOptions

    asked = QueryOptions(**options | {"sort": options["sort"] or "", "snippets": not no_snippets})
    with holdfast.open(archive, read_only=True) as opened:
        if asked.collection is not None:
            opened.require_collection(asked.collection)
        answer = opened.query(" ".join(query), asked)
    if as_json:
        show_stream(_objects(answer))
        return
    note(_summary(answer))
    show_lines(line for hit in answer.hits for line in _lines(hit))
    _show_counts(answer)


def _summary(answer: QueryResult) -> str:
    shown = ""
    if answer.hits:
        shown = f", {answer.offset + 1}-{answer.offset + len(answer.hits)} by {answer.sort}"
    pending = f"; {counted(answer.pending, 'record')} not indexed yet" if answer.pending else ""
    return f"{counted(answer.total, 'capture')} for {answer.query}{shown}{pending}"


def _lines(hit: Hit) -> Iterator[str]:
    yield visible(f"{hit.timestamp} {hit.url}")
    if hit.title:
        yield visible(f"    {hit.title}")
    if hit.snippet is not None and hit.snippet.text:
        yield f"    {_marked(hit)}"


def _marked(hit: Hit) -> str:
    """With the words in bold, on a terminal."""
    assert hit.snippet is not None
    text, marks = hit.snippet.text, hit.snippet.marks
    if not sys.stdout.isatty():
        return visible(text)
    parts, at = [], 0
    for first, last in marks:
        parts += [visible(text[at:first]), click.style(visible(text[first:last]), bold=True)]
        at = last
    return "".join([*parts, visible(text[at:])])


def _show_counts(answer: QueryResult) -> None:
    """A table for each facet and for the months, each after an empty line if something stands before it."""
    tables = [(facet.name, [(each.value, each.count) for each in facet.values]) for facet in answer.facets]
    if answer.timeline:
        tables.append(("month", [(f"{each.month[:4]}-{each.month[4:]}", each.count) for each in answer.timeline]))
    for number, (name, counts) in enumerate(tables):
        lines = table_lines((name, "captures"), [(value, f"{count:,}") for value, count in counts], left=1)
        show_lines(["", *lines] if number or answer.hits else lines)


def _objects(answer: QueryResult) -> Iterator[str]:
    """The hits, then what is known of all matches."""
    for hit in answer.hits:
        values = asdict(hit) | {"record": str(hit.record)}
        if hit.snippet is not None:
            values["snippet"] = hit.snippet.text
            values["marks"] = [list(mark) for mark in hit.snippet.marks]
        yield json.dumps(values)
    summary: dict[str, Any] = {
        "query": answer.query,
        "sort": answer.sort,
        "total": answer.total,
        "offset": answer.offset,
        "pending": answer.pending,
    }
    if answer.facets:
        summary["facets"] = {each.name: {one.value: one.count for one in each.values} for each in answer.facets}
    if answer.timeline:
        summary["timeline"] = {each.month: each.count for each in answer.timeline}
    yield json.dumps(summary)
