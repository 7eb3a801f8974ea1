"""Target figures, and whether a run reached them."""

from __future__ import annotations

from benchmarks.cluster.run import ClusterOutcome, ClusterWorkload
from benchmarks.harness.report import Verdict

_AT_MOST = (  # workload, figure, target, limit, unit
    (ClusterWorkload.TAKE_OVER, "a node", "kill -9 of a node to the next owner's claim, beyond the lease", 3.0, "s"),
    (ClusterWorkload.TAKE_OVER, "the slowest", "the same with the leading NATS server", 8.0, "s"),
    (ClusterWorkload.MOVEMENT, "join: moved", "bytes moved on join ÷ least", 1.02, "x"),
    (ClusterWorkload.MOVEMENT, "join: received", "bytes received by others on join", 0.0, "bytes"),
    (ClusterWorkload.MOVEMENT, "loss: moved", "bytes moved on loss ÷ least", 1.02, "x"),
    (ClusterWorkload.COPY, "copy ÷ add", "CPU to copy a record, both ends ÷ adding it", 1.6, "x"),
    (ClusterWorkload.COMPARISON, "seconds", "comparing equal holders", 1.0, "s"),
    (ClusterWorkload.COMPARISON, "received", "bytes for it", 1e6, "bytes"),
    (ClusterWorkload.NATS, "resident", "memory of a NATS server", 150.0, "MB"),
    (ClusterWorkload.LINKS, "CPU of a link, 10 ", "CPU of a link, 10 a message", 40.0, "µs"),
    (ClusterWorkload.LINKS, "bytes of a link, 10 ", "bytes of a link, 10 a message", 45.0, "bytes"),
    (ClusterWorkload.LINKS, "bytes of a link, 30 ", "bytes of a link, 30 a message", 30.0, "bytes"),
    *(
        (
            ClusterWorkload.CRAWL,
            f"CPU of a page ÷ no cluster, {what}",
            f"CPU of a page ÷ no cluster, {what}",
            limit,
            "x",
        )
        for what, limit in (("2 nodes, 1", 1.25), ("4 nodes, 1", 1.25), ("2 nodes, 2", 1.6), ("4 nodes, 2", 1.6))
    ),
    (ClusterWorkload.CRAWL, "log of a known URL", "log of a known URL, three copies", 200.0, "bytes"),
    (
        ClusterWorkload.ANSWERS,
        "replay: beyond",
        "p50 of replay through another node, beyond 1.5 x the holder",
        3.0,
        "ms",
    ),
    (ClusterWorkload.ANSWERS, "CDX: beyond", "p50 of CDX through another node, beyond 1.5 x the holder", 3.0, "ms"),
    (ClusterWorkload.ANSWERS, "search: 4 nodes ÷", "p50 of a search of 4 nodes ÷ one index", 2.5, "x"),
    (ClusterWorkload.ANSWERS, "stream: 4 nodes ÷", "CPU of a streamed page, 4 nodes ÷ one archive", 1.3, "x"),
)
_AT_LEAST = (
    (ClusterWorkload.LINKS, "end to end", "links end to end, 100 a message", 100_000.0, "links/s"),
    (ClusterWorkload.LINKS, "frontier made", "frontier made of the log", 25_000.0, "links/s"),
)
_RATE_LEAST, _RATE_MOST = 0.8, 1.05


def cluster_verdicts(outcome: ClusterOutcome) -> list[Verdict]:
    """Every target, in the order of docs/benchmarks.md."""
    found = []
    limits = [(each, True) for each in _AT_MOST] + [(each, False) for each in _AT_LEAST]
    for (workload, name, target, limit, unit), is_most in limits:
        needed = f"at {'most' if is_most else 'least'} {limit:,g} {unit}"
        figure = outcome.find(workload, name)
        if figure is None:
            found.append(Verdict.none(target, needed))
        else:
            is_met = figure.value <= limit if is_most else figure.value >= limit
            found.append(Verdict(target, needed, f"{figure.value:,.2f} {unit}", is_met))
    target, needed = "repair rate ÷ its limit", f"{_RATE_LEAST} to {_RATE_MOST}"
    rate = outcome.find(ClusterWorkload.REPAIR, "rate")
    if rate is None:
        return [*found, Verdict.none(target, needed)]
    return [*found, Verdict(target, needed, f"{rate.value:.2f}", _RATE_LEAST <= rate.value <= _RATE_MOST)]
