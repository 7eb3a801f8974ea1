"""The NATS service that a cluster uses, as its authority has signed it: where it is, and which incarnation.

Everything that nodes keep in it stands under the incarnation's name, so what is meant for one service never reaches
another. `holdfast cluster rebuild` makes the next incarnation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from holdfast.cluster.membership.authority import Authority, Trust
from holdfast.cluster.membership.nkeys import KeyKind, read_claims
from holdfast.errors import NotAMember


@dataclass(frozen=True, slots=True)
class Keeper:
    """A node that runs a NATS server of the service."""

    name: str
    host: str
    port: int  # for clients
    route_port: int  # for the other servers

    @property
    def url(self) -> str:
        return f"tls://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class NatsService:
    """One incarnation of the service."""

    number: int  # 1, 2, ...
    id: str  # random
    keepers: tuple[Keeper, ...] = ()  # none: the service is run by others
    url: str = ""  # of the service that others run

    @property
    def incarnation(self) -> str:
        """A part of subjects and stream names."""
        return f"{self.number}-{self.id}"

    @property
    def urls(self) -> list[str]:
        return [each.url for each in self.keepers] or self.url.split(",")

    @property
    def replicas(self) -> tuple[int, ...]:
        """Copies of the streams, the first number that works: nobody knows how many servers others run."""
        return (len(self.keepers),) if self.keepers else (3, 1)

    @property
    def is_own(self) -> bool:
        return bool(self.keepers)

    def keeper(self, name: str) -> Keeper | None:
        return next((each for each in self.keepers if each.name == name), None)

    def signed(self, authority: Authority) -> str:
        return authority.sign("service", {"service": asdict(self)})

    @classmethod
    def from_signed(cls, text: str, trust: Trust) -> Self:
        """Raises NotAMember if it was not signed by this cluster's authority."""
        claims = read_claims(text, KeyKind.ACCOUNT, trust.account)
        if claims["name"] != "service":
            raise NotAMember("a statement of this cluster about something else than its service")
        return cls.from_values(claims["nats"]["service"])

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Self:
        keepers = tuple(Keeper(**each) for each in values["keepers"])
        return cls(values["number"], values["id"], keepers, values["url"])
