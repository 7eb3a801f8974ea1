"""`holdfast volume init`, `secret` and `serve`: a volume of its own, given out to other machines.

The processes of one `holdfast volume serve`: each serves some of the volumes, and all of them stop with the first.

The standard input of a process that is started for this is a socket. The process stops when its input ends, however
that happened, and says through it which of its volumes it serves no more, and with which exit code.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from holdfast.cli.options import Shape, json_option, read_bytes, shape_options
from holdfast.cli.output import note, show
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.storage.server.options import ServerOptions


Ended = Callable[[int, int], None]  # told the number of a volume that is served no more, and the exit code


def serve_apart(directories: Sequence[Path], count: int, address: tuple[str, int], ended: Ended) -> None:
    """In so many processes; returns when all have ended. Volumes go on if others fail. `ended`: in any thread."""
    host, port = address
    shown = f"[{host}]" if ":" in host else host
    program = [sys.executable, "-m", "holdfast", *_verbosity(), "volume", "serve", "--stop-with-input", "--processes=1"]
    program += _options_given()
    children: list[_Child] = []

    def pass_on(number: int, _: object) -> None:
        for child in children:
            child.process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    for numbers in _shares(len(directories), count):
        listen = f"{shown}:{port + numbers.start if port else 0}"
        chosen = [str(directories[number]) for number in numbers]
        children.append(_Child([*program, "--listen", listen, "--", *chosen], numbers))
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda child: child.watch(ended), children))


def tell_parent(index: int, code: int) -> None:
    """A volume of this process is served no more."""
    with suppress(OSError):  # nobody is there to be told
        os.write(sys.stdin.fileno(), f"{index} {code}\n".encode())


class _Child:
    """A process that serves the volumes of these numbers."""

    def __init__(self, command: list[str], numbers: range) -> None:
        self._numbers = numbers
        self._told, theirs = socket.socketpair()
        with theirs:
            # In a session of its own, or Ctrl-C would reach it twice; its input ends with this process.
            self.process = subprocess.Popen(command, stdin=theirs.fileno(), start_new_session=True)

    def watch(self, ended: Ended) -> None:
        """Until the process has ended."""
        left = set(self._numbers)
        with self._told, self._told.makefile(encoding="ascii") as lines:
            for line in lines:
                index, code = map(int, line.split())
                left.discard(self._numbers[index])
                ended(self._numbers[index], code)
            code = self.process.wait()
        for number in sorted(left) if code else ():
            ended(number, code)


def _shares(volumes: int, processes: int) -> Iterator[range]:
    """Volumes that follow each other, so that their ports do."""
    for index in range(processes):
        yield range(index * volumes // processes, (index + 1) * volumes // processes)


def _verbosity() -> list[str]:
    return ["-v"] * int(click.get_current_context().find_root().params.get("verbose", 0))


def _options_given() -> list[str]:
    """The options of this command as they were given, but for those that differ from process to process."""
    context = click.get_current_context()
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not isinstance(option, click.Option) or not given or name in ("listen", "processes"):
            continue
        words += [option.opts[0]] if option.is_flag else [option.opts[0], str(context.params[name])]
    return words


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
    from holdfast.storage.signature import find_signature
    from holdfast.storage.volumes.organizations import create_volume

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
    from holdfast.storage.server.handshake import make_secret

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
    from holdfast.storage.volumes.remote.connection import split_address

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
    from holdfast.storage.server.handshake import read_secret
    from holdfast.storage.server.options import ServerOptions, server_tls

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
    from holdfast.storage.server.main import Served, ServerObserver, serve_volumes

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

    serve_volumes(served, StoreSettings(), REAL, ServerObserver(ready, failed))
    if failures and len(directories) == 1:
        raise failures[0]
