"""`holdfast crawl list`, `status` and `stop`: which crawls there are, how they go, and ending one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.crawl_report import rate_of, saved_bytes, tally_fields
from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import in_bytes, note, show, show_fields, show_table, visible

if TYPE_CHECKING:
    from holdfast.crawl.crawls import CrawlStatus

_HEADING = ("NAME", "STATE", "UPDATED", "VISIT", "FETCHED", "RECEIVED", "WAITING", "ERRORS")
_WORDS = 3  # columns of the heading that hold no numbers
_LOOK_S = 0.1


def require_archive(archive: Path) -> None:
    """Raises ArchiveNotFound. Nothing is opened: crawls are looked at while they write."""
    from holdfast import config
    from holdfast.storage import layout

    config.load(archive / layout.SETTINGS)


def time_text(at: float) -> str:
    """UTC, to the second; '-' for never."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) if at else "-"
    except (ValueError, OverflowError, OSError):  # no such time: a damaged file
        return "-"


# -- list --------------------------------------------------------------------------------------------------------------


@click.command("list")
@archive_option
@json_option
def list_(*, archive: Path, as_json: bool) -> None:
    """Print a table of the crawls."""
    from holdfast.crawl.crawls import DAMAGED_STATUS, crawls

    require_archive(archive)
    found = crawls(archive)
    for each in found:
        if each.reason == DAMAGED_STATUS:
            note(f"note: how far the crawl '{each.name}' has come is not known: {each.reason}; it can go on")
    if as_json:
        for each in found:
            show(_values(each, archive), "", as_json=True)
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
        in_bytes(tally.get("transferred_bytes", 0)),
        f"{tally.get('queued', 0):,}",
        f"{tally.get('errors', 0):,}",
    ]


def _values(status: CrawlStatus, archive: Path) -> dict[str, Any]:
    from holdfast.crawl.crawls import crawl_directory

    values = status.as_dict()
    more = {"reasons": values.pop("errors"), "directory": str(crawl_directory(archive, status.name))}
    return values | more | {"rate": rate_of(status.tally), "saved_bytes": saved_bytes(status.tally)}


# -- status ------------------------------------------------------------------------------------------------------------


@click.command("status")
@archive_option
@click.argument("name", required=False)
@json_option
def status(*, archive: Path, name: str | None, as_json: bool) -> None:
    """Tell how a crawl goes; without a name, the one that did something last."""
    from holdfast.crawl.crawls import crawl_status, log_path

    require_archive(archive)
    found = crawl_status(archive, name)
    if as_json:
        show(_values(found, archive), "", as_json=True)
        return
    head = {
        "crawl": f"{found.name}, visit {found.visit}: {_state(found)}",
        "started": time_text(found.started),
        "updated": time_text(found.updated),
    }
    show_fields(head | tally_fields(found.tally, found.errors) | {"log": str(log_path(archive, found.name))})


def _state(status: CrawlStatus) -> str:
    if status.running:
        return f"running (pid {status.pid})"
    return f"{status.state} ({status.reason})" if status.reason else status.state.value


# -- stop --------------------------------------------------------------------------------------------------------------


@click.command("stop")
@archive_option
@click.argument("name")
@click.option("--wait", is_flag=True, help="Return when it has ended.")
@json_option
def stop(*, archive: Path, name: str, wait: bool, as_json: bool) -> None:
    """Let a running crawl end in order; what waits is kept."""
    from holdfast.crawl.crawls import crawl_status, request_stop

    require_archive(archive)
    asked = request_stop(archive, name)
    while (found := crawl_status(archive, name)).running and wait and asked:
        time.sleep(_LOOK_S)
    if found.running:
        text = f"crawl '{name}' is asked to stop"
    else:
        text = f"crawl '{name}' {'has ended' if asked else 'is not running'}: {_state(found)}"
    values = {"name": name, "asked": asked, "state": found.state.value, "reason": found.reason}
    show(values, visible(text), as_json=as_json)
