"""The figures that the project promised itself, and whether a run reached them.

Peers are the network file systems, each at the number of clients that suits it best, as Holdfast is. Holdfast's form,
single calls or batches, is left open by the promise: both are told, and the verdict names those that reached it.
"""

from __future__ import annotations

from benchmarks.harness.report import Verdict
from benchmarks.webstore.figure import WebstoreFigure
from benchmarks.webstore.run import WebstoreOutcome
from benchmarks.webstore.subjects import SUBJECTS
from benchmarks.webstore.workload import BATCH, Experiment, Line

_FACTORS = (
    (Experiment.RETRIEVE, Line.RETRIEVE, 3.0),
    (Experiment.STORE, Line.STORE_NEW, 3.0),
    (Experiment.STORE, Line.STORE_DUPLICATE, 10.0),
    (Experiment.DELETE, Line.DELETE_BLOCK, 5.0),
)
_REFERENCE_SHARE = 0.75
_REFERENCE_CLIENTS = (1, 10)
_MANY = 16  # volumes
_MORE = 1.1
_SERVERS = 4
_FORMS = {"holdfast": "single calls", "holdfast-batches": f"batches of {BATCH}"}
_FILE_SYSTEMS = tuple(name for name, each in SUBJECTS.items() if each.facts.is_file_system)


def webstore_verdicts(outcome: WebstoreOutcome) -> list[Verdict]:
    """Every target, in the order of the issue that set them."""
    return [
        *(_ratio(outcome, *each) for each in _FACTORS),
        _elimination(outcome),
        *(_balance(outcome, line) for line in (Line.ELIMINATING, Line.RETRIEVE)),
        _reference(outcome, Experiment.RETRIEVE, Line.RETRIEVE),
        _reference(outcome, Experiment.STORE, Line.STORE_NEW),
    ]


def _ratio(outcome: WebstoreOutcome, experiment: Experiment, line: Line, factor: float) -> Verdict:
    target, needed = f"{line}, Holdfast ÷ the best network file system", f"at least {factor:g}x"
    theirs = _best([each for name in _FILE_SYSTEMS for each in outcome.of(experiment, line, name)])
    ours = {name: best for name in _FORMS if (best := _best(outcome.of(experiment, line, name)))}
    if theirs is None or not ours:
        return Verdict.none(target, needed)
    ratios = {_FORMS[name]: best.per_s / theirs.per_s for name, best in ours.items()}
    parts = [f"{ratio:.1f}x {form}" for form, ratio in ratios.items()]
    title = SUBJECTS[theirs.subject].facts.title
    measured = f"{', '.join(parts)} (÷ {title} with {_clients(theirs.x)}, {theirs.per_s:,.0f}/s)"
    reached = [form for form, ratio in ratios.items() if ratio >= factor]
    return Verdict(target, needed, measured, bool(reached), by=", ".join(reached))


def _reference(outcome: WebstoreOutcome, experiment: Experiment, line: Line) -> Verdict:
    """Single calls beside the bare server, at each number of clients that both were measured with."""
    target, needed = f"{line}, single calls ÷ bare reference server", f"at least {_REFERENCE_SHARE:g}x"
    ours, theirs = (
        {each.x: each.per_s for each in outcome.of(experiment, line, name)} for name in ("holdfast", "reference")
    )
    ratios = {_clients(x): ours[x] / theirs[x] for x in _REFERENCE_CLIENTS if x in ours and x in theirs}
    if not ratios:
        return Verdict.none(target, needed)
    measured = ", ".join(f"{ratio:.2f}x with {clients}" for clients, ratio in ratios.items())
    return Verdict(target, needed, measured, min(ratios.values()) >= _REFERENCE_SHARE)


def _elimination(outcome: WebstoreOutcome) -> Verdict:
    target = f"store of a new content, eliminating across {_MANY} volumes ÷ with one"
    needed = f"at most {_MORE:g}x the time"
    ratios = {}
    for name, form in _FORMS.items():
        seconds = {each.x: each.seconds for each in outcome.of(Experiment.ELIMINATION, Line.ELIMINATING, name)}
        if {1, _MANY} <= seconds.keys():
            ratios[form] = seconds[_MANY] / seconds[1]
    return _judged(target, needed, ratios, {form for form, ratio in ratios.items() if ratio <= _MORE})


def _balance(outcome: WebstoreOutcome, line: Line) -> Verdict:
    target, needed = f"{line}, {_SERVERS} volume servers ÷ one, on one machine", "at least 1x as much"
    ratios = {}
    for name, form in _FORMS.items():
        rates = {each.x: each.per_s for each in outcome.of(Experiment.BALANCE, line, name)}
        if {1, _SERVERS} <= rates.keys():
            ratios[form] = rates[_SERVERS] / rates[1]
    return _judged(target, needed, ratios, {form for form, ratio in ratios.items() if ratio >= 1})


def _judged(target: str, needed: str, ratios: dict[str, float], reached: set[str]) -> Verdict:
    if not ratios:
        return Verdict.none(target, needed)
    measured = ", ".join(f"{ratio:.2f}x {form}" for form, ratio in ratios.items())
    return Verdict(target, needed, measured, bool(reached), by=", ".join(form for form in ratios if form in reached))


def _best(figures: list[WebstoreFigure]) -> WebstoreFigure | None:
    return max(figures, key=lambda each: each.per_s, default=None)


def _clients(count: int) -> str:
    return "1 client" if count == 1 else f"{count} clients"
