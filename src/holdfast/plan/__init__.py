"""Plans: the resources to archive the web, or more of it, on one machine or many (H9).

    scenario ──► estimate ──► nodes, storage, bandwidth, availability, probability of loss
        │                     by formulas, and by a birth-death chain
        └──────► simulate ──► the same by simulated years of a cluster, with its own placement of partitions
    archive ───► growth ────► when its disk will be full, and its scenario
    disk ──────► disk ──────► the organization of volumes that suits it, by WebBase's model (B13)

Each function returns a `StudyResult`: tables in Arrow, remarks, and the panels of a chart.
"""

from __future__ import annotations

from holdfast.plan.disk import disk
from holdfast.plan.estimate import estimate
from holdfast.plan.growth import archive_scenario, growth
from holdfast.plan.scenario import PRESETS, Scenario, preset
from holdfast.plan.simulate import cluster_of, lives_of, simulate

__all__ = [
    "PRESETS",
    "Scenario",
    "archive_scenario",
    "cluster_of",
    "disk",
    "estimate",
    "growth",
    "lives_of",
    "preset",
    "simulate",
]
