"""Encrypted connections: servers and clients know each other by certificates, by the secret, or by both."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, make_authority
from hostile_web.tls import tls_available
from remote_proxy import Chaos, Proxy
from remote_servers import Server
from waiting import wait_until

from holdfast.config import RemoteSettings
from holdfast.env import REAL
from holdfast.errors import UsageError, VolumeDown
from holdfast.storage.server.options import server_tls
from holdfast.storage.volume import BlockKey, Effect, Store
from holdfast.storage.volumes.remote.client import RemoteVolume
from holdfast.testing.volumes import fetched, perform, plain, sign, totals

pytestmark = pytest.mark.skipif(not tls_available(), reason="openssl is not installed")

Connect = Callable[..., RemoteVolume]
Serve = Callable[..., Server]


@dataclass(frozen=True)
class Papers:
    """Certificates of everybody."""

    ours: Authority
    theirs: Authority
    server: Path
    client: Path
    stranger: Path  # signed by somebody else
    expired_server: Path
    expired_client: Path


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    directory = tmp_path_factory.mktemp("papers")
    ours, theirs = make_authority(directory, "ours"), make_authority(directory, "theirs")
    expired_server, expired_client = ours.issue("old-server", days=0), ours.issue("old-client", days=0)
    made_s = time.time()
    papers = Papers(
        ours, theirs, ours.issue("server"), ours.issue("client"), theirs.issue("x"), expired_server, expired_client
    )
    wait_until(lambda: time.time() > made_s + 1.0, "the clock to pass the end of what has expired")
    return papers


@pytest.fixture
def client(papers: Papers, secret_file: Path, closing: ExitStack) -> Connect:
    """A client that trusts our authority; without patience, since refusals are expected."""

    def to(port: int, certificate: Path | None = None, **settings: Any) -> RemoteVolume:
        chosen: dict[str, Any] = {
            "tls_ca_file": str(papers.ours.certificate),
            "retry_s": 0.0,
        }
        if certificate is not None:
            chosen["tls_cert_file"] = str(certificate)
        chosen |= settings
        volume = RemoteVolume("v0", f"127.0.0.1:{port}", RemoteSettings(**chosen), REAL, secret_file.parent)
        closing.callback(volume.close)
        return volume

    return to


def test_a_secret_over_tls(serve: Serve, client: Connect, papers: Papers) -> None:
    server = serve(tls=[str(papers.server), None, None])
    volume = client(server.port, secret_file="secret", retry_s=60.0)
    data = b"plain words " * 1000
    assert perform(volume, Store(sign(1), plain(data))).effect is Effect.NEW
    perform(volume, Store(sign(2), plain(bytes(20 << 20))))
    assert fetched(volume, BlockKey(sign(1))) == (data, 1)
    assert fetched(volume, BlockKey(sign(2))) == (bytes(20 << 20), 1)
    with pytest.raises(VolumeDown, match="wants a secret"):
        client(server.port).stat()


def test_what_travels_cannot_be_read(
    serve: Serve, client: Connect, papers: Papers, through: Callable[..., Proxy]
) -> None:
    server = serve(tls=[str(papers.server), None, None])
    proxy = through(server.port, Chaos(0, raw=True))
    volume = client(proxy.port, secret_file="secret", retry_s=60.0)
    perform(volume, Store(sign(1), plain(b"plain words " * 1000)))
    assert proxy.up_bytes > 12_000
    assert not any(b"plain words" in recording for recording in proxy.recordings)


def test_a_client_certificate_instead_of_a_secret(serve: Serve, client: Connect, papers: Papers) -> None:
    server = serve(secret="", tls=[str(papers.server), None, str(papers.ours.certificate)])
    volume = client(server.port, papers.client, retry_s=60.0)
    perform(volume, Store(sign(1), plain(b"one")))
    before = totals(volume)
    with pytest.raises(VolumeDown):
        client(server.port).stat()
    with pytest.raises(VolumeDown):
        client(server.port, papers.stranger).stat()
    with pytest.raises(VolumeDown):
        client(server.port, papers.expired_client).stat()
    with pytest.raises(VolumeDown, match="started without it"):
        client(server.port, papers.client, secret_file="secret").stat()
    assert totals(volume) == before


def test_certificate_and_secret_together(serve: Serve, client: Connect, papers: Papers) -> None:
    server = serve(tls=[str(papers.server), None, str(papers.ours.certificate)])
    assert client(server.port, papers.client, secret_file="secret", retry_s=60.0).stat().blocks == 0
    with pytest.raises(VolumeDown, match="wants a secret"):
        client(server.port, papers.client).stat()
    with pytest.raises(VolumeDown):
        client(server.port, secret_file="secret").stat()


def test_a_server_that_cannot_be_trusted_is_not_told_anything(
    serve: Serve, client: Connect, papers: Papers, tmp_path: Path
) -> None:
    for number, certificate in enumerate((papers.stranger, papers.expired_server)):
        server = serve(tmp_path / f"volume{number}", tls=[str(certificate), None, None])
        with pytest.raises(VolumeDown, match="certificate"):
            client(server.port, secret_file="secret").stat()
    named = serve(tmp_path / "named", host="127.0.0.2", tls=[str(papers.server), None, None])
    with pytest.raises(VolumeDown, match="certificate"):
        RemoteVolume(
            "v0",
            f"127.0.0.2:{named.port}",
            RemoteSettings(tls_ca_file=str(papers.ours.certificate), retry_s=0.0),
            REAL,
            tmp_path,
        ).stat()


def test_with_and_without_tls_do_not_understand_each_other(
    serve: Serve, client: Connect, connect: Connect, papers: Papers, tmp_path: Path
) -> None:
    encrypted = serve(tmp_path / "a", tls=[str(papers.server), None, None])
    with pytest.raises(VolumeDown):
        connect(encrypted.address, retry_s=0.0).stat()
    with pytest.raises(VolumeDown):
        client(serve(tmp_path / "b").port, secret_file="secret").stat()
    assert client(encrypted.port, secret_file="secret", retry_s=60.0).stat().blocks == 0


def test_a_mistake_in_the_settings_is_told_at_once(
    serve: Serve, papers: Papers, secret_file: Path, tmp_path: Path, closing: ExitStack
) -> None:
    """Nothing is tried again: no patience makes it right. The message says which setting to look at."""

    def never(seconds: float) -> None:
        pytest.fail("it was tried again")

    def told(port: int, **settings: Any) -> str:
        chosen = RemoteSettings(secret_file=str(secret_file), retry_s=3600.0, **settings)
        volume = RemoteVolume("v0", f"127.0.0.1:{port}", chosen, replace(REAL, sleep=never), tmp_path)
        closing.callback(volume.close)
        with pytest.raises(VolumeDown, match=r"volume 'v0' at 127\.0\.0\.1:\d+ cannot be used: ") as caught:
            volume.stat()
        return str(caught.value)

    ours = str(papers.ours.certificate)
    encrypted = serve(tmp_path / "a", tls=[str(papers.server), None, None])
    assert "speaks TLS; name its authority in 'tls_ca_file'" in told(encrypted.port)
    plain_server = serve(tmp_path / "b")
    assert "does not speak TLS" in told(plain_server.port, tls_ca_file=ours)
    unknown = serve(tmp_path / "c", tls=[str(papers.stranger), None, None])
    assert "is not valid: " in told(unknown.port, tls_ca_file=ours)
    strict = serve(tmp_path / "d", tls=[str(papers.server), None, ours])
    assert "check 'tls_cert_file'" in told(strict.port, tls_ca_file=ours)
    stranger = str(papers.stranger)
    assert "check 'tls_cert_file'" in told(strict.port, tls_ca_file=ours, tls_cert_file=stranger)
    assert "speaks TLS" in told(strict.port)


def test_connections_that_never_begin_to_speak_tls_keep_nobody_out(
    serve: Serve, client: Connect, papers: Papers, closing: ExitStack
) -> None:
    server = serve(unauthenticated_max=20, tls=[str(papers.server), None, None])
    for _ in range(300):
        closing.enter_context(socket.create_connection(("127.0.0.1", server.port), 60))
    assert client(server.port, secret_file="secret", retry_s=60.0).stat().blocks == 0
    assert server.descriptors() < 150


def test_certificates_that_cannot_be_used_are_told_at_once(papers: Papers, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot use the certificate"):
        server_tls(tmp_path / "none.pem", None, None)
    with pytest.raises(UsageError, match="cannot use the certificates"):
        RemoteVolume("v0", "127.0.0.1:1", RemoteSettings(tls_ca_file="none.pem"), REAL, tmp_path)
    with pytest.raises(UsageError, match="no 'tls_ca_file'"):
        RemoteVolume("v0", "127.0.0.1:1", RemoteSettings(tls_cert_file=str(papers.client)), REAL, tmp_path)
