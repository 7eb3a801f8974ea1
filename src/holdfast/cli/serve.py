"""`holdfast serve`: the archive in a browser, and for programs over HTTP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import archive_option, json_option
from holdfast.cli.terminal import STANDARD_STREAM, note, show_facts

if TYPE_CHECKING:
    from holdfast.web.server.supervisor import Serving

_PORT = click.IntRange(0, 65535)


@click.command()
@archive_option
@click.option("-p", "--port", type=_PORT, help="Port of the pages; 8080 by default, 0: any free one.")
@click.option("--replay-port", type=_PORT, help="Port of archived pages; the one after --port by default.")
@click.option("--host", help="The address to listen on; this machine only by default.")
@click.option("--workers", type=click.IntRange(0), help="Processes; 0, the default: one for each core.")
@click.option("--write", is_flag=True, help="Permit writing; prints a token if the settings name none.")
@click.option("--access-log", metavar="FILE", help="Write a line for each request; '-': to standard error.")
@json_option
def serve(*, archive: Path, write: bool, as_json: bool, access_log: str | None, **chosen: Any) -> None:
    """Serve the archive to browsers and programs.

    Archived pages are served from a second port, so that their scripts can reach nothing else. Ctrl-C stops the
    server after the requests in progress.
    """
    from holdfast import config
    from holdfast.env.paths import SETTINGS
    from holdfast.web.server.supervisor import run_server

    if access_log and access_log != STANDARD_STREAM:
        access_log = str(Path(access_log).absolute())  # relative to the working directory, not to the archive
    given = {name: value for name, value in {**chosen, "access_log": access_log}.items() if value is not None}
    settings = replace(config.load(archive / SETTINGS).serve, **given)
    run_server(archive, settings, lambda serving: _announce(serving, as_json=as_json), write=write)
    note("stopped")


def _announce(serving: Serving, *, as_json: bool) -> None:
    pages, replay = serving.origins.controls, serving.origins.replay
    values = {"pages": f"{pages}/", "replay": f"{replay}/"} | ({"token": serving.token} if serving.token else {})
    if serving.is_exposed:
        note("warning: everybody who reaches this machine can read the archive; 'serve.read_token_file' limits that")
    show_facts({**values, "workers": serving.workers}, values, as_json=as_json)
