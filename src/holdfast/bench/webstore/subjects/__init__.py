"""What is compared, by name, in the order of tables and charts."""

from __future__ import annotations

from holdfast.bench.webstore.subject import Facts, Subject
from holdfast.bench.webstore.subjects.nfs import Nfs
from holdfast.bench.webstore.subjects.seaweedfs import SeaweedServers
from holdfast.bench.webstore.subjects.sshfs import Sshfs
from holdfast.bench.webstore.subjects.volumes import BatchedVolumes, Volumes
from holdfast.bench.webstore.subjects.webdav import Webdav

SUBJECTS: dict[str, type[Subject]] = {
    each.facts.name: each for each in (Volumes, BatchedVolumes, Nfs, Sshfs, Webdav, SeaweedServers)
}
PEERS = tuple(name for name, each in SUBJECTS.items() if not each.facts.is_ours)


def facts(name: str) -> Facts:
    return SUBJECTS[name].facts
