"""`make demo-cluster`: three nodes for a look, and nothing of them afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from node_cluster import WAIT_S, free_address, wait_until

TOOL = Path(__file__).parents[2] / "tools" / "demo-cluster"


def commands_with(text: str) -> list[str]:
    """The command lines of running processes that contain a text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


def test_a_second_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    port = int(free_address().rpartition(":")[2])
    said = tmp_path / "said"
    (tmp_path / "work").mkdir()
    with said.open("wb") as output:
        command = [sys.executable, TOOL, "--port", str(port)]
        environment = os.environ | {"TMPDIR": str(tmp_path / "work")}
        demo = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    try:
        wait_until(lambda: "Ctrl-C ends" in said.read_text() or demo.poll() is not None, "it runs")
        assert demo.poll() is None, said.read_text()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/nodes", timeout=WAIT_S) as page:
            assert b"n3" in page.read()
        demo.send_signal(signal.SIGINT)
        wait_until(lambda: "stopping" in said.read_text(), "it stops")
        demo.send_signal(signal.SIGINT)
        assert demo.wait(WAIT_S) == 0, said.read_text()
    finally:
        demo.kill()
    wait_until(lambda: not commands_with(str(tmp_path / "work")), "no process is left")
    assert "Traceback" not in said.read_text()
