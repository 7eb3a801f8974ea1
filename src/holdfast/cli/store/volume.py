"""`holdfast volume`: create, list, add, change, move, compact, repair and serve volumes."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from holdfast.cli.options import (
    archive_option,
    json_option,
    min_dead_option,
    rate_limit_option,
    shape_options,
    size_option,
    store_options,
    watch_option,
    with_default,
)
from holdfast.cli.terminal import (
    Interruption,
    counted,
    note,
    reading_contents,
    show,
    show_fault,
    show_json,
    show_lines,
    table_lines,
    writing,
    writing_contents,
)
from holdfast.config import StoreSettings, VolumeSettings
from holdfast.config.address import PORT_MAX
from holdfast.env.units import rounded_size
from holdfast.errors import Damaged, HoldfastError, VolumeDown
from holdfast.model import VolumeState

if TYPE_CHECKING:
    from holdfast.archive import Archive, Connection, VolumeReport
    from holdfast.storage.server.options import ServerOptions

log = logging.getLogger("holdfast.server")

_LOOK_S = 0.1  # poll interval for Ctrl-C
_WORDS = 4  # columns at the beginning that hold no numbers
_HEADING = ("NAME", "ORGANIZATION", "STATE", "ACTIVITY", "BLOCKS", "ON DISK", "CAPACITY", "FREE", "DEAD", "WAITING")
_WIDE = ("ROLE", "WEIGHT", "CLIENTS", "REFERENCES", "REPLICAS", "CONTENTS", "RECLAIMABLE", "SAVED BY DUPLICATES")
_PLACE = "PLACE"
_DEFAULT_LISTEN = "127.0.0.1:9400"
_MESSAGE_BYTES_MIN = 64 << 10
_FILE = click.Path(path_type=Path, dir_okay=False)
_DIRECTORY = click.Path(path_type=Path, file_okay=False)

Ended = Callable[[int, int], None]  # takes the number of a volume that is no longer served, and the exit code


@click.group()
def volume() -> None:
    """List, add, change, move and compact volumes; serve them to other machines."""


@volume.command("list")
@store_options
@click.option("--wide", is_flag=True, help="Print all columns.")
@watch_option
@json_option
def list_(*, archive: Path, connector: Path | None, wide: bool, watch_s: float | None, as_json: bool) -> None:
    """Print a table of the volumes: what they are doing, how full and how fragmented they are."""
    with reading_contents(archive, connector) as opened:

        def lines() -> list[str]:
            reports = list(opened.volumes())
            return [json.dumps(values_of(each)) for each in reports] if as_json else table_of(reports, wide=wide)

        if watch_s is None:
            show_lines(lines())
        else:
            _watch(lines, watch_s, in_place=sys.stdout.isatty() and not as_json)


def _watch(lines: Callable[[], list[str]], every_s: float, *, in_place: bool) -> None:
    """Prints the lines at intervals until Ctrl-C, the normal end. On a terminal they are redrawn in place."""
    with suppress(KeyboardInterrupt), Interruption() as interruption, interruption.displayed(), ExitStack() as stack:
        draw = stack.enter_context(_drawn()) if in_place else show_lines
        while True:
            draw(lines())
            until_s = time.monotonic() + every_s
            while (left_s := until_s - time.monotonic()) > 0:
                interruption.checkpoint()
                time.sleep(min(left_s, _LOOK_S))


@contextmanager
def _drawn() -> Iterator[Callable[[list[str]], None]]:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda lines: live.update(
            Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines)), refresh=True
        )


def values_of(report: VolumeReport) -> dict[str, Any]:
    activity = report.activity
    values = asdict(report.settings) | {"up": report.stat is not None, "activity": activity.state}
    if report.stat is None:
        return values | {"reason": report.reason}
    more = {
        "outstanding": activity.outstanding,
        "clients": activity.clients,
        "capacity_bytes": report.capacity_bytes,
        "fragmentation": report.fragmentation,
        "saved_by_duplicates_bytes": report.stat.referenced_bytes - report.stat.content_bytes,
    }
    return values | asdict(report.stat) | more


def table_of(reports: Sequence[VolumeReport], *, wide: bool) -> list[str]:
    """A table, and below it why volumes are down."""
    heading = [*_HEADING, *(_WIDE if wide else ()), _PLACE]
    rows = [[*_row(each), *(_more(each) if wide else ()), each.place] for each in reports]
    lines = table_lines(heading, rows, left=_WORDS, tail=1)
    down = [f"{each.settings.name} is down: {each.reason}" for each in reports if each.stat is None]
    return [*lines, "", *down] if down else lines


def _row(report: VolumeReport) -> list[str]:
    settings, stat, activity = report.settings, report.stat, report.activity
    if stat is None or report.capacity_bytes is None or report.fragmentation is None:
        words = [settings.name, settings.organization, settings.state.value, activity.state]
        return [*words, *["-"] * (len(_HEADING) - _WORDS)]
    return [
        settings.name,
        stat.organization,
        settings.state.value,
        activity.state,
        f"{stat.blocks:,}",
        rounded_size(stat.disk_bytes),
        rounded_size(report.capacity_bytes),
        rounded_size(stat.free_bytes),
        f"{report.fragmentation:.0%}",
        f"{activity.outstanding:,}",
    ]


def _more(report: VolumeReport) -> list[str]:
    stat = report.stat
    words = [report.settings.role or "-", f"{report.settings.weight:g}"]
    if stat is None:
        return [*words, *["-"] * (len(_WIDE) - len(words))]
    return [
        *words,
        f"{report.activity.clients:,}",
        f"{stat.references:,}",
        f"{stat.replicas:,}",
        rounded_size(stat.content_bytes),
        rounded_size(stat.dead_bytes),
        rounded_size(stat.referenced_bytes - stat.content_bytes),
    ]


# -- add, set-state ----------------------------------------------------------------------------------------------------


@volume.command()
@archive_option
@click.argument("name")
@shape_options
@with_default("--weight", type=click.FloatRange(0), default=1.0, help="For weighted placement.")
@click.option("--path", default="", help="Its directory, if elsewhere; relative to the archive.")
@click.option("--address", metavar="HOST:PORT", default="", help="The volume server that has it; creates nothing.")
@click.option("--url", default="", help="Object store for its segments: s3://bucket/prefix, file:///directory.")
@click.option("--role", type=click.Choice(["update", "read"]), help="Takes new contents, or those of an update.")
@click.option("--force", is_flag=True, help="Add it even if the server at --address does not answer.")
@json_option
def add(*, archive: Path, name: str, role: str | None, force: bool, as_json: bool, **chosen: Any) -> None:
    """Add an empty volume, or one that a server has. New contents may go there at once."""
    settings = VolumeSettings(name, role=role or "", **chosen)
    with writing(archive) as (opened, _):
        opened.add_volume(settings, force=force)
    where = f"at {settings.address}" if settings.address else f"of organization {settings.organization}"
    show(asdict(settings), f"added volume '{name}' {where}", as_json=as_json)


@volume.command("set-state")
@store_options
@click.argument("name")
@click.argument("state", type=click.Choice([state.value for state in VolumeState]))
@json_option
def set_state(*, archive: Path, connector: Path | None, name: str, state: str, as_json: bool) -> None:
    """Let a volume take new contents, or make it read-only."""
    with writing_contents(archive, connector) as (opened, _):
        opened.set_state(name, VolumeState(state))
    show({"name": name, "state": state}, f"volume '{name}' is {state}", as_json=as_json)


@volume.command("take-over")
@archive_option
@click.argument("name")
@json_option
def take_over(*, archive: Path, name: str, as_json: bool) -> None:
    """Make this archive the owner of a volume in an object store.

    For a volume whose directory or machine is lost: what was uploaded is there. If the former owner still runs, it can
    write no more.
    """
    from holdfast.archive.volumes import take_over as take

    take(archive, name)
    show({"name": name}, f"volume '{name}' belongs to '{archive}' now", as_json=as_json)


# -- migrate, compact, train -------------------------------------------------------------------------------------------


@volume.command()
@store_options
@click.argument("name")
@click.option("--to", "targets", metavar="NAME", multiple=True, help="Only to this volume; may be repeated.")
@json_option
def migrate(*, archive: Path, connector: Path | None, name: str, targets: tuple[str, ...], as_json: bool) -> None:
    """Make a volume read-only and move all its blocks to others; their contentkeys stay valid.

    Readers are not affected. After an interruption, run it again to continue.
    """
    with (
        writing_contents(archive, connector) as (opened, interruption),
        interruption.progress_bar(f"migrating {name}") as progress,
    ):
        moved = opened.migrate(name, targets, progress)
    text = f"moved {counted(moved.blocks, 'block')} ({rounded_size(moved.bytes)}) out of volume '{name}'"
    show({"name": name} | asdict(moved), text, as_json=as_json)


@volume.command()
@store_options
@click.argument("names", metavar="[NAME]...", nargs=-1)
@min_dead_option
@json_option
def compact(*, archive: Path, connector: Path | None, names: tuple[str, ...], min_dead: float, as_json: bool) -> None:
    """Reclaim the space of removed contents, in all volumes or in those named."""
    with writing_contents(archive, connector) as (opened, interruption):
        for name in _existing(opened, names):
            with interruption.progress_bar(f"compacting {name}") as progress:
                done = opened.compact(name, min_dead, progress)
            reclaimed = done.bytes_before - done.bytes_after
            text = f"{name}: {counted(done.files, 'file')} rewritten, {rounded_size(reclaimed)} reclaimed"
            show({"name": name} | asdict(done), text, as_json=as_json)


@volume.command()
@store_options
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
def train(*, archive: Path, connector: Path | None, names: tuple[str, ...], as_json: bool) -> None:
    """Train a compression dictionary from a volume's contents, for later ones."""
    with writing_contents(archive, connector) as (opened, interruption):
        for name in _existing(opened, names):
            dictionary = opened.train(name)
            values = {"name": name, "dictionary": f"{dictionary.id:08x}", "bytes": len(dictionary.data)}
            text = f"{name}: dictionary {dictionary.id:08x} of {rounded_size(len(dictionary.data))}"
            show(values, text, as_json=as_json)
            interruption.checkpoint()


def _existing(archive: Archive | Connection, names: tuple[str, ...]) -> list[str]:
    """The names, if each is that of a volume that is up; without names, all that are up."""
    return [archive.instance.volume(name).name for name in names] or list(archive.instance.volumes)


# -- repair, rebalance, mend -------------------------------------------------------------------------------------------


@volume.command()
@store_options
@click.argument("names", metavar="[NAME]...", nargs=-1)
@json_option
def repair(*, archive: Path, connector: Path | None, names: tuple[str, ...], as_json: bool) -> None:
    """Make volumes agree again after one was down or lost: restore from replicas, and complete them.

    All volumes are repaired, or those named. Clients continue meanwhile. After an interruption, run it again. Exits
    with 5 if a content is lost, with 9 if a volume is down: the others are repaired then.
    """
    from holdfast.storage.maintenance.merge import Merger
    from holdfast.storage.maintenance.repair import Restorer

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


@volume.command()
@store_options
@rate_limit_option
@json_option
def rebalance(*, archive: Path, connector: Path | None, rate_limit: int | None, as_json: bool) -> None:
    """Move blocks to where new ones would be placed now, after a volume was added; their contentkeys stay valid.

    Clients continue meanwhile. After an interruption, run it again to continue. Exits with 9 if a volume is down: then
    not everything was moved.
    """
    from holdfast.storage.maintenance.migrate import Rebalancer

    with (
        writing_contents(archive, connector) as (opened, interruption),
        interruption.progress_bar("rebalancing") as progress,
    ):
        done = Rebalancer(opened.instance, rate_limit).run(progress)
    text = f"moved {done.moved} of {counted(done.blocks, 'block')} ({rounded_size(done.bytes)})"
    show(asdict(done), text, as_json=as_json)
    _require_all_up(done.down)


def _require_all_up(down: Sequence[str]) -> None:
    """Raises VolumeDown if something is left to be done."""
    if down:
        raise VolumeDown(f"{', '.join(down)} {'was' if len(down) == 1 else 'were'} down; run it again afterwards")


@volume.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@json_option
def mend(*, directory: Path, as_json: bool) -> None:
    """Repair the files of a volume on this machine, while no server serves it.

    What it lost for good can come back from replicas: start its server, then run 'holdfast volume repair'.
    """
    from holdfast.env import REAL
    from holdfast.storage.maintenance.repair import mend_volume

    with Interruption() as interruption, interruption.progress_bar("checking") as progress:
        mended = mend_volume(directory.absolute(), REAL, progress)
    for fault in mended.faults:
        show_fault(fault, str(fault), as_json=as_json)
    lost = f"; {counted(len(mended.lost), 'block')} lost, 'holdfast volume repair' restores them from replicas"
    if as_json:
        show_json({"event": "summary", "faults": len(mended.faults), "lost": len(mended.lost)})
    else:
        note(f"{counted(len(mended.faults), 'fault')} mended{lost if mended.lost else ''}")


# -- init, secret, serve -----------------------------------------------------------------------------------------------


@volume.command()
@click.argument("directory", type=_DIRECTORY)
@shape_options
@with_default("--signature", default="sha256", help="The algorithm that names contents.")
@json_option
def init(*, directory: Path, signature: str, as_json: bool, **shape: Any) -> None:
    """Create an empty volume for a volume server."""
    from holdfast.env import REAL
    from holdfast.storage.signature import find_signature
    from holdfast.storage.volumes.organizations import create_volume

    find_signature(signature)
    settings = VolumeSettings("volume", **shape)
    create_volume(directory.absolute(), settings, StoreSettings(signature=signature), REAL)
    values = {"directory": str(directory), **shape, "signature": signature}
    show(values, f"made a volume of organization {settings.organization} in '{directory}'", as_json=as_json)


@volume.command()
@click.argument("file", type=_FILE)
@json_option
def secret(*, file: Path, as_json: bool) -> None:
    """Create a secret that volume servers and their clients share, in a file that only you can read."""
    from holdfast.env import REAL
    from holdfast.storage.server.handshake import make_secret

    make_secret(file, REAL)
    show({"file": str(file)}, f"made a secret in '{file}'", as_json=as_json)


@volume.command()
@click.argument("directories", metavar="DIR...", type=_DIRECTORY, nargs=-1, required=True)
@with_default(
    "--listen",
    metavar="HOST:PORT",
    default=_DEFAULT_LISTEN,
    help="Several volumes listen on this port and the ones after it; port 0: any free ports.",
)
@click.option("--secret-file", metavar="FILE", type=_FILE, help="The secret of clients; see 'volume secret'.")
@click.option("--tls-cert", metavar="FILE", type=_FILE, help="The server's certificate; encrypts connections.")
@click.option("--tls-key", metavar="FILE", type=_FILE, help="Its key, if it is not in the same file.")
@click.option("--tls-client-ca", metavar="FILE", type=_FILE, help="Require client certificates signed by this one.")
@click.option("--read-only", is_flag=True, help="Take no new contents.")
@size_option("--capacity", "capacity_bytes", help="The volume is full at this size, such as 500G.")
@with_default("--connections", "connections_max", type=click.IntRange(1), default=1024, help="At most, at a time.")
@size_option("--message-max", "message_bytes_max", default="128M", help="Size limit of one request.")
@click.option("--processes", metavar="N", type=click.IntRange(1), help="Number of them; one for each core by default.")
@click.option("--stop-with-input", is_flag=True, hidden=True)  # for processes that another one starts
@json_option
def serve(*, directories: tuple[Path, ...], listen: str, processes: int | None, as_json: bool, **chosen: Any) -> None:
    """Serve volumes to other machines; several of them share as many processes as there are cores.

    Clients authenticate by a shared secret, by a certificate, or by both. Ctrl-C stops the server after the requests
    in progress.
    """
    from holdfast.storage.volumes.remote.connection import split_address

    if processes is not None and processes > len(directories):
        raise click.UsageError(f"--processes {processes}: there are only {len(directories)} volumes")
    host, port = split_address(listen)
    if port + len(directories) - 1 > PORT_MAX:
        raise click.UsageError(f"--listen {listen}: {len(directories)} volumes need ports beyond {PORT_MAX}")
    if chosen["message_bytes_max"] < _MESSAGE_BYTES_MIN:
        raise click.UsageError(f"--message-max: no content would be taken with less than {_MESSAGE_BYTES_MIN} bytes")
    options = _options(host, port, chosen | {"capacity_bytes": chosen["capacity_bytes"] or 0})
    failed: list[str] = []

    def ended(index: int, code: int) -> None:
        """Reports at once: the others may run for long."""
        failed.append(f"'{directories[index]}' (exit {code})")
        note(f"no longer served: {failed[-1]}")

    count = processes or min(len(directories), len(os.sched_getaffinity(0)))
    if count > 1:
        _serve_in_processes(directories, count, (host, port), ended)
    else:
        _serve_here(directories, options, _report_to_parent if options.stop_with_input else ended, as_json=as_json)
    if failed:
        raise click.ClickException(f"not all volumes were served to the end: {', '.join(failed)}")
    note("stopped")


def _options(host: str, port: int, chosen: dict[str, Any]) -> ServerOptions:
    from holdfast.storage.server.handshake import read_secret
    from holdfast.storage.server.options import ServerOptions, server_tls

    secret_file, cert, key, client_ca = map(chosen.pop, ("secret_file", "tls_cert", "tls_key", "tls_client_ca"))
    if secret_file is None and client_ca is None:
        raise click.UsageError(
            "who may use the volume? name a --secret-file ('holdfast volume secret' makes one) or a --tls-client-ca"
        )
    if cert is None and (key is not None or client_ca is not None):
        raise click.UsageError("--tls-key and --tls-client-ca need a --tls-cert")
    secret = read_secret(secret_file) if secret_file is not None else None
    tls = server_tls(cert, key, client_ca) if cert is not None else None
    return ServerOptions(host=host, port=port, secret=secret, tls=tls, **chosen)


def _serve_here(directories: Sequence[Path], options: ServerOptions, ended: Ended, *, as_json: bool) -> None:
    """Serves in this process. If one of several volumes fails, the others continue; a single one raises its error."""
    from holdfast.env import REAL
    from holdfast.storage.server.main import serve_volumes

    served = [
        (directory.absolute(), replace(options, port=options.port + index if options.port else 0))
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

    serve_volumes(served, StoreSettings(), REAL, ready, failed)
    if failures and len(directories) == 1:
        raise failures[0]


# -- the processes of one volume serve ---------------------------------------------------------------------------------


def _serve_in_processes(directories: Sequence[Path], count: int, address: tuple[str, int], ended: Ended) -> None:
    """Each process serves some of the volumes. Returns when all have ended. One that fails does not stop the others.

    The standard input of each process is a socket. The process stops when its input ends, for whatever reason, and
    reports through it which of its volumes it has stopped serving, with the exit code. `ended` is called in any thread.
    """
    host, port = address
    shown = f"[{host}]" if ":" in host else host
    verbosity = ["-v"] * int(click.get_current_context().find_root().params.get("verbose", 0))
    program = [sys.executable, "-m", "holdfast", *verbosity, "volume", "serve", "--stop-with-input", "--processes=1"]
    program += _options_given()
    children: list[_Child] = []

    def pass_on(number: int, _: object) -> None:
        for child in children:
            child.process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    for index in range(count):  # volumes that follow each other, so that their ports do
        numbers = range(index * len(directories) // count, (index + 1) * len(directories) // count)
        listen = f"{shown}:{port + numbers.start if port else 0}"
        chosen = [str(directories[number]) for number in numbers]
        children.append(_Child([*program, "--listen", listen, "--", *chosen], numbers))
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda child: child.watch(ended), children))


def _report_to_parent(index: int, code: int) -> None:
    """This process has stopped serving a volume."""
    with suppress(OSError):  # the parent is gone
        os.write(sys.stdin.fileno(), f"{index} {code}\n".encode())


class _Child:
    """A process that serves the volumes of these numbers."""

    def __init__(self, command: list[str], numbers: range) -> None:
        self._numbers = numbers
        self._reports, theirs = socket.socketpair()
        with theirs:
            # In its own session, or Ctrl-C would reach it twice. Its input ends with this process.
            self.process = subprocess.Popen(command, stdin=theirs.fileno(), start_new_session=True)

    def watch(self, ended: Ended) -> None:
        """Until the process has ended."""
        left = set(self._numbers)
        with self._reports, self._reports.makefile(encoding="ascii") as lines:
            for line in lines:
                index, code = map(int, line.split())
                left.discard(self._numbers[index])
                ended(self._numbers[index], code)
            code = self.process.wait()
        for number in sorted(left) if code else ():
            ended(number, code)


def _options_given() -> list[str]:
    """The options given to this command, without the ones that differ between processes."""
    context = click.get_current_context()
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not isinstance(option, click.Option) or not given or name in ("listen", "processes"):
            continue
        words += [option.opts[0]] if option.is_flag else [option.opts[0], str(context.params[name])]
    return words
