"""`holdfast serve`: show the archive to people and programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import archive_option, json_option
from holdfast.cli.output import note, show, show_fields

if TYPE_CHECKING:
    from holdfast.web.server.run import Serving

_PORT = click.IntRange(0, 65535)


@click.command()
@archive_option
@click.option("-p", "--port", type=_PORT, help="Of the pages; 8080 by default. 0: any free one.")
@click.option("--replay-port", type=_PORT, help="Of the archived pages; the one after --port by default.")
@click.option("--host", help="The address to listen on; this machine only by default.")
@click.option("--workers", type=click.IntRange(0), help="Processes; 0, the default: one for each core.")
@click.option("--write", is_flag=True, help="Permit writing, with a token that is printed if the settings name none.")
@click.option("--access-log", metavar="FILE", help="Write a line for each request; -: to standard error.")
@json_option
def serve(*, archive: Path, write: bool, as_json: bool, access_log: str | None, **chosen: Any) -> None:
    """Show the archive in a browser, and answer programs.

    Archived pages are served from a port of their own, so that their scripts can reach nothing else. Ctrl-C stops: what
    is being answered is finished first.
    """
    from holdfast import config
    from holdfast.env.paths import SETTINGS
    from holdfast.web.server.run import run_server

    if access_log and access_log != "-":
        access_log = str(Path(access_log).absolute())  # by where the command was given, not by the archive
    given = {name: value for name, value in {**chosen, "access_log": access_log}.items() if value is not None}
    settings = replace(config.load(archive / SETTINGS).serve, **given)
    run_server(archive, settings, lambda serving: _announce(serving, as_json=as_json), write=write)
    note("stopped")


def _announce(serving: Serving, *, as_json: bool) -> None:
    pages, replay = serving.origins.controls, serving.origins.replay
    values = {"pages": f"{pages}/", "replay": f"{replay}/"} | ({"token": serving.token} if serving.token else {})
    if serving.is_exposed:
        note("warning: whoever reaches this machine can read the archive; 'serve.read_token_file' names who may")
    if as_json:
        show({**values, "workers": serving.workers}, "", as_json=True)
    else:
        show_fields(values)
