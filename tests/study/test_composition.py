"""What archives are made of, and media besides pages: against brute force on generated archives (I8)."""

from __future__ import annotations

import io
import random
import struct
import wave
import zlib
from collections import Counter
from pathlib import Path

import pytest
from generated import Fact, add, crawls_with_duplicates, made, revisit

from holdfast import study
from holdfast.archive import Archive
from holdfast.archive.ingest.exchange import page
from holdfast.errors import UnknownCollection, UsageError
from holdfast.formats.media import length_s
from holdfast.study.composition_study import CompositionStudy
from holdfast.study.engine.run import Study, finished_result, partial_result
from holdfast.study.engine.scan import StudySource
from holdfast.study.engine.tally import median_of_powers, power_of
from holdfast.study.media_study import MediaStudy
from holdfast.study.statistics.survival import Count


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 50)) + chunk(b"IEND", b"")
    )


SIDES = ((16, 16), (20, 10), (300, 250), (800, 600), (1000, 20))


def facts() -> list[Fact]:
    pages = [fact for fact in crawls_with_duplicates(4) if fact.mime != "image/png"]
    images = [
        Fact("crawl-0", f"http://site{number}.example/i{number}", "20030102000000", png(*side), "image/png")
        for number, side in enumerate(SIDES)
    ]
    broken = Fact("crawl-0", "http://site1.example/broken", "20030102000000", b"no picture" * 20, "image/png")
    linked = b'<a href="/x">x</a> <a href="http://other.example/">other</a> ' + b"text " * 50
    return [*pages, *images, broken, Fact("crawl-0", "http://site2.example/linked", "20030102000000", linked)]


def good() -> list[Fact]:
    return [fact for fact in facts() if fact.status == 200]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    archive = made(tmp_path_factory.mktemp("composition") / "archive")
    add(archive, facts())
    return archive


def test_types_and_sizes_are_those_of_brute_force(archive: Archive) -> None:
    result = study.composition(archive)
    counts = Counter(fact.type for fact in good())
    sizes = Counter[str]()
    for fact in good():
        sizes[fact.type] += len(fact.body)
    assert {row["type"]: row["captures"] for row in result.rows("types")} == counts
    assert {row["type"]: row["bytes"] for row in result.rows("types")} == sizes
    bins = Counter((fact.type, 1 << power_of(len(fact.body))) for fact in good())
    assert {(row["type"], row["from_bytes"]): row["captures"] for row in result.rows("sizes")} == bins
    assert sum(row["urls"] for row in result.rows("lengths")) == len({fact.url for fact in facts()})
    assert len(result.panels) == 2


def figures(result: study.StudyResult) -> dict[str, float]:
    return {row["figure"]: row["value"] for row in result.rows()}


def test_figures_for_a_plan(archive: Archive) -> None:
    result = study.composition(archive)
    found = figures(result)
    html = [fact for fact in good() if fact.type == "html"]
    urls = {fact.url for fact in facts()}
    assert found["captures"] == len(good())
    assert found["mean size of a page"] == pytest.approx(sum(len(fact.body) for fact in html) / len(html))
    assert found["images per page"] == pytest.approx(6 / len(html))
    assert found["length of a URL"] == pytest.approx(sum(map(len, urls)) / len(urls))
    assert found["stored bytes per byte of content"] > 0
    assert 0 < found["pages that change per day"] < 100
    assert "links per page that has links" not in found
    assert result.notes == ["no links are counted: the index has none, or not the whole archive is studied"]


def test_links_come_from_the_index(tmp_path: Path) -> None:
    with made(tmp_path / "archive") as archive:
        add(archive, [fact for fact in facts() if fact.url.endswith("linked")])
        archive.index.update()
        result = study.composition(archive)
    assert figures(result)["links per page that has links"] == 2
    assert result.notes == []


def test_media_are_those_of_brute_force(archive: Archive) -> None:
    result = study.media(archive)
    names = {"image": "image", "pdf": "document", "css": "style"}
    besides = [fact for fact in good() if fact.type != "html"]
    wanted = Counter(names[fact.type] for fact in besides)
    assert {row["category"]: row["captures"] for row in result.rows()} == wanted
    urls = Counter(name for name, _ in {(names[fact.type], fact.url) for fact in besides})
    assert {row["category"]: row["urls"] for row in result.rows()} == urls
    assert {row["mime"]: row["captures"] for row in result.rows("types")} == Counter(fact.mime for fact in besides)
    sides = Counter(1 << power_of(max(side)) for side in SIDES)
    assert {row["from_pixels"]: row["images"] for row in result.rows("dimensions")} == sides
    assert result.notes == ["1 of 6 images could not be read for their dimensions"]
    assert len(result.panels) == 2


def test_a_revisit_has_the_type_of_its_original(tmp_path: Path) -> None:
    url, body = "http://a.example/i", png(16, 16)
    with made(tmp_path / "archive") as archive:
        archive.add([page(url, body, "image/png", timestamp="20200101000000")])
        (tmp_path / "again.warc").write_bytes(revisit(url, "2020-02-01T00:00:00Z", body))
        archive.import_files(tmp_path / "again.warc")
        types = study.media(archive).rows("types")
    assert [(row["category"], row["mime"], row["captures"]) for row in types] == [("image", "image/png", 2)]


def test_a_sample_of_images_is_the_same_each_time(archive: Archive) -> None:
    first = study.media(archive, images=3).rows("dimensions")
    assert first == study.media(archive, images=3).rows("dimensions")
    assert sum(row["images"] for row in first) <= 3
    assert study.media(archive, images=0).rows("dimensions") == []


def wav(seconds: float) -> bytes:
    sink = io.BytesIO()
    with wave.open(sink, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(1000)
        file.writeframes(bytes(int(1000 * seconds)))
    return sink.getvalue()


def mp4(seconds: float) -> bytes:
    """A film of one empty track."""

    def box(kind: bytes, *parts: bytes) -> bytes:
        data = b"".join(parts)
        return struct.pack(">I4s", 8 + len(data), kind) + data

    header = struct.pack(">IIIIII", 0, 0, 0, 1000, int(1000 * seconds), 0x10000) + bytes(76)
    return box(b"ftyp", b"isom", bytes(4), b"mp42") + box(b"moov", box(b"mvhd", header))


def test_durations_of_sound_and_film(tmp_path: Path) -> None:
    sounds, films = (0.5, 3.0, 3.5, 200.0), (70.0, 100.0)
    parts = [(f"http://a.example/s{length}", wav(length), "audio/wav") for length in sounds]
    parts += [(f"http://a.example/f{length}", mp4(length), "video/mp4") for length in films]
    parts += [
        ("http://a.example/broken", b"RIFF no sound" * 9, "audio/wav"),
        ("http://a.example/x", b"ID3", "audio/mpeg"),
    ]
    with made(tmp_path / "archive") as archive:
        for url, body, mime in parts:
            archive.add([page(url, body, mime, timestamp="20200101000000")])
        result = study.media(archive)
        few = study.media(archive, recordings=1).rows("durations")
        none = study.media(archive, recordings=0).rows("durations")
    found = {
        (row["category"], row["from_seconds"]): (row["files"], row["mean_seconds"]) for row in result.rows("durations")
    }
    assert found == {
        ("audio", 0): (1, pytest.approx(0.5)),
        ("audio", 2): (2, pytest.approx(3.25)),
        ("audio", 128): (1, pytest.approx(200)),
        ("video", 64): (2, pytest.approx(85)),
    }
    assert result.notes == ["2 of 8 recordings could not be read for their durations"]
    assert result.panels[-1].y_label == "files of the category (%)"
    assert (sum(row["files"] for row in few) <= 2, none) == (True, [])


def test_broken_recordings_never_stop_the_study() -> None:
    chance = random.Random(11)
    whole = [wav(3), mp4(70), b"ID3" + bytes(2000), b"OggS" + bytes(500), b"fLaC" + bytes(500), b"FORM" + bytes(400)]
    whole += [b"\xff\xfb\x90\x64" + bytes(3000), bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c") + bytes(600)]
    for _ in range(2000):
        data = bytearray(chance.choice(whole)[: chance.randrange(20, 4000)])
        for _ in range(chance.randrange(12)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        found = length_s(bytes(data))
        assert found is None or found > 0


@pytest.mark.parametrize("kind", [CompositionStudy, MediaStudy])
def test_partial_results_of_two_archives_merge_to_that_of_one(
    archive: Archive, tmp_path: Path, kind: type[CompositionStudy] | type[MediaStudy]
) -> None:
    made_study: Study = kind()
    directories = []
    for number in range(2):
        with made(tmp_path / f"node{number}") as node:
            add(node, [fact for fact in facts() if (fact.host < "site3") == bool(number)])
            directories.append(tmp_path / f"partial{number}")
            directories[-1].mkdir()
            partial_result(made_study, StudySource(node), directories[-1])
    merged = finished_result(made_study, directories)
    whole = study.composition(archive) if kind is CompositionStudy else study.media(archive)
    for name in whole.tables:
        stored = [row for row in merged.rows(name) if not str(row.get("figure")).startswith("stored")]
        wanted = [row for row in whole.rows(name) if not str(row.get("figure")).startswith("stored")]
        for one, other in zip(stored, wanted, strict=True):
            assert one == {key: pytest.approx(v) if isinstance(v, float) else v for key, v in other.items()}


def test_medians_are_read_off_the_bins() -> None:
    chance = random.Random(5)
    sizes = sorted(int(chance.lognormvariate(9, 1.5)) + 1 for _ in range(10_001))
    bins: dict[int, Count] = {}
    for size in sizes:
        number, total = bins.get(power_of(size), Count(0, 0.0))
        bins[power_of(size)] = Count(number + 1, total + size)
    assert median_of_powers(bins) == pytest.approx(sizes[5000], rel=0.03)
    assert median_of_powers({}) is None
    for size in (1, 1024, 1224, 1536, 1800, 2047):  # all of one size
        assert median_of_powers({power_of(size): Count(9, 9.0 * size)}) == pytest.approx(size, rel=0.09)
    assert median_of_powers({-1: Count(3, 0.0)}) == 0.0


def test_little_and_wrong(tmp_path: Path) -> None:
    with made(tmp_path / "archive") as archive:
        assert study.composition(archive).notes == ["there are no captures with a content to study"]
        assert study.media(archive).notes == ["there are no captures besides pages"]
        add(archive, [Fact("one", "http://a.example/", "20200101000000", b"alone" * 100)])
        assert figures(study.composition(archive))["captures"] == 1
        assert study.media(archive).rows() == []
        with pytest.raises(UsageError, match="cannot read -1 images"):
            study.media(archive, images=-1)
        with pytest.raises(UsageError, match="cannot read -1 recordings"):
            study.media(archive, recordings=-1)
        with pytest.raises(UnknownCollection):
            study.composition(archive, collection="nowhere")
