"""`holdfast crawl list`, `status`, `stop`, `log`, `why`, `expiring`, `expire`: inspect crawls, expire old pages."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.crawl.cluster import shared_log
from holdfast.cli.crawl.run import rate_of, saved_bytes, tally_fields
from holdfast.cli.options import archive_option, duration_option, json_option
from holdfast.cli.terminal import (
    ask_node,
    counted,
    is_running_node,
    note,
    reading,
    show,
    show_facts,
    show_json,
    show_stream,
    show_table,
    visible,
    writing,
)
from holdfast.env.units import rounded_size
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.crawl.report.crawls import CrawlStatus
    from holdfast.crawl.schedule.retention import Expired, Expiring


_HEADING = ("NAME", "STATE", "UPDATED", "VISIT", "FETCHED", "RECEIVED", "WAITING", "ERRORS")
_WORDS = 3  # columns of the heading that hold no numbers
_STATUS_S = 0.1


def require_archive(archive: Path) -> None:
    """Raises ArchiveNotFound. Opens nothing: crawls can be inspected while they write."""
    from holdfast import config
    from holdfast.env import paths

    config.load(archive / paths.SETTINGS)


def time_text(at: float) -> str:
    """UTC, to the second; '-' for never."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) if at else "-"
    except (ValueError, OverflowError, OSError):  # invalid time in a damaged file
        return "-"


@click.command("list")
@archive_option
@json_option
def list_(*, archive: Path, as_json: bool) -> None:
    """Print a table of the crawls."""
    from holdfast.crawl.report.crawls import DAMAGED_STATUS, crawls

    require_archive(archive)
    found = crawls(archive)
    for each in found:
        if each.reason == DAMAGED_STATUS:
            note(f"note: the progress of the crawl '{each.name}' is unknown: {each.reason}; it can be resumed")
    if as_json:
        for each in found:
            show_json(_values(each, archive))
    else:
        show_table(_HEADING, [_row(each) for each in found], left=_WORDS)


def _row(status: CrawlStatus) -> list[str]:
    tally = status.tally
    return [
        status.name,
        status.state.value,
        time_text(status.updated),
        str(status.visit),
        f"{tally.get('fetched', 0):,}",
        rounded_size(tally.get("transferred_bytes", 0)),
        f"{tally.get('queued', 0):,}",
        f"{tally.get('errors', 0):,}",
    ]


def _values(status: CrawlStatus, archive: Path) -> dict[str, Any]:
    from holdfast.crawl.report.crawls import crawl_directory

    values = status.as_dict()
    more = {"reasons": values.pop("errors"), "directory": str(crawl_directory(archive, status.name))}
    return values | more | {"rate": rate_of(status.tally), "saved_bytes": saved_bytes(status.tally)}


@click.command("status")
@archive_option
@click.argument("name", required=False)
@json_option
def status(*, archive: Path, name: str | None, as_json: bool) -> None:
    """Print the progress of a crawl; without a name, of the last active one."""
    from holdfast.crawl.report.crawls import crawl_status, log_path

    require_archive(archive)
    found = crawl_status(archive, name)
    head = {
        "crawl": f"{found.name}, visit {found.visit}: {_state(found)}",
        "started": time_text(found.started),
        "updated": time_text(found.updated),
    }
    fields = head | tally_fields(found.tally, found.errors) | {"log": str(log_path(archive, found.name))}
    show_facts(_values(found, archive), fields, as_json=as_json)


def _state(status: CrawlStatus) -> str:
    if status.running:
        return "running on all nodes" if status.shared else f"running (pid {status.pid})"
    return f"{status.state} ({status.reason})" if status.reason else status.state.value


@click.command("stop")
@archive_option
@click.argument("name")
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
@json_option
def stop(*, archive: Path, name: str, wait: bool, as_json: bool) -> None:
    """Stop a running crawl cleanly; its queue is kept."""
    from holdfast.crawl.report.crawls import crawl_status, request_stop

    require_archive(archive)
    asked = request_stop(archive, name)
    while (found := crawl_status(archive, name)).running and wait and asked:
        time.sleep(_STATUS_S)
    if found.running:
        text = f"crawl '{name}' is asked to stop"
    else:
        text = f"crawl '{name}' {'has ended' if asked else 'is not running'}: {_state(found)}"
    values = {"name": name, "asked": asked, "state": found.state.value, "reason": found.reason}
    show(values, visible(text), as_json=as_json)


_LOOK_S = 0.2
_FOLLOWED = 10  # lines printed before following


@click.command("log")
@archive_option
@click.argument("name", required=False)
@click.option("-f", "--follow", is_flag=True, help="Print the last lines, then new ones until the crawl ends.")
@click.option("-n", "--last", metavar="N", type=click.IntRange(0), help="Only the last N lines.")
@click.option(
    "--event", "events", metavar="WORD", multiple=True, help="Only this event, such as 'fetch'; may be repeated."
)
@click.option(
    "--result",
    "results",
    metavar="WORD",
    multiple=True,
    help="Only this result, such as 'error' or 'new'; may be repeated.",
)
@click.option("--host", metavar="HOST", default="", help="Only fetches from this host.")
@click.option("--url", "text", metavar="TEXT", default="", help="Only URLs that contain this text.")
@json_option
def log(*, archive: Path, name: str | None, follow: bool, last: int | None, as_json: bool, **conditions: Any) -> None:
    """Print the log of a crawl; without a name, of the last active one.

    In a cluster: the last 1000 lines of all nodes, by time; with --follow those of this node.
    """
    from holdfast.crawl.report.crawls import crawl_status, log_path
    from holdfast.crawl.report.log import EVENTS, RESULTS, LogFilter, follow_log, read_log

    require_archive(archive)
    name = crawl_status(archive, name).name
    path = log_path(archive, name)
    _require_known("event", conditions["events"], EVENTS)
    _require_known("result", conditions["results"], RESULTS)
    lists = {each: frozenset(conditions[each]) for each in ("events", "results")}
    wanted = LogFilter(**conditions | lists)
    chosen = None if wanted == LogFilter() else wanted
    line = json.dumps if as_json else row_text
    if not follow and is_running_node(archive):
        show_stream(map(line, shared_log(archive, name, last, conditions)))
        return
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
    """A row for people. It may hold anything: servers choose parts of it, and files get damaged."""
    when = time_text(_number(row.get("time")))
    event = str(row.get("event", "-"))
    if event != "fetch":
        facts = {
            name: value for name, value in row.items() if name not in ("event", "time") and value not in ("", None)
        }
        return visible(f"{when}  {event:<9}  {'  '.join(f'{name}={value}' for name, value in facts.items())}".rstrip())
    answer = row.get("status") or row.get("outcome") or "-"
    parts = [
        f"{when}  {row.get('result') or '-'!s:<9}  {answer!s:>5}  {rounded_size(int(_number(row.get('size')))):>10}",
        f"{_number(row.get('elapsed')):6.2f}s  {row.get('hop', '-')}  {row.get('url', '-')}",
        *(f"({row[name]})" for name in ("truncated", "note") if row.get(name)),
    ]
    return visible("  ".join(parts))


def _number(value: object) -> float:
    """The number, or 0 if it is not a finite number."""
    try:
        found = float(value) if isinstance(value, int | float) else 0.0
    except OverflowError:
        return 0.0
    return found if math.isfinite(found) else 0.0


_FACTS = (  # shown to people; the other facts are for programs
    *("crawl", "url", "state", "reason", "scope", "robots", "found", "depth", "outcome", "status", "node"),
    *("visited", "reached", "etag", "last_modified", "digest", "visits", "changes", "interval", "due", "expires"),
)
_EXPIRING_HEADING = ("END", "SEEN", "LOOKED FOR", "ANSWER", "NEXT LOOK", "URL")
_LABELS = {"last_modified": "modified"}


@click.command("why")
@archive_option
@click.argument("url")
@click.option("--name", metavar="NAME", help="The crawl; the last active one by default.")
@json_option
def why(*, archive: Path, url: str, name: str | None, as_json: bool) -> None:
    """Print what a crawl knows about a URL: how it was found, whether and when it is fetched."""
    from holdfast.crawl.report.crawls import crawl_status
    from holdfast.crawl.report.why import why as explain

    require_archive(archive)
    if is_running_node(archive):
        values = ask_node(archive, "crawl-why", name=crawl_status(archive, name).name, url=url)
    else:
        values = explain(archive, name, url)
    fields = {_LABELS.get(fact, fact): text for fact in _FACTS if (text := _text(fact, values))}
    show_facts(values, fields, as_json=as_json)


def _text(fact: str, values: dict[str, Any]) -> str:
    """A fact for people; empty if unknown."""
    value = values.get(fact)
    if fact == "due" and values.get("is_due"):
        return f"{value} (now)" if value else "now"
    return "" if value is None or (fact == "status" and not value) else str(value)


@click.command("expiring")
@archive_option
@click.argument("name")
@duration_option("--within", default="7d", help="Also pages whose lifetime ends within this time.")
@json_option
def expiring(*, archive: Path, name: str, within: float, as_json: bool) -> None:
    """List the pages of a crawl whose lifetime is over or ends soon.

    'crawl --due' visits those whose lifetime is over. Found, they get another lifetime; gone, they are removed.
    """
    from holdfast.crawl.report.crawls import crawl_status
    from holdfast.crawl.schedule.retention import expiring as expiring_pages

    require_archive(archive)
    crawl_status(archive, name)
    with reading(archive) as opened:
        found = expiring_pages(opened, name, within)
    if as_json:
        for page in found:
            row = page.row
            times = {"end": time_text(page.end), "next": time_text(page.look)}
            show_json(_page_values(page) | times | {"state": row.state, "outcome": row.outcome})
        show_json({"event": "summary", "name": name, "within_s": within, "pages": len(found)})
        return
    rows = []
    for page in found:
        answer = str(page.row.status) if page.row.status else page.row.outcome or "-"
        seen = [time_text(at) for at in (page.end, page.seen, page.row.visited)]
        rows.append([*seen, answer, time_text(page.look), page.row.url])
    show_table(_EXPIRING_HEADING, rows, left=len(_EXPIRING_HEADING))


def _page_values(page: Expired | Expiring) -> dict[str, Any]:
    """The fields that `expiring` and `expire` print of a page."""
    row = page.row
    return {
        "event": "page",
        "url": row.url,
        "seen": time_text(page.seen),
        "looked": time_text(row.visited),
        "status": row.status,
        "lifetime_s": page.lifetime_s,
    }


@click.command("expire")
@archive_option
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Print them, and remove nothing.")
@json_option
def expire(*, archive: Path, name: str, dry_run: bool, as_json: bool) -> None:
    """Remove the pages of a crawl that were visited after their lifetime, and were gone.

    The lifetimes are the settings 'revisit.lifetime' and 'revisit.lifetimes' of its job. Nothing is fetched:
    'crawl --due' visits pages, and removes the ones that are gone. Unreachable pages stay.
    """
    from holdfast.crawl.report.crawls import crawl_status
    from holdfast.crawl.schedule.retention import expire as expire_pages

    require_archive(archive)
    crawl_status(archive, name)
    if dry_run:
        with reading(archive) as opened:
            found = expire_pages(opened, name, dry_run=True)
    elif is_running_node(archive):
        found = _expire_by_node(archive, name)
    else:
        with writing(archive) as (opened, _):
            found = expire_pages(opened, name, dry_run=False)
    for each in found:
        show(_page_values(each) | {"reason": each.reason}, visible(f"{each.row.url}  {each.reason}"), as_json=as_json)
    done = "would remove" if dry_run else "removed"
    values = {"event": "summary", "name": name, "dry_run": dry_run, "pages": len(found)}
    show(values, f"{done} {counted(len(found), 'page')} of the crawl '{name}'", as_json=as_json)


def _expire_by_node(archive: Path, name: str) -> list[Expired]:
    """Has the running node of a cluster remove the pages, from all nodes."""
    from holdfast.crawl.frontier import UrlRow
    from holdfast.crawl.schedule.retention import Expired

    return [
        Expired(b"", UrlRow(each["url"], visited=each["visited"], status=each["status"]), *each["found"])
        for each in ask_node(archive, "expire", name=name)["pages"]
    ]
