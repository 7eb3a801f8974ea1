"""A volume on another machine is a volume like any other: the conformance suite over the network, good and bad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from remote_proxy import Chaos, Proxy, proxied
from remote_servers import Forks, Server

from holdfast.storage.volume import Volume
from holdfast.storage.volumes.remote.client import RemoteVolume
from holdfast.testing.volumes import VolumeConformance

Connect = Callable[..., RemoteVolume]


class Remote(VolumeConformance):
    """Each opening starts a server anew for the directory; the one before, and its proxy, are stopped first."""

    organization: ClassVar[str]
    chaos: ClassVar[Chaos | None] = None
    settings: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _network(
        self, forks: Forks, connect: Connect, memory_path: Path, request: pytest.FixtureRequest
    ) -> Iterator[None]:
        self._forks, self._connect, self._memory = forks, connect, memory_path
        self._seed = sum(request.node.name.encode())
        self._server: Server | None = None
        with ExitStack() as self._stack:
            yield
        self._stop()

    def open_volume(self, directory: Path) -> Volume:
        self._stop()
        kept = self._memory / type(self).__name__ / directory.name
        self._server = self._forks.serve(kept, organization=self.organization)
        return self._connect(self._way(self._server), **self.settings)

    def _way(self, server: Server) -> str:
        if self.chaos is None:
            return server.address
        self._stack.close()
        proxy: Proxy = self._stack.enter_context(proxied(server.port, replace(self.chaos, seed=self._seed)))
        return proxy.address

    def _stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None


_BAD = Chaos(0, cut=0.5, cut_bytes=4000, delay_s=0.002, stalled=0.1, stall_s=0.4, doubled=0.2)
_PATIENT: dict[str, Any] = {"request_timeout_s": 0.3, "retry_s": 120.0}


class TestRemoteLog(Remote):
    organization = "log"


class TestRemoteTree(Remote):
    organization = "tree"


class TestRemoteHash(Remote):
    organization = "hash"


class TestRemoteHashedLog(Remote):
    organization = "hashed-log"


class TestRemoteLogOverABadNetwork(Remote):
    organization = "log"
    chaos = _BAD
    settings = _PATIENT


@pytest.mark.soak
class TestRemoteTreeOverABadNetwork(Remote):
    organization = "tree"
    chaos = _BAD
    settings = _PATIENT
