"""The words of `holdfast crawl`: which are seeds, which is a job file, and which must be a mistake; and its lists."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.crawl.job import Credential

_JOB_FILE = ".toml"
_OTHERS = 0o044  # may read


def sorted_out(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """Seeds, and the job file if there is one among them."""
    files = [word for word in words if word.endswith(_JOB_FILE) and "://" not in word]
    if len(files) > 1:
        raise UsageError(f"'{files[0]}' and '{files[1]}' are two jobs: crawl them one after the other")
    return [word for word in words if word not in files], Path(files[0]) if files else None


def listed(path: str | None) -> list[str]:
    """The seeds of a file; '-' is standard input."""
    from holdfast.crawl.job_file import read_seeds

    if path is None:
        return []
    with click.open_file(path, encoding="utf-8-sig", errors="replace") as lines:
        return read_seeds(lines)


def listed_credentials(path: str) -> tuple[Credential, ...]:
    """The credentials of a file; '-' is standard input. Raises UsageError."""
    from holdfast.crawl.credentials import read_credentials

    with click.open_file(path, encoding="utf-8-sig", errors="replace") as lines:
        return read_credentials(lines, path)


def exposed(path: str | Path | None) -> list[str]:
    """A note if others may read a file that holds credentials."""
    if path is None or not Path(path).is_file() or not Path(path).stat().st_mode & _OTHERS:
        return []
    return [f"'{path}' holds credentials, and others may read it: 'chmod 600 {path}'"]


def assumed(seeds: Sequence[str]) -> dict[str, str]:
    """What the seeds that name no scheme are taken for."""
    from holdfast.crawl.job_rules import has_scheme, seed_of

    return {seed: seed_of(seed) for seed in seeds if not has_scheme(seed)}


def require_urls(words: Sequence[str], crawls: Sequence[str], commands: Sequence[str]) -> None:
    """Raises UsageError, with what may have been meant, if a word can be no seed."""
    from holdfast.crawl.job_rules import has_scheme, seed_of

    for place, word in enumerate(words):
        try:
            url = seed_of(word)
        except UsageError as error:
            meant = _meant(word, crawls, commands if place == 0 else ())
            raise UsageError(f"'{word}' is no URL: {meant}" if meant else str(error)) from None
        if not has_scheme(word) and Path(word).is_file():
            raise UsageError(
                f"'{word}' is a file: '--seeds {word}' reads seeds from it; if the site is meant, write '{url}'"
            )


def _meant(word: str, crawls: Sequence[str], commands: Sequence[str]) -> str:
    if word in crawls:
        return f"there is a crawl of that name, '--resume {word}' goes on with it"
    near = difflib.get_close_matches(word, commands, n=1) if word.isalpha() else []
    return f"did you mean 'holdfast crawl {near[0]}'?" if near else ""
