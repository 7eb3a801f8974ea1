"""`holdfast cluster`, `holdfast node` and `holdfast nodes`: many machines, one archive."""

from __future__ import annotations

import functools
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import (
    PATH,
    archive_option,
    duration_option,
    json_option,
    read_names,
    watch_option,
    with_default,
)
from holdfast.cli.terminal import ask_node, note, show, show_facts, show_json, show_lines, table_lines
from holdfast.env.extras import require

if TYPE_CHECKING:
    from holdfast.web.server.supervisor import Serving

_PORT = click.IntRange(0, 65535)


def needs_extra(command: Callable[..., Any]) -> Callable[..., Any]:
    """Says how to install what is missing, if it is."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        require("cluster")
        return command(*arguments, **options)

    return run


name_option = click.option("--name", help="Of the node: a-z, 0-9 and '-'; the directory's name by default.")
address_option = click.option(
    "--address",
    metavar="HOST[:PORT]",
    default="",
    help="Where other nodes reach this one: PORT and the three after it; this machine only by default.",
)


def _name_of(directory: Path, name: str | None) -> str:
    """The given name, or one made of the directory's."""
    if name:
        return name
    text = "".join(each if each.isascii() and each.isalnum() else "-" for each in directory.resolve().name.lower())
    return text.strip("-")[:32].strip("-") or socket.gethostname().partition(".")[0].lower()[:32]


# -- the cluster -------------------------------------------------------------------------------------------------------


@click.group()
def cluster() -> None:
    """Make a cluster, let nodes join it, rebuild its NATS service."""


@cluster.command(name="init")
@click.argument("directory", metavar="DIR", type=PATH)
@with_default("--copies", default=3, help="Of every record, on distinct nodes.")
@click.option("--ack-copies", type=int, help="Nodes that must have a record before it counts as safe; 2 by default.")
@with_default("--partitions", default=1024, help="Of the URL space; fixed for good.")
@duration_option("--lease", "lease_s", default="10s", help="Until a node that is silent loses its duty.")
@duration_option(
    "--lost-after", "lost_after_s", default="1h", help="Until the records of a silent node are copied again."
)
@name_option
@address_option
@click.option("--nats", metavar="URL", default="", help="Use this NATS service; by default the first node runs one.")
@json_option
@needs_extra
def create(
    *, directory: Path, ack_copies: int | None, name: str | None, address: str, nats: str, as_json: bool, **shape: Any
) -> None:
    """Make a cluster, and DIR its first node; prints a token with which the next node joins.

    DIR may hold an archive, which keeps its records.
    """
    from holdfast.cluster.create import create_cluster, new_id
    from holdfast.cluster.settings import ClusterSettings

    safe_copies = min(2, shape["copies"]) if ack_copies is None else ack_copies
    settings = ClusterSettings(cluster=new_id(), ack_copies=safe_copies, **shape)
    name = _name_of(directory, name)
    create_cluster(directory, settings, name, address, nats)
    values = {"cluster": settings.cluster, "node": name, "token": _new_token(directory, 24.0, administrator=False)}
    show_facts(values, values, as_json=as_json)
    if not as_json:
        note(f"start it with: holdfast node run {directory}")


@cluster.command()
@archive_option
@with_default("--hours", type=click.FloatRange(0.0, 24 * 30), default=24.0, help="How long it is valid.")
@click.option("--administrator", is_flag=True, help="The node gets the keys of the cluster's authority.")
@json_option
@needs_extra
def token(*, archive: Path, hours: float, administrator: bool, as_json: bool) -> None:
    """Print a token with which one node can join. Needs the administrator right."""
    text = _new_token(archive, hours, administrator=administrator)
    show({"token": text}, text, as_json=as_json)


def _new_token(archive: Path, hours: float, *, administrator: bool) -> str:
    from holdfast.cluster.directory import NodeDirectory
    from holdfast.cluster.membership.token import JoinToken

    directory = NodeDirectory.of_member(archive)
    authority, trust, service = directory.authority(), directory.trust(), directory.service()
    return JoinToken.issue(authority, trust, service, hours=hours, administrator=administrator).text()


@cluster.command()
@archive_option
@click.option(
    "--keepers", metavar="A,B,C", default="", callback=read_names, help="Nodes that run its servers: 1, 3 or 5."
)
@click.option("--nats", metavar="URL", default="", help="Use this NATS service instead.")
@click.option("--old-is-gone", is_flag=True, help="No server of the old service runs any more, or ever will.")
@json_option
@needs_extra
def rebuild(*, archive: Path, keepers: tuple[str, ...], nats: str, old_is_gone: bool, as_json: bool) -> None:
    """Start a new NATS service, and fill it from the nodes.

    After a loss of its data, to have three servers instead of one, or to move. Fetching pauses for a lease.
    """
    if keepers and nats:
        raise click.UsageError("--keepers and --nats exclude each other")
    values = {"keepers": list(keepers), "nats": nats, "old_is_gone": old_is_gone}
    result = _send(archive, "rebuild", **values)
    service = {"service": str(result["number"]), "keepers": ", ".join(result["keepers"]) or nats}
    show_facts(result, service, as_json=as_json)
    if result["not_informed"] and not as_json:
        names = ", ".join(result["not_informed"])
        note(f"not reached: {names}; a node that does not find the service by itself needs 'node run --join TOKEN'")


@cluster.command()
@click.argument("domain")
@click.argument("parts", metavar="N", type=click.IntRange(1, 65536))
@archive_option
@json_option
@needs_extra
def split(*, domain: str, parts: int, archive: Path, as_json: bool) -> None:
    """Divide a huge domain into N parts, which several nodes hold and fetch; 1 makes it whole again.

    The parts go by the first two segments of paths. Captures move to their new holders while the cluster goes on.
    """
    result = _send(archive, "split", domain=domain, parts=parts)
    fields = {"domain": result["domain"], "parts": str(parts), "partitions": str(len(result["partitions"]))}
    show_facts(result, fields, as_json=as_json)


def _send(archive: Path, command: str, **values: Any) -> dict[str, Any]:
    from holdfast.cluster.directory import NodeDirectory

    NodeDirectory.of_member(archive)  # or an error that says so
    return ask_node(archive, command, **values)


# -- one node ----------------------------------------------------------------------------------------------------------


@click.group()
def node() -> None:
    """Run a node, and change the nodes of the cluster."""


@node.command()
@click.argument("directory", metavar="DIR", type=PATH)
@click.option(
    "--join", "token", metavar="TOKEN", help="Join the cluster first; '-': read the token from standard input."
)
@name_option
@address_option
@click.option("-p", "--port", type=_PORT, help="Port of the pages; 8080 by default, 0: any free one.")
@click.option("--replay-port", type=_PORT, help="Port of archived pages; the one after --port by default.")
@click.option("--host", help="The address of the pages to listen on; this machine only by default.")
@click.option("--workers", type=click.IntRange(0), help="Processes for the pages; 0, the default: one for each core.")
@json_option
@needs_extra
def run(*, directory: Path, token: str | None, name: str | None, address: str, as_json: bool, **chosen: Any) -> None:
    """Run the node in DIR, with its pages. Ctrl-C hands its partitions over, then stops."""
    from holdfast import config
    from holdfast.cluster.answers.index_service import IndexService
    from holdfast.cluster.answers.routes import ClusterRouter
    from holdfast.cluster.crawl.service import node_services
    from holdfast.cluster.create import join_cluster
    from holdfast.cluster.directory import NodeDirectory
    from holdfast.cluster.membership.placement import WEB_PORT
    from holdfast.cluster.membership.token import JoinToken
    from holdfast.cluster.node import ClusterNode
    from holdfast.env.paths import SETTINGS
    from holdfast.web.server.supervisor import run_server

    interrupts = _Interrupts()
    if token is not None:
        text = sys.stdin.read() if token == "-" else token
        is_new = not NodeDirectory(directory).is_member
        join_cluster(directory, JoinToken.parse(text), _name_of(directory, name) if is_new else name or "", address)
    elif name or address:
        raise click.UsageError("--name and --address are for a node that joins")
    home = NodeDirectory.of_member(directory)
    given = {name: value for name, value in chosen.items() if value is not None}
    settings = replace(config.load(directory / SETTINGS).serve, **given)
    running = ClusterNode(home, [*node_services(), IndexService])
    running.on_end = lambda: os.kill(os.getpid(), signal.SIGTERM)
    running.start()

    def announce(serving: Serving) -> None:
        running.pages = f"{serving.origins.controls}/"
        values = {"node": running.address.name, "pages": running.pages, "replay": f"{serving.origins.replay}/"}
        show_facts(values, values, as_json=as_json)

    try:
        if running.failure is None:
            peer = (running.address.listen_host or "0.0.0.0", running.address.port + WEB_PORT)
            run_server(directory, settings, announce, router=ClusterRouter(directory.resolve()), peer=peer)
    except KeyboardInterrupt:
        if running.failure is None:
            raise
    finally:
        interrupts.ends_at_once = True  # the first signal was for the pages
        running.stop()
    if running.failure is not None:
        raise running.failure
    note("stopped")


class _Interrupts:
    """Ctrl-C and SIGTERM while no pages are served: the first one stops the node, the next ends it at once.

    That loses nothing: the node's NATS server ends with it, and others take its partitions when its lease ends.
    """

    def __init__(self) -> None:
        self.ends_at_once = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        if self.ends_at_once:
            os.write(2, b"holdfast: ended at once; others take over when the lease of this node ends\n")
            os._exit(128 + number)
        self.ends_at_once = True
        raise KeyboardInterrupt


@node.command()
@archive_option
@json_option
@needs_extra
def leave(*, archive: Path, as_json: bool) -> None:
    """Let the running node leave the cluster for good: others get its records first. It stops then."""
    _send(archive, "leave")
    _done({"left": True}, "left the cluster", as_json=as_json)


@node.command()
@click.argument("name", metavar="NODE")
@archive_option
@json_option
@needs_extra
def forget(*, name: str, archive: Path, as_json: bool) -> None:
    """Remove a node for good, for example a lost one. It can never come back with its key."""
    _send(archive, "forget", node=name)
    _done({"node": name, "forgotten": True}, f"node '{name}' is forgotten", as_json=as_json)


@node.command()
@click.argument("name", metavar="NODE")
@click.argument("value", metavar="WEIGHT", type=float)
@archive_option
@json_option
@needs_extra
def weight(*, name: str, value: float, archive: Path, as_json: bool) -> None:
    """Change a node's share of the partitions, compared with others: 2 is twice that of 1."""
    _send(archive, "weight", node=name, weight=value)
    _done({"node": name, "weight": value}, f"node '{name}' has the weight {value:g}", as_json=as_json)


def _done(values: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        show_json(values)
    else:
        note(text)


@click.command()
@archive_option
@watch_option
@json_option
@needs_extra
def nodes(*, archive: Path, watch_s: float | None, as_json: bool) -> None:
    """List the nodes of the cluster, as the node that runs here sees them."""
    from holdfast.cluster.directory import NodeDirectory
    from holdfast.cluster.status import read_table

    directory = NodeDirectory.of_member(archive).path
    while True:
        table = read_table(directory)
        if as_json:
            show_lines(_json_lines(table))
        else:
            if watch_s is not None and os.isatty(1):
                click.clear()
            show_lines(_table_lines(table))
        if watch_s is None:
            return
        time.sleep(watch_s)


def _json_lines(table: dict[str, Any]) -> list[str]:
    import json

    about = {name: table[name] for name in ("cluster", "connected", "epoch", "partitions", "copies")}
    return [json.dumps({**about, **each}) for each in table["nodes"]]


def _table_lines(table: dict[str, Any]) -> list[str]:
    from holdfast.env.units import rounded_size

    heading = (
        "NODE",
        "STATE",
        "ROLE",
        "OWNED",
        "HELD",
        "BEHIND",
        "FREE",
        "CAPACITY",
        "DEAD",
        "REQUESTS",
        "PAGES/S",
        "LAG",
        "VERSION",
    )
    rows = []
    for each in table["nodes"]:
        roles = [name for name in ("administrator", "keeper") if each[name]]
        figures = [str(each[name]) for name in ("owned", "held", "behind")]
        if each.get("version") is None:
            rows.append([each["name"], each["state"], ",".join(roles) or "-", *figures, *["-"] * 6, "-"])
            continue
        sizes = [rounded_size(each[name]) for name in ("free_bytes", "capacity_bytes", "dead_bytes")]
        more = [str(sum(each["outstanding"].values())), f"{each['pages_per_s']:.1f}", f"{each['lag_s']:.0f} s"]
        rows.append([each["name"], each["state"], ",".join(roles) or "-", *figures, *sizes, *more, each["version"]])
    lines = table_lines(heading, rows, left=3, tail=1)
    if not table["connected"]:
        lines.append("no connection to the NATS service: the table may be old")
    elif table["owned"] < table["partitions"]:
        lines.append(f"{table['partitions'] - table['owned']} of {table['partitions']} partitions have no owner")
    return lines
