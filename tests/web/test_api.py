"""The API: JSON for programs, described by OpenAPI and true to its description (I10)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from serving import Answer, Served, ask, serving

import holdfast
from holdfast.config import ServeSettings
from holdfast.urls import page_id, page_id_text
from holdfast.web.api.endpoint import ENDPOINTS
from holdfast.web.api.openapi import routes
from holdfast.web.auth.tokens import Tokens

READ, WRITE = "r" * 32, "w" * 32
URL = "http://example.com/page"
HIDDEN, BLOCKED = "http://hidden.example/", "http://blocked.example/"
TIMES = ("20200102030405", "20210102030405", "20220102030405")
RULES = """
[[access]]
rule = "exclude"
domain = "hidden.example"

[[access]]
rule = "block"
domain = "blocked.example"
"""
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "negative_data_rejection,missing_required_header,ignored_auth"
)
REJECTED = """
[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 413, 414, 431]
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def contents_only() -> Iterator[None]:
    """Payloads of every size are contents of the store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.records.draft.REPEATED_BYTES_MAX", 0)
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three captures of a page, and a picture that it embeds."""
    holdfast.init(tmp_path / "archive")
    body = b'<h1>Number %d</h1><img src="/picture.png">'
    with holdfast.open(tmp_path / "archive") as archive:
        archive.add([holdfast.page(URL, body % number, timestamp=time) for number, time in enumerate(TIMES)])
        archive.add([holdfast.page("http://example.com/picture.png", b"\x89PNG", "image/png", TIMES[2])])
        archive.add([holdfast.page(URL, b"news", timestamp=TIMES[0])], collection="news")
        archive.add([holdfast.page(url, b"secret", timestamp=TIMES[0]) for url in (HIDDEN, BLOCKED)])
    return tmp_path / "archive"


@pytest.fixture
def served(path: Path) -> Iterator[Served]:
    with serving(path, ServeSettings(), Tokens([], [WRITE])) as found:
        yield found
        found.site.writer.settle()


def got(served: Served, target: str, status: int = 200, **headers: str) -> Any:
    answer = ask(f"{served.controls}{target}", **headers)
    assert answer.status == status, answer.text
    return json.loads(answer.body)


# -- looking ---------------------------------------------------------------------------------------------------------


def test_captures_are_searched_in_the_grammar_of_the_cdx_server(served: Served) -> None:
    found = got(served, f"/api/captures?url={URL}&from=2021&sort=reverse&filter=mime:text/html")
    assert [each["timestamp"] for each in found["captures"]] == [TIMES[2], TIMES[1]]
    first = found["captures"][0]
    assert (first["url"], first["status"], first["collection"]) == (URL, 200, "main")
    assert first["page"] == f"{served.controls}/main/{TIMES[2]}/{URL}"
    assert first["size"] == len(b'<h1>Number 2</h1><img src="/picture.png">')


def test_an_answer_goes_on_where_the_last_one_ended(served: Served) -> None:
    first = got(served, f"/api/captures?url={URL}&limit=2")
    rest = got(served, f"/api/captures?url={URL}&limit=2&resumeKey={quote(first['resume_key'])}")
    times = [each["timestamp"] for each in first["captures"] + rest["captures"]]
    assert times == list(TIMES)
    assert rest["resume_key"] is None


def test_captures_are_found_by_the_page_id_of_webbase(served: Served) -> None:
    text = page_id_text(page_id(URL))
    found = got(served, f"/api/pages/{text}")
    assert (found["url"], found["timestamp"], found["page_id"]) == (URL, TIMES[2], text)
    assert got(served, f"/api/pages/{text}?timestamp=2020")["timestamp"] == TIMES[0]
    assert got(served, f"/api/pages/{text}?collection=news")["collection"] == "news"
    assert "page id" in str(got(served, f"/api/pages/{'0' * 16}", 404))
    assert got(served, "/api/pages/17", 400)


def test_one_capture_has_its_headers_and_its_payload(served: Served) -> None:
    record = got(served, f"/api/nearest?url={URL}&timestamp=2021")["record"]
    detail = got(served, f"/api/captures/{record}")
    assert detail["timestamp"] == TIMES[1]
    assert detail["status_line"] == "HTTP/1.1 200 OK"
    assert ["Content-Type", "text/html"] in detail["headers"]
    assert "WARC-Target-URI" in dict(detail["record_headers"])
    payload = ask(f"{served.controls}/api/captures/{record}/payload")
    assert payload.body == b'<h1>Number 1</h1><img src="/picture.png">'
    content = ask(f"{served.controls}/api/contents/{detail['contents'][0]}")
    assert content.body == payload.body
    for answer in (payload, content):  # archived bytes do nothing on the origin of the controls
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_collections_and_status_are_told(served: Served) -> None:
    found = got(served, "/api/collections")["collections"]
    assert [(each["name"], each["captures"], each["is_default"]) for each in found] == [
        ("main", 6, True),
        ("news", 1, False),
    ]
    assert got(served, "/api/status")["captures"] == 7


def test_captures_of_another_collection_are_apart(served: Served) -> None:
    assert len(got(served, f"/api/captures?url={URL}&collection=news")["captures"]) == 1
    assert len(got(served, f"/api/captures?url={URL}&collection=all")["captures"]) == 4
    assert got(served, f"/api/captures?url={URL}&collection=none", 404)["status"] == 404


def test_two_captures_are_compared_and_a_page_is_coherent_or_not(served: Served) -> None:
    found = got(served, f"/api/compare?url={URL}&a={TIMES[0]}&b={TIMES[2]}")
    assert found["is_same_content"] is False
    report = got(served, f"/api/coherence?url={URL}&timestamp={TIMES[0]}")
    assert report["is_warning"] is True
    assert [part["url"] for part in report["parts"]] == ["http://example.com/picture.png"]


def test_crawls_are_listed(served: Served) -> None:
    assert got(served, "/api/crawls") == {"crawls": []}
    assert got(served, "/api/crawls/none", 404)["title"] == "Not found"
    answer = ask(f"{served.controls}/api/crawls/none/stop", "POST", Authorization=f"Bearer {WRITE}")
    assert answer.status == 404


# -- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "status", "detail"),
    [
        ("/api/captures", 400, "'url' is missing"),
        (f"/api/captures?url={URL}&limit=many", 400, "bad limit 'many'"),
        (f"/api/captures?url={URL}&limit=10001", 400, "from 1 to 10000"),
        (f"/api/captures?url={URL}&lmit=1", 400, "did you mean 'limit'"),
        (f"/api/captures?url={URL}&filter=nosuch:x", 400, "unknown field 'nosuch'"),
        (f"/api/captures?url={URL}&url={URL}", 400, "comes 2 times"),
        ("/api/captures/202611-0000009999", 404, "no capture"),
        ("/api/captures/nonsense", 400, "bad record"),
        ("/api/contents/nonsense", 400, "malformed contentkey"),
        ("/api/contents/v0:00", 404, ""),
        ("/api/nearest?url=http://nowhere.example/", 404, "not archived"),
        ("/api/nothing", 404, "listed at /api/docs"),
    ],
)
def test_a_failure_is_a_problem_with_a_reason(served: Served, target: str, status: int, detail: str) -> None:
    answer = ask(f"{served.controls}{target}")
    values = json.loads(answer.body)
    assert (answer.status, values["status"]) == (status, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert detail in values["detail"]
    assert set(values) == {"type", "title", "status", "detail"}


def test_a_wrong_method_is_told_the_right_ones(served: Served) -> None:
    answer = ask(f"{served.controls}/api/captures", "DELETE")
    assert answer.status == 405
    assert {"GET", "PUT"} <= set(answer.headers["allow"].replace(" ", "").split(","))


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"[]", b"{}", b'{"seeds": [1]}', b'{"seeds": ["http://a.test/"], "x": 1}']
)
def test_a_crawl_that_makes_no_sense_is_not_started(served: Served, body: bytes) -> None:
    answer = ask(f"{served.controls}/api/crawls", "POST", body, Authorization=f"Bearer {WRITE}")
    assert answer.status == 400, answer.text
    assert got(served, "/api/crawls") == {"crawls": []}


# -- who may see what ------------------------------------------------------------------------------------------------


def test_what_is_excluded_is_nowhere_and_what_is_blocked_is_listed(served: Served, path: Path) -> None:
    found = {url: got(served, f"/api/nearest?url={url}") for url in (HIDDEN, BLOCKED)}
    settings = path / "holdfast.toml"
    settings.write_text(settings.read_text() + RULES)
    served.site.access._look_at_s = 0.0  # it looks once a second
    hidden, blocked = found[HIDDEN], found[BLOCKED]
    assert got(served, f"/api/captures?url={HIDDEN}")["captures"] == []
    assert [each["url"] for each in got(served, "/api/captures?url=*.example")["captures"]] == [BLOCKED]
    assert got(served, f"/api/nearest?url={HIDDEN}", 404)
    assert got(served, f"/api/captures/{hidden['record']}", 404)
    assert got(served, f"/api/pages/{hidden['page_id']}", 404)
    assert got(served, f"/api/pages/{blocked['page_id']}", 451)
    assert got(served, f"/api/captures/{hidden['record']}/payload", 404)
    assert got(served, f"/api/compare?url={HIDDEN}&a=2020&b=2021", 404)
    assert len(got(served, f"/api/captures?url={BLOCKED}")["captures"]) == 1
    assert got(served, f"/api/nearest?url={BLOCKED}", 451)
    assert got(served, f"/api/captures/{blocked['record']}", 451)
    assert got(served, f"/api/captures/{blocked['record']}/payload", 451)
    assert got(served, f"/api/contents/{hidden['contents'][0]}", 403)
    assert {each["captures"] for each in got(served, "/api/collections")["collections"]} == {None}
    assert ask(f"{served.replay}/main/{TIMES[0]}id_/{HIDDEN}").status == 404
    assert ask(f"{served.replay}/main/{TIMES[0]}id_/{BLOCKED}").status == 451


def test_with_a_token_for_reading_nothing_is_told_without_it(path: Path) -> None:
    with serving(path, ServeSettings(), Tokens([READ], [WRITE])) as served:
        for target in ("/openapi.json", "/api/docs", "/api/collections", f"/api/captures?url={URL}"):
            assert ask(f"{served.controls}{target}").status == 401, target
            assert ask(f"{served.controls}{target}", Authorization=f"Bearer {READ}").status == 200, target
        assert (
            "security" in got(served, "/openapi.json", Authorization=f"Bearer {READ}")["paths"]["/api/nearest"]["get"]
        )


# -- the description ---------------------------------------------------------------------------------------------------


def test_routes_and_description_name_the_same(served: Served) -> None:
    described = got(served, "/openapi.json")["paths"]
    told = {(path, method.upper()) for path, methods in described.items() for method in methods}
    assert told == {(endpoint.path, endpoint.method) for endpoint in ENDPOINTS}
    besides = ("/openapi.json", "/api", "/api/", "/api/docs", "/api/{rest:path}")
    assert {route.path for route in routes(served.site)} - {*besides} == described.keys()
    for path, methods in described.items():
        answer = ask(served.controls + re.sub(r"{\w+}", "x", path), "PATCH")
        assert answer.status == 405
        assert {*answer.headers["allow"].split(", ")} == {method.upper() for method in methods}


def test_everything_is_documented(served: Served) -> None:
    text = (ROOT / "docs" / "protocol" / "api.md").read_text()
    page = ask(f"{served.controls}/api/docs", Accept="text/html")
    assert page.status == 200
    for endpoint in ENDPOINTS:
        assert f"`{endpoint.method} {endpoint.path}`" in text, endpoint.path
        assert f"{endpoint.method} {endpoint.path}" in page.text
        for parameter in endpoint.parameters:
            assert re.search(rf"`{re.escape(parameter.name)}`", text), parameter.name


@contextmanager
def program(path: Path) -> Iterator[tuple[str, str]]:
    """`holdfast serve` as people run it: its address, and the token that it gives out."""
    command = [sys.executable, "-m", "holdfast", "serve", "-a", str(path), "-p", "0", "--workers", "1", "--write"]
    with subprocess.Popen(
        [*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            yield told["pages"].rstrip("/"), told["token"]
        finally:
            process.terminate()
            process.wait(30)


def test_schemathesis_finds_nothing(path: Path) -> None:
    """Without `startCrawl`: a crawl of whatever comes to its mind would be a real one."""
    tester = shutil.which("schemathesis", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if tester is None:
        pytest.skip("schemathesis is not installed")
    (path.parent / "schemathesis.toml").write_text(REJECTED)
    with holdfast.open(path, read_only=True) as archive:
        archive.index.update()
    with program(path) as (address, token):
        command = [tester, "run", f"{address}/openapi.json", "--checks", CHECKS, "--exclude-operation-id", "startCrawl"]
        command += ["--header", f"Authorization: Bearer {token}", "--seed", "5", "--max-examples", "6", "--no-shrink"]
        command += ["--phases", "examples,coverage,fuzzing", "--generation-database", "none", "--warnings", "off"]
        command += ["--request-timeout", "20", "--no-color"]
        asked = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=path.parent)
        assert asked.returncode == 0, asked.stdout[-8000:] + asked.stderr[-2000:]
        assert ask(f"{address}/health").status == 200


def test_answers_are_not_for_other_sites(served: Served) -> None:
    answer: Answer = ask(f"{served.controls}/api/collections", Origin="http://evil.example")
    assert "access-control-allow-origin" not in answer.headers
