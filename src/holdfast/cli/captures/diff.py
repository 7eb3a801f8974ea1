"""`holdfast diff`: the difference between two captures of a URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import archive_option, collection_option, json_option, pick_option, require_one
from holdfast.cli.terminal import asking, counted, note, show_json, show_lines, visible
from holdfast.env.units import rounded_size

if TYPE_CHECKING:
    from holdfast.web.ui.comparison.compare import Comparison
    from holdfast.web.ui.comparison.side import Side

_SIGNS = {"same": " ", "removed": "-", "added": "+"}


@click.command()
@archive_option
@click.argument("url")
@click.argument("a", metavar="TIME")
@click.argument("b", metavar="TIME")
@pick_option
@collection_option
@click.option("--links", is_flag=True, help="Compare links and page requisites.")
@click.option("--headers", is_flag=True, help="Compare status and header fields.")
@json_option
def diff(
    *, archive: Path, url: str, a: str, b: str, pick: str | None, collection: str | None, as_json: bool, **parts: bool
) -> None:
    """Compare two captures of URL: those for two times.

    Compares their texts line by line, or other parts by option. Times may be partial: 2026, 202611, up to 14 digits.
    --json prints all parts, and words within changed lines as well.
    """
    from holdfast.archive import Archive
    from holdfast.urls import completed
    from holdfast.web.ui.comparison.compare import VIEWS, compare_captures

    view = require_one(parts, "links", "headers") or "text"
    with asking(archive) as opened:
        first, second = (opened.get(completed(url), time, collection, pick).capture for time in (a, b))
        records = opened.records if isinstance(opened, Archive) else opened
        found = compare_captures(records, first, second, views=VIEWS if as_json else (view,))
    if as_json:
        show_json(found.as_dict())
        return
    note(_about(found))
    show_lines(visible(line) for line in {"text": _text, "links": _links, "headers": _headers}[view](found))


def _about(found: Comparison) -> str:
    if found.is_same_capture:
        return f"both are the capture of {found.a.capture.timestamp}"
    return "the content is the same, byte for byte" if found.is_same_content else "the content differs"


def _names(found: Comparison) -> Iterator[str]:
    for sign, side in (("---", found.a), ("+++", found.b)):
        yield f"{sign} {side.capture.url} {side.capture.timestamp} {_facts(side)}"


def _facts(side: Side) -> str:
    size = f", {side.width} x {side.height}" if side.width else ""
    return f"({side.status or '-'}, {side.kind or '-'}, {rounded_size(side.size)}{size})"


def _text(found: Comparison) -> Iterator[str]:
    yield from _names(found)
    if found.text is None:
        note(f"the texts cannot be compared: {found.why_no_text}")
        return
    for line in found.text.lines:
        if line.kind == "skipped":
            yield f"@@ {counted(line.count, 'line')} alike @@"
        else:
            yield _SIGNS[line.kind] + "".join(span.text for span in line.spans)
    if found.text.is_cut:
        note("one of the texts is too long: its beginning is compared")
    if found.text.is_rough:
        note("the texts differ so much that not every line that stayed was found again")
    if found.text.not_shown:
        note(f"{counted(found.text.not_shown, 'more line')} not shown")


def _links(found: Comparison) -> Iterator[str]:
    yield from _names(found)
    if found.links is None:
        note("the links cannot be compared: one of the captures cannot be read")
        return
    yield from (f"-{link.url}" for link in found.links.removed)
    yield from (f"+{link.url}" for link in found.links.added)
    yield f"@@ {counted(found.links.kept, 'link')} alike @@"


def _headers(found: Comparison) -> Iterator[str]:
    assert found.headers is not None
    yield from _names(found)
    for row in found.headers.rows:
        if row.state == "same":
            yield from (f" {row.name}: {value}" for value in row.a)
        yield from (f"-{row.name}: {value}" for value in row.a if row.state != "same")
        yield from (f"+{row.name}: {value}" for value in row.b if row.state != "same")
