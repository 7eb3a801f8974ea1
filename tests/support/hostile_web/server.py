"""The server: its own process, or a thread where a process is too much, steered through a pipe.

A process of its own does not share the interpreter's lock with the code under test, and goes on while that is killed.
It ends when told to, and when the pipe closes: also when the test dies.

    with serving(plan) as server:
        crawl(server.port)
        log = server.log()
"""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from hostile_web.exchange import LogEntry, Plan
from hostile_web.protocol import Book, Conversation
from hostile_web.tls import server_context, tls_available

BACKLOG = 1024
_TRIES = 50  # to find a port that is free everywhere
_START_S = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs. One thread of the test at a time."""

    port: int
    tls_port: int  # 0: there is no TLS
    _pipe: Connection

    def log(self) -> list[LogEntry]:
        """Every request so far, in the order of arrival; those still being answered are not among them."""
        entries: list[LogEntry] = self._ask("log")
        return sorted(entries, key=lambda entry: entry.received)

    def clear_log(self) -> None:
        self._ask("clear")

    def change(self, share: float) -> None:
        self._ask("change", share)

    def _ask(self, *command: object) -> Any:
        self._pipe.send(command)
        return self._pipe.recv()


@contextmanager
def serving(plan: Plan, *, thread: bool = False) -> Iterator[Server]:
    """Runs a server for the length of the block."""
    ours, theirs = multiprocessing.Pipe()
    worker = _in_thread(plan, theirs) if thread else _in_process(plan, theirs)
    try:
        if not ours.poll(_START_S):
            raise RuntimeError(f"cannot start the test web: no answer in {_START_S:.0f} s")
        port, tls_port, trouble = ours.recv()
        if trouble:
            raise RuntimeError(f"cannot start the test web: {trouble}")
        yield Server(port, tls_port, ours)
    finally:
        ours.close()
        worker()


def _in_process(plan: Plan, pipe: Connection) -> Callable[[], None]:
    process = multiprocessing.get_context("spawn").Process(target=_run_process, args=(plan, pipe), daemon=True)
    process.start()
    pipe.close()

    def end() -> None:
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()

    return end


def _in_thread(plan: Plan, pipe: Connection) -> Callable[[], None]:
    thread = threading.Thread(target=_run, args=(plan, pipe), daemon=True)
    thread.start()
    return thread.join


def _run_process(plan: Plan, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test, which closes the pipe
    _run(plan, pipe)


def _run(plan: Plan, pipe: Connection) -> None:
    with pipe:
        try:
            listeners, port = _listeners(plan.addresses, plan.port)
        except OSError as error:
            pipe.send((0, 0, str(error)))
            return
        secure, tls_port = _listeners(plan.addresses, 0) if plan.tls and tls_available() else ([], 0)
        context = server_context("secure.test") if tls_port else None
        try:
            asyncio.run(_serve(plan, pipe, _Sockets(listeners, port, secure, tls_port, context)))
        finally:
            for listener in listeners + secure:
                listener.close()


@dataclass(frozen=True, slots=True)
class _Sockets:
    plain: list[socket.socket]
    port: int
    secure: list[socket.socket]
    tls_port: int
    context: ssl.SSLContext | None


async def _serve(plan: Plan, pipe: Connection, sockets: _Sockets) -> None:
    loop = asyncio.get_running_loop()
    offset = time.time() - time.monotonic()
    book = Book(plan.built(sockets.port, sockets.tls_port), lambda: time.monotonic() + offset)
    pairs = [*((one, None) for one in sockets.plain), *((one, sockets.context) for one in sockets.secure)]
    listening = [await loop.create_server(lambda: Conversation(book), sock=one, ssl=tls) for one, tls in pairs]
    stopped = asyncio.Event()
    loop.add_reader(pipe.fileno(), _obey, pipe, book, stopped)
    pipe.send((sockets.port, sockets.tls_port, ""))
    await stopped.wait()
    loop.remove_reader(pipe.fileno())
    for server in listening:
        server.close()
    for transport in list(book.open):
        transport.abort()
    for task in list(book.tasks):
        task.cancel()
    await asyncio.gather(*book.tasks, return_exceptions=True)


def _obey(pipe: Connection, book: Book, stopped: asyncio.Event) -> None:
    try:
        name, *arguments = pipe.recv()
        answer: object = None
        if name == "log":
            answer = book.log
        elif name == "clear":
            book.log.clear()
        else:
            book.world.change(*arguments)
        pipe.send(answer)
    except (EOFError, OSError):  # the test has closed it, or is dead
        stopped.set()


def _listeners(addresses: tuple[str, ...], wanted: int) -> tuple[list[socket.socket], int]:
    """One socket on each address, all with one port."""
    for _ in range(_TRIES):
        sockets: list[socket.socket] = []
        try:
            port = wanted
            for address in addresses:
                sockets.append(_listener(address, port))
                port = sockets[0].getsockname()[1]
            return sockets, port
        except OSError as error:
            for one in sockets:
                one.close()
            if error.errno != errno.EADDRINUSE or wanted:
                raise
    raise OSError(errno.EADDRINUSE, f"no port is free on all of {', '.join(addresses)}")


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
