"""`holdfast volume init`, `secret` and `serve`: a volume of its own, given out to other machines."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import Shape, json_option, read_bytes, shape_options
from holdfast.cli.output import note, show
from holdfast.cli.volume_processes import Ended, serve_apart, tell_parent
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.storage.remote.options import ServerOptions

log = logging.getLogger("holdfast.server")

DEFAULT_LISTEN = "127.0.0.1:9400"
PORT_MAX = 65535
MESSAGE_BYTES_MIN = 64 << 10
_FILE = click.Path(path_type=Path, dir_okay=False)
_DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("directory", type=_DIRECTORY)
@shape_options
@click.option("--signature", default="sha256", show_default=True, help="The algorithm that names contents.")
@json_option
def init(*, directory: Path, shape: Shape, signature: str, as_json: bool) -> None:
    """Make an empty volume that a volume server can give out."""
    from holdfast.config import StoreSettings, VolumeSettings
    from holdfast.env import REAL
    from holdfast.storage.organizations import create_volume
    from holdfast.storage.signature import find_signature

    find_signature(signature)
    volume = VolumeSettings("volume", **shape)
    create_volume(directory.absolute(), volume, StoreSettings(signature=signature), REAL)
    values = {"directory": str(directory), **shape, "signature": signature}
    show(values, f"made a volume of organization {volume.organization} in '{directory}'", as_json=as_json)


@click.command()
@click.argument("file", type=_FILE)
@json_option
def secret(*, file: Path, as_json: bool) -> None:
    """Make a secret that volume servers and their clients share, in a file that only you can read."""
    from holdfast.env import REAL
    from holdfast.storage.remote.handshake import make_secret

    make_secret(file, REAL)
    show({"file": str(file)}, f"made a secret in '{file}'", as_json=as_json)


@click.command()
@click.argument("directories", metavar="DIR...", type=_DIRECTORY, nargs=-1, required=True)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="Several volumes listen on this port and those that follow it; port 0: any free ones.",
)
@click.option("--secret-file", metavar="FILE", type=_FILE, help="What clients must know; see 'volume secret'.")
@click.option("--tls-cert", metavar="FILE", type=_FILE, help="The server's certificate: connections are encrypted.")
@click.option("--tls-key", metavar="FILE", type=_FILE, help="Its key, if it is not in the same file.")
@click.option("--tls-client-ca", metavar="FILE", type=_FILE, help="Clients need a certificate signed by this one.")
@click.option("--read-only", is_flag=True, help="Take no new contents.")
@click.option("--capacity", metavar="BYTES", callback=read_bytes, help="Be full at this size, such as 500G.")
@click.option("--connections", type=click.IntRange(1), default=1024, show_default=True, help="At most so many.")
@click.option(
    "--message-max", metavar="BYTES", callback=read_bytes, default="128M", show_default=True, help="Of one request."
)
@click.option(
    "--processes", metavar="N", type=click.IntRange(1), help="That share the volumes; one for each core by default."
)
@click.option("--stop-with-input", is_flag=True, hidden=True)  # of processes that another one starts
@json_option
def serve(*, directories: tuple[Path, ...], listen: str, processes: int | None, as_json: bool, **chosen: Any) -> None:
    """Give volumes out to other machines; several of them share as many processes as there are cores.

    Clients prove themselves by a shared secret, by a certificate, or by both. Ctrl-C stops: what is under way is
    finished first.
    """
    from holdfast.storage.remote.link import split_address

    if processes is not None and processes > len(directories):
        raise click.UsageError(f"--processes {processes}: there are no more than {len(directories)} volumes to share")
    host, port = split_address(listen)
    if port + len(directories) - 1 > PORT_MAX:
        raise click.UsageError(f"--listen {listen}: {len(directories)} volumes need ports beyond {PORT_MAX}")
    if chosen["message_max"] < MESSAGE_BYTES_MIN:
        raise click.UsageError(f"--message-max: no content would be taken with less than {MESSAGE_BYTES_MIN} bytes")
    options = _options(host, port, **chosen)
    failed: list[str] = []

    def ended(index: int, code: int) -> None:
        """The user is told at once: the others may go on long."""
        failed.append(f"'{directories[index]}' (exit {code})")
        note(f"served no more: {failed[-1]}")

    count = processes or min(len(directories), len(os.sched_getaffinity(0)))
    if count > 1:
        serve_apart(directories, count, (host, port), ended)
    else:
        _serve_here(directories, options, tell_parent if options.stop_with_input else ended, as_json=as_json)
    if failed:
        raise click.ClickException(f"not all volumes were served to the end: {', '.join(failed)}")
    note("stopped")


def _options(
    host: str,
    port: int,
    *,
    secret_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    read_only: bool,
    capacity: int | None,
    connections: int,
    message_max: int,
    stop_with_input: bool,
) -> ServerOptions:
    from holdfast.storage.remote.handshake import read_secret
    from holdfast.storage.remote.options import ServerOptions, server_tls

    if secret_file is None and tls_client_ca is None:
        raise click.UsageError(
            "who may use the volume? name a --secret-file ('holdfast volume secret' makes one) or a --tls-client-ca"
        )
    if tls_cert is None and (tls_key is not None or tls_client_ca is not None):
        raise click.UsageError("--tls-key and --tls-client-ca need a --tls-cert")
    return ServerOptions(
        host=host,
        port=port,
        secret=read_secret(secret_file) if secret_file is not None else None,
        tls=server_tls(tls_cert, tls_key, tls_client_ca) if tls_cert is not None else None,
        read_only=read_only,
        capacity_bytes=capacity or 0,
        stop_with_input=stop_with_input,
        connections_max=connections,
        message_bytes_max=message_max,
    )


def _serve_here(directories: Sequence[Path], options: ServerOptions, ended: Ended, *, as_json: bool) -> None:
    """In this process. Of several volumes the others go on if one fails; a single one raises what it fails with."""
    from holdfast.config import StoreSettings
    from holdfast.env import REAL
    from holdfast.storage.remote.serving import Listener, Served, serve_volumes

    served = [
        Served(directory.absolute(), replace(options, port=options.port + index if options.port else 0))
        for index, directory in enumerate(directories)
    ]
    failures: list[Exception] = []

    def ready(index: int, addresses: list[tuple[str, int]]) -> None:
        directory = str(directories[index])
        for host, port in addresses:
            values = {"directory": directory, "host": host, "port": port}
            shown = f"[{host}]" if ":" in host else host
            show(values, f"listening on {shown}:{port} for '{directory}'", as_json=as_json)
        sys.stdout.flush()

    def failed(index: int, error: Exception) -> None:
        failures.append(error)
        if len(directories) > 1:
            log.error("%s", error, exc_info=None if isinstance(error, HoldfastError) else error)
            ended(index, error.exit_code if isinstance(error, HoldfastError) else HoldfastError.exit_code)

    serve_volumes(served, StoreSettings(), REAL, Listener(ready, failed))
    if failures and len(directories) == 1:
        raise failures[0]
