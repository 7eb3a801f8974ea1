"""`holdfast init`: make an empty archive."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.interrupt import Interruption
from holdfast.cli.options import ARCHIVE_TYPE, Shape, json_option, shape_options
from holdfast.cli.output import counted, show
from holdfast.config import StoreSettings


@click.command()
@click.argument("directory", metavar="DIR", type=ARCHIVE_TYPE)
@click.option("--volumes", type=click.IntRange(0, 1024), help="How many volumes of its own: 1, with --connector none.")
@shape_options
@click.option("--signature", default="sha256", show_default=True, help="sha256 or rabin64; cannot be changed.")
@click.option("--placement", default="mod", show_default=True, help="mod or weighted.")
@click.option("--replicas", type=click.IntRange(1), default=1, show_default=True, help="Copies of every content.")
@click.option(
    "--connector", metavar="FILE", type=click.Path(path_type=Path), help="Keep contents in the volumes that FILE lists."
)
@json_option
def init(
    *,
    directory: Path,
    volumes: int | None,
    shape: Shape,
    signature: str,
    placement: str,
    replicas: int,
    connector: Path | None,
    as_json: bool,
) -> None:
    """Make an empty archive in DIR, which may exist."""
    import holdfast

    if volumes is None:
        volumes = 0 if connector else 1
    if not volumes and connector is None:
        raise click.UsageError("an archive without volumes of its own needs --connector")
    if replicas > volumes and connector is None:
        raise click.UsageError(f"{replicas} replicas need at least {replicas} volumes (--volumes)")
    store = StoreSettings(signature=signature, placement=placement, replicas=replicas)
    with Interruption():
        named = "" if connector is None else str(connector.absolute())
        holdfast.init(directory, holdfast.Plan(volumes, store=store, connector=named, **shape))
    values = {
        "archive": str(directory),
        "volumes": [f"v{number}" for number in range(volumes)],
        "organization": shape["organization"],
        "signature": signature,
        "placement": placement,
        "replicas": replicas,
        "connector": named,
    }
    text = f"made archive '{directory}' with {counted(volumes, 'volume')} of organization {shape['organization']}"
    if connector is not None:
        text = f"made archive '{directory}' on the volumes of '{connector}'"
    show(values, text, as_json=as_json)
