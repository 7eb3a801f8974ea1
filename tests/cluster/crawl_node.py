"""A node without pages that copies and crawls: `python crawl_node.py DIR`.

With CHECKPOINT_MESSAGES in its environment it cuts logs off that early, and with CHECKPOINTS_MERGED it merges as many.
While there is a file DIR.cut, it has no connection to the NATS service, but reaches everything else.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from holdfast.cluster.crawl import checkpoint, exchange
from holdfast.cluster.crawl.service import node_services
from holdfast.cluster.directory import NodeDirectory
from holdfast.cluster.membership.bus import Bus
from holdfast.cluster.node import ClusterNode
from holdfast.errors import HoldfastError


def cut_off(node: ClusterNode, cut: Path) -> None:
    """Closes the connection to the NATS service, and lets it be made again when the file is gone."""
    connect = Bus._connect_to

    async def connect_unless_cut(bus: Bus, client: Any, url: str) -> None:
        if cut.exists():
            raise ConnectionRefusedError
        await connect(bus, client, url)

    Bus._connect_to = connect_unless_cut  # type: ignore[method-assign]
    bus, loop = node._bus, node._loop
    client = bus._client if bus is not None else None
    if client is not None and loop is not None:
        asyncio.run_coroutine_threadsafe(client.close(), loop).result()


def main() -> int:
    faulthandler.register(signal.SIGUSR1)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(message)s")
    exchange.CHECKPOINT_MESSAGES = int(os.environ.get("CHECKPOINT_MESSAGES", exchange.CHECKPOINT_MESSAGES))
    checkpoint.MERGED = exchange.MERGED = int(os.environ.get("CHECKPOINTS_MERGED", checkpoint.MERGED))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    node = ClusterNode(NodeDirectory(Path(sys.argv[1])), node_services())
    node.on_end = ended.set
    try:
        node.start()
    except HoldfastError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return error.exit_code
    print("ready", flush=True)
    is_cut = False
    while not ended.wait(0.1):
        if not is_cut and Path(f"{sys.argv[1]}.cut").exists():
            cut_off(node, Path(f"{sys.argv[1]}.cut"))
            is_cut = True
    node.stop()
    if node.failure is not None:
        print(f"{type(node.failure).__name__}: {node.failure}", flush=True)
        return node.failure.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
