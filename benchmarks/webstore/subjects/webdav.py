"""WebDAV: WsgiDAV on cheroot serves a directory per volume, and syncs each file before it answers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from benchmarks.harness.process import Unavailable
from benchmarks.replay.running import free_ports
from benchmarks.webstore.processes import LOOPBACK, Processes
from benchmarks.webstore.subject import Document, Facts
from benchmarks.webstore.subjects.curl import Asker, UrlSession
from benchmarks.webstore.workload import Step

_SERVER = "benchmarks.webstore.subjects.webdav_server"


class Webdav:
    """A server process for each volume; every client keeps a connection to each."""

    facts: ClassVar[Facts] = Facts(
        name="webdav",
        title="WebDAV",
        stored="the bytes, by fsync, before the answer",
        deleted="nothing: the removal is not synced",
        packages=("wsgidav", "cheroot"),
    )

    def __init__(self) -> None:
        self._processes = Processes()

    def start(self, directory: Path, volumes: int) -> tuple[str, ...]:
        for package in ("wsgidav", "cheroot"):
            if importlib.util.find_spec(package) is None:
                raise Unavailable(f"no package '{package}': install 'holdfast[bench]'")
        origins = []
        for number, port in enumerate(free_ports(volumes)):
            path = directory / f"v{number}"
            path.mkdir()
            self._processes.start([sys.executable, "-m", _SERVER, path, str(port)], directory / f"v{number}.log")
            origins.append(f"http://{LOOPBACK}:{port}")
        for origin in origins:
            self._processes.wait_until(partial(_answers, origin))
        return tuple(origins)

    def pids(self) -> list[int]:
        return self._processes.pids()

    def stop(self) -> None:
        self._processes.stop()

    @staticmethod
    def machine(place: tuple[str, ...]) -> WebdavMachine:
        return WebdavMachine(place)


class WebdavMachine:
    """Clients share nothing."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = origins

    def session(self) -> WebdavSession:
        return WebdavSession(self._origins)

    def close(self) -> None:
        pass


class WebdavSession(UrlSession):
    """PUT, GET and DELETE; a handle is a URL."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        super().__init__()
        self._origins = origins

    def store(self, documents: Sequence[Document], step: Step) -> list[str]:
        urls = []
        for document in documents:
            url = f"{self._origins[document.number % len(self._origins)]}/{document.name(step.copy)}"
            self._asker.ask("PUT", url, document.data)
            urls.append(url)
        return urls


def _answers(origin: str) -> bool:
    asker = Asker()
    try:
        asker.ask("OPTIONS", f"{origin}/")
    except OSError:
        return False
    finally:
        asker.close()
    return True
