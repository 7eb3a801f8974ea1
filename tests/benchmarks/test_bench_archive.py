"""`holdfast bench archive` at a tiny size: every subject does its work on the same files, every report is made."""

from __future__ import annotations

import gzip
import importlib.util
import json
import random
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import bench
from benchmarks.archive import captures as synthetic
from benchmarks.archive.captures import CatalogScale, capture_of, measure_captures, sample_urls, url_of, write_cdxj
from benchmarks.archive.cdxj_file import CdxjFile, look_up_file, look_up_with_pywb
from benchmarks.archive.crawl import CRAWLS, Crawls, build, distinct_for
from benchmarks.archive.large import LargeRecord, measure_large
from benchmarks.archive.ours import check_whole, compare
from benchmarks.archive.peers import write_with_warcio
from benchmarks.archive.program import find_program, less, run_program
from benchmarks.archive.run import ArchiveOutcome, ArchivePlan, run_archive
from benchmarks.archive.target import archive_verdicts
from benchmarks.archive.workload import SUBJECTS, ArchiveWorkload
from benchmarks.harness.corpus import Corpus, Limits, choose
from benchmarks.harness.figure import OURS, Figure, median
from benchmarks.harness.measure import Cost
from benchmarks.harness.process import ChildFailed, Unavailable
from click.testing import CliRunner, Result

from holdfast.errors import UnknownName
from holdfast.formats.io.open import open_records

pytestmark = [
    pytest.mark.filterwarnings("ignore:Use the new:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Use the new:FutureWarning"),
]

PAGES = 60
MODULES = {"warcio": "warcio", "fastwarc": "fastwarc", "cdxj-indexer": "cdxj_indexer", "pywb": "pywb"}


def present() -> set[str]:
    """The subjects that can run here."""
    return {name for name in SUBJECTS if name not in MODULES or importlib.util.find_spec(MODULES[name]) is not None}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    directory = tmp_path_factory.mktemp("corpus")
    randomness = random.Random(7)
    for number in range(distinct_for(PAGES)):
        words = " ".join(str(randomness.random()) for _ in range(randomness.randrange(1, 200)))
        (directory / f"é page {number}.html").write_text(f"<html><p>{number} {words}</p></html>")
    return choose(directory, Limits(documents_max=1_000))


@pytest.fixture(scope="module")
def crawls(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Crawls:
    return build(corpus, tmp_path_factory.mktemp("made") / "crawls")


def run_cli(*arguments: str | Path) -> Result:
    return CliRunner().invoke(bench, ["archive", *map(str, arguments)])


def test_the_crawls_are_what_a_crawler_writes(crawls: Crawls) -> None:
    findings: list[object] = []
    found = []
    payloads: dict[str, list[bytes]] = {}
    for path in crawls.files:
        with path.open("rb") as stream:
            for record in open_records(stream, report=findings.append):
                block = record.block.read()
                record.finish()
                found.append((record.type, record.url, record.timestamp))
                if record.type == "response":
                    payloads.setdefault(record.url, []).append(block.partition(b"\r\n\r\n")[2])
    assert findings == []
    assert crawls.pages == PAGES
    pages = [each for each in found if each[0] != "warcinfo"]
    assert len(pages) == len(set(pages)) == 2 * crawls.captures
    assert len(found) == crawls.records == len(pages) + len(crawls.files)
    assert set(payloads) == set(crawls.urls())
    assert all(len(each) == len(CRAWLS) and len(set(each)) == 1 for each in payloads.values())
    assert len({each[0] for each in payloads.values()}) == distinct_for(PAGES) == PAGES * 4 // 5
    assert sum(len(data) for each in payloads.values() for data in each) == crawls.content_bytes


def test_the_crawls_are_always_the_same(corpus: Corpus, crawls: Crawls, tmp_path: Path) -> None:
    again = build(corpus, tmp_path / "crawls")
    assert [path.read_bytes() for path in again.files] == [path.read_bytes() for path in crawls.files]


def test_every_workload_is_measured_and_every_report_is_made(corpus: Corpus, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes = ("--pages", str(PAGES), "--captures", "400", "--scale", "200", "--large", "70000", "--repeat", "1")
    places = ("--corpus", corpus.directory, "--work-dir", tmp_path / "work", "--output", tmp_path / "out")
    result = run_cli(*sizes, *places)
    assert result.exit_code == 0, result.output
    for title in (*ArchiveWorkload, "lookup · 400 synthetic captures", "scale", "one record", "targets"):
        assert title in result.stdout
    steps = re.findall(r"^\[(\d+)/(\d+)\]", result.stderr, re.MULTILINE)
    assert [int(done) for done, _ in steps] == list(range(len(steps)))
    assert {int(total) for _, total in steps} == {len(steps) - 1}
    values = json.loads((tmp_path / "out" / "archive.json").read_text())
    here = present()
    _check_results(values, here)
    assert {each["subject"] for each in values["missing"]} == set(SUBJECTS) - here
    assert values["crawls"]["pages"] == PAGES
    assert [each["captures"] for each in values["scales"]] == [200, 400]
    assert values["large"]["payload_bytes"] == 70_000
    assert len(values["targets"]) == 7
    assert (tmp_path / "out" / "archive.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "work").iterdir()) == []


def _check_results(values: dict[str, Any], here: set[str]) -> None:
    measured = {(each["subject"], each["workload"]) for each in values["results"]}
    assert measured == {(name, each.value) for name in here for each in SUBJECTS[name].does}
    forms = {each["form"] for each in values["results"] if each["workload"] == "lookup"}
    assert forms == {f"{2 * PAGES} captures", "400 synthetic captures"}
    for each in values["results"]:
        assert each["operations"] > 0
        assert (each["seconds"] > 0) == (each["workload"] != "space")
        assert each["workload"] != "space" or each["disk_bytes"] > 0


def test_scale_and_large_need_no_corpus(tmp_path: Path) -> None:
    result = run_cli(
        "--scale", "100", "--large", "64K", "--small", "300", "--repeat", "1", "--work-dir", tmp_path, "--json"
    )
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    assert values["crawls"] is None
    assert values["results"] == []
    assert [each["captures"] for each in values["scales"]] == [100]
    assert values["large"]["payload_bytes"] == 64 << 10
    assert values["small"]["records"] == 300
    assert values["small"]["part_bytes"].keys() == {"volumes", "batches", "catalog"}


def test_wrong_names_are_refused_with_the_nearest_one(corpus: Corpus) -> None:
    for option, name, near in (("--only", "cdx-indexer", "cdxj-indexer"), ("--workload", "imprt", "import")):
        result = run_cli("--corpus", corpus.directory, option, name)
        assert isinstance(result.exception, UnknownName)
        assert f"did you mean '{near}'" in str(result.exception)


def test_a_workload_that_needs_another_is_measured_alone(corpus: Corpus, tmp_path: Path) -> None:
    plan = ArchivePlan(corpus=corpus, subjects=("cdxj-file",), workloads=frozenset({ArchiveWorkload.LOOKUP}), repeats=1)
    outcome = run_archive(plan, tmp_path, lambda *_: None)
    assert [each.place for each in outcome.figures] == [("cdxj-file", ArchiveWorkload.LOOKUP, "120 captures", 1)]
    assert outcome.missing == []


def test_a_missing_program_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable, match="pip install holdfast-of-nowhere"):
        find_program("no-such-program", "holdfast-of-nowhere")
    path = tmp_path / "captures.cdxj"
    write_cdxj(path, 4)
    with pytest.raises(Unavailable, match="--pywb"):
        look_up_with_pywb(path, [url_of(0)], "", str(tmp_path / "no-python"))


def test_a_failing_program_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ChildFailed, match="ended with 3 and said: no room"):
        run_program(
            [sys.executable, "-c", "import sys; print('no room', file=sys.stderr); sys.exit(3)"], tmp_path / "o"
        )
    cost = run_program([sys.executable, "-c", "print(7)"], tmp_path / "out")
    assert (tmp_path / "out").read_text() == "7\n"
    assert cost.rss_peak_bytes > 0
    assert less(Cost(3.0, 2.0, 0, 90), Cost(1.0, 0.5, 0, 80)) == Cost(2.0, 1.5, 80, 90)


def test_the_plain_search_finds_every_url_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "captures.cdxj"
    write_cdxj(path, 600)
    lines = path.read_bytes().splitlines()
    assert lines == sorted(lines)
    with path.open("rb") as stream:
        file = CdxjFile(stream, path.stat().st_size)
        for number in range(300):
            rows = file.lookup(url_of(number))
            assert [(row.urlkey, row.timestamp) for row in rows] == [
                (capture_of(number, crawl).urlkey, capture_of(number, crawl).timestamp) for crawl in range(len(CRAWLS))
            ]
        for url in ("http://a.example/", "http://www.host0000003.example/section/page-99.html", "http://z.zz/"):
            assert file.lookup(url) == []
    assert look_up_file(path, sample_urls(600), "form")[0].form == "form"


def test_a_synthetic_catalog_holds_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.catalog import Catalog

    scale, figures = measure_captures(tmp_path / "catalog", 3_000, 2)
    assert scale.captures == 3_000
    assert len(figures) == 2
    assert scale.lookups == figures[0].operations > 0
    assert scale.rss_peak_bytes >= scale.rss_open_bytes > 0
    with Catalog(tmp_path / "catalog") as catalog:
        assert catalog.totals()[0]["main"].captures == 3_000
        assert catalog.lookup(url_of(17)) == [capture_of(17, 0), capture_of(17, 1)]
    monkeypatch.setattr(synthetic, "sample_urls", lambda *_, **__: ["http://nowhere.example/"])
    with pytest.raises(ChildFailed, match="0 captures were found"):
        synthetic.ask(tmp_path / "catalog", 3_000)


def test_a_large_record_comes_back(tmp_path: Path) -> None:
    large = measure_large(tmp_path / "large", 3_000_001)
    assert large.payload_bytes == 3_000_001
    assert min(large.import_rss_peak_bytes, large.export_rss_peak_bytes) > 0


def test_a_difference_of_one_byte_is_noticed(tmp_path: Path) -> None:
    one, other = tmp_path / "one.gz", tmp_path / "other.gz"
    one.write_bytes(gzip.compress(b"x" * 3_000_000) + gzip.compress(b"y"))
    other.write_bytes(gzip.compress(b"x" * 2_999_999) + gzip.compress(b"xy"))
    compare(one, other)
    other.write_bytes(gzip.compress(b"x" * 3_000_000) + gzip.compress(b"z"))
    with pytest.raises(ChildFailed, match="differs from its original between 2097152"):
        compare(one, other)
    other.write_bytes(gzip.compress(b"x" * 3_000_000))
    with pytest.raises(ChildFailed, match="differs"):
        compare(one, other)


def test_what_warcio_writes_is_whole(crawls: Crawls, tmp_path: Path) -> None:
    pytest.importorskip("warcio")
    target = tmp_path / "all.warc.gz"
    write_with_warcio(crawls, target)
    assert _blocks(target) == [block for path in crawls.files for block in _blocks(path)]
    shutil.copy(crawls.files[0], target)
    with pytest.raises(ChildFailed, match="expected at least"):
        check_whole(target, crawls)


def test_the_median_repeat_is_reported_with_all_times() -> None:
    figure = median([_figure(OURS, ArchiveWorkload.IMPORT, seconds) for seconds in (3.0, 1.0, 2.0)])
    assert figure.cost.seconds == 2.0
    assert figure.seconds_all == (3.0, 1.0, 2.0)


def test_targets_compare_with_the_named_peer() -> None:
    outcome = ArchiveOutcome(
        figures=[
            _figure(OURS, ArchiveWorkload.IMPORT, 1.0),
            _figure("cdxj-indexer", ArchiveWorkload.IMPORT, 2.1),
            _figure("fastwarc", ArchiveWorkload.IMPORT, 0.1),
            _figure(OURS, ArchiveWorkload.SPACE, 0.0, disk_bytes=61),
            _figure("gzip-warc", ArchiveWorkload.SPACE, 0.0, disk_bytes=100),
            _figure(OURS, ArchiveWorkload.EXPORT, 1.0),
        ],
        scales=[_scale(1_000, 1.0), _scale(1_000_000, 0.5), _scale(10_000_000, 1.1)],
        large=LargeRecord(1 << 30, 1.0, 0, 100 << 20, 1.0, 0, 600 << 20),
    )
    assert [verdict.met for verdict in archive_verdicts(outcome)] == [True, False, True, False, None, False, None]
    assert "2.10x" in archive_verdicts(outcome)[0].measured
    assert [verdict.met for verdict in archive_verdicts(ArchiveOutcome())] == [None] * 7


def _blocks(path: Path) -> list[bytes]:
    with path.open("rb") as stream:
        return [record.block.read() for record in open_records(stream)]


def _figure(subject: str, workload: ArchiveWorkload, seconds: float, disk_bytes: int = 0) -> Figure:
    return Figure(subject, workload, 1_000, Cost(seconds, seconds, 0, 0), disk_bytes=disk_bytes)


def _scale(captures: int, lookup_s: float) -> CatalogScale:
    return CatalogScale(
        captures, 1.0, 0.1, 0, 0, 0.1, 0, 0, 20_000, first_s=9.0, lookup_s=lookup_s, lookup_cpu_s=lookup_s
    )
