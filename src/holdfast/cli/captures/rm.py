"""`holdfast rm`: remove captures for good, with everything that only they refer to."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import (
    CDX_NAMES,
    archive_option,
    batch_option,
    filter_options,
    filters_of,
    is_verbose,
    json_option,
)
from holdfast.cli.terminal import Interruption, ask_node, counted, is_running_node, show_json, show_stream, writing
from holdfast.env.paths import CLUSTER, MEMBER
from holdfast.env.units import rounded_size

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.archive.removal import Removal, RemovalOptions
    from holdfast.records.selection import Selection

CAPTURES_SHOWN = 20


@click.command(context_settings=CDX_NAMES)
@archive_option
@filter_options
@batch_option
@click.option("--all", "everything", is_flag=True, help="Remove everything; required if there is no filter.")
@click.option("--reason", metavar="TEXT", help="Why; written to the audit log.")
@click.option("--refuse", is_flag=True, help="Refuse to import the same records again.")
@click.option("--no-compact", is_flag=True, help="Do not free the disk space; 'volume compact' does it later.")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@click.pass_context
def rm(context: click.Context, /, *, archive: Path, **options: Any) -> None:
    """Remove captures, and what no other capture holds.

    This cannot be undone: records and contents leave the disk. The requests and metadata that were recorded with a
    capture go with it. Other captures with the same content keep it.
    """
    from holdfast.archive.removal import RemovalOptions

    filters = filters_of(options)
    dry_run = options["dry_run"]
    if filters.is_none and not options["everything"]:
        raise click.UsageError("nothing says what to remove: give a URL or another filter, or --all for everything")
    if not (options["reason"] or "").strip() and not dry_run:
        raise click.UsageError("Missing option '--reason': it is written to the audit log")
    selection = filters.selection()
    wanted = RemovalOptions(options["reason"] or "dry run", options["refuse"], not options["no_compact"], dry_run)
    if (archive / CLUSTER / MEMBER).exists() and (not dry_run or is_running_node(archive)):
        _remove_everywhere(context, archive, selection, wanted, is_sure=options["yes"], as_json=options["as_json"])
        return
    with writing(archive) as (opened, interruption):
        if not (dry_run or options["yes"]) and sys.stdin.isatty():
            _ask(opened, selection, wanted, interruption)
        remark = "removed, but not yet off the disk: run 'holdfast volume compact'"  # only compaction stops half-way
        with interruption.progress_bar("compacting", remark=remark) as progress:
            removal = opened.remove(selection, wanted, progress)
    _show_removal(removal, wanted, verbose=is_verbose(context), as_json=options["as_json"])


def _remove_everywhere(
    context: click.Context,
    archive: Path,
    selection: Selection,
    options: RemovalOptions,
    *,
    is_sure: bool,
    as_json: bool,
) -> None:
    """In a cluster: every node removes the captures, those that are away before they serve again (N2)."""
    import getpass

    from holdfast.archive.removal import Removal

    query = asdict(selection.query) if selection.query is not None else None
    wanted: dict[str, Any] = {"query": query, "batch": selection.batch, "collection": selection.collection}
    wanted |= {"reason": options.reason, "refuse": options.refuse, "who": getpass.getuser()}

    def planned() -> Removal:
        values = ask_node(archive, "remove", **wanted, dry_run=True)
        lists = {"volumes": tuple(values["volumes"]), "listed": tuple(map(tuple, values["listed"]))}
        return Removal(**{**values, **lists})

    if options.dry_run:
        _show_removal(planned(), options, verbose=is_verbose(context), as_json=as_json)
        return
    if not is_sure and sys.stdin.isatty():
        _confirm(planned(), where=" here, and what the other nodes have of it")
    found = ask_node(archive, "remove", **wanted, dry_run=False)
    if as_json:
        show_json(found)
        return
    done, waiting = len(found["confirmed"]), found["waiting"]
    rest = f"; {' and '.join(waiting)} will remove them before serving again" if waiting else ""
    count = counted(found["records"], "record")
    click.echo(f"removed {count}, copies included, on {done} of {done + len(waiting)} nodes{rest}")


def _ask(archive: Archive, selection: Selection, options: RemovalOptions, interruption: Interruption) -> None:
    planned = archive.remove(selection, replace(options, dry_run=True, compact=False))
    if not planned.records:
        return
    with interruption.allowed():
        _confirm(planned)


def _confirm(planned: Removal, where: str = "") -> None:
    if not click.confirm(f"Remove {_text(planned)}{where}?", err=True):
        raise click.Abort


def _show_removal(removal: Removal, options: RemovalOptions, *, verbose: bool, as_json: bool) -> None:
    if as_json:
        values = asdict(removal)
        listed = [dict(zip(("record", "timestamp", "url"), each, strict=True)) for each in values.pop("listed")]
        show_json(values | {"dry_run": options.dry_run, "refused": options.refuse, "listed": listed})
        return
    if not removal.records:
        click.echo("nothing to remove")
        return
    if options.dry_run or verbose:
        shown = removal.listed if verbose else removal.listed[:CAPTURES_SHOWN]
        show_stream(" ".join(each) for each in shown)
        if left := removal.captures - len(shown):
            click.echo(f"and {counted(left, 'more capture')}")
    click.echo(f"{'would remove' if options.dry_run else 'removed'} {_text(removal)}")
    if removal.orphaned:
        then = "could not" if options.dry_run else "cannot"
        click.echo(f"{counted(removal.orphaned, 'other capture')} that repeat what goes {then} be read any more")


def _text(removal: Removal) -> str:
    shared = f", but not {counted(removal.shared, 'content')} that others hold too" if removal.shared else ""
    return (
        f"{counted(removal.captures, 'capture')}, {counted(removal.records, 'record')} and "
        f"{counted(removal.contents, 'content')} ({rounded_size(removal.bytes)}){shared}"
    )
