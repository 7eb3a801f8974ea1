"""The token with which one node joins a cluster: once, within a day, and with no other right.

It is text: `hf1-` and the base64 of compressed JSON with the secret of a key of its own, the cluster's statement about
that key, the certificate of its CA, and where its NATS service is.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from holdfast.cluster.membership.authority import Authority, Trust, server_name
from holdfast.cluster.membership.bus import ServiceAccess, full_subject
from holdfast.cluster.membership.identity import ca_context
from holdfast.cluster.membership.nkeys import KeyKind, KeyPair, public_bytes, read_claims
from holdfast.cluster.membership.service import NatsService
from holdfast.errors import UsageError

TOKEN_HOURS = 24
_MARK = "hf1-"
_TEXT_MAX = 20_000


@dataclass(frozen=True, slots=True)
class JoinToken:
    """A token as its holder has it."""

    cluster: str
    key: KeyPair
    jwt: str
    ca: str
    service: NatsService

    @classmethod
    def issue(
        cls,
        authority: Authority,
        trust: Trust,
        service: NatsService,
        *,
        hours: float = TOKEN_HOURS,
        administrator: bool,
    ) -> Self:
        key = KeyPair.generate()
        name = token_name(key.public)
        jwt = authority.user_jwt(
            key.public,
            name,
            publish=[full_subject(trust.cluster, f"join.{name}")],
            subscribe=[f"_INBOX.{name}.>"],
            expires=datetime.now(UTC) + timedelta(hours=hours),
            administrator=administrator,
            service=service.number,
        )
        return cls(trust.cluster, key, jwt, trust.ca, service)

    @property
    def name(self) -> str:
        return token_name(self.key.public)

    def access(self) -> ServiceAccess:
        ca = self.ca
        return ServiceAccess(
            self.name,
            self.cluster,
            self.service,
            self.key.sign,
            lambda: self.jwt,
            lambda: ca_context(ca),
            server_name(self.cluster),
        )

    def text(self) -> str:
        values = {
            "cluster": self.cluster,
            "secret": self.key.secret.hex(),
            "jwt": self.jwt,
            "ca": self.ca,
            "number": self.service.number,
            "id": self.service.id,
            "urls": [[each.name, each.host, each.port, each.route_port] for each in self.service.keepers],
            "url": self.service.url,
        }
        data = zlib.compress(json.dumps(values, separators=(",", ":")).encode(), 9)
        return _MARK + base64.urlsafe_b64encode(data).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises UsageError."""
        text = "".join(text.split())
        try:
            if not text.startswith(_MARK) or len(text) > _TEXT_MAX:
                raise ValueError
            data = text.removeprefix(_MARK)
            compressed = base64.b64decode(data + "=" * (-len(data) % 4), altchars=b"-_", validate=True)
            values = json.loads(zlib.decompressobj().decompress(compressed, _TEXT_MAX))
            keepers = [dict(zip(("name", "host", "port", "route_port"), each, strict=True)) for each in values["urls"]]
            service = {"number": values["number"], "id": values["id"], "keepers": keepers, "url": values["url"]}
            key = KeyPair.from_secret(bytes.fromhex(values["secret"]))
            return cls(values["cluster"], key, values["jwt"], values["ca"], NatsService.from_values(service))
        except (ValueError, TypeError, KeyError, zlib.error):
            raise UsageError(
                "not a join token: copy all of what 'holdfast cluster token' prints, from 'hf1-' on"
            ) from None


def token_name(public: bytes) -> str:
    return f"token-{public[:10].hex()}"


def read_token(jwt: str, trust: Trust) -> tuple[bytes, dict[str, Any]]:
    """The public key of a token and what the cluster says about it. Raises NotAMember if it is not valid (any more)."""
    claims = read_claims(jwt, KeyKind.ACCOUNT, trust.account)
    return public_bytes(KeyKind.USER, claims["sub"]), claims
