"""`holdfast volume repair`, `rebalance` and `mend`: volumes brought in line, with each other and with themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from holdfast.cli.interrupt import Interruption, writing_contents
from holdfast.cli.options import archive_option, connector_option, json_option, read_bytes
from holdfast.cli.output import counted, in_bytes, note, show
from holdfast.errors import Damaged, VolumeDown


@click.command()
@archive_option
@connector_option
@click.argument("names", metavar="[NAME]...", nargs=-1)
@json_option
def repair(*, archive: Path, connector: Path | None, names: tuple[str, ...], as_json: bool) -> None:
    """Bring volumes in line with each other after one was away or lost: from replicas, and with enough of them.

    All volumes are looked at, or what concerns those named. Clients go on meanwhile. Run it again to go on after an
    interruption. Exits with 5 if a content is lost, with 9 if a volume is down: the others are in line then.
    """
    from holdfast.storage.merging import Merger
    from holdfast.storage.restoring import Restorer

    with writing_contents(archive, connector) as (opened, interruption):
        for name in names:
            opened.instance.volume(name).stat()  # one that is down cannot be repaired
        with interruption.progress_bar("repairing") as progress:
            done = Restorer(opened.instance, names).run(progress)
        merged = Merger(opened.instance).run()
    text = (
        f"looked at {counted(done.blocks, 'block')}: {done.restored} restored, {done.aligned} brought in line, "
        f"{done.dictionaries} dictionaries restored, {merged} merged, {done.lost} lost"
    )
    show(asdict(done) | {"merged": merged}, text, as_json=as_json)
    if done.lost:
        raise click.exceptions.Exit(Damaged.exit_code)
    _require_all_up(done.down)


@click.command()
@archive_option
@connector_option
@click.option("--rate-limit", metavar="BYTES/s", callback=read_bytes, help="Read no faster, for example 50M.")
@json_option
def rebalance(*, archive: Path, connector: Path | None, rate_limit: int | None, as_json: bool) -> None:
    """Move blocks to where new ones would be placed now, after a volume was added; their contentkeys stay valid.

    Clients go on meanwhile. Run it again to go on after an interruption. Exits with 9 if a volume is down: then not
    everything was moved.
    """
    from holdfast.storage.rebalance import Rebalancer

    with (
        writing_contents(archive, connector) as (opened, interruption),
        interruption.progress_bar("rebalancing") as progress,
    ):
        done = Rebalancer(opened.instance, rate_limit).run(progress)
    text = f"moved {done.moved} of {counted(done.blocks, 'block')} ({in_bytes(done.bytes)})"
    show(asdict(done), text, as_json=as_json)
    _require_all_up(done.down)


def _require_all_up(down: Sequence[str]) -> None:
    """Raises VolumeDown if something is left to be done."""
    if down:
        raise VolumeDown(f"{', '.join(down)} {'was' if len(down) == 1 else 'were'} down; run it again afterwards")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@json_option
def mend(*, directory: Path, as_json: bool) -> None:
    """Repair the files of a volume by themselves, while no server gives it out.

    What it lost for good can come back from replicas: start its server, then run 'holdfast volume repair'.
    """
    from holdfast.env import REAL
    from holdfast.storage.mending import mend_volume

    with Interruption() as interruption, interruption.progress_bar("checking") as progress:
        mended = mend_volume(directory.absolute(), REAL, progress)
    for fault in mended.faults:
        show(
            {"event": "fault"} | asdict(fault) | {"key": str(fault.key) if fault.key else None},
            str(fault),
            as_json=as_json,
        )
    values = {"event": "summary", "faults": len(mended.faults), "lost": len(mended.lost)}
    lost = f"; {counted(len(mended.lost), 'block')} lost, 'holdfast volume repair' restores them from replicas"
    text = f"{counted(len(mended.faults), 'fault')} mended{lost if mended.lost else ''}"
    if as_json:
        show(values, "", as_json=True)
    else:
        note(text)
