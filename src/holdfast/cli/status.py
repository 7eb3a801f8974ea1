"""`holdfast status`: what an archive holds in all, by collection and by batch, and what it saves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import counted, show, show_fields, show_table
from holdfast.env.units import rounded_size
from holdfast.errors import DamagedIndex

if TYPE_CHECKING:
    from holdfast.archive import Archive, VolumeReport
    from holdfast.catalog import Total

_NOTHING = {"captures": 0, "payload_bytes": 0}


@click.command()
@archive_option
@json_option
def status(*, archive: Path, as_json: bool) -> None:
    """Tell what the archive holds, and what it saves."""
    import holdfast

    with holdfast.open(archive, read_only=True) as opened:
        totals = _totals(list(opened.volumes()))
        collections, batches = opened.catalog.totals()
        index = _index(opened)
        sealed = {name: opened.journal.is_sealed(name) for name in opened.journal.names()}
    captures = sum(total.captures for total in collections.values())
    if as_json:
        groups = {
            "captures": captures,
            "index": index,
            "collections": {name: total._asdict() for name, total in collections.items()},
            "batches": {name: _batch(batches, name) | {"sealed": sealed[name]} for name in sealed},
        }
        show({"archive": str(archive)} | groups | totals, "", as_json=True)
        return
    show_fields({"archive": str(archive.resolve()), "captures": f"{captures:,}"} | _for_people(totals, index))
    _show_groups("COLLECTION", {name: total._asdict() for name, total in collections.items()})
    _show_groups("BATCH", {name: _batch(batches, name) for name in sealed})


def _batch(batches: dict[str, Total], name: str) -> dict[str, int]:
    """What the catalog knows of a batch; one without captures has nothing there."""
    found = batches.get(name)
    return {"captures": found.captures, "payload_bytes": found.payload_bytes} if found else _NOTHING


def _show_groups(heading: str, groups: dict[str, dict[str, int]]) -> None:
    if groups:
        click.echo()
        rows = [[name, f"{each['captures']:,}", rounded_size(each["payload_bytes"])] for name, each in groups.items()]
        show_table((heading, "CAPTURES", "PAYLOADS"), rows, left=1)


def _totals(reports: Sequence[VolumeReport]) -> dict[str, int]:
    stats = [report.stat for report in reports if report.stat is not None]
    content_bytes = sum(stat.content_bytes for stat in stats)
    referenced_bytes = sum(stat.referenced_bytes for stat in stats)
    stored_bytes = sum(stat.stored_bytes for stat in stats)
    return {
        "contents": sum(stat.blocks for stat in stats),
        "references": sum(stat.references for stat in stats),
        "replicas": sum(stat.replicas for stat in stats),
        "content_bytes": content_bytes,
        "referenced_bytes": referenced_bytes,
        "stored_bytes": stored_bytes,
        "disk_bytes": sum(stat.disk_bytes for stat in stats),
        "dead_bytes": sum(stat.dead_bytes for stat in stats),
        "saved_by_duplicates_bytes": referenced_bytes - content_bytes,
        "saved_by_compression_bytes": content_bytes - stored_bytes,
        "volumes_up": len(stats),
        "volumes_down": len(reports) - len(stats),
    }


def _index(archive: Archive) -> dict[str, Any]:
    """How far the index reaches; why it cannot be told, if it is damaged."""
    try:
        state = archive.index.state()
        return {"captures": sum(each.rows for each in state.tables["captures"]), "pending": archive.index.pending()}
    except DamagedIndex as error:
        return {"damaged": str(error)}


def _index_for_people(index: dict[str, Any]) -> str:
    if "damaged" in index:
        return f"damaged: {index['damaged']}"
    behind = f", {counted(index['pending'], 'record')} not indexed yet" if index["pending"] else ""
    return f"{counted(index['captures'], 'capture')}{behind}"


def _for_people(totals: dict[str, int], index: dict[str, Any]) -> dict[str, str]:
    return {
        "contents": f"{totals['contents']:,} ({rounded_size(totals['content_bytes'])})",
        "references": f"{totals['references']:,} ({rounded_size(totals['referenced_bytes'])})",
        "replicas": f"{totals['replicas']:,}",
        "on disk": rounded_size(totals["disk_bytes"]),
        "reclaimable": rounded_size(totals["dead_bytes"]),
        "saved by duplicates": rounded_size(totals["saved_by_duplicates_bytes"]),
        "saved by compression": rounded_size(totals["saved_by_compression_bytes"]),
        "index": _index_for_people(index),
        "volumes": f"{totals['volumes_up']} up, {totals['volumes_down']} down",
    }
