"""Pages of real front-end frameworks and bundlers, built with npm outside the repository.

Each directory of `frontend/` is one site: `npm install && npm run build` fills its `dist`. What was built is kept in a
cache directory (`HOLDFAST_FRONTEND`, else `~/.cache/holdfast/frontend`) under a name that depends on every source file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from hashlib import blake2b
from pathlib import Path

SOURCES = Path(__file__).parent / "frontend"
_TIMEOUT_S = 900
_QUIET = {"CI": "1", "NO_COLOR": "1", "NG_CLI_ANALYTICS": "false", "NEXT_TELEMETRY_DISABLED": "1"}
_QUIET |= {"ASTRO_TELEMETRY_DISABLED": "1", "NPM_CONFIG_UPDATE_NOTIFIER": "false"}


class BuildError(Exception):
    """With the end of what npm said."""


@cache
def missing() -> str:
    """Why nothing can be built here; '' if it can."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return "node and npm are not installed"
    return ""


def built(name: str) -> Path:
    """The directory with the built site. Raises BuildError."""
    digest = blake2b(digest_size=8)
    for path in sorted(path for path in (SOURCES / name).rglob("*") if path.is_file()):
        digest.update(b"%s\0%b\0" % (str(path.relative_to(SOURCES)).encode(), path.read_bytes()))
    target = _cache() / f"{name}-{digest.hexdigest()}"
    if not target.exists():
        _build(name, target)
    return target


def _cache() -> Path:
    given = os.environ.get("HOLDFAST_FRONTEND")
    return Path(given) if given else Path.home() / ".cache" / "holdfast" / "frontend"


def _build(name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=target.parent) as directory:
        work = Path(directory) / name
        shutil.copytree(SOURCES / name, work)
        _npm(work, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline")
        _npm(work, "run", "build")
        try:
            (work / "dist").rename(target)
        except OSError:
            if not target.exists():  # another process was faster
                raise


def _npm(work: Path, *given: str) -> None:
    ran = subprocess.run(
        ["npm", *given],
        cwd=work,
        env={**os.environ, **_QUIET},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if ran.returncode != 0:
        said = (ran.stdout + ran.stderr)[-3000:]
        raise BuildError(f"npm {given[0]} of {work.name} failed:\n{said}")
