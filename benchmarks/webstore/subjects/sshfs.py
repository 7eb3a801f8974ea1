"""sshfs: an SSH server per volume serves a directory over SFTP, and every client process mounts it through FUSE."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchmarks.harness.process import Unavailable
from benchmarks.replay.running import free_ports
from benchmarks.webstore.processes import LOOPBACK, Processes, find_program
from benchmarks.webstore.subject import Document, Facts
from benchmarks.webstore.workload import Step

_CONFIGURATION = """\
ListenAddress {host}:{port}
HostKey {keys}/host
AuthorizedKeysFile {keys}/user.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
Subsystem sftp internal-sftp
"""
_CIPHER = "aes128-gcm@openssh.com"  # the fastest with AES in hardware
_MODE = 0o644
_SEPARATION = Path("/run/sshd")  # an empty directory that the server insists on


@dataclass(frozen=True, slots=True)
class SharedDirectory:
    """A directory that an SSH server gives access to, and the client's key."""

    path: str
    port: int
    key: str


class Sshfs:
    """A server for each volume; a mount of each in every client process."""

    facts: ClassVar[Facts] = Facts(
        name="sshfs",
        title="sshfs",
        stored="the bytes, by fsync, before it returns",
        deleted="nothing: the removal is not synced",
        programs=("sshfs", "openssh-server", "fuse3"),
    )

    def __init__(self) -> None:
        self._processes = Processes()

    def start(self, directory: Path, volumes: int) -> tuple[SharedDirectory, ...]:
        find_program("sshfs", "sshfs")
        sshd, keygen = find_program("sshd", "openssh-server"), find_program("ssh-keygen", "openssh-client")
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise Unavailable("'/dev/fuse' cannot be opened, so nothing can be mounted")
        with suppress(OSError):
            _SEPARATION.mkdir(mode=0o755, exist_ok=True)
        keys = directory / "keys"
        keys.mkdir(mode=0o700)
        for name in ("host", "user"):
            subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)], check=True)
        shares = []
        for number, port in enumerate(free_ports(volumes)):
            share = SharedDirectory(str(directory / f"v{number}"), port, str(keys / "user"))
            Path(share.path).mkdir()
            configuration = directory / f"v{number}.conf"
            configuration.write_text(_CONFIGURATION.format(host=LOOPBACK, port=port, keys=keys), encoding="utf-8")
            self._processes.start([sshd, "-D", "-e", "-f", configuration], directory / f"v{number}.log")
            shares.append(share)
        SshfsMachine(tuple(shares)).close()  # a mount that fails here is a reason, not a failure
        return tuple(shares)

    def pids(self) -> list[int]:
        return self._processes.pids()

    def stop(self) -> None:
        self._processes.stop()

    @staticmethod
    def machine(place: tuple[SharedDirectory, ...]) -> SshfsMachine:
        return SshfsMachine(place)


class SshfsMachine:
    """Mounts of all volumes, which the clients of the process share, as users of a machine do."""

    def __init__(self, shares: tuple[SharedDirectory, ...]) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="holdfast-sshfs-"))
        self._processes = Processes()
        self._points = [str(self._directory / f"m{number}") for number in range(len(shares))]
        try:
            for share, point in zip(shares, self._points, strict=True):
                self._mount(share, point)
        except BaseException:
            self.close()
            raise

    def _mount(self, share: SharedDirectory, point: str) -> None:
        os.mkdir(point)
        # fmt: off
        options = (
            f"Port={share.port}", f"IdentityFile={share.key}", f"Ciphers={_CIPHER}", "ConnectionAttempts=50",
            "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "dir_cache=no",
        )
        # fmt: on
        where = f"{getpass.getuser()}@{LOOPBACK}:{share.path}"
        command = [find_program("sshfs", "sshfs"), "-f", "-o", ",".join(options), where, point]
        self._processes.start(command, Path(f"{point}.log"))
        self._processes.wait_until(lambda: os.path.ismount(point))

    def session(self) -> SshfsSession:
        return SshfsSession(self._points)

    def close(self) -> None:
        unmount = find_program("fusermount3", "fuse3")
        for point in self._points:
            if os.path.ismount(point):
                subprocess.run([unmount, "-u", "-z", point], check=False, capture_output=True)
        self._processes.stop()
        shutil.rmtree(self._directory, ignore_errors=True)


class SshfsSession:
    """Plain files; a store is synced before it counts."""

    def __init__(self, points: list[str]) -> None:
        self._points = points

    def store(self, documents: Sequence[Document], step: Step) -> list[str]:
        points = self._points
        paths = []
        for document in documents:
            path = f"{points[document.number % len(points)]}/{document.name(step.copy)}"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
            try:
                os.write(file, document.data)
                os.fsync(file)
            finally:
                os.close(file)
            paths.append(os.path.relpath(path, os.path.dirname(points[0])))
        return paths

    def fetch(self, handles: Sequence[str]) -> Iterator[bytes]:
        root = os.path.dirname(self._points[0])
        for path in handles:
            with open(f"{root}/{path}", "rb", buffering=0) as file:
                yield file.read()

    def delete(self, handles: Sequence[str]) -> None:
        root = os.path.dirname(self._points[0])
        for path in handles:
            os.unlink(f"{root}/{path}")

    def close(self) -> None:
        pass
