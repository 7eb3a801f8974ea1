"""A node without pages that writes down when it has which right: `python recorded_node.py DIR LOG`.

One line for each moment: the time by the clock that all processes of a machine share, and the partitions that this
node may fetch for at that time. NODE_CLOCK_SKEW_S sets its clock off; NODE_PROTOCOL is the highest version it speaks;
NODE_STAYS keeps it with its NATS service, whatever it hears of another one.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import holdfast.cluster.settings

if "NODE_CLOCK_SKEW_S" in os.environ:
    _right, _skew_s = time.time, float(os.environ["NODE_CLOCK_SKEW_S"])
    time.time = lambda: _right() + _skew_s
if "NODE_PROTOCOL" in os.environ:  # before others import it
    holdfast.cluster.settings.PROTOCOLS = (1, int(os.environ["NODE_PROTOCOL"]))

from holdfast.cluster.directory import NodeDirectory
from holdfast.cluster.membership.agent import boot_time_s
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.node import ClusterNode, NodeContext
from holdfast.errors import HoldfastError

SAMPLE_S = 0.005


class Recorder:
    """A service that fetches from every host that it may: each sample is a request that has ended."""

    def __init__(self, context: NodeContext, path: Path) -> None:
        self._context = context
        self._partitions = context.settings.partitions
        self._log = path.open("a", buffering=1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._record)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def in_sync(self) -> frozenset[int]:
        return frozenset(range(self._partitions))

    def drain(self, partition: int) -> None:
        pass

    def members_changed(self, members: MemberList) -> None:
        pass

    def notified(self, sender: str, data: bytes) -> None:
        pass

    def status(self) -> dict[str, Any]:
        return {"outstanding": {"recorded": 1}}

    def command(self, command: dict[str, Any]) -> None:
        pass

    def _record(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            rights = self._context.rights()
            now_s = boot_time_s()
            if now_s < rights.until_s and rights.owned:
                self._log.write(f"{now_s:.6f} {','.join(map(str, sorted(rights.owned)))}\n")


class StayingNode(ClusterNode):
    """Hears of no other service."""

    def _take_service(self, signed: str) -> None:
        pass


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    directory, path = Path(sys.argv[1]), Path(sys.argv[2])
    kind = StayingNode if "NODE_STAYS" in os.environ else ClusterNode
    node = kind(NodeDirectory(directory), [lambda context: Recorder(context, path)])
    node.on_end = ended.set
    try:
        node.start()
    except HoldfastError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return error.exit_code
    print("ready", flush=True)
    while not ended.wait(0.1):
        pass
    node.stop()
    if node.failure is not None:
        print(f"{type(node.failure).__name__}: {node.failure}", flush=True)
        return node.failure.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
