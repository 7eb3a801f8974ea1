"""The group `holdfast`, and the edge of the process: every error becomes one line and an exit code."""

from __future__ import annotations

import logging
import os
import re
import sys
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

import click

import holdfast
from holdfast.cli.options import ARCHIVE_HELP, ARCHIVE_VARIABLE, PATH
from holdfast.cli.terminal import visible
from holdfast.env.extras import extra_of
from holdfast.errors import HoldfastError, MissingExtra, of_the_system

INTERRUPTED = 130  # a shell's exit code after SIGINT
BROKEN_PIPE = 1  # as click has it
_CLICK_NUMBER = re.compile(r"is not a valid (integer|float)(?: range)?\b")
_CLICK_RANGE = re.compile(r"is not in the range (?:([\d.-]+)(<=?))?x(?:([<>]=?)([\d.-]*\d))?")

_COMMANDS = {  # where each is below holdfast.cli
    "init": "archive.archive.init",
    "crawl": "crawl.crawl.crawl",
    "import": "captures.import_.import_",
    "export": "captures.export.export",
    "stream": "captures.stream.stream",
    "get": "captures.get.get",
    "diff": "captures.diff.diff",
    "cdx": "captures.cdx.cdx",
    "search": "search.search",
    "sql": "search.sql",
    "study": "study.study.study",
    "sample": "study.sample.sample",
    "plan": "study.plan.plan",
    "rm": "captures.rm.rm",
    "index": "archive.index.index",
    "update": "archive.archive.update",
    "batch": "archive.batch.batch",
    "reindex": "archive.archive.reindex",
    "content": "store.content.content",
    "volume": "store.volume.volume",
    "serve": "serve.serve",
    "cluster": "cluster.cluster",
    "node": "cluster.node",
    "nodes": "cluster.nodes",
    "check": "archive.archive.check",
    "status": "archive.archive.status",
    "config": "archive.config.config",
    "doctor": "archive.doctor.doctor",
    "demo": "demo.demo",
}


class LazyGroup(click.Group):
    """Imports the module of a command when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggests commands whose names are like a mistyped one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            close = get_close_matches(args[0], _COMMANDS)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise click.UsageError(error.message + hint, ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].rpartition(".")
        command = getattr(import_module(f"holdfast.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "-a", "--archive", type=PATH, envvar=ARCHIVE_VARIABLE, show_envvar=True, default=Path(), help=ARCHIVE_HELP
)
@click.option("-v", "--verbose", count=True, help="Print more on standard error; -vv prints most.")
@click.version_option(holdfast.__version__, message="%(prog)s %(version)s")
def cli(*, archive: Path, verbose: int) -> None:
    """Keep the web: every content once, never lost."""
    log = logging.getLogger("holdfast")
    log.addHandler(_StandardError())
    log.setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)])


class _StandardError(logging.Handler):
    """Looks up `sys.stderr` for each line, because a progress bar replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(self.format(record))


def main() -> None:
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
    except ModuleNotFoundError as error:
        if (extra := extra_of(error.name or "")) is None:
            raise
        _say(f"'{error.name}' is not installed; run: pip install 'holdfast[{extra}]'")
        return MissingExtra.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter fails to flush it
        return BROKEN_PIPE
    except OSError as error:
        known = of_the_system(error)
        _say(str(known))
        return known.exit_code
    return outcome if isinstance(outcome, int) else 0


def _say(message: str) -> None:
    click.echo(f"holdfast: {message}", err=True)


def _plain_number(found: re.Match[str]) -> str:
    return f"is not a {'whole ' if found[1] == 'integer' else ''}number"


def _plain_range(found: re.Match[str]) -> str:
    low, above, sign, bound = found.groups()
    words = {"<=": "at most", "<": "less than", ">=": "at least", ">": "more than"}
    limits = [f"{words[above.replace('<', '>')]} {low}"] if low else []
    return "must be " + " and ".join([*limits, f"{words[sign]} {bound}"] if sign else limits)


def _explain(error: click.ClickException) -> None:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    _say(_CLICK_RANGE.sub(_plain_range, _CLICK_NUMBER.sub(_plain_number, error.format_message())))
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"Try '{error.ctx.command_path} --help'.", err=True)
