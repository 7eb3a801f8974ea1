"""A node as a process of its own, under load: adds pages, and says which records are in and which are safe.

python copy_child.py ROOT NODE PORT SEED        the members and who is alive are in ROOT/cluster.json
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from pathlib import Path
from random import Random

from copy_cluster import FileRemovalLog, bytes_of
from copy_world import some_pages
from node_keys import client_tls, server_tls

import holdfast
from holdfast.cluster.copies.service import Copies, CopyLinks, CopyOptions
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.settings import ClusterSettings


def main(root: Path, name: str, port: int, seed: int) -> None:
    random = Random(seed)

    def state() -> dict[str, object]:
        found: dict[str, object] = json.loads((root / "cluster.json").read_bytes())
        return found

    def members() -> MemberList:
        return MemberList.from_json(json.dumps(state()["members"]).encode())

    def alive() -> frozenset[str]:
        return frozenset(state()["alive"])  # type: ignore[arg-type]

    settings = ClusterSettings(**json.loads((root / "settings.json").read_bytes()))
    links = CopyLinks(
        name,
        server_tls(root / "keys", name),
        client_tls(root / "keys", name),
        members,
        alive,
        lambda _: None,
        FileRemovalLog(root / "removals"),
    )
    options = CopyOptions(address=f"127.0.0.1:{port}", look_s=0.02, drop_s=0.5, compare_s=1.0, repair_bytes_s=0)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    with holdfast.open(root / name) as archive, Copies(archive, settings, links, options) as copies:
        safe: dict[str, int] = {}
        print("ready", flush=True)
        while not stop.wait(0.02):
            for added in archive.add(some_pages(random, 4, size=1500)):
                assert added.record is not None
                digest = hashlib.sha256(bytes_of(archive, added.record)).hexdigest()
                print("added", added.record, digest, flush=True)
            copies.wake()
            for batch in [each for each in archive.journal.names() if each.endswith(f".{name}")]:
                if (upto := copies.safe_up_to(batch)) > safe.get(batch, 0):
                    safe[batch] = upto
                    print("safe", batch, upto, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
