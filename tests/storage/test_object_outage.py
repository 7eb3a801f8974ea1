"""An object store that does not answer costs one time-out, not one for each request."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress

import pytest

from holdfast.errors import VolumeDown
from holdfast.storage.volumes.object import bucket as bucket_module
from holdfast.storage.volumes.object.bucket import Bucket


class SilentStore:
    """Takes connections and never answers; a client waits for ten seconds of a clock that nobody else moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self.connections.append(self._listener.accept()[0])
                self.now_s += 10

    def clock(self) -> float:
        return self.now_s

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self.connections:
            each.close()


def test_an_outage_costs_one_time_out_however_many_requests_an_operation_makes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("REGION", "c"), ("ALLOW_HTTP", "true")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(bucket_module, "TIMEOUT_S", 0.5)
    with closing(SilentStore()) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
        bucket = Bucket("s3://holdfast/x", store.clock)
        for _ in range(3):
            with pytest.raises(VolumeDown, match="cannot use 's3://holdfast/x/key'"):
                bucket.get("key")
        with pytest.raises(VolumeDown):
            bucket.read("other", 0, 100)
        assert len(store.connections) == 1
        store.now_s += 3
        with pytest.raises(VolumeDown):
            bucket.get("key")
        assert len(store.connections) == 2
