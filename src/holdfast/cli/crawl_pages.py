"""`holdfast crawl why`, `expiring` and `expire`: what a crawl knows of a page, and pages whose lifetime is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.crawl_look import require_archive, time_text
from holdfast.cli.crawl_options import read_seconds
from holdfast.cli.interrupt import writing
from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import counted, show, show_fields, show_table, visible

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.crawl.retention import Expired, Expiring

_FACTS = (  # for people, who get what the others say in words
    *("crawl", "url", "state", "reason", "scope", "robots", "found", "depth", "outcome", "status"),
    *("visited", "reached", "etag", "last_modified", "digest", "visits", "changes", "interval", "due", "expires"),
)
_HEADING = ("END", "SEEN", "LOOKED FOR", "ANSWER", "NEXT LOOK", "URL")
_LABELS = {"last_modified": "modified"}


@click.command("why")
@archive_option
@click.argument("url")
@click.option("--name", metavar="NAME", help="The crawl; without it, the one that did something last.")
@json_option
def why(*, archive: Path, url: str, name: str | None, as_json: bool) -> None:
    """Tell what a crawl knows of a URL: how it was found, whether it is fetched, and when again."""
    from holdfast.crawl.why import why as explain

    require_archive(archive)
    values = explain(archive, name, url)
    if as_json:
        show(values, "", as_json=True)
    else:
        show_fields({_LABELS.get(fact, fact): text for fact in _FACTS if (text := _text(fact, values))})


def _text(fact: str, values: dict[str, Any]) -> str:
    """A fact for people; empty if there is nothing to say."""
    value = values.get(fact)
    if fact == "due" and values.get("is_due"):
        return f"{value} (now)" if value else "now"
    return "" if value is None or (fact == "status" and not value) else str(value)


@click.command("expiring")
@archive_option
@click.argument("name")
@click.option(
    "--within", metavar="TIME", callback=read_seconds, default="7d", help="Also those that end so soon; 7d by default."
)
@json_option
def expiring(*, archive: Path, name: str, within: float, as_json: bool) -> None:
    """List the pages of a crawl whose lifetime is over or ends soon.

    'crawl --due' looks for those whose time is over. Found, they get another lifetime; gone, they are removed.
    """
    from holdfast.crawl.crawls import crawl_status
    from holdfast.crawl.retention import expiring as expiring_pages

    require_archive(archive)
    crawl_status(archive, name)
    with _opened(archive, read_only=True) as opened:
        found = expiring_pages(opened, name, within)
    if as_json:
        for each in found:
            show(_expiring_values(each), "", as_json=True)
        show({"event": "summary", "name": name, "within_s": within, "pages": len(found)}, "", as_json=True)
    else:
        show_table(_HEADING, [_expiring_row(each) for each in found], left=len(_HEADING))


def _expiring_values(page: Expiring) -> dict[str, Any]:
    row = page.row
    return {
        "event": "page",
        "url": row.url,
        "end": time_text(page.end),
        "seen": time_text(page.seen),
        "looked": time_text(row.visited),
        "next": time_text(page.look),
        "lifetime_s": page.lifetime_s,
        "state": row.state,
        "outcome": row.outcome,
        "status": row.status,
    }


def _expiring_row(page: Expiring) -> list[str]:
    row = page.row
    answer = str(row.status) if row.status else row.outcome or "-"
    return [*map(time_text, (page.end, page.seen, row.visited)), answer, time_text(page.look), visible(row.url)]


@click.command("expire")
@archive_option
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Print them, and remove nothing.")
@json_option
def expire(*, archive: Path, name: str, dry_run: bool, as_json: bool) -> None:
    """Remove the pages of a crawl that were looked for after their lifetime, and were gone.

    The lifetimes are the settings 'revisit.lifetime' and 'revisit.lifetimes' of its job. Nothing is fetched:
    'crawl --due' looks for pages, and removes what is gone. A page that could not be reached stays.
    """
    from holdfast.crawl.crawls import crawl_status
    from holdfast.crawl.retention import expire as expire_pages

    require_archive(archive)
    crawl_status(archive, name)
    with _opened(archive, read_only=dry_run) as opened:
        found = expire_pages(opened, name, dry_run=dry_run)
    for each in found:
        show(_expired_values(each), visible(f"{each.row.url}  {each.reason}"), as_json=as_json)
    done = "would remove" if dry_run else "removed"
    values = {"event": "summary", "name": name, "dry_run": dry_run, "pages": len(found)}
    show(values, f"{done} {counted(len(found), 'page')} of the crawl '{name}'", as_json=as_json)


def _expired_values(page: Expired) -> dict[str, Any]:
    row = page.row
    return {
        "event": "page",
        "url": row.url,
        "reason": page.reason,
        "seen": time_text(page.seen),
        "looked": time_text(row.visited),
        "status": row.status,
        "lifetime_s": page.lifetime_s,
    }


@contextmanager
def _opened(archive: Path, *, read_only: bool) -> Iterator[Archive]:
    """Looking needs no lock."""
    import holdfast

    if read_only:
        with holdfast.open(archive, read_only=True) as opened:
            yield opened
    else:
        with writing(archive) as (opened, _):
            yield opened
