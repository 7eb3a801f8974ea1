"""`holdfast init`, `status`, `check`, `reindex` and `update`: the archive as a whole."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import (
    PATH,
    archive_option,
    connector_option,
    json_option,
    min_dead_option,
    rate_limit_option,
    shape_options,
    with_default,
)
from holdfast.cli.terminal import (
    Interruption,
    ask_node,
    counted,
    is_running_node,
    note,
    progress_bar,
    reading,
    show,
    show_fault,
    show_fields,
    show_json,
    show_table,
    writing,
)
from holdfast.config import StoreSettings
from holdfast.env.units import rounded_size
from holdfast.errors import Damaged, DamagedBatch, DamagedCatalog, DamagedIndex

if TYPE_CHECKING:
    from holdfast.archive import Archive, VolumeReport
    from holdfast.archive.update import UpdateOptions, UpdateReport, UpdateStatus
    from holdfast.catalog import Total
    from holdfast.storage.maintenance.check import CheckReport


@click.command()
@click.argument("directory", metavar="DIR", type=PATH)
@click.option("--volumes", type=click.IntRange(0, 1024), help="Number of its own volumes: 1, with --connector none.")
@shape_options
@with_default("--signature", default="sha256", help="sha256 or rabin64; cannot be changed.")
@with_default("--placement", default="mod", help="mod or weighted.")
@with_default("--replicas", type=click.IntRange(1), default=1, help="Copies of every content.")
@click.option("--connector", metavar="FILE", type=PATH, help="Keep contents in the volumes that FILE lists.")
@json_option
def init(
    *,
    directory: Path,
    volumes: int | None,
    signature: str,
    placement: str,
    replicas: int,
    connector: Path | None,
    as_json: bool,
    **shape: Any,
) -> None:
    """Create an empty archive in DIR, which may exist."""
    import holdfast

    if volumes is None:
        volumes = 0 if connector else 1
    if not volumes and connector is None:
        raise click.UsageError("an archive without volumes of its own needs --connector")
    if replicas > volumes and connector is None:
        raise click.UsageError(f"{replicas} replicas need at least {replicas} volumes (--volumes)")
    store = StoreSettings(signature=signature, placement=placement, replicas=replicas)
    listed = "" if connector is None else str(connector.absolute())
    with Interruption():
        holdfast.init(directory, holdfast.Plan(volumes, store=store, connector=listed, **shape))
    values = {
        "archive": str(directory),
        "volumes": [f"v{number}" for number in range(volumes)],
        "organization": shape["organization"],
        "signature": signature,
        "placement": placement,
        "replicas": replicas,
        "connector": listed,
    }
    text = f"made archive '{directory}' with {counted(volumes, 'volume')} of organization {shape['organization']}"
    if connector is not None:
        text = f"made archive '{directory}' on the volumes of '{connector}'"
    show(values, text, as_json=as_json)


@click.command()
@archive_option
@json_option
def status(*, archive: Path, as_json: bool) -> None:
    """Print what the archive holds, and what it saves."""
    from holdfast.catalog import Total

    with reading(archive) as opened:
        by_collection, by_batch = opened.catalog.totals()
        reports = opened.volumes()
        totals = _totals(reports, by_batch.values()) | _usage(opened, reports)
        index = _index(opened)
        sealed = {name: opened.journal.is_sealed(name) for name in opened.journal.names()}
    collections = {name: total._asdict() for name, total in by_collection.items()}
    batches = {name: by_batch.get(name, Total())._asdict() for name in sealed}
    captures = sum(each["captures"] for each in collections.values())
    if as_json:
        states = {name: values | {"sealed": sealed[name]} for name, values in batches.items()}
        groups = {"captures": captures, "index": index, "collections": collections, "batches": states}
        show_json({"archive": str(archive)} | groups | totals)
        return
    show_fields({"archive": str(archive.resolve()), "captures": f"{captures:,}"} | _status_fields(totals, index))
    for heading, groups in (("COLLECTION", collections), ("BATCH", batches)):
        if groups:
            rows = [[name, f"{of['captures']:,}", rounded_size(of["payload_bytes"])] for name, of in groups.items()]
            click.echo()
            show_table((heading, "CAPTURES", "PAYLOADS"), rows, left=1)


def _totals(reports: Sequence[VolumeReport], batches: Collection[Total]) -> dict[str, Any]:
    stats = [report.stat for report in reports if report.stat is not None]
    return {
        "contents": sum(stat.blocks for stat in stats),
        "references": sum(stat.references for stat in stats),
        "replicas": sum(stat.replicas for stat in stats),
        "inline": sum(total.inline for total in batches),
        "inline_bytes": sum(total.inline_bytes for total in batches),
        "referenced_bytes": sum(stat.referenced_bytes for stat in stats),
        "dead_bytes": sum(stat.dead_bytes for stat in stats),
        "volumes_up": len(stats),
        "volumes_down": len(reports) - len(stats),
    }


def _usage(archive: Archive, reports: Sequence[VolumeReport]) -> dict[str, Any]:
    from holdfast.archive.usage import archive_usage

    return archive_usage(archive, reports).as_dict()


def _index(archive: Archive) -> dict[str, Any]:
    """What the index covers, or how it is damaged."""
    try:
        state = archive.index.state()
        return {"captures": sum(each.rows for each in state.tables["captures"]), "pending": archive.index.pending()}
    except DamagedIndex as error:
        return {"damaged": str(error)}


def _status_fields(totals: dict[str, Any], index: dict[str, Any]) -> dict[str, str]:
    if "damaged" in index:
        indexed = f"damaged: {index['damaged']}"
    else:
        behind = f", {counted(index['pending'], 'record')} not indexed yet" if index["pending"] else ""
        indexed = f"{counted(index['captures'], 'capture')}{behind}"
    return {
        "contents": f"{totals['contents']:,} ({rounded_size(totals['content_bytes'])})",
        "references": f"{totals['references']:,} ({rounded_size(totals['referenced_bytes'])})",
        "replicas": f"{totals['replicas']:,}",
        "in batches": f"{totals['inline']:,} ({rounded_size(totals['inline_bytes'])})",
        "captured": rounded_size(totals["captured_bytes"]),
        "on disk": rounded_size(totals["disk_bytes"]),
        **{f"  for {part}": rounded_size(size) for part, size in totals["disk"].items()},
        **({"elsewhere": rounded_size(totals["elsewhere_bytes"])} if totals["elsewhere_bytes"] else {}),
        "reclaimable": rounded_size(totals["dead_bytes"]),
        "saved by duplicates": rounded_size(totals["saved_by_duplicates_bytes"]),
        "saved by compression": rounded_size(totals["saved_by_compression_bytes"]),
        "index": indexed,
        "volumes": f"{totals['volumes_up']} up, {totals['volumes_down']} down",
    }


# -- check, reindex ----------------------------------------------------------------------------------------------------


@click.command()
@archive_option
@connector_option
@click.option("--repair", is_flag=True, help="Repair what can be repaired; no other writer may be active.")
@click.option("--deep", is_flag=True, help="Also decode every content and compare it with its signature.")
@rate_limit_option
@click.option("--volume", "volumes", metavar="NAME", multiple=True, help="Only this one; may be repeated.")
@click.option("--recreate", is_flag=True, help="With --repair: recreate lost volumes from replicas.")
@json_option
def check(
    *, archive: Path, connector: Path | None, repair: bool, rate_limit: int | None, as_json: bool, **chosen: Any
) -> None:
    """Verify every header, checksum and count, and print each fault.

    Exits with 0 if nothing is wrong or all of it was repaired, with 5 otherwise.
    """
    from holdfast.storage.maintenance.check import CheckOptions

    if chosen["recreate"] and not repair:
        raise click.UsageError("--recreate needs --repair")
    if connector is not None and repair:
        raise click.UsageError("--repair needs an archive; 'holdfast volume repair' mends the volumes of a connector")
    options = CheckOptions(repair, rate_bytes_s=rate_limit, **chosen)
    if connector is not None:
        from holdfast.config import load_connector
        from holdfast.env import REAL
        from holdfast.storage.maintenance.check import Checker

        with progress_bar("checking") as advance:
            report = Checker(connector.parent, load_connector(connector), REAL, options).check(advance)
    else:
        from holdfast.archive.check import check as check_archive

        if repair:
            with Interruption() as interruption, interruption.progress_bar("checking") as advance:
                report = check_archive(archive, options, advance)
        else:
            with progress_bar("checking") as advance:
                report = check_archive(archive, options, advance)
    _show_check(report, as_json=as_json)
    if not report.clean:
        raise click.exceptions.Exit(Damaged.exit_code)


def _show_check(report: CheckReport, *, as_json: bool) -> None:
    for fault in report.faults:
        show_fault(fault, f"{'repaired' if fault.repaired else 'fault'}: {fault}", as_json=as_json)
    faults, repaired = len(report.faults), sum(fault.repaired for fault in report.faults)
    if as_json:
        values = {"event": "summary", "clean": report.clean, "faults": faults, "repaired": repaired}
        show_json(values | {"blocks": report.blocks, "bytes": report.bytes, "notes": report.notes})
        return
    for remark in report.notes:
        note(f"note: {remark}")
    found = f"{counted(faults, 'fault')}, {repaired} repaired" if faults else "no faults"
    note(f"checked {counted(report.blocks, 'block')} ({rounded_size(report.bytes)}): {found}")


@click.command()
@archive_option
@json_option
def reindex(*, archive: Path, as_json: bool) -> None:
    """Rebuild the catalog from the batches.

    The catalog may be damaged or missing. Readers use the old one meanwhile. Only the catalog is written.
    """
    from holdfast.env import paths

    try:
        if not (archive / paths.CATALOG).is_dir():
            found = _rebuild(archive)
        else:
            with writing(archive) as (opened, interruption), interruption.progress_bar("reading batches") as progress:
                found = opened.reindex(progress)
    except (DamagedBatch, DamagedCatalog):
        found = _rebuild(archive)
    show({"captures": found}, f"the catalog has {counted(found, 'capture')}", as_json=as_json)


def _rebuild(archive: Path) -> int:
    """Deletes the unusable catalog. Opening the archive for writing rebuilds it."""
    import shutil

    from holdfast.env import paths

    shutil.rmtree(archive / paths.CATALOG, ignore_errors=True)
    with writing(archive) as (opened, _):
        return sum(total.captures for total in opened.catalog.totals()[0].values())


@click.group()
def update() -> None:
    """Show new captures to streams and queries; remove superseded ones."""


@update.command("status")
@archive_option
@json_option
def update_status(*, archive: Path, as_json: bool) -> None:
    """Print the scheme, the active state, and how many captures are old, unchanged and new (A, B, C)."""
    with reading(archive) as opened:
        found = opened.updates.status()
    names = ("scheme", "keep", "waiting_blocks", "waiting_bytes", "unfinished")
    active = found.active
    state = {"generation": active.generation, "time": active.time, "batches": dict(active.batches)} if active else None
    values = {name: getattr(found, name) for name in names} | {"active": state, "classes": found.classes._asdict()}
    show(values, "\n".join(_update_lines(found)), as_json=as_json)


def _update_lines(found: UpdateStatus) -> list[str]:
    keeps = "all captures are kept" if found.keep == "all" else "only the latest capture of a page is kept"
    lines = [f"{found.scheme} updates; {keeps}"]
    if found.active is not None:
        waiting = f"{counted(found.waiting_blocks, 'block')} ({rounded_size(found.waiting_bytes)})"
        lines.append(f"active state {found.active.generation}, since {found.active.time}")
        lines.append(f"waiting in update volumes: {waiting}")
    old, unchanged, new = found.classes
    lines += [
        f"class A (old version)  {old:,}",
        f"class B (unchanged)    {unchanged:,}",
        f"class C (new)          {new:,}",
    ]
    if found.unfinished:
        lines.append(f"an update was interrupted at step '{found.unfinished}': 'holdfast update run' continues it")
    return lines


@update.command("run")
@archive_option
@with_default(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=click.FloatRange(0),
    default=60.0,
    help="Wait for streams that read an older state before removing what only that state shows.",
)
@min_dead_option
@click.option("--dry-run", is_flag=True, help="Only print what 'records.keep = \"latest\"' would remove.")
@json_option
def update_run(*, archive: Path, wait_s: float, min_dead: float, dry_run: bool, as_json: bool) -> None:
    """Update: transfer and switch under the batch scheme; remove what is superseded, and compact.

    Readers are not affected. After an interruption, run it again to continue.
    """
    from holdfast.archive.update import UpdateOptions

    options = UpdateOptions(wait_s, min_dead, dry_run)
    if is_running_node(archive) and not dry_run:
        done = _update_by_node(archive, options)
    else:
        with writing(archive) as (opened, interruption), interruption.progress_bar("updating") as progress:
            done = opened.updates.run(options, progress)
    if not done.leases_ended:
        note(f"holdfast: streams still read an older state after {wait_s:g} s: they miss what was removed")
    show(asdict(done), "\n".join(_update_report(done, dry_run=dry_run)), as_json=as_json)


def _update_by_node(archive: Path, options: UpdateOptions) -> UpdateReport:
    """Has the running node of a cluster update its archive: its process is the archive's writer."""
    from holdfast.archive.update import UpdateReport
    from holdfast.storage.maintenance.migrate import Migration

    values = ask_node(archive, "update", options=asdict(options))
    return UpdateReport(**values | {"moved": Migration(**values["moved"])})


def _update_report(done: UpdateReport, *, dry_run: bool) -> list[str]:
    gone = f"{counted(done.captures, 'superseded capture')} ({counted(done.contents, 'content')})"
    if dry_run:
        return [f"would remove {gone}"]
    lines = ["continued an interrupted update"] if done.resumed else []
    if done.generation:
        lines.append(f"moved {counted(done.moved.blocks, 'block')} ({rounded_size(done.moved.bytes)}) to read volumes")
        lines.append(f"switched to active state {done.generation}")
    return [*lines, f"removed {gone}", f"reclaimed {rounded_size(done.reclaimed_bytes)}"]
