"""Who a node is: its key, and what the cluster's authority has signed for it (H3)."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from holdfast.cluster.membership.authority import Trust, server_name
from holdfast.cluster.membership.bus import ServiceAccess
from holdfast.cluster.membership.nkeys import KeyPair
from holdfast.cluster.membership.service import NatsService


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """A member of a cluster, as it proves itself to others."""

    name: str
    key: KeyPair
    certificate: str  # PEM
    user_jwt: str
    trust: Trust

    def access(self, service: NatsService) -> ServiceAccess:
        """To the NATS service."""
        return ServiceAccess(
            self.name,
            self.trust.cluster,
            service,
            self.key.sign,
            lambda: self.user_jwt,
            lambda: ca_context(self.trust.ca),
            server_name(self.trust.cluster),
        )

    def client_context(self) -> ssl.SSLContext:
        """For connections to other nodes. Their certificate is checked; compare its key with the list of members."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return self._pinned(context)

    def server_context(self) -> ssl.SSLContext:
        """For connections from other nodes, which must have a certificate of the cluster."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        return self._pinned(context)

    @property
    def peer_name(self) -> str:
        """What the certificates of all members are valid for: `server_hostname` of connections between nodes."""
        return server_name(self.trust.cluster)

    def _pinned(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=self.trust.ca)
        self.show_in(context)
        return context

    def show_in(self, context: ssl.SSLContext) -> None:
        """New connections with this context show the certificate: also a renewed one, with a context in use."""
        descriptor = os.memfd_create("identity", os.MFD_CLOEXEC)  # the interface takes files only
        try:
            os.write(descriptor, self.certificate.encode() + self.key.pem)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)


def ca_context(ca: str) -> ssl.SSLContext:
    """Accepts servers with a certificate of this CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=ca)
    return context


def key_of(certificate: bytes) -> bytes:
    """The public key of a certificate in DER form, to be compared with that of the member; empty if of another kind."""
    key = x509.load_der_x509_certificate(certificate).public_key()
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else b""
