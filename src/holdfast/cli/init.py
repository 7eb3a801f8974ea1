"""`holdfast init`: make an empty archive."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.interrupt import Interruption
from holdfast.cli.options import ARCHIVE_TYPE, json_option
from holdfast.cli.output import counted, show
from holdfast.config import StoreSettings


@click.command()
@click.argument("directory", metavar="DIR", type=ARCHIVE_TYPE)
@click.option("--volumes", type=click.IntRange(1, 1024), default=1, show_default=True, help="How many volumes.")
@click.option("--organization", default="log", show_default=True, help="Of the volumes: log or tree.")
@click.option("--depth", default=3, show_default=True, help="Of the directories of organization tree.")
@click.option("--signature", default="sha256", show_default=True, help="sha256 or rabin64; cannot be changed.")
@click.option("--placement", default="mod", show_default=True, help="mod or weighted.")
@click.option("--replicas", type=click.IntRange(1), default=1, show_default=True, help="Copies of every content.")
@json_option
def init(
    *,
    directory: Path,
    volumes: int,
    organization: str,
    depth: int,
    signature: str,
    placement: str,
    replicas: int,
    as_json: bool,
) -> None:
    """Make an empty archive in DIR, which may exist."""
    import holdfast

    if replicas > volumes:
        raise click.UsageError(f"{replicas} replicas need at least {replicas} volumes (--volumes)")
    store = StoreSettings(signature=signature, placement=placement, replicas=replicas)
    with Interruption():
        holdfast.init(directory, holdfast.Plan(volumes, organization, depth, store))
    values = {
        "archive": str(directory),
        "volumes": [f"v{number}" for number in range(volumes)],
        "organization": organization,
        "signature": signature,
        "placement": placement,
        "replicas": replicas,
    }
    text = f"made archive '{directory}' with {counted(volumes, 'volume')} of organization {organization}"
    show(values, text, as_json=as_json)
