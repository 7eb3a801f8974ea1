"""`python -m benchmarks webstore`."""

from __future__ import annotations

from typing import Any

import click

from benchmarks.harness.command import chosen_corpus, corpus_option, known_names, measure, report_options
from benchmarks.webstore.report import webstore_report
from benchmarks.webstore.run import WebstorePlan, run_webstore
from benchmarks.webstore.subjects import PEERS, SUBJECTS
from benchmarks.webstore.workload import CLIENTS, PER_PROCESS, VOLUMES, Experiment, Range

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
@click.option(
    "--per-process",
    type=click.IntRange(1),
    default=PER_PROCESS,
    show_default=True,
    help="Clients that share a process in the first four experiments; 1: each has its own.",
)
@report_options
def command(**options: Any) -> None:
    """The Webstore paper's experiments on volume servers, a bare reference, NFSv3, sshfs, WebDAV and SeaweedFS."""
    names = tuple(name.strip() for name in options["peers"].split(",") if name.strip())
    peers = () if names == ("none",) else known_names("peer", names, PEERS)
    plan = WebstorePlan(
        corpus=chosen_corpus(options, options["pages"]),
        subjects=tuple(name for name in SUBJECTS if name in peers or name not in PEERS),
        wanted=Range(
            experiments=tuple(Experiment(number) for number in options["experiments"]) or tuple(Experiment),
            clients=options["clients"] or CLIENTS,
            volumes=options["volumes"] or VOLUMES,
            per_process=options["per_process"],
        ),
        repeats=options["repeat"],
    )
    measure(plan, run_webstore, webstore_report, options)
