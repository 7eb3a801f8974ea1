"""Tokens: small, good anywhere, and refused where they do not belong, with nothing changed."""

from __future__ import annotations

import base64
import json
import zlib
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from stream_world import PLAN, delivered, fill

import holdfast
from holdfast import Archive, CaptureQuery
from holdfast.errors import DamagedCatalog, FormatTooNew, MalformedToken, UnknownName, UsageError
from holdfast.streams import StreamOptions
from holdfast.streams.snapshot import Snapshot
from holdfast.streams.token import StreamToken, decode


def raw_of(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def text_of(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def packed(facts: object, version: int = 1) -> str:
    data = zlib.compress(json.dumps(facts).encode())
    return text_of(bytes([version]) + zlib.crc32(data).to_bytes(4, "big") + data)


def halfway(archive: Archive, options: StreamOptions) -> str:
    stream = archive.stream(options)
    for _ in zip(range(10), stream, strict=False):
        pass
    return stream.token


def test_the_bytes_are_as_documented() -> None:
    """Golden but for the compressor, which may be of any version."""
    token = StreamToken("3f0a91c2b7d45e60", "5a0bd21c5d0fd6a1", Snapshot({"202611": 4712}), delivered=1201)
    raw = raw_of(token.encode())
    assert raw[0] == 1
    assert zlib.crc32(raw[5:]) == int.from_bytes(raw[1:5], "big")
    assert zlib.decompress(raw[5:]) == (
        b'{"archive":"3f0a91c2b7d45e60","options":"5a0bd21c5d0fd6a1","snapshot":{"202611":4712},'
        b'"delivered":1201,"position":[]}'
    )
    assert decode(token.encode()) == token


def test_tokens_are_small(archive: Archive) -> None:
    fill(archive, 40, batches=[f"2025{month:02d}" for month in range(1, 13)])
    for order in ("log", "url", "date"):
        assert len(halfway(archive, StreamOptions(order=order, batch_size=3))) < 300


def test_whatever_was_changed_is_noticed(archive: Archive) -> None:
    fill(archive, 30)
    token = halfway(archive, StreamOptions())
    raw = raw_of(token)
    bad = [text_of(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]) for at in range(1, len(raw))]
    bad += [token[:at] for at in range(1, len(token) - 1, 7)]
    bad += ["x", "?", "AQ", token + "AAAA", "é", " ", packed([]), packed({}), packed({"archive": 1})]
    good = json.loads(zlib.decompress(raw[5:]))
    bad += [
        packed(good | {"position": [[]]}),
        packed(good | {"snapshot": {"one": "x"}}),
        packed(good | {"delivered": -1}),
    ]
    for each in bad:
        with pytest.raises(MalformedToken):
            archive.stream(StreamOptions(token=each))
    with pytest.raises(FormatTooNew):
        archive.stream(StreamOptions(token=packed(good, 2)))
    assert len(delivered(archive, StreamOptions(token=token))) == 20


def test_a_position_of_another_order_is_refused(archive: Archive) -> None:
    """Its digest says that it belongs; what it holds does not."""
    fill(archive, 30)
    own = decode(halfway(archive, StreamOptions(order="url")))
    forged = replace(own, options=StreamOptions(order="log").digest())
    with pytest.raises(MalformedToken):
        list(archive.stream(StreamOptions(token=forged.encode())))


@pytest.mark.parametrize(
    "other",
    [
        {"order": "date"},
        {"which": "latest"},
        {"at": "2020"},
        {"batch": "one"},
        {"collection": "side"},
        {"shard": (0, 2)},
        {"captures": CaptureQuery(url="*.example")},
        {"captures": CaptureQuery(url="*", filters=("=status:200",))},
    ],
    ids=str,
)
def test_other_options_are_refused(archive: Archive, other: dict[str, object]) -> None:
    fill(archive, 30)
    token = halfway(archive, StreamOptions(order="url"))
    with pytest.raises(MalformedToken, match="other options"):
        archive.stream(replace(StreamOptions(order="url", token=token), **other))  # type: ignore[arg-type]


def test_what_does_not_choose_may_be_other(archive: Archive) -> None:
    fill(archive, 30)
    token = halfway(archive, StreamOptions())
    options = StreamOptions(token=token, batch_size=3, fields=("url",), strict=True)
    assert len(delivered(archive, options)) == 20


def test_the_same_said_otherwise_is_the_same_stream(archive: Archive) -> None:
    fill(archive, 30)
    token = halfway(archive, StreamOptions(captures=CaptureQuery(url="*.example")))
    meant = StreamOptions(captures=CaptureQuery(url="example", match="domain"), token=token)
    assert len(delivered(archive, meant)) == 20


def test_another_archive_refuses_it(archive: Archive, tmp_path: Path, closing: ExitStack) -> None:
    fill(archive, 30)
    holdfast.init(tmp_path / "other", PLAN)
    other = closing.enter_context(holdfast.open(tmp_path / "other"))
    fill(other, 30)
    with pytest.raises(MalformedToken, match="another archive"):
        other.stream(StreamOptions(token=halfway(archive, StreamOptions())))


def test_an_archive_that_lost_its_last_records_says_so(archive: Archive) -> None:
    """As after a power cut, before somebody has written again."""
    fill(archive, 30)
    own = decode(archive.stream().token)
    ahead = replace(own, snapshot=Snapshot(own.snapshot.ends | {"one": 10_000}))
    with pytest.raises(DamagedCatalog, match="reindex"):
        archive.stream(StreamOptions(token=ahead.encode()))


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": "size"},
        {"which": "oldest"},
        {"fields": ("colour",)},
        {"shard": (2, 2)},
        {"shard": (0, 0)},
        {"shard": (-1, 3)},
        {"batch_size": 0},
        {"batch_size": 10**9},
        {"at": "yesterday"},
        {"batch": "../x"},
        {"captures": CaptureQuery(url="*", limit=3)},
        {"captures": CaptureQuery(url="*", sort="reverse")},
        {"captures": CaptureQuery(url="*", collection="a"), "collection": "b"},
    ],
    ids=str,
)
def test_options_that_make_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        StreamOptions(**wrong)  # type: ignore[arg-type]


def test_a_batch_that_is_not_there(archive: Archive) -> None:
    with pytest.raises(UnknownName, match="no batch"):
        archive.stream(StreamOptions(batch="nowhere"))
