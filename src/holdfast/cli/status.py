"""`holdfast status`: what an archive holds in all, and what it saves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import in_bytes, show, show_fields

if TYPE_CHECKING:
    from holdfast.archive import VolumeReport


@click.command()
@archive_option
@json_option
def status(*, archive: Path, as_json: bool) -> None:
    """Tell what the archive holds, and what it saves."""
    import holdfast

    with holdfast.open(archive, read_only=True) as opened:
        totals = _totals(list(opened.volumes()))
    if as_json:
        show({"archive": str(archive)} | totals, "", as_json=True)
    else:
        show_fields({"archive": str(archive.resolve())} | _for_people(totals))


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


def _for_people(totals: dict[str, int]) -> dict[str, str]:
    return {
        "contents": f"{totals['contents']:,} ({in_bytes(totals['content_bytes'])})",
        "references": f"{totals['references']:,} ({in_bytes(totals['referenced_bytes'])})",
        "replicas": f"{totals['replicas']:,}",
        "on disk": in_bytes(totals["disk_bytes"]),
        "reclaimable": in_bytes(totals["dead_bytes"]),
        "saved by duplicates": in_bytes(totals["saved_by_duplicates_bytes"]),
        "saved by compression": in_bytes(totals["saved_by_compression_bytes"]),
        "volumes": f"{totals['volumes_up']} up, {totals['volumes_down']} down",
    }
