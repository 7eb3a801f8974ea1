"""How long nodes live: exponential, Weibull, or drawn from lifetimes that were observed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from holdfast.errors import UsageError

DAY_S = 86400.0


class NodeLives(Protocol):
    """A distribution of seconds."""

    @property
    def mean_s(self) -> float: ...

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray: ...


@dataclass(frozen=True, slots=True)
class ExponentialLives:
    """Old nodes fail no more often than new ones."""

    mean_s: float

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        return random.exponential(self.mean_s, count)


@dataclass(frozen=True, slots=True)
class WeibullLives:
    """With a shape below 1 many leave early, with one above 1 nodes wear out."""

    mean_s: float
    shape: float

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        return self.mean_s / math.gamma(1 + 1 / self.shape) * random.weibull(self.shape, count)


@dataclass(frozen=True, slots=True)
class TracedLives:
    """NodeLives that were observed, each as likely as any other."""

    seconds: Sequence[float]

    @property
    def mean_s(self) -> float:
        return float(np.mean(self.seconds))

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        return random.choice(np.asarray(self.seconds, float), count)


def read_trace(path: Path) -> TracedLives:
    """A text file with one lifetime in days on each line; empty lines and those that begin with '#' are skipped.

    Raises UsageError.
    """
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise UsageError(f"cannot read the trace '{path}': {error.strerror}") from None
    found = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            days = float(text)
        except ValueError:
            days = 0.0
        if not 0 < days < math.inf:
            raise UsageError(f"bad trace '{path}', line {number}: {text[:40]!r} is not a lifetime in days")
        found.append(days * DAY_S)
    if not found:
        raise UsageError(f"bad trace '{path}': it has no lifetimes")
    return TracedLives(found)
