"""Commands to the running process of a node: one JSON object a line, over a socket in its directory.

Who can write to the directory may give commands. The socket is reached through its directory's descriptor, because
the kernel allows paths of 107 bytes only.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.cluster.membership.admission import error_response, raised
from holdfast.env.paths import CONTROL
from holdfast.errors import ClusterDown, HoldfastError

_LINE_BYTES_MAX = 64 << 20  # an import names all of its files
_LOOK_S = 5.0

Command = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def serve_control(directory: Path, handle: Command) -> asyncio.Server:
    """Answers commands until the server is closed."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            try:
                response = json.dumps(await handle(json.loads(line))).encode()
            except HoldfastError as error:
                response = error_response(error)
            except asyncio.CancelledError:  # the node stops: its event loop ends after this
                response = error_response(ClusterDown("the node was stopped meanwhile: start it, and give it again"))
            writer.write(response + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass  # it went away, or sent something else
        finally:
            writer.close()

    (directory / CONTROL).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    with short_address(directory / CONTROL) as address:
        listener.bind(address)
    (directory / CONTROL).chmod(0o600)
    return await asyncio.start_unix_server(connected, sock=listener, limit=_LINE_BYTES_MAX)


def send_command(directory: Path, command: dict[str, Any], timeout_s: float | None = 60.0) -> dict[str, Any]:
    """The response of the node's process. Raises ClusterDown if none runs, and what the command raises."""
    try:
        with _connected(directory, timeout_s) as connection:
            connection.sendall(json.dumps(command).encode() + b"\n")
            line = connection.makefile("rb").readline()
    except TimeoutError:
        raise ClusterDown(f"the node in '{directory.parent}' does not respond") from None
    except OSError:
        raise ClusterDown(f"the node in '{directory.parent}' does not run: 'holdfast node run' starts it") from None
    if not line:
        raise ClusterDown(f"the node in '{directory.parent}' ended before it responded")
    return raised(json.loads(line))


def is_running(directory: Path) -> bool:
    """Whether the process of the node in this directory runs."""
    try:
        _connected(directory, _LOOK_S).close()
    except OSError:
        return False
    return True


def _connected(directory: Path, timeout_s: float | None) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout_s)
    try:
        with short_address(directory / CONTROL) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """A path of any length as the address of a socket: through the descriptor of its directory."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)
