"""The `cluster/` folder of a node's archive.

lock               held by the node's process
node.json          name, host and ports of this node
key.pem            its private key: who it is
certificate.pem    of the cluster's CA, for that key
user.jwt           its rights in the NATS service
settings.json      of the cluster, the same on every node
trust.json         what the cluster's authority has signed
members.json       the list of members as it was known last
service.jwt        where the NATS service is, signed; a node without it has not joined
authority/         the authority's keys: administrators only
nats/              configuration, log and store of this node's NATS server, if it is a keeper
control            socket of the running process
nodes.json         derived: the table of nodes, as the running process sees it
origins/           derived: every record by its origin, and digests (see `copies.origins`)
pieces/            blocks of a large record that is being copied
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from holdfast.cluster.membership.authority import Authority, Trust
from holdfast.cluster.membership.identity import MemberIdentity
from holdfast.cluster.membership.keeper import KeeperFiles
from holdfast.cluster.membership.members import NAME, MemberList
from holdfast.cluster.membership.nkeys import KeyPair
from holdfast.cluster.membership.service import Keeper, NatsService
from holdfast.cluster.settings import ClusterSettings
from holdfast.env.files import LocalFiles, replace_file, replace_private_file
from holdfast.env.lock import WriterLock
from holdfast.env.paths import CLUSTER, MEMBER
from holdfast.errors import Busy, Damaged, NotFound, UsageError

PORT = 7400  # of the node protocol; then those of the NATS server, of its routes, and of forwarded requests
_PORTS = 4
_PORT_STEP = 10
_LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """What this node is called, and where others find it."""

    name: str
    host: str
    port: int

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise UsageError(f"bad name of a node '{self.name}': lower-case letters, digits and '-', up to 32")
        if not 1 <= self.port <= 65535 - _PORTS:
            raise UsageError(f"bad port {self.port} of a node: 1 to {65535 - _PORTS}")

    @classmethod
    def choose(cls, name: str, address: str, taken: Sequence[str] = ()) -> Self:
        """From 'host', 'host:port' or nothing: then this machine, and ports that are free and not `taken` by others."""
        host, _, port = address.rpartition(":") if address.rpartition(":")[2].isdigit() else (address, "", "")
        host = host.strip("[]") or "127.0.0.1"
        return cls(name, host, int(port) if port else _free_port(host, taken))

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in _LOCAL

    @property
    def listen_host(self) -> str:
        return self.host if self.is_local else ""

    @property
    def keeper(self) -> Keeper:
        return Keeper(self.name, self.host, self.port + 1, self.port + 2)


def _free_port(host: str, taken: Sequence[str]) -> int:
    """The first of four that nobody uses."""
    for port in range(PORT, 65535 - _PORTS, _PORT_STEP):
        if f"{host}:{port}" not in taken and all(
            _is_free(host if host in _LOCAL else "", port + number) for number in range(_PORTS)
        ):
            return port
    raise UsageError("no free ports: give an address with a port")


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


class NodeDirectory:
    """Reads and writes the files. What is written is durable, and whole after a crash."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.path = archive / CLUSTER

    @classmethod
    def of_member(cls, archive: Path) -> Self:
        """Raises NotFound if the directory is not a node's."""
        directory = cls(archive)
        if not directory.is_member:
            raise NotFound(
                f"'{archive}' is not a node of a cluster: 'holdfast cluster init' makes one, "
                "'holdfast node run --join' joins one"
            )
        return directory

    @property
    def is_member(self) -> bool:
        return (self.path / MEMBER).exists()

    @property
    def authority_path(self) -> Path:
        return self.path / "authority"

    @property
    def nats_path(self) -> Path:
        return self.path / "nats"

    @property
    def key_path(self) -> Path:
        return self.path / "key.pem"

    @property
    def certificate_path(self) -> Path:
        return self.path / "certificate.pem"

    @property
    def ca_path(self) -> Path:
        return self.path / "ca.pem"

    def lock(self) -> WriterLock:
        """Held by the node's process. Raises Busy if it runs already."""
        path = self.path / "lock"
        try:
            return WriterLock(path, "node")
        except Busy:
            raise Busy(
                f"the node in '{self.archive}' runs already (pid {WriterLock.holder(path) or 'unknown'})"
            ) from None

    def make(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    # -- this node ----------------------------------------------------------------------------------------------------

    def key(self) -> KeyPair:
        """The node's key; made when it is first asked for."""
        try:
            return KeyPair.load(self.key_path)
        except FileNotFoundError:
            key = KeyPair.generate()
            key.save(self.key_path)
            return key

    def address(self) -> NodeAddress:
        try:
            return NodeAddress(**json.loads(self._read("node.json")))
        except (ValueError, TypeError) as error:
            raise Damaged(f"'{self.path / 'node.json'}' cannot be read: {error}") from error

    def save_address(self, address: NodeAddress) -> None:
        self._write("node.json", json.dumps(asdict(address)).encode())

    def identity(self) -> MemberIdentity:
        """Raises NotFound and Damaged."""
        return MemberIdentity(
            name=self.address().name,
            key=self.key(),
            certificate=self._read("certificate.pem").decode(),
            user_jwt=self._read("user.jwt").decode(),
            trust=self.trust(),
        )

    def save_identity(self, certificate: str, user_jwt: str) -> None:
        self._write("certificate.pem", certificate.encode())
        replace_private_file(self.path / "user.jwt", user_jwt.encode())

    # -- the cluster --------------------------------------------------------------------------------------------------

    def settings(self) -> ClusterSettings:
        return ClusterSettings.from_json(self._read("settings.json"))

    def save_settings(self, settings: ClusterSettings) -> None:
        self._write("settings.json", settings.to_json())

    def trust(self) -> Trust:
        return Trust.from_json(self._read("trust.json"))

    def save_trust(self, trust: Trust) -> None:
        self._write("ca.pem", trust.ca.encode())
        self._write("trust.json", trust.to_json())

    def members(self) -> MemberList:
        return MemberList.from_json(self._read("members.json"))

    def save_members(self, members: MemberList) -> None:
        self._write("members.json", members.to_json())

    def service(self) -> NatsService:
        return NatsService.from_signed(self.signed_service(), self.trust())

    def signed_service(self) -> str:
        return self._read("service.jwt").decode()

    def save_service(self, signed: str) -> None:
        """The last file of a join."""
        replace_private_file(self.path / "service.jwt", signed.encode())

    def retire(self) -> None:
        """Makes it an ordinary archive again: its node has left the cluster. Its key stays behind."""
        LocalFiles().remove(self.path / MEMBER)
        LocalFiles().sync_directory(self.path)

    @property
    def is_founding(self) -> bool:
        """Whether this node has to fill the service, which is new."""
        return (self.path / "founding").exists()

    def set_founding(self, is_founding: bool) -> None:
        if is_founding:
            self._write("founding", b"")
        else:
            LocalFiles().remove(self.path / "founding")

    def keeper_files(self) -> KeeperFiles:
        return KeeperFiles(self.nats_path, self.certificate_path, self.key_path, self.ca_path)

    def authority(self) -> Authority:
        """Raises NotFound if this node has no administrator right."""
        return Authority.load(self.authority_path)

    @property
    def is_administrator(self) -> bool:
        return (self.authority_path / "root.pem").exists()

    def _read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            raise NotFound(f"no '{self.path / name}': this directory is not a node of a cluster") from None

    def _write(self, name: str, data: bytes) -> None:
        replace_file(LocalFiles(), self.path / name, data)
