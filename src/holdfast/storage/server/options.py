"""The options of a volume server."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import UsageError


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where it listens, whom it serves, and what clients may cost it."""

    # behaviour
    host: str = "127.0.0.1"
    port: int = 0  # 0: any free one
    secret: bytes | None = None  # shared with the clients; None: they have certificates
    tls: ssl.SSLContext | None = None
    read_only: bool = False  # no new contents; counting, deleting and reading go on
    capacity_bytes: int = 0  # beyond which the volume is full; 0: what the disk has
    stop_with_input: bool = False  # at the end of standard input, which belongs to the parent process
    # limits
    connections_max: int = 1024
    unauthenticated_max: int = 128  # connections that are not authenticated yet
    message_bytes_max: int = 128 << 20  # of one request; a content must fit into it
    response_bytes_max: int = 8 << 20  # of one response, unless a single block is larger
    pending_bytes_max: int = 512 << 20  # of large requests that are arriving or waiting, all clients together
    outstanding_max: int = 256  # requests of one connection that wait for their response
    handshake_s: float = 5.0  # until a client is authenticated
    stall_s: float = 30.0  # without a byte, in the middle of a request or of a response
    slowest_bytes_s: int = 64 << 10  # the lowest rate of a large request: others may wait for its share of memory
    scan_kept_s: float = 5.0  # for how long a scan waits for its client, with megabytes that it has read ahead
    stop_s: float = 10.0  # for what is under way when the server stops


def server_tls(certificate: Path, key: Path | None, client_ca: Path | None) -> ssl.SSLContext:
    """TLS 1.3 with the server's own certificate; with `client_ca`, clients need one signed by it.

    Raises UsageError if a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"cannot use the certificate '{certificate}': {error}") from None
    return context
