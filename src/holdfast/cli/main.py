"""The group `holdfast`, and the edge of the process: every failure becomes one line and an exit code."""

from __future__ import annotations

import errno
import logging
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

import click

import holdfast
from holdfast.cli.options import ARCHIVE_HELP, ARCHIVE_TYPE
from holdfast.cli.output import visible
from holdfast.config import ARCHIVE_VARIABLE
from holdfast.errors import Denied, HoldfastError, NotFound, VolumeFull

INTERRUPTED = 130  # what a shell shows for a program that SIGINT ended
BROKEN_PIPE = 1  # as click has it

_COMMANDS = {
    "init": "init",
    "crawl": "crawl",
    "import": "import_",  # as Python would not take the word for a name
    "export": "export",
    "stream": "stream",
    "get": "get",
    "diff": "diff",
    "cdx": "cdx",
    "search": "search",
    "sql": "sql",
    "rm": "rm",
    "index": "index",
    "update": "update",
    "batch": "batch",
    "reindex": "reindex",
    "content": "content",
    "volume": "volume",
    "serve": "serve",
    "check": "check",
    "status": "status",
    "demo": "demo",
}


class LazyGroup(click.Group):
    """Imports the module of a command when the command is asked for; what it holds there has the module's name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = _COMMANDS[cmd_name]
        command = getattr(import_module(f"holdfast.cli.{module}"), module)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "-a",
    "--archive",
    type=ARCHIVE_TYPE,
    envvar=ARCHIVE_VARIABLE,
    show_envvar=True,
    default=Path(),
    help=ARCHIVE_HELP,
)
@click.option("-v", "--verbose", count=True, help="Say more on standard error; -vv says most.")
@click.version_option(holdfast.__version__, message="%(prog)s %(version)s")
def cli(*, archive: Path, verbose: int) -> None:
    """Keep the web: every content once, never lost."""
    _show_log(verbose)


class _StandardError(logging.Handler):
    """Looks up `sys.stderr` for each line, because a progress bar stands in for it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(self.format(record))


def _show_log(verbose: int) -> None:
    log = logging.getLogger("holdfast")
    log.addHandler(_StandardError())
    log.setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)])


def main() -> None:
    """The entry point of the program `holdfast`."""
    sys.exit(run())


def run() -> int:
    """Runs the command in `sys.argv` and returns the exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files need not be UTF-8
    try:
        outcome = cli.main(prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        _explain(error)
        return error.exit_code
    except HoldfastError as error:
        _say(visible(str(error)))
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter fails to flush it
        return BROKEN_PIPE
    except OSError as error:
        reason = error.strerror or str(error)
        _say(f"cannot use '{error.filename}': {reason}" if error.filename else reason)
        return _exit_code(error)
    return outcome if isinstance(outcome, int) else 0


def _say(message: str) -> None:
    click.echo(f"holdfast: {message}", err=True)


def _explain(error: click.ClickException) -> None:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    _say(error.format_message())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"Try '{error.ctx.command_path} --help'.", err=True)


def _exit_code(error: OSError) -> int:
    """That of Holdfast's own error for the same trouble."""
    match error.errno:
        case errno.ENOENT:
            return NotFound.exit_code
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return Denied.exit_code
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return VolumeFull.exit_code
        case _:
            return HoldfastError.exit_code
