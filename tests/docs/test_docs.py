"""The documentation is true: its commands and programs run, its links lead somewhere, its bytes are the code's."""

from __future__ import annotations

import dataclasses
import inspect
import io
import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from pages import DOCS, ROOT, Shell, anchors, block_after, blocks, links, matches, pages, steps, table_rows

import holdfast
from holdfast import config, errors
from holdfast.config import RemoteSettings, Settings, StoreSettings, VolumeSettings
from holdfast.env import REAL
from holdfast.storage import block, codec
from holdfast.storage.identity import new_identity, read_identity
from holdfast.storage.maintenance import train
from holdfast.storage.store import bloom
from holdfast.storage.store.contents import Contents
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.log import keydir
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, read_segment_header

TOOLS = ("bash", "grep", "dd", "head", "tail", "od", "gzip", "zstd")
INDEXING = ("docs/first-hour.md", "docs/tutorial.md")  # run with the default, unlike all tests: additions are indexed
RUNNABLE = [page for page in pages() if any(each.language in ("console", "python") for each in blocks(page))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# -- what runs ---------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def codecs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page registers must not show in other tests."""
    monkeypatch.setattr(codec, "_known", dict(codec._known))


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A shell in a fresh directory, where the test is too."""
    directory = tmp_path / "here"
    directory.mkdir()
    (directory / "page.html").write_text("<html>Hello</html>\n")  # what README.md takes for granted
    monkeypatch.chdir(directory)
    shell = Shell(directory, tmp_path / "bin")
    yield shell
    shell.close()


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_commands_and_programs_do_what_the_page_says(page: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None and re.search(rf"\b{tool}\b", page.read_text())]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if name_of(page) in INDEXING:
        monkeypatch.delenv(config.INDEX_VARIABLE, raising=False)
        shell.run(f"unset {config.INDEX_VARIABLE}")
    names: dict[str, object] = {"__name__": "page"}
    printed = None
    for each in blocks(page):
        where = f"{name_of(page)}:{each.line}"
        if each.language == "console":
            run_commands(shell, each.text, where)
        elif each.language == "python":
            printed = run_program(each.text, names, where)
        elif each.language == "text" and printed is not None:
            assert matches(each.text, printed), f"{where}: the program above printed {printed!r}"
            printed = None


def run_commands(shell: Shell, text: str, where: str) -> None:
    for command, wanted in steps(text):
        got, code = shell.run(command)
        assert code == 0, f"{where}: {command!r} ended with {code}: {got}"
        assert matches(wanted, got), f"{where}: {command!r} printed {got!r}"


def run_program(text: str, names: dict[str, object], where: str) -> str:
    output = io.StringIO()
    with redirect_stdout(output):
        exec(compile(text, where, "exec"), names)
    return output.getvalue()


def test_the_tutorial_shows_both_ways() -> None:
    shown = {each.language for each in blocks(DOCS / "tutorial.md")}
    assert {"console", "python"} <= shown
    assert not shown & {"sh", "bash", "shell"}  # blocks that nothing would run


def test_a_false_output_is_noticed() -> None:
    assert matches("v0:... 1\n", "v0:abc 1")
    assert not matches("v0:... 1\n", "v0:abc 2")
    assert not matches("", "noise")
    assert [*steps("$ a\n> b\none\n$ c\n")] == [("a\nb\n", "one\n"), ("c\n", "")]


# -- links -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    assert [name_of(page) for page in sorted(DOCS.rglob("*.md")) if page != index and page not in linked] == []


# -- bytes -------------------------------------------------------------------------------------------------------------

HEADER = block.Header(
    kind=b"replica",
    uid=b"9f3a61c2",
    serial=123456789012,
    after=210987654321,
    algorithm=b"rabin64",
    signature=bytes(range(32)),
    overflow=54321,
    home=b"v0-of-elsewhere1",
    codec=b"zstd-dict",
    dictionary=0x1A2B3C4D,
    size=345678901234,
    stored=456789012345,
    references=9876543210,
    checksum=0x5E6F7A8B,
)


def field_texts() -> dict[str, str]:
    """The fields of HEADER as a header spells them."""
    texts = {
        "magic": "HOLDFAST/1",
        "signature": HEADER.signature.hex(),
        "dictionary": f"{HEADER.dictionary:08x}",
        "checksum": f"{HEADER.checksum:08x}",
    }
    for name, value in HEADER._asdict().items():
        texts.setdefault(name, value.decode() if isinstance(value, bytes) else str(value))
    return texts


def test_the_offsets_of_a_block_are_those_of_the_code() -> None:
    raw = block.pack(HEADER).decode()
    rows = [row for row in table_rows((DOCS / "formats/block.md").read_text()) if row[0].isdigit()]
    documented = {row[2].strip("`"): (int(row[0]), int(row[1])) for row in rows}
    for name, text in field_texts().items():
        offset, length = documented.pop(name)
        assert raw[offset : offset + length].rstrip() == text, name
    offset, length = documented.pop("header checksum")
    assert raw[offset : offset + length] == f"{block.checksum(raw[:offset].encode()):08x}"
    assert documented.pop("end") == (offset + length, 2)
    assert documented == {}
    assert offset + length + 2 == block.HEADER_BYTES == 320


def test_the_lines_of_a_block_begin_where_the_box_says() -> None:
    raw = block.pack(HEADER).decode()
    box = block_after(DOCS / "formats/block.md", "## Bytes")
    starts = re.findall(r"^ *(\d+)  (\w+)", box, re.MULTILINE)
    assert len(starts) == 9
    assert [word for number, word in starts[:-1] if not raw[int(number) :].startswith(word)] == []
    assert starts[-1] == ("320", "data")


def test_the_examples_of_headers_are_sound(tmp_path: Path) -> None:
    examples = [each.text for each in blocks(DOCS / "formats/block.md") if each.text.startswith("HOLDFAST/1 ")]
    examples += [each.text for each in blocks(DOCS / "formats/tree.md") if each.text.startswith("HOLDFAST/1 ")]
    assert len(examples) >= 3
    for text in examples:
        assert block.parse(text.encode()[: block.HEADER_BYTES]) is not None, text
    segment = tmp_path / "000001.seg"
    segment.write_text(block_after(DOCS / "formats/segment.md", "A real one"))
    assert segment.stat().st_size == SEGMENT_HEADER_BYTES
    assert read_segment_header(REAL.files.open(segment)).segment == 1
    (tmp_path / "VOLUME").write_text(block_after(DOCS / "formats/volume.md", "A real one"))
    assert read_identity(REAL, tmp_path).organization == "log"


def test_the_records_of_the_keydir_have_the_documented_length() -> None:
    text = (DOCS / "formats/keydir.md").read_text()
    slot = keydir.Slot(1, b"", False, 2, 3, 4, 5, 6, 7, 8, 9)
    lengths = {
        "slot": len(keydir.pack_slots([slot])),
        "facts": len(keydir.pack_facts(keydir.SegmentFacts(1, 2, 3, 4))),
        "position": len(keydir.pack_position(keydir.Position())),
    }
    assert [name for name, length in lengths.items() if f"{name}, {length} bytes" not in text] == []
    sizes = {"u8": 1, "u32": 4, "u64": 8}
    for name, length in lengths.items():
        rows = table_rows(text.split(f"{name}, {length} bytes", 1)[1].split("##", 1)[0])
        places = [(int(offset), sizes[kind]) for offset, kind, _ in rows if kind in sizes]
        ends = [offset + size for offset, size in places]
        assert [0, *ends] == [*(offset for offset, _ in places), length], name


def test_the_keys_of_the_keydir_are_documented() -> None:
    rows = table_rows((DOCS / "formats/keydir.md").read_text().split("## Keys", 1)[1].split("###", 1)[0])[1:]
    letters = {row[0].strip("`")[:1] for row in rows}
    known = (keydir.SLOTS, keydir.SEGMENT, keydir.POSITION, keydir.TICKET, keydir.VERSION)
    assert letters == {each.decode() for each in known}
    assert f"`{keydir.VERSION_NOW.decode()}`" in "".join(row[1] for row in rows if row[0] == "`v`")


def test_the_files_of_a_dictionary_are_as_documented(tmp_path: Path) -> None:
    identity = new_identity(REAL, VolumeSettings("v0"), "sha256")
    shelf = DictionaryShelf(REAL, tmp_path, identity)
    shelf.add(0x11111111, b"an older one")
    shelf.add(0x1A2B3C4D, b"the newest one")
    text = (DOCS / "formats/volume.md").read_text().split("## Dictionaries", 1)[1]
    documented = [row[0].strip("`") for row in table_rows(text) if row[0].startswith("`dictionaries/")]
    assert len(documented) == 2
    for copy, name in enumerate(documented):
        raw = (tmp_path / name).read_bytes()
        assert raw[block.HEADER_BYTES :] == b"the newest one"
        header = block.parse(raw[: block.HEADER_BYTES])
        assert header is not None
        assert (header.kind, header.overflow, header.serial, header.after) == (block.DICT, copy, 2, 1)
        assert header.signature == header.checksum.to_bytes(4, "big")
        assert (header.codec, header.dictionary, header.references) == (b"none", 0x1A2B3C4D, 1)
        assert header.size == header.stored == 14


def test_the_saved_filter_is_as_documented(tmp_path: Path) -> None:
    saved = bloom.BloomFilter(["v0", "v1"])
    saved.save(REAL, tmp_path / "filters", {"v0": 3, "v1": 1})
    head, facts, masks = (tmp_path / "filters").read_bytes().split(b"\n", 2)
    text = (DOCS / "formats/filters.md").read_text()
    assert re.fullmatch(rb"HOLDFAST-FILTER/1 [0-9a-f]{8}", head)
    assert [
        name for name in re.findall(r'"(\w+)":', facts.decode()) if f"`{name}`" not in text and name[0] != "v"
    ] == []
    assert len(masks) == 65536


# -- reference ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("section", ["store", "volume", "remote"])
def test_the_defaults_of_settings_are_those_of_the_code(section: str) -> None:
    kind = {"store": StoreSettings, "volume": VolumeSettings, "remote": RemoteSettings}[section]
    rows = {row[0].strip("`"): row[1].strip("`") for row in table_rows((DOCS / "reference/settings.md").read_text())}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            expected = str(field.default) if field.default != "" else "empty"
            assert rows[f"{section}.{field.name}"] == expected, field.name


def test_the_examples_of_settings_are_accepted() -> None:
    examples = [each.text for page in pages() for each in blocks(page) if each.language == "toml"]
    assert len(examples) >= 2
    for text in examples:
        assert isinstance(config.parse(tomllib.loads(text), Path("holdfast.toml")), Settings)


def test_the_examples_of_connectors_are_read(tmp_path: Path) -> None:
    found = {each.language: each.text for each in blocks(DOCS / "formats/connector.md")}
    for language in ("toml", "xml"):
        (tmp_path / language).write_text(found[language])
        assert len(config.load_connector(tmp_path / language).volume) >= 2


@pytest.mark.parametrize("kind", [holdfast.Archive, Contents], ids=lambda kind: kind.__name__)
def test_every_method_is_in_the_reference(kind: type) -> None:
    text = (DOCS / "reference/python.md").read_text()
    names = [name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")]
    assert names
    assert [name for name in names if not re.search(rf"`(?:archive|contents|archive\.contents)\.{name}\(", text)] == []


def test_classes_that_the_reference_names_exist() -> None:
    of_others = {"IterableDataset", "Last-Modified"}
    text = (DOCS / "reference/python.md").read_text()
    named = set(re.findall(r"`(?:holdfast\.)?([A-Z][a-z][\w-]+)", text)) - of_others
    sources = "\n".join(path.read_text() for path in (ROOT / "src/holdfast").rglob("*.py"))
    defined = set(re.findall(r"^(?:class )?([A-Z]\w+)\b", sources, re.MULTILINE))
    assert sorted(named - defined) == []


def test_every_error_is_in_the_drawing_of_its_tree() -> None:
    drawing = block_after(DOCS / "reference/errors.md", "# Errors")
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert [kind.__name__ for kind in kinds if not re.search(rf"\b{kind.__name__}\b", drawing)] == []


def test_the_numbers_of_training_are_those_of_the_code() -> None:
    how_to = " ".join((DOCS / "how-to/train-a-dictionary.md").read_text().split())
    assert f"{StoreSettings().train_after:,} by default" in how_to
    assert f"at most about {train.SAMPLES_MAX:,}" in how_to
    assert f"up to {train.SAMPLE_BYTES_MAX >> 10} KiB of each and {train.SAMPLES_BYTES_MAX >> 20} MiB in all" in how_to
    assert "k=2000, d=6" in inspect.getsource(codec.train_dictionary)
    assert "k = 2000, d = 6" in (DOCS / "decisions.md").read_text()


def test_every_option_of_a_check_is_in_the_reference() -> None:
    text = (DOCS / "reference/python.md").read_text()
    (row,) = [row for row in table_rows(text) if row[0] == "`CheckOptions`"]
    assert [
        field.name for field in dataclasses.fields(holdfast.CheckOptions) if f"`{field.name}` =" not in row[1]
    ] == []


def test_the_packages_stand_in_the_order_of_the_layers() -> None:
    rows = table_rows((DOCS / "architecture.md").read_text().split("## The packages", 1)[1].split("##", 1)[0])[1:]
    layers = (ROOT / "tests/project/test_layers.py").read_text()
    places = [layers.index(f'"{row[0].strip("`/")}"') for row in rows]
    assert places == sorted(places)


# -- paths -------------------------------------------------------------------------------------------------------------

PLACES = (ROOT, ROOT / "src/holdfast", ROOT / "tests")  # what paths in the pages are relative to
OUR_FOLDERS = "|".join(
    sorted({each.name for place in PLACES for each in place.iterdir() if each.is_dir() and each.name.isidentifier()})
)
MODULE = re.compile(r"[\w./-]*\w\.py\b")
FOLDER = re.compile(rf"`((?:{OUR_FOLDERS})(?:/\w+)*)/`")
IN_AN_ARCHIVE = "batches/"  # a directory of archives, too


def missing_paths(text: str) -> list[str]:
    """Modules, tests and packages that a page names and the repository does not have."""
    named = {*MODULE.findall(text), *(each for each in FOLDER.findall(text) if not each.startswith(IN_AN_ARCHIVE))}
    return sorted(name for name in named if not any((place / name).exists() for place in PLACES))


@pytest.mark.parametrize("page", [*pages(), ROOT / "CHANGELOG.md"], ids=name_of)
def test_paths_that_a_page_names_exist(page: Path) -> None:
    assert missing_paths(page.read_text()) == []


def test_a_path_that_is_gone_is_noticed() -> None:
    assert missing_paths("`storage/block.py`, `tests/docs/`, `crawl/fetch/`, `batches/202611/`") == []
    assert missing_paths("`hash_page.py` and `storage/organizations/`") == ["hash_page.py", "storage/organizations"]


def test_every_word_of_the_glossary_has_one_row() -> None:
    words = [row[0].strip("*") for row in table_rows((DOCS / "glossary.md").read_text())[1:]]
    assert words == sorted(set(words), key=str.lower)


def test_every_promise_of_the_status_has_one_row_and_a_proof() -> None:
    rows = table_rows((DOCS / "status.md").read_text().split("## Promised", 1)[1].split("##", 1)[0])[1:]
    ids = [row[0] for row in rows if row[0] != "P"]
    assert len(ids) == len(set(ids))
    assert [row[0] for row in rows if not re.search(r"`\w[\w/]*(?:/|\.py)`", row[3])] == []
