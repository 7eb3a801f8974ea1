"""A member that does not respond holds up nobody but itself: pulls and removals of others go on (H6, N2)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from copy_cluster import Node, cluster_of
from copy_world import seeded, some_pages
from waiting import wait_until

from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.cluster.copies.protocol import peers
from holdfast.cluster.copies.protocol.handlers import NodeRequests
from holdfast.records.selection import Selection


def test_a_member_that_does_not_respond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "STALL_S", 3600.0)
    responds = threading.Event()
    responds.set()
    waiting: set[str] = set()

    def handle(self: NodeRequests, peer: str, *request: Any) -> Any:
        if self is slow and not responds.is_set():
            waiting.add(peer)
            responds.wait()
        return answer(self, peer, *request)

    answer = NodeRequests.handle
    slow: Any = None
    monkeypatch.setattr(NodeRequests, "handle", handle)
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", copies=3) as cluster:
        cluster.settle()
        one, two = cluster.nodes["n1"], cluster.nodes["n2"]
        slow = cluster.nodes["n3"].copies._server._requests
        responds.clear()
        try:
            wait_until(lambda: waiting == {"n1", "n2"}, "both wait for n3")
            assert one.copies.counts()["lag_s"] > 0
            pages = some_pages(random, 30)
            records = one.add(pages)
            assert one.copies.wait_safe(records[-1], 120), "on n1 and n2"
            wait_until(lambda: all(_has(two, page.url) for page in pages), "n2 has everything")
            removal = two.copies.remove(Selection(CaptureQuery(url=pages[0].url)), RemovalOptions("asked"))
            wait_until(lambda: not _has(one, pages[0].url), "removed from n1")
            wait_until(
                lambda: two.copies.removals.status(removal.id).confirmed.keys() >= {"n1", "n2"}, "n1 and n2 confirm"
            )
        finally:
            responds.set()
        cluster.settle()
        cluster.check_digests()
        wait_until(lambda: one.copies.counts()["lag_s"] == 0, "n1 has caught up with n3")


def _has(node: Node, url: str) -> bool:
    return bool(list(node.archive.search(CaptureQuery(url=url))))
