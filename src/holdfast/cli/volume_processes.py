"""The processes of one `holdfast volume serve`: each serves some of the volumes, and all of them stop with the first.

The standard input of a process that is started for this is a socket. The process stops when its input ends, however
that happened, and says through it which of its volumes it serves no more, and with which exit code.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import click
from click.core import ParameterSource

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
