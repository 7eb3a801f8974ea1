"""Certificates for tests, made by the `openssl` command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


@dataclass(frozen=True)
class Authority:
    """Who signs certificates: its own is `certificate`."""

    directory: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.directory / f"{self.name}.pem"

    def issue(self, name: str, *, days: int = 2) -> Path:
        """A file with a certificate for 127.0.0.1 and its key. With 0 days it has expired before it is used."""
        request, key, signed = (self.directory / f"{self.name}-{name}.{end}" for end in ("csr", "key", "crt"))
        _openssl("req", *_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        extensions = self.directory / f"{self.name}-{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        signing = ["-CA", self.certificate, "-CAkey", self.directory / f"{self.name}.key", "-CAcreateserial"]
        _openssl("x509", "-req", "-in", request, "-out", signed, "-days", days, *signing, "-extfile", extensions)
        path = self.directory / f"{self.name}-{name}.pem"
        path.write_bytes(signed.read_bytes() + key.read_bytes())
        return path


def make_authority(directory: Path, name: str) -> Authority:
    authority = Authority(directory, name)
    key = directory / f"{name}.key"
    made = ["-keyout", key, "-out", authority.certificate, "-days", 2, "-subj", f"/CN={name}"]
    _openssl("req", "-x509", *_KEY, *made)
    return authority


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
