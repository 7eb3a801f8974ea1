"""What archived bytes can make the server say, and what it says all the same (W17): no code of theirs beside the
controls, no way out, no answer within the answer."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from pages_kept import answer, kept
from serving import Served, ask, serving

from holdfast.archive.ingest.exchange import Exchange, page

A = "http://a.example"
TIME = "20240102030405"
SECOND = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>"
PAGE = b"<!DOCTYPE html><title>no type</title><a href=http://b.example/>b</a>"
LARGE = bytes(range(256)) * (5 << 12)
LIMIT = 1 << 20


def named(path: str, content_type: str, body: bytes) -> Exchange:
    return answer(f"{A}/{path}", TIME, "200 OK", [f"Content-Type: {content_type}"], body)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    zipped = ["Content-Type: text/html", "Content-Encoding: gzip"]
    captures = [
        *(answer(f"{A}/{status}", TIME, f"{status} Odd", ["Content-Type: text/plain"], SECOND)
          for status in (100, 101, 103, 199, 600, 999)),
        answer(f"{A}/untyped", TIME, "200 OK", [], PAGE),
        answer(f"{A}/unsure", TIME, "200 OK", [], b"just some text"),
        named("drawing.svg", "image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>"),
        named("feed", "application/rss+xml", b"<rss/>"),
        named("page", "text/html", b"<p>page"),
        named("odd-type", "text/plain\x0b\x00x", b"text"),
        answer(f"{A}/bomb", TIME, "200 OK", zipped, gzip.compress(b"<p>" * LIMIT)),
        answer(f"{A}/large-script", TIME, "200 OK", ["Content-Type: text/javascript"], b"location;" * (LIMIT // 8)),
        page(f"{A}/film", LARGE, "video/mp4", TIME),
        named("sw.js", "text/javascript", b"onfetch = () => {}"),
    ]  # fmt: skip
    path = kept(tmp_path_factory.mktemp("safety") / "archive", captures)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.web.replay.render.REWRITE_BYTES_MAX", LIMIT)
        patch.setattr("holdfast.web.context.SPOOL_BYTES_MAX", 1)
        with serving(path) as there:
            yield there


@pytest.mark.parametrize("status", [100, 101, 103, 199, 600, 999])
@pytest.mark.parametrize("modifier", ["id_", "mp_"])
def test_a_status_that_is_none_is_not_passed_on(served: Served, status: int, modifier: str) -> None:
    """After one below 200 a client reads on: the archived body would be the answer, without any policy of ours."""
    for origin in (served.replay, served.controls)[: 2 if modifier == "id_" else 1]:
        got = ask(f"{origin}/main/{TIME}{modifier}/{A}/{status}")
        assert (got.status, got.body) == (502, SECOND)
        assert got.headers["x-archive-orig-status"] == str(status)


def test_a_page_without_a_type_is_rewritten_as_one(served: Served) -> None:
    got = ask(f"{served.replay}/main/{TIME}mp_/{A}/untyped")
    assert "/_hf/runtime.js" in got.text
    assert f"/main/{TIME}mp_/http://b.example/" in got.text
    assert ask(f"{served.replay}/main/{TIME}mp_/{A}/unsure").body == b"just some text"


@pytest.mark.parametrize(
    ("path", "sandbox"),
    [
        ("drawing.svg", "sandbox allow-same-origin;"),
        ("feed", "sandbox allow-same-origin;"),
        ("unsure", "sandbox allow-same-origin;"),
        ("page", "sandbox allow-scripts allow-same-origin"),
    ],
)
def test_only_pages_with_the_runtime_run_scripts(served: Served, path: str, sandbox: str) -> None:
    for modifier in ("mp_", "if_", "im_"):
        policy = ask(f"{served.replay}/main/{TIME}{modifier}/{A}/{path}").headers["content-security-policy"]
        assert sandbox in policy
        assert "http:" not in policy.partition("frame-ancestors")[0]


def test_nobody_else_may_frame_a_capture_or_use_it(served: Served) -> None:
    for address in (f"{TIME}mp_/{A}/page", f"{TIME}id_/{A}/page", f"{TIME}im_/{A}/film"):
        headers = ask(f"{served.replay}/main/{address}").headers
        assert headers["content-security-policy"].endswith(f"frame-ancestors 'self' {served.controls}")
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"


def test_archived_service_workers_are_not_given_out(served: Served) -> None:
    address = f"{served.replay}/main/{TIME}js_/{A}/sw.js"
    assert ask(address, Service_Worker="script").status == 403
    assert ask(address, Sec_Fetch_Dest="serviceworker").status == 403
    assert ask(address, Sec_Fetch_Dest="script").status == 200
    assert ask(f"{served.replay}/_hf/worker.js", Service_Worker="script").status == 200


def test_controls_in_a_type_are_left_out(served: Served) -> None:
    for modifier in ("id_", "mp_"):
        got = ask(f"{served.replay}/main/{TIME}{modifier}/{A}/odd-type")
        assert (got.status, got.body) == (200, b"text")


def test_what_is_too_large_to_be_rewritten_says_so_if_it_is_a_page(served: Served) -> None:
    assert ask(f"{served.replay}/main/{TIME}mp_/{A}/bomb").status == 413
    assert ask(f"{served.replay}/main/{TIME}js_/{A}/large-script").body == b"location;" * (LIMIT // 8)
    raw = ask(f"{served.replay}/main/{TIME}id_/{A}/bomb")  # by a client that knows no gzip: as it is, then
    assert raw.headers["content-encoding"] == "gzip"


def test_large_payloads_are_sent_from_a_file_also_if_it_is_given_up_meanwhile(served: Served) -> None:
    for begin, end in ((0, 10), (len(LARGE) - 5, len(LARGE)), (0, len(LARGE))):
        got = ask(f"{served.replay}/main/{TIME}im_/{A}/film", Range=f"bytes={begin}-{end - 1}")
        assert got.body == LARGE[begin:end]
