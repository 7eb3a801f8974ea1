"""`holdfast crawl why` and `expire`: what a crawl knows of a page, and pages whose time is over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.crawl_look import require_archive
from holdfast.cli.interrupt import writing
from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import counted, show, show_fields, visible

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.crawl.retention import Expired

_FACTS = (  # for people, who get what the others say in words
    *("crawl", "url", "state", "reason", "scope", "robots", "found", "depth", "outcome", "status"),
    *("visited", "reached", "etag", "last_modified", "digest", "visits", "changes", "interval", "due"),
)
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
        return f"{value} (now)"
    return "" if value is None or (fact == "status" and not value) else str(value)


@click.command("expire")
@archive_option
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Print them, and remove nothing.")
@json_option
def expire(*, archive: Path, name: str, dry_run: bool, as_json: bool) -> None:
    """Remove the pages of a crawl that were not seen again within their lifetime.

    The lifetime is the setting 'revisit.lifetime' of its job; pages of a host that cannot be reached have 'grace' more.
    """
    from holdfast.crawl.crawls import crawl_status
    from holdfast.crawl.retention import expire as expire_pages

    require_archive(archive)
    crawl_status(archive, name)
    with _opened(archive, read_only=dry_run) as opened:
        found = expire_pages(opened, name, dry_run=dry_run, now=time.time())
    for each in found:
        show({"event": "page", "url": each.row.url, "reason": each.reason}, _line(each), as_json=as_json)
    done = "would remove" if dry_run else "removed"
    values = {"event": "summary", "name": name, "dry_run": dry_run, "pages": len(found)}
    show(values, f"{done} {counted(len(found), 'page')} of the crawl '{name}'", as_json=as_json)


def _line(page: Expired) -> str:
    return visible(f"{page.row.url}  {page.reason}")


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
