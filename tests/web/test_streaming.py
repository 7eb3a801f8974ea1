"""Streams over HTTP: real clients, cut off, slow, hostile, and those who share (B2, B10, N5)."""

from __future__ import annotations

import http.client
import io
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow
import pytest
from serving import Served, ask, serving
from waiting import wait_until

import holdfast
from holdfast import ArchiveIterator, CaptureQuery
from holdfast.config import ServeSettings
from holdfast.streams import StreamOptions
from holdfast.web.api.stream.stream import RAW_MARK, TYPES
from holdfast.web.auth.tokens import Tokens

CAPTURES = 700  # whose payloads do not fit into the buffers of any connection


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "archive"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        pages = [
            holdfast.page(f"http://{n % 5}.example/{n}", b"page %d " % n * 1500, timestamp=f"2026010{n % 9 + 1}000000")
            for n in range(CAPTURES)
        ]
        archive.add(pages, batch="one")
    return path


@pytest.fixture(scope="module")
def served(path: Path) -> Iterator[Served]:
    with serving(path) as served:
        yield served


@pytest.fixture(scope="module")
def records(path: Path) -> list[str]:
    with holdfast.open(path, read_only=True) as archive:
        return [str(page.record) for page in archive.stream(StreamOptions(fields=("record",)))]


@contextmanager
def opened(served: Served, params: str) -> Iterator[http.client.HTTPResponse]:
    """A connection with a stream on it, which may be left in the middle; what is not read stays with the server."""
    address = urlsplit(served.controls)
    connection = http.client.HTTPConnection(address.netloc, timeout=60)
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    connection.sock.settimeout(60)
    connection.sock.connect((address.hostname, address.port))
    connection.request("GET", f"/web/stream?{params}")
    response = connection.getresponse()
    assert response.status == 200
    try:
        yield response
    finally:
        response.close()
        connection.close()


def lines_of(body: bytes) -> tuple[list[str], list[str]]:
    """Records and tokens of JSON lines."""
    lines = [json.loads(line) for line in body.splitlines()]
    return [line["record"] for line in lines if "record" in line], [line["token"] for line in lines if "token" in line]


def test_json_lines_with_a_token_behind_each_batch(served: Served, records: list[str]) -> None:
    answer = ask(f"{served.controls}/web/stream")
    assert answer.status == 200 and answer.headers["content-type"] == "application/x-ndjson"
    got, tokens = lines_of(answer.body)
    assert got == records
    assert len(tokens) == 3
    rest, _ = lines_of(ask(f"{served.controls}/web/stream?token={tokens[0]}").body)
    assert rest == records[256:]
    assert lines_of(ask(f"{served.controls}/web/stream?token={tokens[-1]}").body) == ([], [])


def test_every_format_has_its_tokens(served: Served, records: list[str]) -> None:
    for form in TYPES:
        answer = ask(f"{served.controls}/web/stream?format={form}")
        payloads, tokens = READERS[form](answer.body)
        assert len(payloads) == CAPTURES and len(tokens) == 3, form
        again, _ = READERS[form](ask(f"{served.controls}/web/stream?format={form}&token={tokens[1]}").body)
        assert again == payloads[512:], form


def read_jsonl(body: bytes) -> tuple[list[Any], list[str]]:
    return lines_of(body)


def read_arrow(body: bytes) -> tuple[list[Any], list[str]]:
    reader = pyarrow.ipc.open_stream(io.BytesIO(body))
    payloads, tokens = [], []
    while True:
        try:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return payloads, tokens
        payloads += batch.column("payload").to_pylist()
        tokens.append(metadata["token"].decode())


def read_raw(body: bytes) -> tuple[list[Any], list[str]]:
    payloads: list[bytes] = []
    tokens, at = [], 0
    while at < len(body):
        (length,) = struct.unpack_from(">Q", body, at)
        is_mark, length = bool(length & RAW_MARK), length & ~RAW_MARK
        value = body[at + 8 : at + 8 + length]
        at += 8 + length
        if is_mark:
            tokens.append(value.decode())
        else:
            payloads.append(value)
    return payloads, tokens


def read_warc(body: bytes) -> tuple[list[Any], list[str]]:
    payloads, tokens = [], []
    for record in ArchiveIterator(io.BytesIO(body)):
        if record.record_type == "response":
            payloads.append(record.record_id)
        elif record.record_type == "metadata":
            tokens.append(record.reader.read().decode().partition(": ")[2].strip())
    return payloads, tokens


READERS = {"jsonl": read_jsonl, "arrow": read_arrow, "raw": read_raw, "warc": read_warc}


def test_filters_order_and_shards(served: Served, path: Path) -> None:
    asked = "url=1.example/*&from=20260103&to=20260105&order=url&filter=~url:.*1&fields=url,timestamp"
    got = [json.loads(line) for line in ask(f"{served.controls}/web/stream?{asked}").body.splitlines()]
    with holdfast.open(path, read_only=True) as archive:
        query = CaptureQuery(url="1.example/*", from_="20260103", to="20260105", filters=("~url:.*1",))
        expected = [{"url": row.capture.url, "timestamp": row.capture.timestamp} for row in archive.search(query)]
    assert [line for line in got if "url" in line] == expected != []
    parts = [lines_of(ask(f"{served.controls}/web/stream?shard={i}/3").body)[0] for i in range(3)]
    assert all(parts) and len(set(chain(*parts))) == sum(map(len, parts)) == CAPTURES


def test_a_query_needs_the_index(tmp_path: Path) -> None:
    holdfast.init(tmp_path)
    with holdfast.open(tmp_path) as archive:
        archive.add([holdfast.page(f"http://a.example/{word}", f"<p>{word}</p>".encode()) for word in ("ship", "pier")])
        with serving(tmp_path) as served:
            address = f"{served.controls}/web/stream?query=ship&fields=url"
            assert ask(address).status == 404
            archive.index.update()
            lines = [json.loads(line) for line in ask(address).body.splitlines()]
    assert [line["url"] for line in lines if "url" in line] == ["http://a.example/ship"]


def test_in_parts_by_a_header(served: Served, records: list[str]) -> None:
    got: list[str] = []
    token, is_complete, answers = "", "false", 0
    while is_complete == "false":
        answer = ask(f"{served.controls}/web/stream?limit=300&token={token}")
        got += lines_of(answer.body)[0]
        token, is_complete = answer.headers["holdfast-token"], answer.headers["holdfast-complete"]
        answers += 1
    assert got == records and answers == 4


def test_the_server_dies_and_the_stream_goes_on(path: Path, records: list[str]) -> None:
    with serving(path) as first, opened(first, "fields=record,payload") as response:
        got, token = [], ""
        for line in response:
            value = json.loads(line)
            if "token" in value:
                token = value["token"]
                break
            got.append(value["record"])
    with serving(path) as second:
        rest, _ = lines_of(ask(f"{second.controls}/web/stream?fields=record&token={token}").body)
    assert got + rest == records


def test_a_client_that_goes_away_ends_its_part(served: Served) -> None:
    with opened(served, "fields=payload,text") as response:
        response.read(1000)
        assert served.site.streams.clients == 1
    wait_until(lambda: not served.site.streams.clients and not served.site.streams.running, "the stream to end")


def test_a_slow_client_holds_up_nobody(path: Path, records: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.web.api.stream.shared_scans.BUFFER_BYTES", 100_000)
    params = "fields=record,payload"
    with serving(path) as served, opened(served, params) as slow:
        slow.read(10)
        fast, _ = lines_of(ask(f"{served.controls}/web/stream?{params}").body)
        assert fast == records
        assert served.site.streams.running == 1
        rest = slow.read().split(b"\n", 1)[1]
        assert lines_of(rest)[0] == records[1:]


def test_clients_who_take_any_order_get_each_capture_once(
    path: Path, records: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.web.api.stream.shared_scans.BUFFER_BYTES", 100_000)
    params = "fields=record,payload&shared=true"
    with serving(path) as served, opened(served, params) as first:
        head = first.readline()
        late, _ = lines_of(ask(f"{served.controls}/web/stream?{params}").body)
        early, _ = lines_of(head + first.read())
    assert sorted(late) == sorted(early) == sorted(records)


def test_too_many_at_once_are_told_to_wait(path: Path) -> None:
    with serving(path, ServeSettings(streams_max=7)) as served, opened(served, "fields=payload,text") as _:
        answer = ask(f"{served.controls}/web/stream")
        assert answer.status == 429 and "retry-after" in answer.headers
    with serving(path, ServeSettings(streams_max=1)) as served, opened(served, "fields=payload,text") as _:
        assert ask(f"{served.controls}/web/stream").status == 429


def test_what_rules_do_not_allow_does_not_leave(tmp_path: Path) -> None:
    holdfast.init(tmp_path)
    with holdfast.open(tmp_path) as archive:
        hosts = ("open", "blocked", "hidden")
        archive.add([holdfast.page(f"http://{h}.example/", h.encode(), timestamp="20260101000000") for h in hosts])
    with (tmp_path / "holdfast.toml").open("a") as file:
        file.write('\n[[access]]\nrule = "block"\ndomain = "blocked.example"\n')
        file.write('[[access]]\nrule = "exclude"\ndomain = "hidden.example"\n')
    with serving(tmp_path) as served:
        for form in TYPES:
            body = ask(f"{served.controls}/web/stream?format={form}").body
            assert b"open" in body and b"blocked" not in body and b"hidden" not in body


def test_reading_may_need_a_token(path: Path) -> None:
    secret = "a-token-that-is-long-enough"
    with serving(path, tokens=Tokens((secret,))) as served:
        address = f"{served.controls}/web/stream?limit=1"
        assert ask(address).status == 401
        assert ask(address, Authorization=f"Bearer {secret}").status == 200


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ("ur=x", "unknown parameter"),
        ("order=size", "unknown order"),
        ("which=some", "unknown which"),
        ("fields=links", "unknown field"),
        ("format=parquet", "unknown format"),
        ("format=x%00y", "unknown format"),
        ("limit=0", "bad limit"),
        ("limit=99999999", "bad limit"),
        ("limit=٣", "bad limit"),
        ("shard=4/4", "bad shard"),
        ("shard=1", "bad shard"),
        ("token=" + "A" * 5000, "malformed token"),
        ("token=%ff%fe", "malformed token"),
        ("order=log&order=url", "more than once"),
        ("from=yesterday", ""),
        ("filter=~[", ""),
        ("url=a&matchType=near", ""),
        ("batch=../../etc", ""),
        ("shared=perhaps", "bad value"),
        ("at=x", ""),
    ],
)
def test_what_makes_no_sense_is_refused(served: Served, params: str, said: str) -> None:
    answer = ask(f"{served.controls}/web/stream?{quote(params, safe='=&%/')}")
    assert answer.status == 400, answer.text
    assert said in answer.text


def test_other_methods_collections_and_heads(served: Served) -> None:
    assert ask(f"{served.controls}/web/stream", "POST").status in (400, 405)
    assert ask(f"{served.controls}/nothing/stream").status == 404
    answer = ask(f"{served.controls}/web/stream?format=arrow", "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert "content-length" not in answer.headers


def test_a_token_of_other_parameters_is_refused(served: Served) -> None:
    token = ask(f"{served.controls}/web/stream?limit=1").headers["holdfast-token"]
    answer = ask(f"{served.controls}/web/stream?order=url&token={token}")
    assert answer.status == 400 and "other options" in answer.text


def test_a_client_that_resets_its_connection(served: Served) -> None:
    host, port = urlsplit(served.controls).netloc.split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"GET /web/stream?fields=payload,text HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        client.recv(100)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: not served.site.streams.clients, "the stream to end")
    assert ask(f"{served.controls}/web/stream?limit=1").status == 200
