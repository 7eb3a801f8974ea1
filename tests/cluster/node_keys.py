"""Keys, certificates and TLS contexts of a test's nodes, as a cluster's CA gives them out."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from holdfast.cluster.membership.placement import Member, placement_id

_DAY = timedelta(days=1)


class NodeAuthority:
    """The CA of a cluster. Its files are below a directory."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = Ed25519PrivateKey.generate()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signed = self._certificate(self._name, self._key).add_extension(x509.BasicConstraints(True, None), True)
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(signed.sign(self._key, None).public_bytes(serialization.Encoding.PEM))

    def _certificate(self, subject: x509.Name, key: Ed25519PrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        return made.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY).not_valid_after(now + _DAY)

    def issue(self, name: str, nonce: bytes = b"", address: str = "", weight: float = 1.0) -> Member:
        """A member, whose key and certificate are in the file of its name."""
        key = Ed25519PrivateKey.generate()
        signed = self._certificate(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key).sign(
            self._key, None
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self._directory / f"{name}.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM) + private)
        public = key.public_key().public_bytes_raw()
        return Member(name, placement_id(public, nonce), weight, public, nonce, address)

    def server_tls(self, name: str) -> ssl.SSLContext:
        return server_tls(self._directory, name, self.path)

    def client_tls(self, name: str) -> ssl.SSLContext:
        return client_tls(self._directory, name, self.path)


def server_tls(directory: Path, name: str, authority: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _loaded(context, directory, name, authority)


def client_tls(directory: Path, name: str, authority: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    return _loaded(context, directory, name, authority)


def _loaded(context: ssl.SSLContext, directory: Path, name: str, authority: Path | None) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(authority or directory / "ca.pem")
    context.load_cert_chain(directory / f"{name}.pem")
    return context
