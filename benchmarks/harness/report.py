"""What a run found: tables for people, one JSON object for programs, a chart, and the targets that were reached."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.harness.run import Missing
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

FORMAT = 1
MB = 1e6
_WORDS = {True: "[green]met[/]", False: "[red]missed[/]", None: "not measured"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target and what became of it."""

    target: str
    needed: str
    measured: str
    met: bool | None  # None: not measured in this run
    by: str = ""  # the form that met it, where the target leaves the form open

    @classmethod
    def none(cls, target: str, needed: str) -> Verdict:
        return cls(target, needed, "not measured", None)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is printed, drawn or written about a run."""

    name: str
    machine: Mapping[str, str | int | float]
    packages: Mapping[str, str]
    repeats: int
    about: str  # what was measured on, in a line; may be empty
    values: Mapping[str, Any]  # the benchmark's own part of the JSON object
    parts: Sequence[RenderableType]  # tables and lines, in order
    missing: Sequence[Missing] = ()
    verdicts: Sequence[Verdict] = ()
    draw: Callable[[str, Path], None] | None = field(default=None, repr=False)  # title, PNG file

    def as_json(self) -> dict[str, Any]:
        """Plain values. The names are part of the format; new ones may be added."""
        return {
            "format": FORMAT,
            "machine": dict(self.machine),
            "packages": dict(self.packages),
            "repeats": self.repeats,
            **self.values,
            "missing": [asdict(each) for each in self.missing],
            "targets": [asdict(each) for each in self.verdicts],
        }

    def show(self, console: Console) -> None:
        """Machine, tables, what is missing, verdicts."""
        for facts in (self.machine, self.packages):
            console.print(" · ".join(f"{name} {value}" for name, value in facts.items()), highlight=False)
        if self.about:
            console.print(f"{self.about}; median of {self.repeats}", highlight=False)
        for part in self.parts:
            console.print(part, highlight=False)
        for (subject, reason), whats in _grouped(self.missing).items():
            more = f" and {len(whats) - 1} more" if len(whats) > 1 else ""
            console.print(f"[yellow]no figure[/] for {subject}, {whats[0]}{more}: {reason}", highlight=False)
        if self.verdicts:
            rows = [
                (each.target, each.needed, each.measured, _WORDS[each.met] + (f" by {each.by}" if each.by else ""))
                for each in self.verdicts
            ]
            console.print(table("targets", ("target", "needed", "measured", ""), rows, align="left"))

    def write(self, directory: Path) -> None:
        """The report as JSON, and as a chart where there is one."""
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.as_json(), indent=2)
        (directory / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")
        if self.draw is None:
            return
        where = f"{self.machine.get('cores')} cores {self.machine.get('cpu')}"
        title = f"benchmarks {self.name} · commit {self.machine.get('commit')} · {where}"
        try:
            self.draw(f"{title} · {self.about}" if self.about else title, directory / f"{self.name}.png")
        except ImportError as failure:
            raise UsageError(
                f"no chart: {failure}; install 'holdfast[bench]'. {self.name}.json is written"
            ) from failure


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    bold: Callable[[Sequence[str]], bool] = lambda _: False,
    align: str = "right",
    caption: str = "",
) -> Table:
    """A table: the first column is a name, the others are numbers, unless `align` says 'left'.

    A column whose name begins with '<' is text. Columns without any value are left out.
    """
    from rich.table import Table

    rows = [list(row) for row in rows]
    shown = [number for number, _ in enumerate(columns) if not rows or number == 0 or any(row[number] for row in rows)]
    made = Table(title=title, caption=caption or None, title_justify="left", caption_justify="left", title_style="bold")
    for number in shown:
        name = columns[number]
        is_text = number == 0 or align == "left" or name.startswith("<")
        made.add_column(name.lstrip("<"), justify="left" if is_text else "right", no_wrap=not name.startswith("<"))
    for row in rows:
        made.add_row(*(row[number] for number in shown), style="bold" if bold(row) else "")
    return made


def times(ratio: float | None, digits: int = 2) -> str:
    """How many times, for a cell."""
    return f"{ratio:.{digits}f}x" if ratio is not None else ""


class HasRate(Protocol):
    """Anything that was done so often in a second."""

    @property
    def per_s(self) -> float: ...


def ratio_verdict(target: str, factor: float, ours: HasRate | None, theirs: HasRate | None) -> Verdict:
    """Whether our rate is at least so many times theirs."""
    needed = f"at least {factor:g}x"
    if ours is None or theirs is None:
        return Verdict.none(target, needed)
    ratio = ours.per_s / theirs.per_s
    return Verdict(target, needed, f"{ratio:.2f}x ({ours.per_s:,.0f}/s ÷ {theirs.per_s:,.0f}/s)", ratio >= factor)


def _grouped(missing: Sequence[Missing]) -> dict[tuple[str, str], list[str]]:
    """What is missing for the same reason is one line."""
    whats: dict[tuple[str, str], list[str]] = {}
    for each in missing:
        whats.setdefault((each.subject, each.reason), []).append(each.what)
    return whats
