"""Every study against brute force on 20,000 real pages, captured three times with known changes.

The pages are those of `make corpus`; without them the test is skipped. HOLDFAST_CORPUS is their directory.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from generated import BruteForce, Fact, add, made
from test_composition import png
from test_duplicates import check as check_duplicates

from holdfast import study
from holdfast.archive import Archive
from holdfast.study import SampleOptions

CORPUS = Path(os.environ.get("HOLDFAST_CORPUS", Path.home() / ".cache" / "holdfast" / "corpus"))
PAGES = int(os.environ.get("HOLDFAST_CORPUS_PAGES", "20000"))
VISITS = ("20200101120000", "20200201120000", "20200303120000")
TLDS = {"com": "commercial", "org": "organization", "edu": "education", "gov": "government"}
CHANGES = {"com": 0.5, "org": 0.3, "edu": 0.15, "gov": 0.1}  # of a page, between two visits
GONE = 0.03
WORD = "zanzibarite"
MENTIONS = (0.01, 0.12, 0.02)  # of the pages of a visit

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not (CORPUS / "CORPUS.json").exists(), reason="run 'make corpus' first"),
]


@dataclass
class KnownWeb:
    """What was added, and what was planted."""

    facts: list[Fact] = field(default_factory=list)
    mentioned: set[tuple[str, str]] = field(default_factory=set)  # URL and time of captures with the word

    @property
    def good(self) -> list[Fact]:
        return [fact for fact in self.facts if fact.status == 200]


def bodies() -> Iterator[bytes]:
    for path in sorted(CORPUS.glob("??/*.html"))[:PAGES]:
        yield path.read_bytes()


def grown() -> KnownWeb:
    """Pages change with the rate of their kind of site, some go away, every twentieth copies the one before."""
    chance = random.Random(20)
    web = KnownWeb()
    before = b""
    for number, real in enumerate(bodies()):
        tld = list(TLDS)[number % 4]
        url = f"http://host{number // 400 % 2}.site{number % 400}.{tld}/{number}"
        body = before if number % 20 == 1 else real
        before, is_gone = body, False
        for visit, time in enumerate(VISITS):
            if visit and not is_gone:
                is_gone = chance.random() < GONE
                if chance.random() < CHANGES[tld]:
                    body += f"<p>Revision {visit} of page {number}.</p>".encode()
            mentions = chance.random() < MENTIONS[visit]
            if is_gone:
                fact = Fact(f"visit-{visit}", url, time, b"<h1>Gone</h1>" * 10, status=404)
            elif mentions:
                fact = Fact(f"visit-{visit}", url, time, body + f"<p>News of {WORD}.</p>".encode())
                web.mentioned.add((url, time))
            else:
                fact = Fact(f"visit-{visit}", url, time, body)
            web.facts.append(fact)
    for number in range(300):
        image = png(1 << number % 11, 1)
        web.facts.append(Fact("visit-0", f"http://images.com/{number}.png", VISITS[0], image, "image/png"))
    return web


@pytest.fixture(scope="module")
def web() -> KnownWeb:
    return grown()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, web: KnownWeb) -> Iterator[Archive]:
    with made(tmp_path_factory.mktemp("real") / "archive") as archive:
        add(archive, web.facts)
        archive.index.update()
        assert archive.index.pending() == 0
        yield archive


def site(fact: Fact) -> str:
    return ".".join(fact.host.split(".")[-2:])


def test_there_are_enough_pages(web: KnownWeb) -> None:
    assert len({fact.url for fact in web.facts if fact.type == "html"}) == PAGES


def test_duplicates(archive: Archive, web: KnownWeb) -> None:
    check_duplicates(study.duplicates(archive), BruteForce(web.facts))


def test_change(archive: Archive, web: KnownWeb) -> None:
    visits: dict[str, list[Fact]] = defaultdict(list)
    for fact in web.facts:
        visits[fact.url].append(fact)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for url, seen in visits.items():
        kind = TLDS[url.split("/")[2].rpartition(".")[2]]
        contents = [fact for fact in seen if fact.status == 200]
        pairs = [pair for pair in pairwise(seen) if all(fact.status == 200 for fact in pair)]
        changed = sum(one.body != other.body for one, other in pairs)
        for name in (kind, "all"):
            counts[name].update(urls=1, captures=len(contents), intervals=len(pairs), changes=changed)
            counts[name].update(gone=int(seen[-1].status == 404))
    rows = {row["value"]: row for row in study.change(archive).rows() if row["kind"] in ("all", "category")}
    assert {name: {key: row[key] for key in counts[name]} for name, row in rows.items()} == counts
    lives = [rows[kind]["change_interval_days"] for kind in ("commercial", "organization", "education", "government")]
    assert lives == sorted(lives)
    for tld, kind in TLDS.items():
        alike = sum(one * two + (1 - one) * (1 - two) for one, two in pairwise(MENTIONS)) / 2  # a mention is a change
        truth = -31 / np.log((1 - CHANGES[tld]) * alike)
        assert rows[kind]["change_interval_days"] == pytest.approx(truth, rel=0.1)


def test_composition(archive: Archive, web: KnownWeb) -> None:
    result = study.composition(archive)
    good = web.good
    types = {row["type"]: (row["captures"], row["bytes"]) for row in result.rows("types")}
    for name in ("html", "image"):
        own = [len(fact.body) for fact in good if fact.type == name]
        assert types[name] == (len(own), sum(own))
    bins = Counter((fact.type, 1 << len(fact.body).bit_length() - 1) for fact in good if fact.body)
    assert {
        (row["type"], row["from_bytes"]): row["captures"] for row in result.rows("sizes") if row["from_bytes"]
    } == bins
    figures = {row["figure"]: row["value"] for row in result.rows()}
    assert figures["captures"] == len(good)
    assert figures["urls"] == len({fact.url for fact in web.facts})
    assert figures["links per page that has links"] > 1


def test_media(archive: Archive, web: KnownWeb) -> None:
    result = study.media(archive)
    (row,) = result.rows()
    images = [fact for fact in web.facts if fact.type == "image"]
    assert (row["category"], row["captures"], row["bytes"]) == ("image", 300, sum(len(fact.body) for fact in images))
    sides = Counter(1 << number % 11 for number in range(11))  # one of each content is read
    assert {row["from_pixels"]: row["images"] for row in result.rows("dimensions")} == sides


def test_topic(archive: Archive, web: KnownWeb) -> None:
    result = study.topic(archive, WORD, unit="month")
    months = {time: f"{time[:4]}-{time[4:6]}" for time in VISITS}
    pages = [fact for fact in web.good if fact.type == "html"]
    for row in result.rows("strength"):
        own = [
            fact
            for fact in pages
            if months[fact.timestamp] == row["period"] and row["kind"] in ("all", TLDS[fact.host.rpartition(".")[2]])
        ]
        matched = [fact for fact in own if (fact.url, fact.timestamp) in web.mentioned]
        assert (row["captures"], row["all_captures"]) == (len(matched), len(own))
        assert (row["pages"], row["all_pages"]) == (len({f.url for f in matched}), len({f.url for f in own}))
        assert (row["sites"], row["all_sites"]) == (len(set(map(site, matched))), len(set(map(site, own))))
    (topic,) = result.rows()
    assert (topic["captures"], topic["take_off"], topic["peak"]) == (len(web.mentioned), "2020-02", "2020-02")


def test_near_duplicates(archive: Archive, web: KnownWeb) -> None:
    """Clusters are those of comparing each sketch with each; what was revised is near what it was before."""
    result = study.near_duplicates(archive)
    table = archive.sql(
        "SELECT batch, digest, sketch FROM captures WHERE sketch IS NOT NULL AND type != 'request'"
    ).table()
    rows = table.to_pylist()
    sketches = np.unique(np.array([row["sketch"] for row in rows], np.uint64))
    parents = list(range(len(sketches)))

    def root(at: int) -> int:
        while parents[at] != at:
            parents[at] = at = parents[parents[at]]
        return at

    for at in range(len(sketches)):
        for other in np.flatnonzero(np.bitwise_count(sketches[at + 1 :] ^ sketches[at]) <= 4):
            one, two = root(at), root(at + 1 + int(other))
            parents[max(one, two)] = min(one, two)
    places = {int(sketch): at for at, sketch in enumerate(sketches)}
    for row in result.rows():
        own = [each for each in rows if each["batch"] == row["group"]]
        clusters = {root(places[each["sketch"]]) for each in own}
        assert (row["documents"], row["clusters"]) == (len(own), len(clusters))
    assert result.rows()[2]["near"] >= result.rows()[2]["exact"]


def test_sample(archive: Archive, web: KnownWeb, tmp_path: Path) -> None:
    options = SampleOptions(captures=1000, by=("site", "time"), seed="real", format="warc")
    result = study.sample(archive, options, tmp_path / "one")
    study.sample_again(archive, tmp_path / "one", tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    listed = (tmp_path / "one" / "captures.jsonl").read_text()
    drawn = {(line["url"], line["timestamp"]) for line in map(json.loads, listed.splitlines())}
    sampled = [fact for fact in web.good if (fact.url, fact.timestamp) in drawn]
    whole, part = Counter(map(site, web.good)), Counter(map(site, sampled))
    distance = sum(abs(whole[name] / len(web.good) - part[name] / 1000) for name in whole) / 2
    row = next(row for row in result.rows("distances") if row["dimension"] == "site")
    assert row["total_variation"] == pytest.approx(distance, abs=1e-6)
    assert distance < row["expected"]
