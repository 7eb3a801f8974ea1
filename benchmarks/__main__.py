"""`python -m benchmarks`: one command for each benchmark, imported when it is run."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import click

from holdfast.errors import HoldfastError

_BYTECODE = Path("~/.cache/holdfast/bytecode")
NAMES = ("quick", "store", "archive", "crawl", "replay", "webstore", "webbase", "query", "stream", "cluster")


class Benchmarks(click.Group):
    """Loads a benchmark when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in NAMES:
            return None
        found: click.Command = import_module(f"benchmarks.{cmd_name}.command").command
        return found


@click.group(cls=Benchmarks)
def bench() -> None:
    """Measure Holdfast beside its peers, in one run on this machine.

    The exit code is 1 if Holdfast itself failed to run; a missed target is reported and is no failure.
    """


def main() -> None:
    # An installed package comes with its bytecode; a source tree is compiled at every start where none may be written.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(_BYTECODE.expanduser()))
    try:
        bench(prog_name="python -m benchmarks")
    except HoldfastError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
