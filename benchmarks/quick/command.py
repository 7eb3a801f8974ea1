"""`python -m benchmarks quick`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from benchmarks.harness.command import CORPUS_DEFAULT, Meter, corpus_option, known_names, pywb_option
from benchmarks.harness.machine import machine_facts
from benchmarks.harness.report import table, times
from benchmarks.quick.rows import ARGUMENTS, ROWS, Measured, figures_of

FIGURES = Path(__file__).with_name("figures.json")  # as committed last
_SLOWER = 1.25  # a row is marked if it costs so many times more CPU than committed, or its ratio fell as much


@click.command("quick")
@corpus_option
@pywb_option
@click.option("--only", metavar="BENCHMARK", multiple=True, help="Run these benchmarks only.")
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Take the median of N runs.")
@click.option("--save", is_flag=True, help="Write the figures to 'benchmarks/quick/figures.json', to be committed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(
    corpus: Path | None, pywb: str | None, only: tuple[str, ...], repeat: int, save: bool, as_json: bool
) -> None:
    """Measure one row of each kind and compare it with the figures committed last."""
    names = known_names("benchmark", only, tuple(ARGUMENTS))
    options = ["--corpus", str(corpus or CORPUS_DEFAULT.expanduser()), "--repeat", str(repeat), "--json"]
    measured: dict[str, Measured] = {}
    with Meter() as meter:
        for number, name in enumerate(names):
            meter.show(number, len(names), name)
            more = ["--pywb", pywb] if pywb and name == "replay" else []
            report = _run([name, *ARGUMENTS[name], *options, *more])
            measured |= _figures(name, report)
        meter.show(len(names), len(names), "done")
    saved = _saved()
    if save:
        _save(saved, measured)
    if as_json:
        click.echo(json.dumps({name: asdict(each) for name, each in measured.items()}, indent=2))
        return
    from rich.console import Console

    console = Console()
    shown = console if console.is_terminal else Console(width=120)
    rows = [_cells(name, each, saved["rows"].get(name)) for name, each in measured.items()]
    columns = ("row", "CPU µs", "committed", "times the peer", "committed", "")
    shown.print(table(f"committed: {saved['commit']}, {saved['date']}", columns, rows))


def _run(arguments: Iterable[str]) -> Mapping[str, Any]:
    """The JSON report of a benchmark. Raises ClickException with its last lines if it failed."""
    done = subprocess.run([sys.executable, "-m", "benchmarks", *arguments], capture_output=True, text=True, check=False)
    try:
        report: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise click.ClickException("\n".join(done.stderr.splitlines()[-5:])) from None
    return report


def _figures(benchmark: str, report: Mapping[str, Any]) -> dict[str, Measured]:
    found = {row.name: figures_of(row, report) for row in ROWS if row.benchmark == benchmark}
    return {name: each for name, each in found.items() if each is not None}


def _saved() -> dict[str, Any]:
    try:
        saved: dict[str, Any] = json.loads(FIGURES.read_bytes())
    except FileNotFoundError:
        saved = {"commit": "none", "date": "never", "rows": {}}
    return saved


def _save(saved: dict[str, Any], measured: Mapping[str, Measured]) -> None:
    """Rows that were not measured keep their figures."""
    with tempfile.TemporaryDirectory() as directory:
        machine = machine_facts(Path(directory))
    rows = saved["rows"] | {name: asdict(each) for name, each in measured.items()}
    facts = {"commit": machine["commit"], "date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine, "rows": rows}
    FIGURES.write_text(json.dumps(facts, indent=1) + "\n")


def _cells(name: str, now: Measured, before: Mapping[str, float | None] | None) -> tuple[str, ...]:
    cpu_us, ratio = (before["cpu_us"], before["ratio"]) if before else (None, None)
    is_slower = (cpu_us is not None and now.cpu_us > _SLOWER * cpu_us) or (
        ratio is not None and now.ratio is not None and now.ratio * _SLOWER < ratio
    )
    return (
        name,
        f"{now.cpu_us:,.0f}",
        f"{cpu_us:,.0f}" if cpu_us is not None else "",
        times(now.ratio),
        times(ratio),
        "slower" if is_slower else "",
    )
