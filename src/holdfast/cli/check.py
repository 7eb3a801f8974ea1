"""`holdfast check`: verify everything that is stored, and repair it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.interrupt import Interruption
from holdfast.cli.options import archive_option, connector_option, json_option, read_bytes
from holdfast.cli.output import counted, in_bytes, note, progress_bar, show
from holdfast.errors import Damaged

if TYPE_CHECKING:
    from holdfast.model import Fault
    from holdfast.storage.maintenance.check import CheckOptions, CheckReport


@click.command()
@archive_option
@connector_option
@click.option("--repair", is_flag=True, help="Mend what can be mended; needs to be the only writer.")
@click.option("--deep", is_flag=True, help="Also decode every content and compare it with its signature.")
@click.option("--rate-limit", metavar="BYTES/s", callback=read_bytes, help="Read no faster, for example 50M.")
@click.option("--volume", "volumes", metavar="NAME", multiple=True, help="Only this one; may be repeated.")
@click.option("--recreate", is_flag=True, help="With --repair: make volumes that are gone anew, from replicas.")
@json_option
def check(
    *,
    archive: Path,
    connector: Path | None,
    repair: bool,
    deep: bool,
    rate_limit: int | None,
    volumes: tuple[str, ...],
    recreate: bool,
    as_json: bool,
) -> None:
    """Verify every header, checksum and count, and print each fault.

    Exits with 0 if nothing is wrong or all of it was repaired, with 5 otherwise.
    """
    from holdfast.storage.maintenance.check import CheckOptions

    if recreate and not repair:
        raise click.UsageError("--recreate needs --repair")
    if connector is not None and repair:
        raise click.UsageError("--repair needs an archive; 'holdfast volume repair' mends the volumes of a connector")
    options = CheckOptions(repair, deep, rate_limit, volumes, recreate)
    if connector is not None:
        report = _check_connector(connector, options)
    else:
        report = _repair(archive, options) if repair else _check(archive, options)
    for fault in report.faults:
        show(_fault_values(fault), _fault_text(fault), as_json=as_json)
    _summarize(report, as_json=as_json)
    if not report.clean:
        raise click.exceptions.Exit(Damaged.exit_code)


def _check(archive: Path, options: CheckOptions) -> CheckReport:
    from holdfast.archive.check import check as check_archive

    with progress_bar("checking") as advance:
        return check_archive(archive, options, advance)


def _check_connector(connector: Path, options: CheckOptions) -> CheckReport:
    from holdfast.config import load_connector
    from holdfast.env import REAL
    from holdfast.storage.maintenance.check import Checker

    with progress_bar("checking") as advance:
        return Checker(connector.parent, load_connector(connector), REAL, options).check(advance)


def _repair(archive: Path, options: CheckOptions) -> CheckReport:
    from holdfast.archive.check import check as check_archive

    with Interruption() as interruption, interruption.progress_bar("checking") as advance:
        return check_archive(archive, options, advance)


def _fault_values(fault: Fault) -> dict[str, Any]:
    return {"event": "fault"} | asdict(fault) | {"key": str(fault.key) if fault.key else None}


def _fault_text(fault: Fault) -> str:
    return f"{'repaired' if fault.repaired else 'fault'}: {fault}"


def _summarize(report: CheckReport, *, as_json: bool) -> None:
    repaired = sum(fault.repaired for fault in report.faults)
    if as_json:
        values = {
            "event": "summary",
            "clean": report.clean,
            "faults": len(report.faults),
            "repaired": repaired,
            "blocks": report.blocks,
            "bytes": report.bytes,
            "notes": report.notes,
        }
        show(values, "", as_json=True)
        return
    for remark in report.notes:
        note(f"note: {remark}")
    found = f"{counted(len(report.faults), 'fault')}, {repaired} repaired" if report.faults else "no faults"
    note(f"checked {counted(report.blocks, 'block')} ({in_bytes(report.bytes)}): {found}")
