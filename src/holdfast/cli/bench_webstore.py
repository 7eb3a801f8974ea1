"""`holdfast bench webstore`: volume servers beside network file systems, in the experiments of the Webstore paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.bench_output import (
    Publication,
    chosen_corpus,
    corpus_option,
    known_names,
    measure,
    report_options,
)

if TYPE_CHECKING:
    from holdfast.bench.webstore.run import WebstorePlan

_CLIENTS_MAX = 256
_VOLUMES_MAX = 64


def _numbers(largest: int) -> Any:
    """Reads '1,5,10' as sorted numbers from 1 to the largest; nothing for the default."""

    def read(_context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
        try:
            found = {int(part) for part in text.split(",") if part.strip()}
        except ValueError:
            raise click.BadParameter(f"{text!r} is no list of numbers, such as 1,5,10", param=parameter) from None
        if any(not 1 <= number <= largest for number in found):
            raise click.BadParameter(f"{text!r}: numbers are from 1 to {largest}", param=parameter)
        return tuple(sorted(found))

    return read


@click.command("webstore")
@corpus_option
@click.option("--pages", type=click.IntRange(5), default=2_500, show_default=True, help="Pages, one document each.")
@click.option(
    "--clients",
    metavar="N,...",
    default="",
    callback=_numbers(_CLIENTS_MAX),
    help="Clients of the first three experiments; default 1,5,10,15,25,35.",
)
@click.option(
    "--experiments", metavar="N,...", default="", callback=_numbers(6), help="These of the six only; default is all."
)
@click.option("--peers", metavar="NAME,...", default="", help="Beside these only; 'none' for Holdfast alone.")
@click.option(
    "--volumes",
    metavar="N,...",
    default="",
    callback=_numbers(_VOLUMES_MAX),
    help="Volumes of the fifth experiment, and the most of the sixth; default 1,2,4,8,16.",
)
@report_options
def webstore_(**options: Any) -> None:
    """The Webstore paper's experiments on volume servers, NFSv3, sshfs, WebDAV and SeaweedFS.

    The exit code is 1 if Holdfast itself failed to run; a missed target is reported and is no failure.
    """
    from holdfast.bench.webstore.run import run_webstore

    plan = _plan(options)
    measure(plan, run_webstore, _publication, options)


def _plan(options: dict[str, Any]) -> WebstorePlan:
    from holdfast.bench.webstore.run import WebstorePlan
    from holdfast.bench.webstore.subjects import PEERS, SUBJECTS
    from holdfast.bench.webstore.workload import CLIENTS, VOLUMES, Experiment, Range

    names = tuple(name.strip() for name in options["peers"].split(",") if name.strip())
    peers = () if names == ("none",) else known_names("peer", names, PEERS)
    return WebstorePlan(
        corpus=chosen_corpus(options, options["pages"]),
        subjects=tuple(name for name in SUBJECTS if name in peers or name not in PEERS),
        wanted=Range(
            experiments=tuple(Experiment(number) for number in options["experiments"]) or tuple(Experiment),
            clients=options["clients"] or CLIENTS,
            volumes=options["volumes"] or VOLUMES,
        ),
        repeats=options["repeat"],
    )


def _publication(plan: WebstorePlan, outcome: Any, directory: Path) -> Publication:
    from functools import partial

    from holdfast.bench.machine import debian_versions, machine_facts, package_versions
    from holdfast.bench.webstore import chart, report
    from holdfast.bench.webstore.subjects import facts

    versions = package_versions(package for name in plan.subjects for package in facts(name).packages)
    versions |= debian_versions(program for name in plan.subjects for program in facts(name).programs)
    found = report.WebstoreReport(plan, outcome, machine_facts(directory), versions)
    draw = partial(chart.draw, found) if outcome.figures else None
    return Publication("webstore", report.as_json(found), partial(report.print_report, found), draw)
