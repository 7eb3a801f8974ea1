"""The files of `deploy/`: units that systemd accepts, nginx with TLS and two names, metrics of the dashboard (P13)."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from certificates import make_authority
from pages_kept import html, kept
from serve_program import configure, program
from serving import ask, serving
from waiting import wait_until

from holdfast.errors import InvalidSetting
from holdfast.web.server.proxies import Proxies

DEPLOY = Path(__file__).parents[3] / "deploy"
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
PAGES, REPLAY = "archive.example.org", "replay.example.org"
TIME = "20240102030405"
ODD = "http://site.example//a%2Fb?q=http://x//y"
PEER = ("10.0.0.1", 50000)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", ["holdfast.service", "holdfast-crawl@.service", "holdfast-crawl@.timer"])
def test_systemd_accepts_the_units(name: str, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("holdfast")
    for unit in DEPLOY.glob("holdfast*"):
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/holdfast/bin/holdfast", str(program)))
    unit = tmp_path / name.replace("@", "@news")
    if unit.name != name:
        shutil.copy(tmp_path / name, unit)
    verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")


@dataclass(frozen=True)
class Proxied:
    port: int  # of nginx
    context: ssl.SSLContext
    direct: int  # the port behind it
    archive: Path

    def ask(self, name: str, target: str, **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        """A request from 127.0.0.2, as the browser of another machine would send it."""
        raw = socket.create_connection(("127.0.0.1", self.port), 20, ("127.0.0.2", 0))
        connection = http.client.HTTPConnection(name, timeout=20)
        connection.sock = self.context.wrap_socket(raw, server_hostname=name)
        connection.request("GET", target, headers={key.replace("_", "-"): value for key, value in headers.items()})
        response = connection.getresponse()
        try:
            return response.status, response.headers, response.read()
        finally:
            connection.close()


@contextmanager
def nginx(directory: Path, config: str) -> Iterator[None]:
    """An nginx with that configuration of a server."""
    logs = f"error_log {directory}/error.log; pid {directory}/pid;"
    temporary = " ".join(f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy"))
    for kind in ("fastcgi", "uwsgi", "scgi"):
        temporary += f" {kind}_temp_path {directory}/{kind};"
    (directory / "nginx.conf").write_text(
        f"daemon off; master_process off; {logs} events {{}} http {{ access_log off; {temporary}\n{config}\n}}"
    )
    process = subprocess.Popen([NGINX, "-p", directory, "-c", directory / "nginx.conf"], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Proxied]:
    if not os.access(NGINX, os.X_OK):
        pytest.skip("nginx is not installed")
    authority = make_authority(tmp_path, "ca")
    certificate = authority.issue("holdfast")
    path = kept(tmp_path / "archive", [html("http://site.example/", TIME, "<p>home"), html(ODD, TIME, "<p>odd")])
    configure(
        path,
        f'[serve]\ncontrols_url = "https://{PAGES}"\nreplay_url = "https://{REPLAY}"\nproxies = ["127.0.0.1"]\n'
        'access_log = "access.log"',
    )
    port, pages, replay = free_ports(3)
    with program(path, "-p", str(pages), "--replay-port", str(replay)):
        config = (DEPLOY / "nginx.conf").read_text()
        for old, new in (
            ("listen 443", f"listen 127.0.0.1:{port}"),
            ("8080", str(pages)),
            ("8081", str(replay)),
            ("/etc/ssl/holdfast.crt", str(certificate)),
            ("/etc/ssl/holdfast.key", str(certificate)),
        ):
            assert old in config
            config = config.replace(old, new)
        context = ssl.create_default_context(cafile=str(authority.certificate))
        context.check_hostname = False
        with nginx(tmp_path, config):
            wait_until(lambda: _listens(port), "nginx")
            yield Proxied(port, context, pages, path)


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_both_origins_behind_one_proxy(proxied: Proxied) -> None:
    """P13: frames and links have the public names; addresses arrive byte for byte."""
    status, _, page = proxied.ask(PAGES, f"/web/{TIME}/http://site.example/", Accept="text/html")
    assert (status, f"https://{REPLAY}/web/{TIME}mp_/http://site.example/" in page.decode()) == (200, True)
    assert proxied.ask(REPLAY, f"/web/{TIME}mp_/http://site.example/")[0] == 200
    status, _, body = proxied.ask(PAGES, f"/web/{TIME}id_/{ODD}")
    assert (status, body) == (200, b"<p>odd")
    assert proxied.ask(REPLAY, "/search?q=x")[0] == 404, "the replay origin has no pages with controls"


def test_the_access_log_has_the_client_behind_the_proxy(proxied: Proxied) -> None:
    """A header that the client sends itself does not count."""
    log = proxied.archive / "access.log"
    assert proxied.ask(PAGES, "/health", X_Forwarded_For="203.0.113.9")[0] == 200
    wait_until(lambda: log.exists() and log.read_text().count("\n") == 1, "the access log")
    ask(f"http://127.0.0.1:{proxied.direct}/health", X_Forwarded_For="203.0.113.10")
    wait_until(lambda: log.read_text().count("\n") == 2, "its second line")
    clients = [line.split(" ")[0] for line in log.read_text().splitlines()]
    assert clients == ["127.0.0.2", "203.0.113.10"], "the second came from a listed address: it is believed"


@pytest.mark.parametrize(
    ("proxies", "header", "client"),
    [
        ((), "203.0.113.9", "10.0.0.1"),
        (("10.0.0.2",), "203.0.113.9", "10.0.0.1"),
        (("10.0.0.1",), "", "10.0.0.1"),
        (("10.0.0.1",), "203.0.113.9", "203.0.113.9"),
        (("10.0.0.0/8",), "198.51.100.1, 203.0.113.9, 10.9.9.9", "203.0.113.9"),
        (("10.0.0.1",), "203.0.113.9, what?", "10.0.0.1"),
        (("10.0.0.1",), "2001:db8::7", "2001:db8::7"),
        (("10.0.0.1",), "::ffff:203.0.113.9", "203.0.113.9"),
    ],
)
def test_who_is_behind_a_proxy(proxies: tuple[str, ...], header: str, client: str) -> None:
    found = Proxies(proxies).client(PEER, [(b"x-forwarded-for", header.encode())] if header else [])
    assert found is not None
    assert found[0] == client


def test_a_bad_address_of_a_proxy_is_named() -> None:
    with pytest.raises(InvalidSetting, match=r"bad address 'nginx' in 'serve\.proxies'"):
        Proxies(["nginx"])


LOGROTATE = shutil.which("logrotate") or "/usr/sbin/logrotate"


@pytest.mark.skipif(not os.access(LOGROTATE, os.X_OK), reason="logrotate is not installed")
def test_the_access_log_is_rotated_and_no_line_is_lost(tmp_path: Path) -> None:
    path = kept(tmp_path / "archive", [html("http://site.example/", TIME)])
    log = path / "access.log"
    with program(path, "--access-log", str(log), "--workers", "2") as served:
        config = (DEPLOY / "logrotate.conf").read_text()
        for old, new in (
            ("/var/lib/holdfast/archive/access.log", str(log)),
            ("    su holdfast holdfast\n", ""),
            ("systemctl reload holdfast", f"kill -HUP {served.process.pid}"),
        ):
            assert old in config
            config = config.replace(old, new)
        (tmp_path / "logrotate.conf").write_text(config)
        (tmp_path / "logrotate.conf").chmod(0o644)
        for turn in range(10):
            served.ask(f"/health?turn{turn}")
        wait_until(lambda: log.read_text().count("turn") == 10, "the lines are written")
        subprocess.run([LOGROTATE, "--force", "--state", tmp_path / "state", tmp_path / "logrotate.conf"], check=True)
        rotated = path / "access.log.1"
        assert rotated.exists()
        wait_until(log.exists, "the log is opened again")
        for turn in range(10, 20):
            served.ask(f"/health?turn{turn}")

        def lines() -> list[str]:
            return re.findall(r"turn(\d+)", rotated.read_text() + log.read_text())

        wait_until(lambda: len(lines()) == 20, "all lines are in one of the two")
        assert sorted(map(int, lines())) == list(range(20))


def test_the_dashboard_shows_metrics_that_exist(tmp_path: Path) -> None:
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    wanted = {name for query in queries for name in re.findall(r"holdfast_\w+", query)}
    with serving(kept(tmp_path / "archive", [html("http://site.example/", TIME)])) as served:
        ask(f"{served.controls}/web/{TIME}id_/http://site.example/")
        found = set(re.findall(r"^holdfast_\w+", ask(f"{served.controls}/metrics").text, re.MULTILINE))
    assert wanted - found == set()


def test_the_container_file_copies_what_an_installation_needs_and_its_user_owns_the_archive() -> None:
    """And nothing else of a checkout, such as its virtual environments. No container is built here."""
    lines = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
    needed = {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml", "src"}
    assert copied == needed and all((DEPLOY.parent / name).exists() for name in copied)
    (run,) = [line for line in lines if line.startswith("RUN ")]
    volume = next(line.split()[1] for line in lines if line.startswith("VOLUME "))
    user = next(line.split()[1] for line in lines if line.startswith("USER "))
    assert run.endswith(f"install --directory --owner {user} --group {user} {volume}")
    assert f"ENV HOLDFAST_ARCHIVE={volume}" in lines
    (service,) = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    assert service["volumes"] == [f"archive:{volume}"]
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
