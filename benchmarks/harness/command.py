"""What the commands have in common: options, known names, progress, and what becomes of the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import click

from benchmarks.harness.corpus import Corpus, Limits, choose
from benchmarks.harness.figure import OURS
from benchmarks.harness.machine import machine_facts
from benchmarks.harness.process import Unavailable
from benchmarks.harness.report import Report
from benchmarks.harness.run import scratch
from holdfast.errors import UnknownName, UsageError

CORPUS_DEFAULT = Path("~/.cache/holdfast/corpus")  # where `make corpus` puts it
CORPUS_BYTES_MAX = 1 << 40  # nearly all read page by page

_PATH = click.Path(path_type=Path)
corpus_option = click.option("--corpus", type=_PATH, help="Directory of pages, any files.")
workload_option = click.option("--workload", metavar="WORKLOAD", multiple=True, help="Measure these workloads only.")
pywb_option = click.option(
    "--pywb", metavar="PYTHON", help="An interpreter that has pywb; default is the one that runs this."
)
_REPORT_OPTIONS = (
    click.option(
        "--repeat", type=click.IntRange(1), default=3, show_default=True, help="The median of so many counts."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables."),
    click.option("--output", type=_PATH, help="Directory for the report as JSON and as a chart."),
    click.option("--work-dir", type=_PATH, help="Where files and archives live meanwhile."),
)
F = TypeVar("F", bound=Callable[..., None])


def report_options(command: F) -> F:
    """How often to measure, where, and what becomes of the report: every command has these."""
    for option in reversed(_REPORT_OPTIONS):
        command = option(command)
    return command


def chosen_corpus(options: dict[str, Any], documents_max: int, total_bytes_max: int = CORPUS_BYTES_MAX) -> Corpus:
    """Pages of the directory that was given, or of the default one. Raises UsageError if there are none."""
    limits = Limits(documents_max=documents_max, total_bytes_max=total_bytes_max)
    return choose(options["corpus"] or CORPUS_DEFAULT.expanduser(), limits)


def known_names(kind: str, names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names that were given, in the order of the known ones; all if none was given."""
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise UnknownName(f"no {kind} {name!r}: {hint}")
    return tuple(name for name in known if not names or name in names)


def measure(plan: Any, run: Callable[..., Any], report: Callable[..., Report], options: dict[str, Any]) -> None:
    """Runs the plan in a scratch directory and publishes its report; exits with 1 if we have no figure ourselves.

    Raises UsageError if the benchmark cannot run here at all.
    """
    with scratch(options["work_dir"]) as directory, Meter() as meter:
        try:
            outcome = run(plan, directory, meter.show)
        except Unavailable as failure:
            raise UsageError(str(failure)) from failure
        made = report(plan, outcome, machine_facts(directory))
    if options["as_json"]:
        click.echo(json.dumps(made.as_json(), indent=2))
    else:
        from rich.console import Console

        console = Console()
        made.show(console if console.is_terminal else Console(width=190))
    if options["output"] is not None:
        made.write(options["output"])
    if any(each.subject.startswith(OURS) for each in made.missing):
        raise click.exceptions.Exit(1)


class Meter:
    """Progress on standard error: a bar on a terminal, a line for each step elsewhere."""

    def __enter__(self) -> Meter:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._progress = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._task = self._progress.add_task("")
        self._progress.start()
        return self

    def show(self, done: int, total: int, text: str) -> None:
        self._progress.update(self._task, completed=done, total=total, description=text)
        if not self._console.is_terminal:
            click.echo(f"[{done}/{total}] {text}", err=True)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
