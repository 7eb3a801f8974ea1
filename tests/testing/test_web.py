"""The test web itself: what it says of its graph, its robots.txt, its changes, and its log (W17, H5, H7, B4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hostile_web import LogEntry, Served, Web, checks
from hostile_web import spelling as spellings
from hostile_web.graph import DIRECT, EMBEDS, STEPS, Thing
from hostile_web.pages import body_of
from hostile_web.spelling import spelled
from hostile_web.tls import tls_available
from plain_crawler import Client, Reply, crawled, links

from holdfast.crawl.job.job import ScopeKind
from holdfast.formats.html.links.references import Hop
from holdfast.urls import parse

SMALL = Web(seed=7, hosts=7, pages=250, robots_bytes=1 << 20, flaky=20)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with SMALL.serving() as served:
        yield served


def test_a_crawl_finds_exactly_what_the_generator_says_w17(served: Served) -> None:
    found = crawled(served.web)
    assert set(found) == served.web.reachable()
    assert {url: served.web.expected_status(url) for url in found} == found
    assert set(found.values()) >= {200, 301, 302, 303, 307, 308, 404}


def test_the_log_tells_of_every_request_and_byte(served: Served) -> None:
    served.clear_log()
    with Client(served.web) as client:
        client.get(served.seeds[0], X_Question="why")
        client.get(served.seeds[0] + "nowhere")
    first, second = served.log()
    assert (first.host, first.address, first.method, first.target) == ("alpha.test", "127.0.1.1", "GET", "/")
    assert (first.status, second.status) == (200, 404)
    assert first.connection == second.connection
    assert ("x-question", "why") in first.headers
    assert first.received <= first.answered <= second.received
    assert first.sent > second.sent > 100


@pytest.mark.parametrize("seed", range(5))
def test_every_page_links_to_what_the_graph_says(seed: int) -> None:
    """Each way to link and to write a URL, over many pages, by a parser that knows nothing of the graph."""
    graph = Web(seed=seed, pages=600, port=8080).graph
    for number in range(graph.pages):
        for thing in (Thing("page", number), Thing("print", number), *_ways(graph.dealt(number), number)):
            url, body = graph.url_of(thing), body_of(graph, thing, 0)
            expected = {edge.url for edge in graph.edges(thing)}
            reply = _reply(body.status, {"Content-Type": body.kind, **dict(body.headers)}, body.content)
            assert links(url, reply) - {url} == expected - {url}, url


def _ways(dealt: str, number: int) -> list[Thing]:
    if dealt == "script":
        return [Thing("script", number)]
    return [Thing(dealt, number)] if dealt in STEPS else []


def _reply(status: int, fields: dict[str, str], content: bytes) -> Reply:
    from email.message import Message

    headers = Message()
    for name, value in fields.items():
        headers[name] = value
    return Reply(status, headers, content)


def test_all_kinds_of_links_occur_and_some_pages_hang_on_each() -> None:
    graph = Web(pages=3000, port=8080).graph
    dealt = Counter(graph.dealt(number) for number in range(graph.pages))
    assert set(dealt) == {*DIRECT, *STEPS, "sitemap"}
    assert min(dealt.values()) > 50
    kinds = {edge.kind for number in range(graph.pages) for edge in graph.edges(Thing("page", number))}
    assert kinds == {*DIRECT, *EMBEDS}


def test_every_spelling_is_read_as_its_url() -> None:
    base = "http://a.test:8080/x/y/z.html?q"
    for url in (
        "http://a.test:8080/b/c?d=1&amp=2",
        "http://b.test/caf%C3%A9.html",
        "http://a.test:8080/",
        "https://a.test/",
    ):
        for number, form in enumerate(spellings.ALL):
            part = parse(spelled(url, base, number), base)
            assert part is not None and part.href.partition("#")[0] == url, form


def test_requisites_stay_few_in_a_row_whatever_the_way() -> None:
    """So that no limit on them decides what is captured."""
    web = Web(pages=2000, port=8080)
    graph = web.graph

    def row(thing: Thing) -> int:
        edges = [edge for edge in graph.edges(thing) if edge.hop == Hop.EMBED]
        return max((1 + row(at(edge.url)) for edge in edges), default=0)

    def at(url: str) -> Thing:
        parts = parse(url)
        assert parts is not None
        found = graph.at(parts.host, parts.path + (f"?{parts.search}" if parts.search else ""))
        assert found is not None, url
        return found

    assert max(row(at(url)) for url in web.reachable(robots=False) - {graph.url("closed.test", "/")} if _open(url)) <= 5


def _open(url: str) -> bool:
    return "closed.test" not in url and "/missing/" not in url


def test_the_same_seed_is_the_same_web_and_another_is_another() -> None:
    one, same, other = (Web(seed=seed, pages=200, port=8080) for seed in (3, 3, 4))
    assert one.reachable() == same.reachable() != other.reachable()
    assert one.forbidden == same.forbidden
    bodies = [[body_of(web.graph, Thing("page", number), 0) for number in range(200)] for web in (one, same, other)]
    assert bodies[0] == bodies[1] != bodies[2]


def test_scopes_and_robots_narrow_what_is_reachable() -> None:
    web = Web(pages=500, port=8080)
    everything, home = web.reachable(), web.reachable(scope=ScopeKind.HOST)
    assert home < everything < web.reachable(robots=False)
    assert web.reachable(scope="page") == {*web.seeds} | {url for url in home if _embedded(web, url)}
    assert web.forbidden & everything == set()
    assert web.forbidden <= web.reachable(robots=False)
    assert {url for url in web.forbidden if "closed.test" in url}
    assert web.reachable(sitemap=False) < everything


def _embedded(web: Web, url: str) -> bool:
    return url in web.reachable(scope="page") and url not in web.seeds


def test_robots_decide_by_the_longest_rule_h5() -> None:
    web = Web(port=80)
    assert not web.allowed("http://alpha.test/private/p1.html")
    assert web.allowed("http://alpha.test/private/open/p1.html")
    assert not web.allowed("http://alpha.test/bin/p1.cgi")
    assert web.allowed("http://alpha.test/bin/p1.cgi?view=print")
    assert web.allowed("http://alpha.test/tmp/p1.html")
    assert not web.allowed("http://b.alpha.test/tmp/p1.html")
    assert web.allowed("http://b.alpha.test/tmp/p14.html")
    assert web.allowed("http://delta.test/private/p1.html")
    assert not web.allowed("http://closed.test/")


def test_every_kind_of_robots_txt_is_served_h5(served: Served) -> None:
    web = served.web
    with Client(web) as client:
        replies = {host.name: client.get(web.graph.url(host.name, "/robots.txt")) for host in web.graph.hosts}
        closed = client.get(web.graph.url("closed.test", "/robots.txt"))
        hop = client.get(replies["moved.test"].headers["Location"])
        rules = client.get(hop.headers["Location"])
    statuses = {name: reply.status for name, reply in replies.items()}
    assert (statuses["delta.test"], statuses["moved.test"], hop.status, rules.status) == (404, 301, 301, 200)
    assert closed.status == 500
    assert (1 << 20) - 200 < len(replies["long.test"].content) <= 1 << 20
    assert b"Crawl-delay: 0.02" in replies["b.alpha.test"].content
    assert b"Disallow: /private/" in rules.content
    assert b"Sitemap: " in replies["alpha.test"].content


def test_pages_that_fail_recover_and_pauses_are_asked_for_h5() -> None:
    web = replace(SMALL, seed=8, pauses=3)
    with web.serving(thread=True) as served:
        crawled(served.web)
        log = served.log()
    counts = Counter(entry.status for entry in log)
    assert counts[500] > 0
    assert counts[429] + counts[503] == 3
    assert {entry.host for entry in log if entry.status in (429, 503)} == {"gamma.example"}
    assert checks.during_pause(log) != []  # the little crawler does not wait


def test_a_changed_page_is_sent_and_an_unchanged_one_is_not_b4_h7() -> None:
    with replace(SMALL, pauses=0, flaky=0).serving(thread=True) as served, Client(served.web) as client:
        pages = [url for url in sorted(served.web.reachable()) if served.web.expected_status(url) == 200]
        before = {url: client.get(url) for url in pages}
        changed = served.change(share=0.1)
        served.clear_log()
        after = {url: client.get(url, **_conditions(before[url])) for url in pages}
        log = served.log()
    assert 0 < len(changed & set(pages)) < len(pages) / 4
    for url in pages:
        has_validator = "delta.test" not in url
        assert (before[url].headers["ETag"] is None) == ("moved.test" in url or not has_validator)
        if url in changed:
            assert after[url].status == 200 and after[url].content != before[url].content
        else:
            assert after[url].status == (304 if has_validator else 200)
            assert after[url].content == (b"" if has_validator else before[url].content)
    assert checks.bytes_sent(log) == sum(entry.sent for entry in log)
    assert all(entry.sent < 300 for entry in log if entry.status == 304)


def _conditions(reply: Reply) -> dict[str, str]:
    pairs = {"If_None_Match": reply.headers["ETag"], "If_Modified_Since": reply.headers["Last-Modified"]}
    return {name: value for name, value in pairs.items() if value}


def test_a_change_leaves_links_and_names_what_it_changed() -> None:
    web = Web(pages=1000, port=8080)
    later = web.change(0.1).change(0.2)
    assert later.reachable() == web.reachable()
    pages = [Thing("page", number) for number in range(1000) if web.graph.status_of(number) == 200]
    editions = Counter(later.edition(thing) for thing in pages)
    assert editions[1] + 2 * editions[2] == round(len(pages) * 0.1) + round(len(pages) * 0.2)
    assert len(later.changed) == 2 * round(len(pages) * 0.2)
    assert later.new_contents(later.changed) == round(len(pages) * 0.2)
    assert later.new_contents(set(list(later.changed)[:1])) == 1
    assert web.changed == frozenset() and web.new_contents(web.reachable()) == 0


@pytest.mark.skipif(not tls_available(), reason="needs the openssl command")
def test_one_host_speaks_tls() -> None:
    with Web(pages=40, hosts=2, tls=True, pauses=0).serving(thread=True) as served:
        assert any(url.startswith("https://secure.test:") for url in served.web.reachable())
        assert set(crawled(served.web)) == served.web.reachable()


def test_pages_are_as_long_as_wanted_and_every_host_can_have_validators_b4() -> None:
    with Web(hosts=4, pages=20, words=2000, mute=False).serving(thread=True) as served, Client(served.web) as client:
        reply = client.get(served.web.graph.page_url(3))
    assert len(reply.content) > 20_000
    assert reply.headers["ETag"] and "//delta.test:" in served.web.graph.page_url(3)


def test_contents_are_duplicated_under_several_urls() -> None:
    graph = Web(pages=400, port=8080).graph
    assert body_of(graph, Thing("print", 300), 0) == body_of(graph, Thing("page", 300), 0)
    assert len({body_of(graph, Thing("image", number), 0).content for number in range(50)}) == 20


# The checks


def entry(received: float, answered: float, **fields: object) -> LogEntry:
    values = {"host": "a.test", "status": 200, "target": "/x", **fields}
    return replace(LogEntry(1, received, answered, "", "127.0.1.1", "GET", "", (), 0, 100), **values)  # type: ignore[arg-type]


def test_a_request_that_comes_too_soon_is_found_h5() -> None:
    log = [entry(0, 1), entry(2, 3), entry(3.5, 3.6), entry(3.1, 3.2, host="b.test")]
    assert checks.too_soon(log, "a.test", 1.0) == [(log[1], log[2])]
    assert checks.too_soon(log, "a.test", 0.5) == []
    assert checks.too_soon(log, "a.test", 0.6, tolerance_s=0.2) == []
    assert checks.too_soon([entry(0, 10), entry(1, 2), entry(10.5, 11)], "a.test", 1.0) == [
        (entry(0, 10), entry(1, 2)),
        (entry(0, 10), entry(10.5, 11)),
    ]


def test_requests_at_once_are_counted_h5() -> None:
    log = [entry(0, 2), entry(1, 3), entry(2.5, 4), entry(0, 9, host="b.test")]
    assert checks.at_once(log, "a.test") == 2
    assert checks.at_once(log, "c.test") == 0
    assert checks.at_once_at(log, "127.0.1.1") == 3


def test_a_request_during_a_pause_is_found_h5() -> None:
    pause = entry(0, 1, status=429, pause_until=5.0)
    early, late, other = entry(4, 4.1), entry(5, 5.1), entry(2, 3, host="b.test")
    assert checks.during_pause([pause, early, late, other, entry(0.5, 2)]) == [(pause, early)]


def test_what_robots_forbid_and_what_came_before_robots_is_found_h5() -> None:
    web = Web(port=8080)
    bad = entry(3, 3, host="alpha.test", target="/private/p1.html")
    good = entry(4, 4, host="alpha.test", target="/log/p1.html")
    closed = entry(1, 1, host="closed.test", target="/page/1.html")
    rules = entry(2, 2.5, host="alpha.test", target="/robots.txt")
    assert checks.disallowed([bad, good, closed, rules], web) == [bad, closed]
    assert checks.without_robots([bad, good, closed, rules], web) == [closed]


def test_what_was_asked_for_twice_is_found() -> None:
    again = entry(2, 3)
    assert checks.repeated([entry(0, 1), again, entry(3, 4, target="/y", status=500), entry(4, 5, target="/y")]) == [
        again
    ]
