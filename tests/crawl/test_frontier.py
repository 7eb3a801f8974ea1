"""The frontier: what is queued is taken once, survives, and comes in its order (H5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.crawl import frontier as frontier_module
from holdfast.crawl.frontier import FoundUrl, Frontier, HostRow, UrlRow, UrlState, host_of, key_of
from holdfast.crawl.processes.messages import FetchKind
from holdfast.formats.html.links.references import Hop

_ROW = (st.text(), st.text(), st.text(), st.integers(0, 10**9))


def admit_all(_: FoundUrl) -> str:
    return ""


def link(url: str, hop: str = Hop.LINK, depth: int = 1) -> FoundUrl:
    return FoundUrl(key_of(url), url, hop, depth)


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    opened = Frontier(tmp_path / "frontier")
    opened.begin_visit()
    yield opened
    opened.close()


def take_all(frontier: Frontier) -> list[str]:
    """Takes and settles everything, and says in which order."""
    taken: list[str] = []
    while frontier.totals.queued:
        frontier.commit()
        hosts = frontier.enliven()
        before = len(taken)
        for host in hosts:
            while rows := frontier.take(host, 7, set()):
                for key, row in rows:
                    frontier.settle(key, row._replace(state=UrlState.DONE))
                    taken.append(row.url)
                frontier.commit()
            frontier.leave(host)
        assert len(taken) > before, "something is queued that nobody can take"
    return taken


def test_a_url_is_queued_once(frontier: Frontier) -> None:
    urls = [f"http://a.test/{number % 10}" for number in range(100)]
    assert frontier.find([link(url) for url in urls], "http://a.test/", admit_all) == 10
    assert frontier.find([link(url) for url in urls], "http://a.test/", admit_all) == 0
    assert sorted(take_all(frontier)) == sorted(set(urls))
    assert frontier.find([link(url) for url in urls], "http://a.test/", admit_all) == 0


def test_what_is_not_admitted_leaves_no_trace(frontier: Frontier) -> None:
    assert frontier.find([link("http://a.test/")], "", lambda _: "too far") == 0
    assert frontier.row(key_of("http://a.test/")) is None
    assert frontier.totals.queued == frontier.totals.seen == 0


def test_seeds_come_first_then_requisites_then_the_nearest(frontier: Frontier) -> None:
    found = [
        link("http://a.test/guess", Hop.SPECULATIVE, 1),
        link("http://a.test/far", Hop.LINK, 5),
        link("http://a.test/near", Hop.LINK, 1),
        link("http://a.test/style.css", Hop.EMBED, 3),
        link("http://a.test/", Hop.SEED, 0),
    ]
    frontier.find(found, "", admit_all)
    names = [url.rpartition("/")[2] for url in take_all(frontier)]
    assert names == ["", "style.css", "near", "far", "guess"]


def test_what_was_taken_but_not_settled_is_there_again_after_a_crash(tmp_path: Path) -> None:
    first = Frontier(tmp_path / "frontier")
    first.begin_visit()
    first.find([link(f"http://a.test/{number}") for number in range(20)], "", admit_all)
    first.commit()
    first.enliven()
    taken = first.take("a.test", 10, set())
    for key, row in taken[:4]:
        first.settle(key, row._replace(state=UrlState.DONE))
    first.commit()
    for key, row in taken[4:6]:  # not committed
        first.settle(key, row._replace(state=UrlState.DONE))
    first.close()
    second = Frontier(tmp_path / "frontier")
    assert second.totals.queued == 16
    assert len(take_all(second)) == 16
    second.close()


def test_a_shorter_way_brings_everything_behind_it_nearer(frontier: Frontier) -> None:
    """With a limit of depth, what is captured must not depend on the order of finding."""

    def within(found: FoundUrl) -> str:
        return "too deep" if found.depth > 3 else ""

    def settle(url: str, links: list[str]) -> None:
        row = frontier.row(key_of(url))
        assert row is not None
        frontier.settle(key_of(url), row._replace(state=UrlState.DONE))
        found = [link(each, depth=row.depth + 1) for each in links]
        frontier.keep_links(key_of(url), found)
        frontier.find(found, url, within, deepen=True)

    frontier.find([link("http://a.test/", Hop.SEED, 0)], "", within)
    settle("http://a.test/", ["http://a.test/long"])
    settle("http://a.test/long", ["http://a.test/way"])
    settle("http://a.test/way", ["http://a.test/page"])
    settle("http://a.test/page", ["http://a.test/child"])  # depth 4: too deep
    assert frontier.row(key_of("http://a.test/child")) is None
    settle("http://a.test/", ["http://a.test/page"])  # as if found now: depth 1
    child = frontier.row(key_of("http://a.test/child"))
    assert child is not None
    assert child.depth == 2


def test_depth_of_what_waits_in_the_queue_is_corrected(frontier: Frontier) -> None:
    frontier.find([link("http://a.test/x", depth=7)], "", admit_all, deepen=True)
    frontier.find([link("http://a.test/x", depth=2)], "", admit_all, deepen=True)
    row = frontier.row(key_of("http://a.test/x"))
    assert row is not None
    assert row.depth == 2
    assert frontier.totals.queued == 1
    assert take_all(frontier) == ["http://a.test/x"]


def test_a_postponed_url_comes_again_after_the_others(frontier: Frontier) -> None:
    frontier.find([link(f"http://a.test/{number}") for number in range(3)], "", admit_all)
    frontier.commit()
    frontier.enliven()
    ((key, row),) = frontier.take("a.test", 1, set())
    frontier.postpone(key, row._replace(attempts=1))
    frontier.commit()
    rest = [row.url for _, row in frontier.take("a.test", 9, set())]
    assert rest == ["http://a.test/1", "http://a.test/2", "http://a.test/0"]


def test_a_new_visit_queues_what_is_known_and_wanted(frontier: Frontier) -> None:
    frontier.find([link(f"http://{number % 3}.test/{number}") for number in range(50)], "", admit_all)
    take_all(frontier)
    frontier.totals.finished = True
    frontier.begin_visit()
    while frontier.requeue(lambda row: not row.url.endswith("7"), count=8):
        frontier.commit()
    frontier.commit()
    assert frontier.totals.visit == 2
    assert len(take_all(frontier)) == 45


def test_preparing_a_visit_goes_on_after_a_crash(tmp_path: Path) -> None:
    first = Frontier(tmp_path / "frontier")
    first.begin_visit()
    first.find([link(f"http://a.test/{number}") for number in range(30)], "", admit_all)
    take_all(first)
    first.begin_visit()
    assert first.requeue(lambda _: True, count=10)
    first.commit()
    first.close()
    second = Frontier(tmp_path / "frontier")
    while second.requeue(lambda _: True, count=10):
        second.commit()
    assert len(take_all(second)) == 30
    second.close()


def test_hosts_take_turns_when_there_are_more_than_fit(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier_module, "LIVE_HOSTS_MAX", 3)
    frontier.find([link(f"http://h{number % 9}.test/{number}") for number in range(90)], "", admit_all)
    frontier.commit()
    live: list[str] = []
    first_visits: list[str] = []
    for _ in range(60):
        live += frontier.enliven()
        crowded = frontier.is_crowded
        host = live.pop(0)
        rows = frontier.take(host, 3, set())
        first_visits.append(host)
        for key, row in rows:
            frontier.settle(key, row._replace(state=UrlState.DONE))
        if crowded or frontier.is_exhausted(host):
            frontier.leave(host)
        else:
            live.append(host)
        frontier.commit()
        if not frontier.totals.queued:
            break
    assert set(first_visits[:9]) == {f"h{number}.test" for number in range(9)}
    assert frontier.totals.queued == 0


def test_a_follower_sees_what_is_committed(tmp_path: Path) -> None:
    writer = Frontier(tmp_path / "frontier")
    writer.begin_visit()
    writer.find([link("http://a.test/")], "", admit_all)
    writer.commit()
    reader = Frontier(tmp_path / "frontier", follow=True)
    row = reader.row(key_of("http://a.test/"))
    assert row is not None
    assert row.state == UrlState.QUEUED
    reader.close()
    writer.close()


@given(st.builds(lambda url, via, etag, depth: UrlRow(url, via=via, etag=etag, depth=depth), *_ROW))
def test_any_row_can_be_read_again(row: UrlRow) -> None:
    read = UrlRow.decode(row.encode())
    assert read.depth == row.depth
    if not set("\t\n\r") & set(row.url + row.via + row.etag):
        assert read == row


def test_host_rows_can_be_read_again() -> None:
    row = HostRow(1, 2, 3, 4.5, 6, 7, "dns")
    assert HostRow.decode(row.encode()) == row
    assert HostRow.decode(b"1\t2\t3\t4.5\t6\t7") == row._replace(trouble=""), "as earlier versions wrote them"


def test_hosts_are_told_apart_by_their_ports() -> None:
    assert host_of("https://a.test/x") == host_of("http://a.test/") == "a.test"
    assert host_of("http://a.test:8080/") == "a.test:8080"


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_each_url_is_settled_once(tmp_path: Path, seed: int) -> None:
    """Finds, takes, settles, postpones, crashes at random, beside a plain set."""
    random = Random(seed)
    path = tmp_path / "frontier"
    frontier = Frontier(path)
    frontier.begin_visit()
    frontier.commit()
    known: set[str] = set()
    settled: list[str] = []
    under_way: dict[bytes, UrlRow] = {}
    for _ in range(60):
        action = random.random()
        if action < 0.4:
            urls = [f"http://h{random.randrange(4)}.test/{random.randrange(60)}" for _ in range(5)]
            kinds = [random.choice((Hop.LINK, Hop.EMBED, Hop.SPECULATIVE)) for _ in urls]
            frontier.find([link(url, kind) for url, kind in zip(urls, kinds, strict=True)], "", admit_all)
            known |= set(urls)
            frontier.commit()
        elif action < 0.7:
            frontier.enliven()
            host = f"h{random.randrange(4)}.test"
            if frontier.is_live(host):
                under_way |= dict(frontier.take(host, 3, under_way))
        elif action < 0.95 and under_way:
            key, row = under_way.popitem()
            if random.random() < 0.3:
                frontier.postpone(key, row)
            else:
                frontier.settle(key, row._replace(state=UrlState.DONE))
                settled.append(row.url)
            frontier.commit()
        else:
            frontier.close()
            frontier = Frontier(path)
            under_way = {}
    frontier.close()
    frontier = Frontier(path)
    settled += take_all(frontier)
    frontier.close()
    assert sorted(settled) == sorted(known)


def test_robots_counters_and_roots_are_kept(tmp_path: Path) -> None:
    first = Frontier(tmp_path / "frontier")
    first.set_robots("http://a.test", 12.0, b"User-agent: *\nDisallow: /x\n")
    first.count("urls of a.test")
    first.count("urls of a.test")
    first.add_root("http://a.test/")
    first.commit()
    first.close()
    second = Frontier(tmp_path / "frontier")
    assert second.robots("http://a.test") == (12.0, b"User-agent: *\nDisallow: /x\n")
    assert second.robots("http://b.test") is None
    assert second.counted("urls of a.test") == 2
    assert second.roots() == ["http://a.test/"]
    second.close()


def test_kinds_other_than_pages_come_first(frontier: Frontier) -> None:
    frontier.find([link("http://a.test/page")], "", admit_all)
    frontier.find([link("http://a.test/map.xml")._replace(kind=FetchKind.SITEMAP)], "", admit_all)
    assert take_all(frontier) == ["http://a.test/map.xml", "http://a.test/page"]
