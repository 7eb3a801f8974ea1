"""`python -m benchmarks cluster`."""

from __future__ import annotations

from typing import Any

import click

from benchmarks.cluster.report import cluster_report
from benchmarks.cluster.run import ClusterPlan, ClusterWorkload, run_cluster
from benchmarks.harness.command import known_names, measure, report_options, workload_option


@click.command("cluster")
@click.option(
    "--records",
    type=click.IntRange(100),
    default=4000,
    show_default=True,
    help="Pages that are copied; a quarter for repair and answers.",
)
@click.option(
    "--compared", type=click.IntRange(1), default=1_000_000, show_default=True, help="Records of two equal holders."
)
@click.option(
    "--messages", type=click.IntRange(1), default=1_000_000, show_default=True, help="That a NATS server keeps."
)
@click.option("--links", type=click.IntRange(64_000), default=400_000, show_default=True, help="That are exchanged.")
@click.option("--pages", type=click.IntRange(640), default=9600, show_default=True, help="That are crawled.")
@workload_option
@report_options
def command(**options: Any) -> None:
    """Copies, repair and comparison in a cluster, a change of owner, NATS, the exchange of links, and a crawl."""
    names = known_names("workload", options["workload"], tuple(each.value for each in ClusterWorkload))
    plan = ClusterPlan(
        records=options["records"],
        compared=options["compared"],
        messages=options["messages"],
        links=options["links"],
        pages=options["pages"],
        workloads=frozenset(ClusterWorkload(name) for name in names),
        repeats=options["repeat"],
    )
    measure(plan, run_cluster, cluster_report, options)
