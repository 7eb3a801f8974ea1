"""nginx before the site: unprivileged, on a free port of this machine, with a log of what was asked for."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.crawl.tree import cpu_of, family
from benchmarks.harness.process import ChildFailed, Unavailable

_ADDRESS = "127.0.0.1"
_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 20.0
_PAUSE_S = 0.02
_SEARCHED = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
# One worker, as the crawler needs the other core; the log is buffered and costs a write for about a thousand requests.
_CONFIGURATION = """\
{user}
worker_processes 1;
daemon off;
pid {scratch}/nginx.pid;
error_log {scratch}/error.log;
events {{ worker_connections 1024; }}
http {{
    types {{ text/html html; text/css css; application/javascript js; image/png png; }}
    default_type text/html;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_timeout 60s;
    keepalive_requests 1000000;
    open_file_cache max=200000 inactive=600s;
    open_file_cache_valid 600s;
    log_format asked '$msec $status $request_uri';
    access_log {scratch}/access.log asked buffer=64k;
    client_body_temp_path {scratch}/body;
    proxy_temp_path {scratch}/proxy;
    fastcgi_temp_path {scratch}/fastcgi;
    uwsgi_temp_path {scratch}/uwsgi;
    scgi_temp_path {scratch}/scgi;
    server {{
        listen {address}:{port} backlog=1024;
        root {root};
        index index.html;
    }}
}}
"""


class Request(NamedTuple):
    """A line of the log."""

    time: float  # when it was answered, seconds since 1970
    status: int
    path: str  # with its query


@dataclass(slots=True)
class Server:
    """nginx at work. `requests` and `cpu_s` are there when it has stopped."""

    url: str  # without a slash at its end
    requests: tuple[Request, ...] = ()  # in the order of the log
    cpu_s: float = 0.0

    def fetched(self) -> set[str]:
        """The paths that were answered with 200."""
        return {request.path for request in self.requests if request.status == 200}


def find_nginx() -> str:
    """Where it is. Raises Unavailable."""
    found = shutil.which("nginx", path=_SEARCHED)
    if found is None:
        raise Unavailable("no program 'nginx': install Debian's 'nginx-light'")
    return found


@contextmanager
def serving(root: Path, scratch: Path) -> Iterator[Server]:
    """Serves the directory until the block is left. `scratch` is an empty directory for what nginx writes."""
    port = _free_port()
    process = _start(root, scratch, port)
    server = Server(f"http://{_ADDRESS}:{port}")
    try:
        _await(process, port, scratch)
        yield server
        server.cpu_s = cpu_of(family(process.pid))
    finally:
        _stop(process)
    server.requests = _read_log(scratch / "access.log")


def _start(root: Path, scratch: Path, port: int) -> subprocess.Popen[bytes]:
    program = find_nginx()
    user = f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""  # or its workers could not read our files
    values = {"user": user, "scratch": scratch, "address": _ADDRESS, "port": port, "root": root}
    path = scratch / "nginx.conf"
    path.write_text(_CONFIGURATION.format(**values), encoding="utf-8")
    command = [program, "-p", str(scratch), "-e", str(scratch / "error.log"), "-c", str(path)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port


def _await(process: subprocess.Popen[bytes], port: int, scratch: Path) -> None:
    """Until it takes connections."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            socket.create_connection((_ADDRESS, port), timeout=1).close()
        except OSError:
            time.sleep(_PAUSE_S)
        else:
            return
    log = scratch / "error.log"
    said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    raise ChildFailed(f"nginx did not start and said: {said[-1] if said else 'nothing'}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Gracefully, so that the log is whole."""
    if process.poll() is None:
        process.send_signal(signal.SIGQUIT)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()


def _read_log(path: Path) -> tuple[Request, ...]:
    requests = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        at, status, asked = line.split(" ", 2)
        requests.append(Request(float(at), int(status), asked))
    return tuple(requests)
