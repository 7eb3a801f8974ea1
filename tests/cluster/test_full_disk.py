"""The disk of one node is full: the others go on, and so does that one once there is room (H6)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from copy_cluster import bytes_of, cluster_of
from copy_world import seeded, some_pages
from waiting import wait_until


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small file system needs root")
def test_a_holder_whose_disk_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    random = seeded()
    disk = tmp_path / "n2"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", disk], check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with cluster_of(tmp_path, "n1", "n2", "n3") as cluster:
            one, two, three = (cluster.nodes[name] for name in ("n1", "n2", "n3"))
            one.add(some_pages(random, 20))
            cluster.settle()
            before = two.copies.counts()["copies"]["records"]
            fill(disk / "ballast")
            added = one.add(some_pages(random, 200, size=20_000))
            assert one.copies.wait_safe(added[-1], 120), "on n1 and n3"
            wait_until(lambda: "No space left on device" in caplog.text, "it is said")
            wait_until(lambda: two.copies.counts()["lag_s"] > 0, "it falls behind")
            assert two.copies.counts()["copies"]["records"] < before + len(added)
            (disk / "ballast").unlink()
            cluster.settle()
            cluster.check_digests()
            for record in added:
                assert bytes_of(two.archive, record) == bytes_of(three.archive, record)
            assert two.add(some_pages(random, 1)), "it records again"
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def fill(path: Path) -> None:
    """Until there is no room left."""
    with path.open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(1 << 16))
        except OSError:
            pass
