"""The calculator: formulas by hand, what must grow with what, and the conclusions of the thesis (H9)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UnknownName, UsageError
from holdfast.plan import PRESETS, Scenario, estimate, preset
from holdfast.plan.estimate import NodeEstimate
from holdfast.plan.loss import loss_probability
from holdfast.study.display import cell

DAY_S = 86400
SMALL = Scenario(
    name="small",
    pages=1000,
    images_per_page=2,
    page_bytes=10_000,
    image_bytes=5_000,
    page_stored=0.5,
    image_stored=1.0,
    changed_per_day=0.1,
    new_per_day=0.01,
    visits_per_day=1,
    links_per_page=10,
    link_bytes=50,
    new_links=0.2,
    request_bytes=300,
    days=100,
    copies=3,
    disk_bytes=10e6,
    fill=0.5,
    bandwidth_bytes_s=1000,
    life_days=50,
    uptime=0.9,
    outage_s=3600,
    lost_after_s=36_000,
    partitions=64,
)


def test_by_hand() -> None:
    found = NodeEstimate.of(SMALL)
    assert SMALL.first_bytes == 1000 * (10_000 * 0.5 + 2 * 5_000)  # 15 MB
    assert SMALL.new_bytes_day == pytest.approx(1000 * (5_000 * 0.11 + 10_000 * 0.01))  # 650 KB
    assert SMALL.fetched_bytes_day == pytest.approx(1000 * (10_000 * 0.11 + 10_000 * 0.01))
    assert found.storage_bytes == pytest.approx(3 * (15e6 + 100 * 650e3))  # 240 MB
    assert found.nodes == 48  # of 5 MB each
    traffic = found.traffic()
    assert traffic["fetching"] == (pytest.approx(1.2e6 / 48 / DAY_S), 0.0)
    assert traffic["conditional requests"][0] == pytest.approx(3000 * 300 / 48 / DAY_S)
    assert traffic["links"][0] == pytest.approx(1000 * (0.1 * 0.2 + 0.01) * 500 / 48 / DAY_S)
    assert traffic["copies"] == (pytest.approx(2 * 650e3 / 48 / DAY_S), pytest.approx(2 * 650e3 / 48 / DAY_S))
    away = 0.1 / 3600 * DAY_S * math.exp(-10)  # a day, longer than it takes to count as lost
    pulling = 5e6 / 4 / 900 / 3600  # a node holds 4 partitions: as many others pull one each; in mean outages
    moves = 2 / 50 + away * (1 - math.exp(-pulling)) / pulling
    assert traffic["repair"][0] == pytest.approx(moves * 5e6 / DAY_S)
    assert found.repair_s == pytest.approx(36_000 + 5e6 / 4 / 900)
    assert found.unavailability == pytest.approx(0.001)
    assert found.loss == loss_probability(3, 50 * DAY_S, found.repair_s, 100 * DAY_S)
    assert found.full_days == pytest.approx(100)


def test_a_single_machine() -> None:
    found = NodeEstimate.of(SMALL.changed(copies=1, nodes=1, disk_bytes=1e9))
    assert found.traffic()["copies"] == found.traffic()["links"] == found.traffic()["repair"] == (0.0, 0.0)
    assert found.loss == pytest.approx(1 - math.exp(-100 / 50))
    assert found.full_days == pytest.approx((5e8 - 15e6) / 650e3)
    rows = {name: value for name, value, _ in found.figures()}
    assert rows["probability that anything is lost"] == pytest.approx(found.loss), "all is lost at once"
    assert any("one copy" in each for each in found.notes())


def test_measured_sizes_take_the_place_of_pages() -> None:
    found = NodeEstimate.of(SMALL.changed(stored_bytes=1e6, growth_bytes_day=2e3))
    assert found.storage_bytes == pytest.approx(3 * (1e6 + 100 * 2e3))


numbers = st.floats(1.0, 1e6)
scenarios = st.builds(
    SMALL.changed,
    pages=numbers,
    images_per_page=st.floats(0, 10),
    page_bytes=numbers,
    changed_per_day=st.floats(0, 1),
    new_per_day=st.floats(0, 0.1),
    days=st.floats(1, 4000),
    copies=st.integers(1, 7),
    disk_bytes=st.floats(1e6, 1e12),
    bandwidth_bytes_s=st.floats(1e3, 1e8),
    life_days=st.floats(1, 4000),
    uptime=st.floats(0.01, 1),
    outage_s=st.floats(60, 1e5),
    lost_after_s=st.floats(60, 1e5),
    partitions=st.integers(1, 1 << 20),
)


@given(scenarios)
def test_what_grows_with_what(scenario: Scenario) -> None:
    found = NodeEstimate.of(scenario)
    more = NodeEstimate.of(scenario.changed(copies=scenario.copies + 1))
    assert more.storage_bytes > found.storage_bytes and more.nodes >= found.nodes
    assert more.unavailability <= found.unavailability
    longer = NodeEstimate.of(scenario.changed(days=scenario.days * 2))
    assert longer.storage_bytes >= found.storage_bytes
    larger = NodeEstimate.of(scenario.changed(disk_bytes=scenario.disk_bytes * 2))
    assert larger.nodes <= found.nodes
    if scenario.copies > 1:
        durable = NodeEstimate.of(scenario.changed(life_days=scenario.life_days * 2))
        assert durable.traffic()["repair"][0] < found.traffic()["repair"][0] or found.nodes == 1
        assert durable.loss <= found.loss * (1 + 1e-6)
        faster = NodeEstimate.of(scenario.changed(bandwidth_bytes_s=scenario.bandwidth_bytes_s * 2))
        assert faster.loss <= found.loss * (1 + 1e-6)
    assert found.nodes >= scenario.copies
    assert found.used_bytes <= scenario.disk_bytes * scenario.fill * (1 + 1e-9)
    assert 0 <= found.loss <= 1 and all(value >= 0 for part in found.traffic().values() for value in part)


def test_small_and_large_sizes_are_shown_in_units_that_fit() -> None:
    small = SMALL.changed(pages=10, nodes=3)
    for scenario, texts in (
        (small, ("146.5 KiB", "11.7 KiB/day")),
        (preset("national"), ("92.1 TiB", "800.9 GiB/day")),
    ):
        shown = {row["figure"]: (cell("value", row), cell("unit", row)) for row in estimate(scenario).rows()}
        assert shown["contents at the beginning, stored"] == (texts[0], "")
        assert shown["new contents, fetched"] == (texts[1], "")
        assert shown["time to fill a new node"][1] == "days"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_have_all_tables_and_no_remarks(name: str) -> None:
    result = estimate(name)
    assert list(result.tables) == ["figures", "traffic", "copies", "lives", "uptimes"]
    assert result.notes == [] and len(result.panels) == 4
    rows = {row["figure"]: row["value"] for row in result.rows()}
    assert rows["nodes"] == NodeEstimate.of(preset(name)).nodes
    assert sum(row["down_kbit_per_s"] for row in result.rows("traffic")) == pytest.approx(
        rows["bandwidth of a node, down"]
    )
    assert [row["copies"] for row in result.rows("copies")] == list(range(1, 9))
    same = next(row for row in result.rows("copies") if row["copies"] == preset(name).copies)
    assert same["nodes"] == rows["nodes"] and same["lost"] == rows["probability that a page is lost"]


def test_the_conclusions_of_the_thesis_that_are_legible() -> None:
    """Its digits were lost, its words were not."""
    thesis = preset("thesis")
    found = NodeEstimate.of(thesis)
    traffic = {part: down for part, (down, _) in found.traffic().items()}
    assert 10_000 <= found.nodes < 100_000, "designed for tens of thousands of peers"
    assert thesis.page_bytes < thesis.image_bytes, "an image is significantly larger than a page"
    assert thesis.first_bytes < 365 * thesis.new_bytes_day, "changes of a year need more than the first snapshot"
    links = thesis.links_per_page * thesis.link_bytes * thesis.copies
    assert links == pytest.approx(thesis.page_bytes, rel=0.25), "links to all copies are roughly as large as the page"
    assert max(traffic, key=traffic.__getitem__) == "repair", "maintaining fault tolerance takes most of the traffic"
    assert found.busiest_bytes_s < thesis.bandwidth_bytes_s / 5, "storage is the limit, bandwidth is not"
    light = NodeEstimate.of(thesis.changed(images_per_page=0.0))
    assert light.nodes < found.nodes, "the light version, without images, needs fewer nodes"
    assert NodeEstimate.of(thesis.changed(images_per_page=0.0, copies=3)).nodes < light.nodes, "and reliable ones fewer"
    month = NodeEstimate.of(thesis.changed(life_days=14.0))
    assert month.busiest_bytes_s > 10 * found.busiest_bytes_s, "nodes must stay for months, or repair takes it all"
    assert found.loss < 1e-6, "at this replication a minimal fraction is lost"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"copies": 0}, "copies"),
        ({"copies": 65}, "copies"),
        ({"nodes": 2}, "3 copies on 2 nodes"),
        ({"nodes": 10**13}, "nodes"),
        ({"uptime": 1.5}, "uptime"),
        ({"uptime": 0.0}, "uptime"),
        ({"fill": 0.0}, "fill"),
        ({"pages": -1.0}, "pages"),
        ({"pages": math.nan}, "pages"),
        ({"days": 0.0}, "days"),
        ({"disk_bytes": 0.0}, "disk_bytes"),
        ({"life_days": 0.0}, "life_days"),
        ({"changed_per_day": 1.1}, "changed_per_day"),
        ({"pages": "many"}, "pages"),
        ({"pages": True}, "pages"),
    ],
)
def test_scenarios_that_cannot_be(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SMALL.changed(**values)


def test_too_many_nodes_to_mean_anything() -> None:
    with pytest.raises(UsageError, match="too many pages, or disks that are too small"):
        estimate(SMALL.changed(pages=1e30))


def test_names_that_nobody_knows() -> None:
    with pytest.raises(UnknownName, match="there are thesis, national"):
        estimate("atlantis")
    with pytest.raises(UnknownName, match="no 'colour'"):
        SMALL.changed(colour=3)
    with pytest.raises(UsageError):
        estimate(3)  # type: ignore[arg-type]


def test_remarks_on_what_does_not_fit() -> None:
    notes = NodeEstimate.of(SMALL.changed(nodes=10)).notes()
    assert any("48 nodes are needed, 10 are full after" in each for each in notes)
    assert any("partitions are too few" in each for each in NodeEstimate.of(SMALL.changed(partitions=8)).notes())
    assert any("less bandwidth" in each for each in NodeEstimate.of(SMALL.changed(bandwidth_bytes_s=1.0)).notes())
