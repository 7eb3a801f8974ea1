"""A certificate that nobody signed, made anew at each start by the `openssl` command."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path


def tls_available() -> bool:
    return shutil.which("openssl") is not None


def server_context(name: str) -> ssl.SSLContext:
    """Speaks for `name` with a self-signed certificate. `openssl` must be there."""
    with tempfile.TemporaryDirectory(prefix="holdfast-web-") as directory:
        key, certificate = Path(directory) / "key.pem", Path(directory) / "certificate.pem"
        made = ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", f"/CN={name}"]
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        names = ["-addext", f"subjectAltName=DNS:{name}"]
        subprocess.run(["openssl", "req", "-x509", *curve, *made, *names], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    return context
