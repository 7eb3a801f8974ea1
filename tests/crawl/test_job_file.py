"""Jobs as TOML files: what is written is read back, and what makes no sense is refused with the repair (H5)."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.crawl.job.file import PARTS, parse_job, read_job, read_seeds, write_job
from holdfast.crawl.job.job import (
    BrowserSettings,
    CrawlJob,
    Credential,
    FetchSettings,
    RevisitSettings,
    ScopeKind,
    TrapSettings,
    checked,
    header_of,
    name_for,
    resolution_of,
    seed_of,
)
from holdfast.env.units import duration_text, parse_duration, parse_size, size_text
from holdfast.errors import FormatTooNew, InvalidSetting, NotFound, UsageError

DOCS = Path(__file__).parents[2] / "docs"
SEED = 'seeds = ["https://example.com/"]\n'


# -- quantities --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("500k", 512_000),
        ("1 GiB", 1 << 30),
        ("1.5G", 3 << 29),
        ("2MB", 2 << 20),
        ("1T", 1 << 40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30), ("1.5", 1.5), ("30s", 30), ("15m", 900), ("15 min", 900), ("2h", 7200), ("7d", 604800),
        ("2w", 1209600), ("500ms", 0.5), ("1h 30m", 5400), ("1H30M", 5400),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "fast", "-1", "1 potato", "1e9", "1.2.3", "٣", "1 PiB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "soon", "-1s", "5 years", "1h and 30m", "inf", "1:30"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        parse_duration(text)


@given(st.integers(0, 1 << 50))
def test_sizes_are_read_as_they_were_written(count: int) -> None:
    assert parse_size(size_text(count)) == count


@given(st.floats(0, 1e9) | st.integers(0, 10**9).map(float))
def test_durations_are_read_as_they_were_written(seconds: float) -> None:
    assert parse_duration(duration_text(seconds)) == seconds


# -- a job and its file ------------------------------------------------------------------------------------------------

EVERYTHING = CrawlJob(
    seeds=("https://example.com/", 'https://example.com/a?b="c"'.replace('"', "%22")),
    name="news",
    collection="papers",
    scope=ScopeKind.DOMAIN,
    depth=3,
    limit=1000,
    time_s=5400.0,
    bytes_max=10 << 30,
    include=(r"^https://cdn\.example\.net/",),
    exclude=(r'"quoted"', r"\?print=1$"),
    sitemap=False,
    workers=8,
    readers=2,
    fetch=FetchSettings(
        user_agent='Holdfast "test"',
        headers=(("Accept-Language", "en"), ("Cookie", "a=b; c=d"), ("Cookie", "e=f")),
        proxy="socks5h://127.0.0.1:9050",
        robots=False,
        delay=0.25,
        resolve=(("example.com", "192.0.2.7"), ("*.example.org", "2001:db8::1")),
        private=True,
        refuse=("10.0.0.0/8",),
        body_bytes_max=500_000,
        fetch_timeout_s=90.0,
    ),
    traps=TrapSettings(hosts_max=7),
    browser=BrowserSettings(enabled=True, screenshots=True, idle_s=0.125),
    revisit=RevisitSettings(only="due", lifetime_s=30 * 86400.0),
)


def test_a_job_is_read_as_it_was_written() -> None:
    assert parse_job(write_job(EVERYTHING), "job.toml") == EVERYTHING


def test_every_field_can_be_written_and_read() -> None:
    """None is forgotten, also those that somebody adds later."""
    for part in ("", *PARTS):
        of = getattr(CrawlJob(), part) if part else CrawlJob()
        for field in dataclasses.fields(of):
            if field.name in (*PARTS, "seeds", "scope", "name"):
                continue
            value = another(field.name, getattr(of, field.name), str(field.type))
            changed = dataclasses.replace(of, **{field.name: value})
            job = CrawlJob(seeds=("https://example.com/",), name="x")
            job = dataclasses.replace(job, **{part: changed}) if part else dataclasses.replace(
                changed, seeds=job.seeds, name=job.name
            )  # fmt: skip
            assert parse_job(write_job(job), "job.toml") == job, field.name


def another(name: str, value: Any, kind: str) -> Any:
    """A value of the same kind that is allowed."""
    special: dict[str, Any] = {
        "headers": (("A", "b"),),
        "credentials": (Credential("https://example.com", "Authorization", "Bearer abc"),),
        "resolve": (("example.com", "192.0.2.7"),),
        "proxy": "http://p:1",
        "only": "due",
        "refuse": ("10.0.0.0/8",),
        "lifetimes": ((r"/news/\?a=1", 86400.0), ("/law/", 0.0)),
    }
    if name in special:
        return special[name]
    if isinstance(value, bool):
        return not value
    if kind.startswith("tuple"):
        return ("a", "b")
    if kind.startswith("float"):
        return 4321.5 if value is None else value + 0.5
    if kind.startswith("int"):
        return 5000 if value is None else value + 1
    return "something"


def test_a_file_says_only_what_differs() -> None:
    text = write_job(CrawlJob(seeds=("https://example.com/",), name="x"))
    assert text == 'format = 1\nname = "x"\nseeds = ["https://example.com/"]\nscope = "prefix"\n'


def test_a_file_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(
        'seeds = ["www.example.com:8080/a b#c"]\ntime = 90\nbytes_max = "1 GiB"\n'
        '[fetch]\ndelay = "1m"\nheaders = ["X: y"]\n[revisit]\ninterval_min = "2h"\n'
    )
    job = read_job(path)
    assert job.seeds == ("https://www.example.com:8080/a%20b",)
    assert job.name == "example.com-8080"
    assert (job.time_s, job.bytes_max, job.fetch.delay) == (90.0, 1 << 30, 60.0)
    assert job.fetch.headers == (("X", "y"),)
    assert job.revisit.interval_min_s == 7200.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a crawl needs seeds"),
        (SEED + "depht = 3", "unknown setting depht; did you mean 'depth'?"),
        (SEED + "[fetch]\nuser-agent = 'x'", "unknown setting fetch.user-agent; did you mean 'user_agent'?"),
        (SEED + "time_s = 3", "unknown setting time_s; did you mean 'time'?"),
        (SEED + "fetch = 3", "fetch must be a table, found 3"),
        (SEED + "scope = 'world'", "scope must be one of page, prefix, host, domain, any, found 'world'"),
        (SEED + "depth = '3'", "depth must be a number, found '3'"),
        (SEED + "depth = true", "depth must be a number, found True"),
        (SEED + "depth = -1", "depth must be at least 0, found -1"),
        (SEED + "limit = 0", "limit must be at least 1, found 0"),
        (SEED + "workers = 5000", "workers must be at most 1024, found 5000"),
        (SEED + "sitemap = 1", "sitemap must be true or false, found 1"),
        (SEED + "time = 'soon'", "time: 'soon' is not a duration"),
        (SEED + "time = inf", "time must be at least 1, found inf"),
        (SEED + "bytes_max = 'many'", "bytes_max: 'many' is not a size"),
        (SEED + "include = 'x'", "include must be a list of texts, found 'x'"),
        (SEED + "include = ['a(']", "include 'a(' is not a regular expression: missing )"),
        (SEED + "collection = 'A b'", "bad name 'A b' of a batch or collection"),
        (SEED + "name = '../x'", "bad name '../x' of a crawl"),
        (SEED + "[fetch]\nheaders = ['X']", "'X' is not a header: write 'Name: value'"),
        (SEED + '[fetch]\nheaders = ["X: a\\r\\nY: b"]', "is not a header"),
        (SEED + "[fetch]\nheaders = ['host: b']", "the header 'host' is written for each request as it needs it"),
        (SEED + "[fetch]\nheaders = ['Content-Length: 1']", "leave it out"),
        ("seeds = ['news']", "seed 'news' is not a URL that can be fetched: write 'https://example.com/'"),
        (SEED + "[revisit]\nlifetimes = ['30d']", "'30d' is not a lifetime for some pages: write 'REGEX=30d'"),
        (SEED + "[revisit]\nlifetimes = ['/news/=soon']", "'soon' is not a duration"),
        (SEED + "[revisit]\nlifetimes = ['a(=30d']", "lifetime of 'a(' is not a regular expression: missing )"),
        (SEED + "[fetch]\nresolve = ['example.com']", "'example.com' is not an address for a host"),
        (SEED + "[fetch]\nresolve = ['example.com=localhost']", "is not an address for a host"),
        (SEED + "[fetch]\nproxy = 'example.com:80'", "proxy 'example.com:80' must begin with one of http://"),
        (SEED + "[fetch]\nrefuse = ['10']", "fetch.refuse '10' is not a network"),
        (SEED + '[fetch]\nuser_agent = "a\\nb"', "has control characters in it"),
        (SEED + "[revisit]\nonly = 'some'", "revisit.only must be one of all, due, found 'some'"),
        (SEED + "[revisit]\ninterval_min = '100d'", "interval_min must not be larger"),
        ("seeds = ['ftp://example.com/']", "seed 'ftp://example.com/' is not a URL that can be fetched"),
        ("seeds = ['https://me:secret@example.com/']", "has a user name in it"),
        ("seeds = ['me:secret@example.com']", "has a user name in it"),
        ("seeds = ['']", "seed '' is not a URL that can be fetched"),
        ("seeds = 'https://example.com/'", "seeds must be a list of texts"),
        ("seeds = [", "cannot read 'job.toml'"),
        (SEED + "format = 0", "format must be 1, found 0"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(text: str, message: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(message)) as raised:
        parse_job(text, "job.toml")
    assert "'job.toml'" in str(raised.value)


def test_a_later_format_and_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FormatTooNew):
        parse_job("format = 2\nshape = 'new'", "job.toml")
    with pytest.raises(NotFound, match=re.escape("no job file")):
        read_job(tmp_path / "job.toml")
    with pytest.raises(UsageError, match="is a folder: name a job file"):
        read_job(tmp_path)
    with pytest.raises(InvalidSetting, match="cannot read"):
        parse_job(b"name = '\xff'", "job.toml")


# -- seeds, names, headers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("example.com", "https://example.com/"),
        ("localhost:8000/x", "https://localhost:8000/x"),
        ("HTTP://Example.com:80/a/../b#c", "http://example.com/b"),
        (" https://bücher.example/ ", "https://xn--bcher-kva.example/"),
        ("[::1]:8080", "https://[::1]:8080/"),
        ("localhost", "https://localhost/"),
        ("wiki:8080", "https://wiki:8080/"),
        ("192.0.2.7/a", "https://192.0.2.7/a"),
        ("例え。jp", "https://xn--r8jz45g.jp/"),
        ("example.com?q=a:b", "https://example.com/?q=a:b"),
        ("http://news/", "http://news/"),
    ],
)
def test_seeds(written: str, url: str) -> None:
    assert seed_of(written) == url
    assert seed_of(url) == url


@pytest.mark.parametrize(
    ("written", "repair"),
    [
        ("bg", "write 'https://example.com/'; if 'bg' is a host, 'https://bg/'"),
        ("5", "if '5' is a host"),
        ("bg/list", "if 'bg' is a host"),
        ("bg.", "if 'bg.' is a host"),
        ("", "write 'https://example.com/'"),
        ("/etc/passwd", "it is a path"),
        ("./seeds.txt", "it is a path"),
        ("../a.b", "it is a path"),
        (".", "it is a path"),
        ("~/seeds.txt", "it is a path"),
        ("//example.com/", "it is a path"),
        ("mailto:a@b.example", "only http and https are fetched"),
        ("javascript:1", "only http and https are fetched"),
        ("data:text/html,x.y", "only http and https are fetched"),
        ("urn:isbn:1.2", "only http and https are fetched"),
        ("https:example.com", "only http and https are fetched; write 'https://example.com/'"),
        ("example.com/?u=http://example.org/", "write it with its scheme"),
        ("1://example.com/", "write it with its scheme"),
    ],
)
def test_what_is_no_seed(written: str, repair: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repair)) as raised:
        seed_of(written)
    assert f"seed {written!r} is not a URL that can be fetched" in str(raised.value)


@pytest.mark.parametrize(
    ("seed", "name"),
    [
        ("https://www.example.com/a", "example.com"),
        ("http://127.0.0.1:8000/", "127.0.0.1-8000"),
        ("https://[::1]/", "1"),
        (f"https://{'a' * 60}.{'b' * 20}/", f"{'a' * 60}.bbb"),
        ("https://_dmarc.example.com/", "dmarc.example.com"),
    ],
)
def test_the_name_of_a_crawl_that_has_none(seed: str, name: str) -> None:
    assert name_for(seed) == name
    assert checked(CrawlJob(seeds=(seed,))).name == name


def test_seeds_are_taken_once() -> None:
    job = checked(CrawlJob(seeds=("https://example.com", "https://example.com/#top", "https://example.com/b")))
    assert job.seeds == ("https://example.com/", "https://example.com/b")


def test_seeds_of_a_file() -> None:
    lines = ["# mine\n", "\n", " https://a.example/ \r\n", "b.example # the other\n", "https://c.example/#top\n"]
    assert read_seeds(lines) == ["https://a.example/", "b.example", "https://c.example/#top"]
    assert read_seeds(["\ufeffhttps://a.example/\r\n", "\ufeff# mine\r\n"]) == ["https://a.example/"]


def test_a_file_of_another_system(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes("\ufeff".encode() + SEED.replace("\n", "\r\n").encode())
    assert read_job(path).seeds == ("https://example.com/",)


def test_headers_and_addresses() -> None:
    assert header_of("Authorization:  Bearer a:b ") == ("Authorization", "Bearer a:b")
    assert header_of("X-Empty:") == ("X-Empty", "")
    assert resolution_of("Example.com=192.0.2.7") == ("example.com", "192.0.2.7")
    assert resolution_of("*.example.com=[2001:db8::1]") == ("*.example.com", "2001:db8::1")


# -- documentation -----------------------------------------------------------------------------------------------------


def test_every_key_is_documented_with_its_default() -> None:
    text = (DOCS / "formats" / "crawl.md").read_text()
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `?([^`|]+?)`? \|", text, re.MULTILINE))
    for part in ("", *PARTS):
        of = getattr(CrawlJob(), part) if part else CrawlJob()
        for field in dataclasses.fields(of):
            if field.name not in PARTS:
                key = f"{part}.{field.name}".strip(".").removesuffix("_s")
                assert rows[key] == shown(field.name, getattr(of, field.name)), key


def shown(name: str, value: Any) -> str:
    """A default as the page shows it."""
    if value is None or value in ("", ()):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if name.endswith("_s") or name in ("delay", "delay_max"):
        return duration_text(value)
    return size_text(value) if "bytes" in name else str(value)
