"""`holdfast node run`: nodes with NATS servers, web workers and everything, and what is asked of them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from node_cluster import WAIT_S, free_address, wait_until

from holdfast.cluster.status import read_table
from holdfast.config import INDEX_VARIABLE

SOURCE = Path(__file__).parents[2] / "src"
PARTITIONS = 32
TIME = "20240102030405"
TOKEN = "a token that is long enough"


class RunningNode:
    """`holdfast node run`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process: subprocess.Popen[bytes] | None = None
        self.pages = ""
        self.indexes = False

    def start(self, *options: str) -> None:
        command = [sys.executable, "-m", "holdfast", "node", "run", str(self.path), *options]
        with self.path.with_suffix(".err").open("ab") as errors:
            self.process = subprocess.Popen(
                [*command, "-p", "0", "--workers", "1", "--json"],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | {"PYTHONPATH": str(SOURCE), INDEX_VARIABLE: "true" if self.indexes else "false"},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.path.with_suffix(".err").read_text()
        self.pages = json.loads(line)["pages"].rstrip("/")

    def get(self, target: str) -> tuple[int, bytes]:
        status, _, body = self.exchange(target)
        return status, body

    def exchange(self, target: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers in lower case, and body."""
        parts = urlsplit(self.pages)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT_S)
        try:
            connection.request("GET", target)
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def put(self, url: str, content: bytes, timestamp: str = TIME) -> int:
        return self.put_and_wait(url, content, timestamp)[0]

    def put_and_wait(
        self, url: str, content: bytes, timestamp: str = TIME, wait_s: int | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Status and response; with `wait_s`, when enough nodes have it."""
        parts = urlsplit(self.pages)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT_S)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "text/html"}
        try:
            target = f"/api/captures?url={quote(url, safe='')}&timestamp={timestamp}"
            target += f"&wait_safe={wait_s}" if wait_s is not None else ""
            connection.request("PUT", target, content, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def post(self, target: str, values: dict[str, Any]) -> dict[str, Any]:
        return self.post_bytes(target, json.dumps(values).encode(), "application/json")

    def post_bytes(
        self, target: str, body: bytes, content_type: str = "application/warc", code: int | None = None
    ) -> dict[str, Any]:
        """The response, of status 200 or 201 unless another is given."""
        parts = urlsplit(self.pages)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT_S)
        try:
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": content_type}
            connection.request("POST", target, body, headers)
            response = connection.getresponse()
            content = response.read()
            assert response.status in ((200, 201) if code is None else (code,)), content
            found: dict[str, Any] = json.loads(content)
            return found
        finally:
            connection.close()

    def replayed(self, url: str) -> tuple[int, bytes]:
        return self.get(f"/main/{TIME}id_/{url}")

    def table(self) -> dict[str, Any]:
        return read_table(self.path / "cluster")

    def is_settled(self, nodes: int) -> bool:
        """Whether that many nodes are alive, every partition has an owner, and no holder is behind."""
        table = self.table()
        rows = [row for row in table["nodes"] if row["state"] not in ("down", "joining")]
        return len(rows) == nodes and table["owned"] == table["partitions"] and not any(row["behind"] for row in rows)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()

    def stop(self) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WAIT_S)
        self._close()
        return code


def holdfast(*arguments: str | Path, code: int = 0) -> str:
    command = [sys.executable, "-m", "holdfast", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def start_cluster(directory: Path, nodes: int, copies: int, *, indexes: bool = False) -> list[RunningNode]:
    """That many nodes, settled. The caller ends them."""
    running = [RunningNode(directory / f"n{number + 1}") for number in range(nodes)]
    for node in running:
        node.indexes = indexes
    made = ["--copies", copies, "--partitions", PARTITIONS, "--lease", 1, "--address", free_address(), "--json"]
    token = json.loads(holdfast("cluster", "init", running[0].path, *made))["token"]
    try:
        running[0].start()
        for node in running[1:]:
            node.start("--join", token, "--address", free_address())
            token = holdfast("cluster", "token", "-a", running[0].path).strip()
        wait_until(lambda: running[0].is_settled(nodes), f"{nodes} nodes")
    except BaseException:
        end_cluster(running)
        raise
    return running


def end_cluster(nodes: list[RunningNode]) -> None:
    for node in nodes:
        if node.process is not None and node.process.poll() is None:
            node.kill()
