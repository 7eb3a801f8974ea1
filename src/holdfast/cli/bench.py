"""`holdfast bench`: measure the store beside its peers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from holdfast.bench.report import Report
    from holdfast.bench.run import Plan

CORPUS_DEFAULT = Path("~/.cache/holdfast/corpus")  # where `make corpus` puts it


@click.group()
def bench() -> None:
    """Measure Holdfast beside its peers, in one run on this machine."""


@bench.command()
@click.option("--corpus", type=click.Path(path_type=Path), help="Directory of documents, any files.")
@click.option("--documents", default=5_000, show_default=True, help="How many distinct documents to use.")
@click.option("--callers", type=click.IntRange(1, 256), multiple=True, help="Concurrent callers; default 1 and 16.")
@click.option("--only", metavar="SUBJECT", multiple=True, help="Measure these subjects only.")
@click.option("--workload", metavar="WORKLOAD", multiple=True, help="Measure these workloads only.")
@click.option(
    "--scale",
    type=click.IntRange(1),
    multiple=True,
    help="Also fill a volume with so many small contents; without --corpus, measure nothing else.",
)
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True, help="The median of so many counts.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--output", type=click.Path(path_type=Path), help="Directory for storage.json and storage.png.")
@click.option("--work-dir", type=click.Path(path_type=Path), help="Where the stores live while they are measured.")
def storage(**options: Any) -> None:
    """Named workloads on Holdfast, plain files, WARC writers, SQLite, RocksDB and SeaweedFS.

    The exit code is 1 if Holdfast itself failed to run; a missed target is reported and is no failure.
    """
    from holdfast.bench.run import run, scratch

    plan = _plan(options)
    with scratch(options["work_dir"]) as directory, _Meter() as meter:
        outcome = run(plan, directory, meter.show)
        report = _report(plan, outcome, directory)
    _publish(report, as_json=options["as_json"], output=options["output"])
    if any(each.subject.startswith("holdfast") for each in outcome.missing):
        raise click.exceptions.Exit(1)


def _plan(options: dict[str, Any]) -> Plan:
    from holdfast.bench.corpus import Limits, choose
    from holdfast.bench.run import Plan
    from holdfast.bench.subjects import SUBJECTS
    from holdfast.bench.workload import CALLERS, Workload

    subjects = _known("subject", options["only"], tuple(SUBJECTS))
    workloads = _known("workload", options["workload"], tuple(each.value for each in Workload))
    corpus = None
    if options["corpus"] is not None or not options["scale"]:
        directory = options["corpus"] or CORPUS_DEFAULT.expanduser()
        corpus = choose(directory, Limits(documents_max=max(1, options["documents"])))
    return Plan(
        corpus=corpus,
        subjects=subjects,
        workloads=frozenset(Workload(name) for name in workloads),
        callers=tuple(sorted(set(options["callers"]))) or CALLERS,
        repeats=options["repeat"],
        scales=tuple(options["scale"]),
    )


def _known(kind: str, names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names that were given, in the order of the known ones; all if none was given."""
    from difflib import get_close_matches

    from holdfast.errors import UnknownName

    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise UnknownName(f"no {kind} {name!r}: {hint}")
    return tuple(name for name in known if not names or name in names)


def _report(plan: Plan, outcome: Any, directory: Path) -> Report:
    from holdfast.bench.machine import machine_facts, package_versions
    from holdfast.bench.report import Report
    from holdfast.bench.subjects import facts

    packages = {package for name in plan.subjects for package in facts(name).packages}
    return Report(plan, outcome, machine_facts(directory), package_versions(packages))


def _publish(report: Report, *, as_json: bool, output: Path | None) -> None:
    import json

    from rich.console import Console

    from holdfast.bench.report import as_json as values_of
    from holdfast.bench.report import print_report

    text = json.dumps(values_of(report), indent=2)
    if as_json:
        click.echo(text)
    else:
        console = Console()
        print_report(report, console if console.is_terminal else Console(width=190))
    if output is not None:
        _write(report, text, output)


def _write(report: Report, text: str, output: Path) -> None:
    from holdfast.bench.chart import draw
    from holdfast.errors import UsageError

    output.mkdir(parents=True, exist_ok=True)
    (output / "storage.json").write_text(text + "\n", encoding="utf-8")
    if not report.outcome.measurements:
        return
    try:
        draw(report, output / "storage.png")
    except ImportError as failure:
        raise UsageError(f"no chart: {failure}; install 'holdfast[bench]'. storage.json is written") from failure


class _Meter:
    """Progress on standard error: a bar on a terminal, a line for each step elsewhere."""

    def __enter__(self) -> _Meter:
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
