"""What is compared, by name, in the order of tables and charts."""

from __future__ import annotations

from benchmarks.webstore.subject import Facts, Subject
from benchmarks.webstore.subjects.nfs import Nfs
from benchmarks.webstore.subjects.reference import Reference
from benchmarks.webstore.subjects.seaweedfs import SeaweedServers
from benchmarks.webstore.subjects.sshfs import Sshfs
from benchmarks.webstore.subjects.volumes import BatchedVolumes, Volumes
from benchmarks.webstore.subjects.webdav import Webdav

SUBJECTS: dict[str, type[Subject]] = {
    each.facts.name: each for each in (Volumes, BatchedVolumes, Reference, Nfs, Sshfs, Webdav, SeaweedServers)
}
PEERS = tuple(name for name, each in SUBJECTS.items() if not each.facts.is_ours)


def facts(name: str) -> Facts:
    return SUBJECTS[name].facts
