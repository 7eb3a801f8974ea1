"""The commands of a cluster, and wrong input: a clear error each, and nothing is changed (H2, B5)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from node_cluster import WAIT_S, free_address, run_holdfast, skewed_holdfast, wait_until

import holdfast
from holdfast.archive.create import Plan
from holdfast.cluster.directory import NodeDirectory
from holdfast.config import StoreSettings

SMALL = ("--partitions", "16", "--lease", "1s")
PAGES = ("--port", "0", "--workers", "1", "--json")


class Pages:
    """A node that runs by the command."""

    def __init__(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "holdfast", "node", "run", *map(str, arguments), *PAGES]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        self.url = json.loads(line)["pages"]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def first(root: Path) -> Iterator[Pages]:
    made = run_holdfast("cluster", "init", root / "n1", *SMALL, "--address", free_address(), "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["node"] == "n1"
    node = Pages(root / "n1")
    yield node
    code, said = node.stop()
    assert code == 0, said


@pytest.fixture
def token(root: Path, first: Pages) -> str:
    return run_holdfast("cluster", "token", "-a", root / "n1").stdout.strip()


def refused(code: int, words: str, *arguments: str | Path) -> None:
    done = run_holdfast(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") <= 2, done.stderr


def test_nodes_come_go_and_are_listed(root: Path, first: Pages, token: str) -> None:
    second = Pages(root / "n2", "--join", token, "--address", free_address())
    rows = wait_until(lambda: _shared(root / "n2"), "both own partitions")
    assert {each["name"]: each["state"] for each in rows} == {"n1": "idle", "n2": "idle"}
    assert run_holdfast("node", "weight", "n2", "2", "-a", root / "n1").returncode == 0
    listed = run_holdfast("nodes", "-a", root / "n1").stdout
    assert listed.splitlines()[0].split()[:3] == ["NODE", "STATE", "ROLE"]
    assert {line.split()[0] for line in listed.splitlines()[1:3]} == {"n1", "n2"}
    assert second.stop(signal.SIGINT) == (0, "stopped\n")
    refused(13, "does not run", "nodes", "-a", root / "n2")
    assert holdfast.open(root / "n2").settings.records.node == "n2"


def test_a_node_that_was_killed(root: Path, first: Pages, token: str) -> None:
    """Commands do not take its socket, which is left, for a node that answers for all."""
    node = Pages(root / "killed", "--join", token, "--address", free_address())
    assert node.stop(signal.SIGKILL)[0] == -signal.SIGKILL
    assert (root / "killed" / "cluster" / "control").exists()
    done = run_holdfast("cdx", "-a", root / "killed", "*.com")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "the node does not run: this is what it has itself" in done.stderr


def test_a_node_that_runs_does_not_use_up_a_token(root: Path, first: Pages, token: str) -> None:
    refused(4, "runs already (pid ", "node", "run", root / "n1", "--join", token)
    second = Pages(root / "second", "--join", token, "--address", free_address())
    assert second.stop()[0] == 0


def _shared(path: Path) -> list[dict[str, Any]]:
    """The rows of the table, once all nodes own partitions and all partitions are owned."""
    lines = run_holdfast("nodes", "-a", path, "--json").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    return rows if all(each["owned"] for each in rows) and sum(each["owned"] for each in rows) == 16 else []


@pytest.mark.parametrize("text", ["", "hf1-", "hf1-!!!", "hf1-AAAA", "nonsense"])
def test_what_is_no_token(tmp_path: Path, text: str) -> None:
    refused(2, "not a join token", "node", "run", tmp_path / "n", "--join", text)
    assert not (tmp_path / "n").exists()


def test_a_damaged_token(tmp_path: Path, token: str) -> None:
    refused(2, "not a join token", "node", "run", tmp_path / "n", "--join", token[: len(token) // 2])
    assert not (tmp_path / "n").exists()


def test_nobody_is_there(tmp_path: Path) -> None:
    assert run_holdfast("cluster", "init", tmp_path / "n1", *SMALL, "--address", free_address()).returncode == 0
    made = run_holdfast("cluster", "token", "-a", tmp_path / "n1")
    refused(13, "no NATS server", "node", "run", tmp_path / "n2", "--join", made.stdout.strip())
    assert not (tmp_path / "n2" / "holdfast.toml").exists()
    refused(13, "does not run", "nodes", "-a", tmp_path / "n1")
    refused(13, "does not run", "node", "weight", "n1", "2", "-a", tmp_path / "n1")


@pytest.mark.parametrize(("hours", "words"), [(3, "ahead of"), (-3, "behind")])
def test_a_clock_that_is_off(tmp_path: Path, root: Path, token: str, hours: float, words: str) -> None:
    done = skewed_holdfast(hours * 3600, "node", "run", tmp_path / "n", "--join", token, "--address", free_address())
    assert done.returncode == 8, done.stderr
    assert f"180 minutes {words}" in done.stderr
    assert not (tmp_path / "n" / "holdfast.toml").exists()
    assert NodeDirectory(root / "n1").members().find("n") is None


def test_an_archive_of_another_signature(tmp_path: Path, token: str) -> None:
    holdfast.init(tmp_path / "other", Plan(store=StoreSettings(signature="rabin64")))
    refused(2, "rabin64", "node", "run", tmp_path / "other", "--join", token, "--address", free_address())


def test_an_archive_with_records(tmp_path: Path, token: str) -> None:
    full = tmp_path / "full"
    holdfast.init(full)
    (full / "batches" / "202611").mkdir(parents=True)
    refused(2, "has records already", "node", "run", full, "--join", token, "--address", free_address())
    assert not NodeDirectory(full).is_member


def test_settings_that_were_changed_by_hand(tmp_path: Path, token: str) -> None:
    node = Pages(tmp_path / "n5", "--join", token, "--address", free_address())
    assert node.stop()[0] == 0
    directory = NodeDirectory(tmp_path / "n5")
    directory.save_settings(replace(directory.settings(), copies=2))
    refused(2, "differs from the settings", "node", "run", tmp_path / "n5", *PAGES)


def test_a_node_of_another_cluster(tmp_path: Path, token: str) -> None:
    assert run_holdfast("cluster", "init", tmp_path / "n1", *SMALL, "--address", free_address()).returncode == 0
    refused(2, "another cluster", "node", "run", tmp_path / "n1", "--join", token)
    refused(2, "already", "cluster", "init", tmp_path / "n1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--copies", "0"), "copies"),
        (("--copies", "3", "--ack-copies", "4"), "ack_copies"),
        (("--partitions", "0"), "partitions"),
        (("--lease", "1ms"), "lease_s"),
        (("--name", "N 1"), "name"),
        (("--address", "host:70000"), "port"),
    ],
)
def test_a_cluster_that_makes_no_sense(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    refused(2, words, "cluster", "init", tmp_path / "n", *arguments)
    assert not (tmp_path / "n").exists()


def test_directories_that_are_no_nodes(tmp_path: Path, root: Path, first: Pages) -> None:
    refused(3, "not a node", "nodes", "-a", tmp_path)
    refused(3, "not a node", "node", "run", tmp_path)
    refused(3, "not a node", "cluster", "token", "-a", tmp_path)
    refused(2, "no node 'n9'", "node", "forget", "n9", "-a", root / "n1")
    refused(2, "no node 'n9'", "node", "weight", "n9", "2", "-a", root / "n1")
    refused(2, "bad weight", "node", "weight", "n1", "0", "-a", root / "n1")
    refused(2, "forget itself", "node", "forget", "n1", "-a", root / "n1")


def test_without_the_extra_the_commands_say_how_to_install_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['nats'] = None; from holdfast.cli.main import main; main()"
    command = [sys.executable, "-c", code, "cluster", "init", str(tmp_path / "n")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'holdfast[cluster]'" in done.stderr
    assert not (tmp_path / "n").exists()


def test_one_machine_imports_nothing_of_it(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["nats"] = sys.modules["cryptography"] = None
import holdfast, holdfast.cli.serve, holdfast.web.server.worker, holdfast.cli.cluster
holdfast.init(sys.argv[1])
holdfast.open(sys.argv[1]).close()
assert not [name for name in sys.modules if name.startswith("holdfast.cluster.")]
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=True)


def test_the_first_node_may_have_an_archive(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "a", Plan(store=StoreSettings(signature="rabin64")))
    options = ("--address", free_address(), "--copies", "4", "--ack-copies", "3")
    assert run_holdfast("cluster", "init", tmp_path / "a", *SMALL, *options).returncode == 0
    settings = NodeDirectory(tmp_path / "a").settings()
    assert (settings.signature, settings.copies, settings.ack_copies) == ("rabin64", 4, 3)


def test_ctrl_c_at_any_step(tmp_path: Path) -> None:
    """While it waits for the service, and twice while it stops: no traceback, and the directory starts again."""
    path = tmp_path / "n1"
    assert run_holdfast("cluster", "init", path, "--address", free_address(), "--lease", "1s").returncode == 0
    command = [sys.executable, "-m", "holdfast", "node", "run", str(path), "-p", "0", "--workers", "1", "--json"]
    twice = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert twice.stdout is not None
    assert twice.stdout.readline()
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        twice.send_signal(number)
    _, said = twice.communicate(timeout=WAIT_S)
    assert "Traceback" not in said, said
    early = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (path / "cluster" / "control").exists() or early.poll() is not None, "it begins")
    early.send_signal(signal.SIGINT)
    _, said = early.communicate(timeout=WAIT_S)
    assert "Traceback" not in said, said
    node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert node.stdout is not None
    assert node.stdout.readline()
    node.terminate()
    assert node.wait(WAIT_S) == 0
    node.communicate()
