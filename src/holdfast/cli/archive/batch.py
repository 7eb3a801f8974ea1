"""`holdfast batch`: list, show, seal, verify, back up and restore batches of records."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.archive.index import bring_up, is_automatic
from holdfast.cli.options import PATH, archive_option, index_option, json_option
from holdfast.cli.terminal import (
    Interruption,
    counted,
    note,
    progress_bar,
    reading,
    show,
    show_facts,
    show_fault,
    show_json,
    show_table,
    writing,
)
from holdfast.env.units import rounded_size
from holdfast.errors import Damaged

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.archive.backup import BatchCopyReport
    from holdfast.batches.verify import BatchReport

_HEADING = ("NAME", "STATE", "CAPTURES", "PAYLOADS", "FILES", "ON DISK")
_WORDS = 2  # columns of the heading that hold no numbers
_SOURCES_SHOWN = 20


@click.group()
def batch() -> None:
    """List, show, seal, verify, back up and restore batches of records."""


@batch.command("list")
@archive_option
@json_option
def list_(*, archive: Path, as_json: bool) -> None:
    """Print a table of the batches."""
    with reading(archive) as opened:
        found = [_values(opened, name) for name in opened.journal.names()]
    if as_json:
        for values in found:
            show_json(values)
    else:
        show_table(_HEADING, [_row(values) for values in found], left=_WORDS)


@batch.command("show")
@archive_option
@click.argument("name")
@json_option
def show_(*, archive: Path, name: str, as_json: bool) -> None:
    """Print what a batch holds, and which files were imported into it."""
    with reading(archive) as opened:
        opened.journal.require(name)
        values = _values(opened, name)
        sources = [filename for filename, record in opened.catalog.sources() if record.batch == name]
    shown = sources[:_SOURCES_SHOWN] + ["..."] * (len(sources) > _SOURCES_SHOWN)
    fields = {
        "batch": name,
        "state": _state(values),
        "captures": f"{values['captures']:,} ({rounded_size(values['payload_bytes'])} of payload)",
        "last serial": f"{values['last_serial']:,}",
        "files": f"{values['files']} ({rounded_size(values['disk_bytes'])})",
        "directory": values["directory"],
        "imported": f"{counted(len(sources), 'file')}{': ' if shown else ''}{', '.join(shown)}",
    }
    show_facts(values | {"sources": sources}, fields, as_json=as_json)


def _values(archive: Archive, name: str) -> dict[str, Any]:
    from holdfast.batches.batch import BatchState

    total = archive.catalog.totals()[1].get(name)
    directory = archive.journal.directory(name)
    files = [path for path in directory.iterdir() if path.is_file()]
    return {
        "name": name,
        "sealed": archive.journal.is_sealed(name),
        "restoring": archive.journal.is_restoring(name),
        "captures": total.captures if total else 0,
        "payload_bytes": total.payload_bytes if total else 0,
        "last_serial": BatchState.unpack(archive.catalog.batch_state(name)).next_serial - 1,
        "files": len(archive.journal.files(name)),
        "disk_bytes": sum(path.stat().st_size for path in files),
        "directory": str(directory),
    }


def _row(values: dict[str, Any]) -> list[str]:
    return [
        values["name"],
        _state(values),
        f"{values['captures']:,}",
        rounded_size(values["payload_bytes"]),
        f"{values['files']:,}",
        rounded_size(values["disk_bytes"]),
    ]


def _state(values: dict[str, Any]) -> str:
    if values["restoring"]:
        return "restoring"
    return "sealed" if values["sealed"] else "open"


@batch.command()
@archive_option
@click.argument("name")
@json_option
def seal(*, archive: Path, name: str, as_json: bool) -> None:
    """Close a batch for good: it takes no more records."""
    with writing(archive) as (opened, _):
        opened.seal(name)
    show({"name": name, "sealed": True}, f"batch '{name}' is sealed", as_json=as_json)


@batch.command()
@archive_option
@click.argument("names", metavar="[NAME]...", nargs=-1)
@json_option
def verify(*, archive: Path, names: tuple[str, ...], as_json: bool) -> None:
    """Read every byte of the batches, all or those named, and print each fault.

    Exits with 5 if there is one.
    """
    faults = 0
    with reading(archive) as opened:
        for name in names:
            opened.journal.require(name)
        for name in names or opened.journal.names():
            with progress_bar(f"verifying {name}") as progress:
                report = opened.verify(name, progress)
            _show_verified(report, as_json=as_json)
            faults += len(report.faults)
    if faults:
        raise click.exceptions.Exit(Damaged.exit_code)


def _show_verified(report: BatchReport, *, as_json: bool) -> None:
    for fault in report.faults:
        show({"event": "fault"} | asdict(fault), f"fault: {fault}", as_json=as_json)
    if as_json:
        values = asdict(report) | {"faults": len(report.faults)}
        show_json({"event": "summary", "clean": not report.faults} | values)
        return
    removed = f", {report.removed:,} removed" if report.removed else ""
    found = counted(len(report.faults), "fault") if report.faults else "no faults"
    sealed = "sealed" if report.sealed else "open"
    what = f"{counted(report.records, 'record')}{removed} ({rounded_size(report.bytes)})"
    note(f"verified batch '{report.name}', {sealed}, {what}: {found}")


@batch.command()
@archive_option
@click.argument("name")
@click.argument("directory", type=PATH)
@json_option
def backup(*, archive: Path, name: str, directory: Path, as_json: bool) -> None:
    """Write a batch with its payloads to a new directory.

    The directory is itself an archive, with everything the batch needs. Others may write to this one meanwhile. After
    an interruption, run the same command again to continue.

    Exits with 5 if something could not be read; what is sound is in the backup.
    """
    with Interruption() as interruption, reading(archive) as opened:
        opened.journal.require(name)
        total = opened.catalog.totals()[1].get(name)
        payload_bytes = total.payload_bytes if total else None
        remark = "the backup is not complete yet; run the same command again to continue"
        with interruption.progress_bar("backing up", payload_bytes, remark=remark) as progress:
            report = opened.back_up(name, directory, progress)
    _show_copied(report, "backed up", f"to '{directory}'", as_json=as_json)


@batch.command()
@archive_option
@click.argument("backup", type=PATH)
@index_option
@json_option
def restore(*, archive: Path, backup: Path, index: bool | None, as_json: bool) -> None:
    """Bring a batch back from its backup, under the same ids.

    What is here already is not restored again. Records that were removed here stay removed. After an interruption, run
    the same command again to continue.

    Exits with 5 if something could not be read; what is sound is restored.
    """
    with writing(archive) as (opened, interruption):
        wanted = is_automatic(opened, index)
        remark = "what was restored stays; run the same command again to continue"
        with interruption.progress_bar("restoring", remark=remark) as progress:
            report = opened.restore(backup, progress)
    if wanted:
        bring_up(archive, quiet=as_json)
    _show_copied(report, "restored", f"from '{backup}'", as_json=as_json)


def _show_copied(report: BatchCopyReport, verb: str, where: str, *, as_json: bool) -> None:
    for fault in report.faults:
        show_fault(fault, f"fault: {fault}", as_json=as_json)
    if as_json:
        values = asdict(report) | {"faults": len(report.faults)}
        show_json({"event": "summary", "clean": not report.faults} | values)
    else:
        state = "sealed" if report.sealed else "open"
        what = f"{counted(report.records, 'record')} ({rounded_size(report.bytes)})"
        click.echo(f"{verb} batch '{report.batch}', {state}, {where}: {what}{_more(report)}")
    if report.faults:
        raise click.exceptions.Exit(Damaged.exit_code)


def _more(report: BatchCopyReport) -> str:
    counts = (
        (report.known, "there already"),
        (report.originals, "of other batches"),
        (report.put_back, "lost payloads put back"),
        (report.removed, "removed"),
        (report.refused, "refused"),
        (report.references, "by reference, whose files lie elsewhere"),
    )
    return "".join(f", {count:,} {words}" for count, words in counts if count)
