"""`holdfast crawl log`: what a crawl did, line by line, also while it does it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from holdfast.cli.crawl_look import require_archive, time_text
from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import in_bytes, show_stream, visible
from holdfast.errors import UsageError

_LOOK_S = 0.2
_FOLLOWED = 10  # lines before those that come


@click.command("log")
@archive_option
@click.argument("name", required=False)
@click.option("-f", "--follow", is_flag=True, help="The last lines, then those that come, until the crawl ends.")
@click.option("-n", "--last", metavar="N", type=click.IntRange(0), help="Only so many lines at the end.")
@click.option("--event", "events", metavar="WORD", multiple=True, help="Only these, such as 'fetch'; may be repeated.")
@click.option("--result", "results", metavar="WORD", multiple=True, help="Only these, such as 'error' or 'new'.")
@click.option("--host", metavar="HOST", default="", help="Only what was fetched from it.")
@click.option("--url", "text", metavar="TEXT", default="", help="Only URLs with this text in them.")
@json_option
def log(
    *,
    archive: Path,
    name: str | None,
    follow: bool,
    last: int | None,
    events: tuple[str, ...],
    results: tuple[str, ...],
    host: str,
    text: str,
    as_json: bool,
) -> None:
    """Print the log of a crawl; without a name, of the one that did something last."""
    from holdfast.crawl.crawls import crawl_status, log_path
    from holdfast.crawl.log import EVENTS, RESULTS, LogFilter, follow_log, read_log

    require_archive(archive)
    name = crawl_status(archive, name).name
    path = log_path(archive, name)
    _require_known("event", events, EVENTS)
    _require_known("result", results, RESULTS)
    wanted = LogFilter(frozenset(events), frozenset(results), host, text)
    chosen = None if wanted == LogFilter() else wanted
    line = json.dumps if as_json else row_text
    if not follow:
        show_stream(map(line, read_log(path, chosen, last=last)))
        return
    rows = follow_log(
        path,
        lambda: not crawl_status(archive, name).running,
        lambda: time.sleep(_LOOK_S),
        chosen,
        last=_FOLLOWED if last is None else last,
    )
    for row in rows:
        click.echo(line(row))  # each leaves at once


def _require_known(what: str, words: Iterable[str], known: Sequence[str]) -> None:
    for word in words:
        if word not in known:
            raise UsageError(f"no {what} is called {word!r}; known are {', '.join(known)}")


def row_text(row: dict[str, Any]) -> str:
    """A row for people, whatever is in it: servers choose some of it, and files are damaged."""
    when = time_text(_number(row.get("time")))
    event = str(row.get("event", "-"))
    if event != "fetch":
        told = {name: value for name, value in row.items() if name not in ("event", "time") and value not in ("", None)}
        return visible(f"{when}  {event:<9}  {'  '.join(f'{name}={value}' for name, value in told.items())}".rstrip())
    answer = row.get("status") or row.get("outcome") or "-"
    parts = [
        f"{when}  {row.get('result') or '-'!s:<9}  {answer!s:>5}  {in_bytes(int(_number(row.get('size')))):>10}",
        f"{_number(row.get('elapsed')):6.2f}s  {row.get('hop', '-')}  {row.get('url', '-')}",
        *(f"({row[name]})" for name in ("truncated", "note") if row.get(name)),
    ]
    return visible("  ".join(parts))


def _number(value: object) -> float:
    """0 for what is none."""
    try:
        found = float(value) if isinstance(value, int | float) else 0.0
    except OverflowError:
        return 0.0
    return found if math.isfinite(found) else 0.0
