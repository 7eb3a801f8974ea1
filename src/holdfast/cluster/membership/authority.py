"""Who may belong to the cluster: two keys that sign everything else. Administrators have them, others only the proof.

    root      operator of the NATS service, and CA of all certificates
    account   signs the rights of each node, join tokens, and where the NATS service is

What they have signed is public and the same everywhere: `Trust`. Back up both keys: without them no node can join or
renew its certificate, and the service cannot be built again.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from holdfast.cluster.membership.nkeys import KeyKind, KeyPair, public_bytes, public_text, read_claims
from holdfast.errors import Damaged, NotFound

ROOT, ACCOUNT = "root.pem", "account.pem"
CERTIFICATE_DAYS = 90  # of a node's certificate and rights; renewed after two thirds
_CA_DAYS = 36_500
_EARLY = timedelta(days=1)  # clocks differ
_NO_LIMITS = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "conn": -1, "leaf": -1}
_STREAMS = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
_RESPONSES = {"max": 1, "ttl": 30_000_000_000}  # to requests that were received


@dataclass(frozen=True, slots=True)
class Trust:
    """What the authority has signed: every node has it, and every keeper's server is configured with it."""

    cluster: str
    operator_jwt: str
    account_jwt: str  # names the nodes whose rights are revoked
    system_account: str
    system_jwt: str
    ca: str  # PEM

    @property
    def account(self) -> bytes:
        """The public key of the account."""
        claims = read_claims(self.account_jwt, KeyKind.OPERATOR, self.root)
        return public_bytes(KeyKind.ACCOUNT, claims["sub"])

    @property
    def root(self) -> bytes:
        key = x509.load_pem_x509_certificate(self.ca.encode()).public_key()
        assert isinstance(key, Ed25519PublicKey)
        return key.public_bytes_raw()

    @property
    def account_name(self) -> str:
        return public_text(KeyKind.ACCOUNT, self.account)

    @property
    def revocations(self) -> dict[str, int]:
        """Times up to which rights that were issued to a user are void."""
        claims = read_claims(self.account_jwt, KeyKind.OPERATOR, self.root)
        return dict(claims["nats"].get("revocations", {}))

    def is_revoked(self, public: bytes) -> bool:
        """Whether this key is that of a node that was forgotten."""
        return public_text(KeyKind.USER, public) in self.revocations

    @property
    def signed_s(self) -> int:
        """When the account was signed: later ones replace it."""
        return int(read_claims(self.account_jwt, KeyKind.OPERATOR, self.root)["iat"])

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Raises Damaged."""
        try:
            return cls(**json.loads(data))
        except (ValueError, TypeError) as error:
            raise Damaged(f"not what a cluster's authority has signed: {error}") from error


class Authority:
    """The two keys."""

    def __init__(self, root: KeyPair, account: KeyPair) -> None:
        self._root = root
        self._account = account

    @classmethod
    def generate(cls) -> Self:
        return cls(KeyPair.generate(), KeyPair.generate())

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Raises NotFound if this node has no administrator right."""
        try:
            return cls(KeyPair.load(directory / ROOT), KeyPair.load(directory / ACCOUNT))
        except FileNotFoundError:
            raise NotFound(
                f"no administrator's keys in '{directory}': use a node that has them, or copy them there from a backup"
            ) from None

    def save(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root.save(directory / ROOT)
        self._account.save(directory / ACCOUNT)

    def secrets(self) -> dict[str, str]:
        """For a node that gets the administrator right."""
        return {"root": self._root.secret.hex(), "account": self._account.secret.hex()}

    @classmethod
    def from_secrets(cls, secrets: dict[str, str]) -> Self:
        root, account = (KeyPair.from_secret(bytes.fromhex(secrets[each])) for each in ("root", "account"))
        return cls(root, account)

    # -- the cluster ----------------------------------------------------------------------------------------------

    def found(self, cluster: str) -> Trust:
        """Signs a new cluster."""
        operator, system = self._root.text(KeyKind.OPERATOR), KeyPair.generate().text(KeyKind.ACCOUNT)
        return Trust(
            cluster=cluster,
            operator_jwt=self._root.sign_claims(
                KeyKind.OPERATOR, operator, cluster, {"type": "operator", "version": 2, "system_account": system}
            ),
            account_jwt=self._account_jwt(cluster, {}),
            system_account=system,
            system_jwt=self._root.sign_claims(
                KeyKind.OPERATOR, system, "system", {"type": "account", "version": 2, "limits": _NO_LIMITS}
            ),
            ca=self._ca(cluster),
        )

    def revoke(self, trust: Trust, public: bytes) -> Trust:
        """Makes all rights void that this key has been given up to now."""
        revocations = trust.revocations | {public_text(KeyKind.USER, public): int(_now().timestamp())}
        return replace(trust, account_jwt=self._account_jwt(trust.cluster, revocations))

    def _account_jwt(self, cluster: str, revocations: dict[str, int]) -> str:
        limits = {**_NO_LIMITS, **_STREAMS, "wildcards": True}
        return self._root.sign_claims(
            KeyKind.OPERATOR,
            self._account.text(KeyKind.ACCOUNT),
            cluster,
            {"type": "account", "version": 2, "limits": limits, "revocations": revocations},
        )

    def sign(self, name: str, values: dict[str, Any], **more: Any) -> str:
        """A statement of the account that every node can check."""
        return self._account.sign_claims(
            KeyKind.ACCOUNT,
            self._account.text(KeyKind.ACCOUNT),
            name,
            {"type": "generic", "version": 2, **values},
            **more,
        )

    # -- nodes ------------------------------------------------------------------------------------------------------

    def user_jwt(
        self, public: bytes, name: str, publish: list[str], subscribe: list[str], expires: datetime, **more: Any
    ) -> str:
        """The right of a key to use the NATS service: these subjects, and responses to what it receives."""
        rights = {"pub": {"allow": publish}, "sub": {"allow": subscribe}, "resp": _RESPONSES}
        limits = {"subs": -1, "data": -1, "payload": -1}
        return self._account.sign_claims(
            KeyKind.ACCOUNT,
            public_text(KeyKind.USER, public),
            name,
            {"type": "user", "version": 2, **limits, **rights},
            exp=int(expires.timestamp()),
            **more,
        )

    def certificate(self, trust: Trust, public: bytes, name: str, host: str) -> str:
        """A certificate for both ends of a connection, PEM. It is valid for the cluster's name and the host."""
        ca = x509.load_pem_x509_certificate(trust.ca.encode())
        names: list[x509.GeneralName] = [x509.DNSName(server_name(trust.cluster)), x509.DNSName(name)]
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
        key = Ed25519PublicKey.from_public_bytes(public)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _new_certificate(name, key, CERTIFICATE_DAYS)
            .issuer_name(ca.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._root.private.public_key()), False)
            .sign(self._root.private, None)
        )
        return certificate.public_bytes(Encoding.PEM).decode()

    def _ca(self, cluster: str) -> str:
        key = self._root.private.public_key()
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _new_certificate(f"holdfast {cluster}", key, _CA_DAYS)
        certificate = (
            builder.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"holdfast {cluster}")]))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._root.private, None)
        )
        return certificate.public_bytes(Encoding.PEM).decode()


def server_name(cluster: str) -> str:
    """What the certificates of all members are valid for."""
    return f"{cluster}.holdfast"


def expiry_of(certificate: str) -> datetime:
    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc


def is_due(certificate: str) -> bool:
    """Whether a node's certificate, and its rights with it, should be renewed."""
    return expiry_of(certificate) - _now() < timedelta(days=CERTIFICATE_DAYS / 3)


def rights_end() -> datetime:
    return _now() + timedelta(days=CERTIFICATE_DAYS)


def _new_certificate(name: str, key: Ed25519PublicKey, days: float) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - _EARLY)
        .not_valid_after(_now() + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _now() -> datetime:
    return datetime.now(UTC)
