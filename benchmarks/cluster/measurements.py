"""One function for each figure. Those of nodes in one process count the CPU of both ends together."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cluster.figure import ClusterFigure
from benchmarks.cluster.rig import LOOK_S, Rig, RigNode, bare_pages, pages, rig_of, wait_until
from holdfast.cluster.copies.blocks import LocalBlocks
from holdfast.cluster.copies.protocol.peers import Peer
from holdfast.cluster.copies.pull import Puller
from holdfast.cluster.copies.repair import PeerComparison, Repairer
from holdfast.cluster.copies.service import CopyOptions
from holdfast.records.draft import signatures_of

_LIMIT_BYTES_S = 1 << 20
_TOGETHER = 10_000  # records that are added at a time


def copy_cost(directory: Path, records: int) -> list[ClusterFigure]:
    """CPU to copy a record to one other node, both ends, compared with adding it."""
    shutil.rmtree(directory, ignore_errors=True)
    with rig_of(directory, 2, "n1", "n2") as rig:
        one, two = rig.nodes.values()
        rig.settle()
        made = pages(records, seed=1)
        two.copies.stop()  # it pulls later
        rig.alive.discard("n2")
        begun = time.process_time()
        added = len(one.archive.add(made))
        add_us = (time.process_time() - begun) / added * 1e6
        two.archive.close()
        again = rig.nodes["n2"] = RigNode(rig, "n2", two.archive.path)
        rig.members = rig.members.with_member(again.member())
        one.copies.origins.catch_up()
        begun = time.process_time()
        rig.alive.add("n2")
        again.copies.start()
        wait_until(lambda: again.copies.counts()["copies"]["records"] >= added)
        copy_us = (time.process_time() - begun) / added * 1e6
    return [
        ClusterFigure("copy", "add", add_us, "µs CPU a record"),
        ClusterFigure("copy", "copy, both ends", copy_us, "µs CPU a record"),
        ClusterFigure("copy", "copy ÷ add", copy_us / add_us, "x"),
    ]


def movement(directory: Path, records: int) -> list[ClusterFigure]:
    """Bytes that a join and a loss move, compared with the least that could be moved."""
    shutil.rmtree(directory, ignore_errors=True)
    found: list[ClusterFigure] = []
    with rig_of(directory, 3, "n1", "n2", "n3", "n4", options=CopyOptions(repair_bytes_s=0)) as rig:
        for number, node in enumerate(rig.nodes.values()):
            node.archive.add(pages(records // 4, seed=number))
        rig.wake()
        rig.settle()
        before = {name: node.copies.counts()["copies"]["block_bytes"] for name, node in rig.nodes.items()}
        rig.join("n5")
        rig.settle()
        found += _moved(rig, "join", before, {"n5"})
        before = {name: node.copies.counts()["copies"]["block_bytes"] for name, node in rig.nodes.items()}
        had = {name: _held(node) for name, node in rig.nodes.items()}
        rig.lose("n2")
        rig.settle()
        found += _moved(rig, "loss", before, set(rig.nodes), had)
    return found


def _held(node: RigNode) -> dict[bytes, int]:
    """The contents of the records of a node, with their stored sizes."""
    blocks, found = LocalBlocks(node.archive), dict[bytes, int]()
    for batch in node.copies.origins.batches():
        for row in node.copies.origins.rows(batch):
            entry = node.archive.records.entry(row.record)
            for signature in signatures_of(entry) if entry is not None and not entry.is_inline else ():
                if signature not in found:
                    encoded = blocks.encoded(signature)
                    found[signature] = len(encoded.data) if encoded is not None else 0
    return found


def _moved(
    rig: Rig, what: str, before: dict[str, int], receivers: set[str], had: dict[str, dict[bytes, int]] | None = None
) -> list[ClusterFigure]:
    """Block bytes that were received ÷ those of contents that are there now and were not, and what others received."""
    received = {
        name: node.copies.counts()["copies"]["block_bytes"] - before.get(name, 0) for name, node in rig.nodes.items()
    }
    least = 0
    for name in receivers:
        known = (had or {}).get(name, {})
        least += sum(size for signature, size in _held(rig.nodes[name]).items() if signature not in known)
    moved = sum(received[name] for name in receivers)
    found = [ClusterFigure("movement", f"{what}: moved ÷ least", moved / max(least, 1), "x")]
    others = [count for name, count in received.items() if name not in receivers]
    if others:
        found.append(ClusterFigure("movement", f"{what}: received by others", float(sum(others)), "bytes"))
    return found


def repair_rate(directory: Path, records: int) -> list[ClusterFigure]:
    """How fast a node that has lost everything is filled again, compared with the limit that was set."""
    shutil.rmtree(directory, ignore_errors=True)
    options = CopyOptions(repair_bytes_s=_LIMIT_BYTES_S)
    with rig_of(directory, 2, "n1", "n2", options=options) as rig:
        rig.nodes["n1"].archive.add(pages(records, seed=1, words=3000))
        rig.wake()
        rig.settle()
        rig.lose("n2")
        shutil.rmtree(directory / "n2")
        rig.join("n2")
        node = rig.nodes["n2"]
        wait_until(lambda: node.received() > 0)
        first = last = node.received()
        begun = ended = time.monotonic()
        while not rig.is_settled():
            if node.received() > last:
                last, ended = node.received(), time.monotonic()
            time.sleep(LOOK_S)
        rate = (last - first) / (ended - begun)
    return [ClusterFigure("repair", "rate ÷ limit", rate / _LIMIT_BYTES_S, "x")]


def make_equal_holders(directory: Path, records: int) -> None:
    """Two nodes with the same records: one has added them, the other has a copy of its files."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rig = Rig(directory, 2)
    node = RigNode(rig, "n1", directory / "n1")
    for seed in range(0, records, _TOGETHER):
        node.archive.add(bare_pages(min(_TOGETHER, records - seed), seed))
    node.copies.origins.catch_up()
    node.copies.stop()
    node.archive.close()
    shutil.copytree(directory / "n1", directory / "n2")
    settings = directory / "n2" / "holdfast.toml"
    settings.write_text(settings.read_text().replace('node = "n1"', 'node = "n2"'))


def comparison(directory: Path, records: int) -> list[ClusterFigure]:
    """A comparison of all partitions with another holder that has the same records."""
    with rig_of(directory, 2, "n1", "n2") as rig:
        one, two = rig.nodes.values()
        rig.settle()
        assert sum(each.records for each in one.copies.origins.held().values()) >= records
        identity = one.copies.identity
        peer = Peer(two.member(), identity, one.client_tls)
        puller = Puller(
            one.archive, one.copies.origins, LocalBlocks(one.archive), one.copies.removals, _nowhere, "bench"
        )
        repairer = Repairer(one.archive, one.copies.origins, puller, one.copies.holders, "n1", _nowhere)
        everything = PeerComparison("n2", 0, one.copies.held())
        cpu, begun = time.process_time(), time.monotonic()
        for _ in repairer.compare(peer, everything, frozenset(rig.alive)):
            pass
        seconds, cpu = time.monotonic() - begun, time.process_time() - cpu
        assert repairer.counts.differed == 0
        peer.close()
    return [
        ClusterFigure("comparison", "seconds", seconds, "s"),
        ClusterFigure("comparison", "CPU, both ends", cpu, "s"),
        ClusterFigure("comparison", "received", float(peer.received_bytes), "bytes"),
    ]


def _nowhere(puller: Puller, signatures: Sequence[bytes], but: str) -> dict[bytes, bytes]:
    return {}
