"""How an archive becomes a node: the first of a new cluster, or another one of a cluster that has sent a token."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from pathlib import Path

from holdfast import config
from holdfast.archive.create import Plan, init
from holdfast.cluster.directory import NodeAddress, NodeDirectory
from holdfast.cluster.membership.admission import join, node_rights
from holdfast.cluster.membership.authority import Authority, rights_end
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.membership.placement import Member, placement_id
from holdfast.cluster.membership.service import NatsService
from holdfast.cluster.membership.token import JoinToken
from holdfast.cluster.settings import PROTOCOLS, ClusterSettings
from holdfast.config import RecordSettings, StoreSettings
from holdfast.config.write import with_node
from holdfast.env import REAL
from holdfast.env.files import replace_file
from holdfast.env.paths import SETTINGS
from holdfast.errors import UsageError
from holdfast.records.draft import INLINE_BYTES_MAX, PIECE_BYTES_MAX

_ID_BYTES = 4
_NONCE_BYTES = 16


def new_id() -> str:
    return secrets.token_hex(_ID_BYTES)


def create_cluster(archive: Path, settings: ClusterSettings, name: str, address: str, nats: str = "") -> None:
    """Makes a cluster with this archive as its first node, which is an administrator; it is created if there is none.

    `nats` is the URL of a NATS service that others run; without it, this node runs one.
    """
    directory = NodeDirectory(archive)
    if directory.is_member:
        raise UsageError(f"'{archive}' is a node of a cluster already")
    own = NodeAddress.choose(name, address)
    if _has_archive(archive):
        settings = replace(settings, signature=config.load(archive / SETTINGS).store.signature)
    _make_archive(archive, settings, name)
    directory.make()
    authority = Authority.generate()
    trust = authority.found(settings.cluster)
    key, nonce = directory.key(), secrets.token_bytes(_NONCE_BYTES)
    member = Member(
        name=name,
        placement_id=placement_id(key.public, nonce),
        public_key=key.public,
        nonce=nonce,
        address=own.address,
        protocols=PROTOCOLS,
        is_administrator=True,
    )
    service = NatsService(1, new_id(), () if nats else (own.keeper,), nats)
    publish, subscribe = node_rights(settings.cluster, name, administrator=True)
    authority.save(directory.authority_path)
    directory.save_address(own)
    directory.save_settings(settings)
    directory.save_trust(trust)
    directory.save_identity(
        authority.certificate(trust, key.public, name, own.host),
        authority.user_jwt(key.public, name, publish, subscribe, rights_end()),
    )
    directory.save_members(MemberList().with_member(member))
    directory.set_founding(True)
    directory.save_service(service.signed(authority))


def join_cluster(archive: Path, token: JoinToken, name: str, address: str) -> None:
    """Makes the archive a node of the token's cluster; it is created if there is none. Idempotent.

    A member that has lost the service, or whose certificate has expired, comes back with a new token.
    """
    directory = NodeDirectory(archive)
    if directory.is_member:
        own = directory.address()
        if directory.settings().cluster != token.cluster:
            raise UsageError(f"'{archive}' is a node of another cluster than the token's")
        if name and name != own.name:
            raise UsageError(f"'{archive}' is node '{own.name}': its name cannot change")
        name, address = own.name, address or own.address
        directory.lock().release()  # raises if it runs: the token stays unused
    own = NodeAddress.choose(name, address)
    if own.is_local and any(each.host not in ("127.0.0.1", "localhost", "::1") for each in token.service.keepers):
        raise UsageError(f"other machines cannot reach this node at '{own.host}': give --address HOST[:PORT]")
    had_archive = _has_archive(archive)

    def agree(settings: ClusterSettings, addresses: list[str]) -> tuple[str, str]:
        nonlocal own
        if (settings.inline_bytes_max, settings.piece_bytes_max) != (INLINE_BYTES_MAX, PIECE_BYTES_MAX):
            raise UsageError("the cluster was made by a release with other limits of payloads: install the same one")
        if had_archive:
            _require_fits(archive, settings, is_member=directory.is_member)
        own = NodeAddress.choose(name, address, addresses)
        return own.address, own.host

    directory.make()
    settings, admitted = asyncio.run(join(token, directory.key(), name, agree))
    _make_archive(archive, settings, name)
    if admitted.authority:
        Authority.from_secrets(admitted.authority).save(directory.authority_path)
    directory.save_address(own)
    directory.save_settings(settings)
    directory.save_trust(admitted.trust)
    directory.save_identity(admitted.certificate, admitted.user_jwt)
    directory.save_members(admitted.members)
    directory.save_service(admitted.service)


def _make_archive(archive: Path, settings: ClusterSettings, name: str) -> None:
    """An archive whose batches end in the node's name; one that exists is changed to that. Idempotent."""
    if not _has_archive(archive):
        init(archive, Plan(store=StoreSettings(signature=settings.signature), records=RecordSettings(node=name)))
    elif config.load(archive / SETTINGS).records.node != name:
        text = (archive / SETTINGS).read_text(encoding="utf-8")
        replace_file(REAL.files, archive / SETTINGS, with_node(text, name).encode())


def _has_archive(archive: Path) -> bool:
    return (archive / SETTINGS).exists()


def _require_fits(archive: Path, settings: ClusterSettings, *, is_member: bool) -> None:
    """Raises UsageError if the archive cannot be a node of the cluster."""
    signature = config.load(archive / SETTINGS).store.signature
    if signature != settings.signature:
        raise UsageError(
            f"'{archive}' names contents by '{signature}', the cluster by '{settings.signature}': "
            "join with an empty directory, then import"
        )
    if not is_member and (archive / "batches").exists() and any((archive / "batches").iterdir()):
        raise UsageError(f"'{archive}' has records already: join with an empty directory, then import them")
