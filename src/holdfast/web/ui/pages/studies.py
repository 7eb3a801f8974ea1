"""The studies pages.

    GET /studies                        which there are
    GET /studies/NAME?by=&collection=   one: a chart and tables, or its progress while it runs
    GET /studies/NAME/chart.svg         its chart; &theme=dark for a dark page, &narrow=1 for a small one
    GET /studies/NAME/TABLE.csv         a table of it, whole

A study runs in a thread, one at a time in each worker. Its result is used again while the catalog and the access rules
stay as they are, and a little longer.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast import study
from holdfast.archive import Archive
from holdfast.errors import HoldfastError, IndexNotFound, NotFound, UsageError
from holdfast.study.chart import INSTALL, Theme, chart
from holdfast.study.display import cell, heading, shown_columns
from holdfast.study.engine.periods import AUTO, PeriodUnit, first_day, last_day
from holdfast.study.engine.run import ClusterArchive
from holdfast.study.engine.scan import GroupBy
from holdfast.study.result import StudyResult
from holdfast.web.answers import partial_headers
from holdfast.web.context import WebContext
from holdfast.web.request import ALL
from holdfast.web.ui.display import page_address, path_to
from holdfast.web.ui.pages.not_found import for_people
from holdfast.web.ui.plan_form import (
    INPUTS,
    PLANS,
    REPLACEMENTS,
    RUN_INPUTS,
    PlanInput,
    examples,
    plan_of,
    simulated_days,
    simulation_of,
)
from holdfast.web.ui.render import page_headers, render, wants_page
from holdfast.web.ui.study_runs import StudyRun

ROWS_SHOWN = 50
FIELD_MAX = 4096  # characters
_BY = ("by", tuple(GroupBy))
_CLUSTER_FRESH_S = 60.0  # a result of all nodes is used again for so long


@dataclass(frozen=True, slots=True)
class StudyField:
    """A parameter that people write."""

    name: str
    label: str
    lines: int  # 0: a short value
    example: str
    is_required: bool = False  # without it, the study does not run


@dataclass(frozen=True, slots=True)
class StudyForm:
    """A study as the pages offer it."""

    title: str
    question: str
    run: Callable[..., StudyResult]
    choices: tuple[tuple[str, tuple[str, ...]], ...]  # parameters and their values, the first by default
    shown: tuple[str, ...]  # tables
    texts: tuple[str, ...] = ()  # parameters without a list of values, which only links set
    numbers: frozenset[str] = frozenset()  # parameters that are whole numbers
    fields: tuple[StudyField, ...] = ()  # parameters that people write
    is_of_disk: bool = False  # it shows all of the archive, or with access rules nothing; and all collections
    examples: Callable[[Mapping[str, str]], dict[str, str]] = lambda _: {}  # of fields, where they depend on choices
    steps: tuple[str, Callable[[Mapping[str, str]], int]] | None = None  # of its progress, if they are not captures


def _topics(archive: Archive | ClusterArchive, *, topics: str, by: str, **options: Any) -> StudyResult:
    """One topic a line."""
    lines = [line.strip() for line in topics.splitlines() if line.strip()]
    return study.topic(archive, list(dict.fromkeys(lines)), unit=by, **options)


def _plan_fields(inputs: Sequence[PlanInput]) -> tuple[StudyField, ...]:
    return tuple(StudyField(each.name, each.label, 0, each.example) for each in inputs)


ABOUT = {  # what the columns of a table mean, by study
    "duplicates": {
        "groups": "A document is a capture with content. Within: documents that repeat another of their group. "
        "Previous, earlier: documents whose content is in the group before, or in any before; and URLs that are there.",
        "pairs": "Each group against each earlier one: documents whose content is in both, URLs that are in both.",
        "saved": "Kept: what is stored of all bytes, before compression.",
        "paper": "This archive beside five crawls of the Portuguese web (Gomes, Santos and Silva, 2006).",
    },
    "near-duplicates": {
        "groups": "Exact: documents that repeat a text. Near: all documents of a cluster but one.",
        "clusters": "Pages whose texts are alike: their sketches differ in no more bits than the distance says.",
    },
    "change": {
        "strata": "Half-life: the time in which half of the pages change or disappear. Change interval: mean time "
        "between two changes. Modified interval: the same, from Last-Modified. Content life and URL life: the time in "
        "which half of the versions are replaced, and half of the URLs disappear. In brackets: 95 % confidence "
        "intervals.",
    },
    "topic": {
        "topics": "Captures, pages and sites that mention a topic, and their shares of all. Take off: when the "
        "heaviest burst began. Peak: the period with the highest share.",
        "bursts": "Periods in which a topic was far stronger than in quiet times. Weight: how much likelier a burst "
        "is than quiet, as a logarithm.",
    },
}


STUDIES = {
    "duplicates": StudyForm(
        "Duplicates",
        "How many captures repeat a content, and how many URLs persist?",
        study.duplicates,
        (_BY,),
        ("groups", "pairs", "types", "hosts", "saved", "paper"),
    ),
    "near-duplicates": StudyForm(
        "Near-duplicates",
        "Which pages have almost the same text?",
        study.near_duplicates,
        (_BY, ("distance", ("4", "0", "1", "2", "3", "5", "6"))),
        ("groups", "clusters"),
        ("cluster",),
        frozenset(("distance",)),
    ),
    "change": StudyForm(
        "Change",
        "How fast do pages change, and how long do they live?",
        study.change,
        (),
        ("strata",),
    ),
    "composition": StudyForm(
        "Composition",
        "What is the archive made of: types, sizes, links, compression?",
        study.composition,
        (),
        ("figures", "types", "lengths"),
    ),
    "media": StudyForm(
        "Media",
        "What is there besides pages?",
        study.media,
        (),
        ("categories", "types", "dimensions", "durations"),
    ),
    "topic": StudyForm(
        "Topics",
        "How strongly are topics present over time, when do they burst, and who mentions them?",
        _topics,
        (("by", (AUTO, *PeriodUnit)),),
        ("topics", "bursts", "pages", "kinds", "sites", "strength"),
        fields=(
            StudyField("topics", "Topics, one per line", 2, "harbour tides", is_required=True),
            StudyField("within", "Within (a query)", 1, "domain:gov"),
        ),
    ),
    "plan": StudyForm(
        "Plans",
        "What would it take to archive the web of a country, or more of it, and when is this archive's disk full?",
        plan_of,
        (("preset", PLANS),),
        ("figures", "inputs", "traffic", "copies", "growth", "months"),
        fields=_plan_fields(INPUTS),
        is_of_disk=True,
        examples=examples,
    ),
    "simulation": StudyForm(
        "Simulation",
        "How much is moved, and how much lost, over the years in a cluster whose nodes die and are replaced?",
        simulation_of,
        (("preset", PLANS), ("replacement", REPLACEMENTS)),
        ("figures", "years", "inputs"),
        fields=_plan_fields((*RUN_INPUTS, *INPUTS)),
        is_of_disk=True,
        examples=examples,
        steps=("day", simulated_days),
    ),
}
_NO_INDEX = "This archive has no full-text index, which this study needs: run 'holdfast index update'"


# -- pages -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """What the address of a page says."""

    name: str
    values: dict[str, str]  # of the parameters, the usual ones too

    @property
    def form(self) -> StudyForm:
        return STUDIES[self.name]

    @property
    def is_complete(self) -> bool:
        """Whether it can run: what people have to write is there."""
        return all(self.values[each.name].strip() for each in self.form.fields if each.is_required)

    def examples(self) -> dict[str, str]:
        """What a field without a value shows."""
        return {each.name: each.example for each in self.form.fields} | self.form.examples(self.values)

    def link(self, file: str = "", **changes: str) -> str:
        """The address of a page or a file of this study that differs in this."""
        usual = {name: values[0] for name, values in self.form.choices} | {"collection": ALL}
        path = f"/studies/{self.name}" + (f"/{file}" if file else "")
        return page_address(path, self.values | changes, usual)


async def overview(site: WebContext, request: Request) -> Response:
    return render(site, request, "studies.html", studies=STUDIES)


async def one(site: WebContext, request: Request) -> Response:
    wanted = await run_in_threadpool(wanted_of, site, request)
    collections = [ALL, *await run_in_threadpool(site.answers.collections)]
    values: dict[str, Any] = {"wanted": wanted, "collections": collections, "examples": wanted.examples()}
    if not wanted.is_complete:
        return render(site, request, "study.html", here="/studies", run=None, fault="", **values)
    try:
        run = await run_in_threadpool(run_of, site, wanted)
    except (UsageError, IndexNotFound) as error:
        if not wants_page(request):
            raise
        values["fault"] = _fault(error)
        return render(site, request, "study.html", status=error.http_status, here="/studies", run=None, **values)
    values |= {"run": run, "fault": ""}
    values["coverage"] = run.result.coverage if run.result is not None else None
    tables: Sequence[ShownTable] = ()
    if run.result is not None:
        names = ("members", "clusters") if wanted.values.get("cluster") else wanted.form.shown
        tables = [_shown(site, wanted, run.result, name) for name in names if len(run.result.tables.get(name, ()))]
    install = "" if find_spec("matplotlib") else INSTALL
    response = render(site, request, "study.html", here="/studies", tables=tables, install=install, **values)
    if run.result is None:
        response.headers["Refresh"] = "2"
    return response


def _fault(error: HoldfastError) -> str:
    """Why the study did not run, for the page with its form."""
    return _NO_INDEX if isinstance(error, IndexNotFound) else for_people(error)


async def file(site: WebContext, request: Request) -> Response:
    """The chart, or a table as CSV."""
    wanted = await run_in_threadpool(wanted_of, site, request)
    name = request.path_params["file"]
    if not wanted.is_complete:
        raise UsageError(f"the study '{wanted.name}' needs {wanted.form.fields[0].name}")
    run = await run_in_threadpool(run_of, site, wanted)
    while run.result is None:
        run = await run_in_threadpool(run_of, site, wanted)  # waits a moment each time
    headers = page_headers(site) | partial_headers(run.result.coverage)
    if name == "chart.svg" and run.result.panels:
        theme = Theme.DARK if request.query_params.get("theme") == Theme.DARK else Theme.LIGHT
        is_narrow = bool(request.query_params.get("narrow"))
        drawn = await run_in_threadpool(chart, run.result.panels, "svg", theme, is_narrow=is_narrow)
        return Response(drawn, headers=headers, media_type="image/svg+xml")
    table = name.removesuffix(".csv")
    if name.endswith(".csv") and table in run.result.tables:
        text = await run_in_threadpool(_csv, run.result, table)
        named = {"Content-Disposition": f'attachment; filename="{wanted.name}-{table}.csv"'}
        return Response(text, headers=headers | named, media_type="text/csv; charset=utf-8")
    raise NotFound(f"no file {name!r} of the study '{wanted.name}'")


def wanted_of(site: WebContext, request: Request) -> StudyRequest:
    """Raises NotFound, UsageError or UnknownCollection."""
    name = request.path_params["name"]
    if name not in STUDIES:
        raise NotFound(f"no study {name!r}: there are {', '.join(STUDIES)}")
    form = STUDIES[name]
    values = {"collection": request.query_params.get("collection") or ALL}
    site.known_collection(values["collection"])
    for parameter, known in form.choices:
        values[parameter] = request.query_params.get(parameter) or known[0]
        if values[parameter] not in known:
            raise UsageError(f"{parameter} {values[parameter]!r} is none of {', '.join(known)}")
    for parameter in form.texts:
        values[parameter] = (request.query_params.get(parameter) or "")[:100]
    for field in form.fields:
        values[field.name] = request.query_params.get(field.name) or ""
        if len(values[field.name]) > FIELD_MAX:
            raise UsageError(f"{field.name} of {len(values[field.name])} characters: give at most {FIELD_MAX}")
    return StudyRequest(name, values)


def run_of(site: WebContext, wanted: StudyRequest) -> StudyRun:
    """The run of the study, ended or not. Raises what ended it."""
    archive: Archive | ClusterArchive = site.archive
    permits = site.permits
    changes = site.archive.catalog.changes
    if site.is_clustered and isinstance(site.answers, ClusterArchive):
        archive = site.answers
        permits = permits if wanted.form.is_of_disk else None  # each node applies its own rules
        changes = int(time.monotonic() // _CLUSTER_FRESH_S)  # of the catalogs of others nothing is known
    options: dict[str, Any] = {
        name: int(value) if name in wanted.form.numbers else value for name, value in wanted.values.items()
    }
    options["collection"] = site.known_collection(wanted.values["collection"])

    def work(run: StudyRun) -> StudyResult:
        return wanted.form.run(archive, permits=permits, progress=run.advance, **options)

    key = wanted.name, tuple(sorted(wanted.values.items())), site.access.rules
    run = site.studies.get(key, changes, lambda: _steps(site, wanted), work)
    if run.error is not None:
        raise run.error
    return run


def _steps(site: WebContext, wanted: StudyRequest) -> int:
    """How many captures are to be read, or other steps to be done."""
    if wanted.form.steps is not None:
        return wanted.form.steps[1](wanted.values)
    if site.is_clustered and isinstance(site.answers, ClusterArchive):
        return site.answers.captures()
    return sum(total.captures for total in site.archive.catalog.totals()[0].values())


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A value of a table; `link` leads to what it is about, `bounds` stand below it."""

    text: str
    is_number: bool
    link: str = ""
    bounds: str = ""


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table as a page shows it: without columns that say nothing."""

    name: str
    about: str
    headings: list[str]
    numbers: list[str]
    rows: list[list[ShownCell]]
    more: int  # rows that are not shown


def _shown(site: WebContext, wanted: StudyRequest, result: StudyResult, name: str) -> ShownTable:
    from pyarrow import types

    table = result.tables[name]
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    numbers = {each for each, kind in kinds.items() if types.is_integer(kind) or types.is_floating(kind)}
    rows = table.slice(0, ROWS_SHOWN).to_pylist()
    columns = [
        each
        for each in shown_columns(table.column_names)
        if each != "collection" and any(cell(each, row) for row in rows)
    ]
    shown = []
    for row in rows:
        cells = []
        for column in columns:
            text = cell(column, row)
            text += " %" if text and heading(column).endswith(" %") else ""
            value, opened, bounds = text.partition(" (") if column in numbers else (text, "", "")
            cells.append(ShownCell(value, column in numbers, _link(wanted, column, row), opened.strip() + bounds))
        shown.append(cells)
    headings = [heading(each).removesuffix(" %") for each in columns]
    right = [heading(each).removesuffix(" %") for each in columns if each in numbers]
    about = ABOUT.get(wanted.name, {}).get(name, "")
    return ShownTable(name, about, headings, right, shown, max(0, len(table) - ROWS_SHOWN))


def _link(wanted: StudyRequest, column: str, row: dict[str, Any]) -> str:
    """Where a cell leads: a capture, a cluster, a host, the captures that mention a topic."""
    if column == "url" and "timestamp" in row:
        return path_to(row["collection"], row["timestamp"], row["url"])
    if wanted.name == "topic":
        return _topic_link(wanted, column, row)
    if column == "cluster":
        return wanted.link(cluster=row["cluster"])
    if column in ("host", "site") and row[column]:
        return page_address("/explore", {"host": row[column]})
    return ""


def _topic_link(wanted: StudyRequest, column: str, row: dict[str, Any]) -> str:
    """What was counted, as a search: of a topic, in a period, on a site."""
    within = f" ({wanted.values['within']})" if wanted.values["within"].strip() else ""
    query = f"({row['topic']}){within}"
    value = row[column]
    if column in ("period", "peak", "take_off", "begin", "end") and value:
        first, last = (row["begin"], row["end"]) if column in ("begin", "end") else (value, value)
        query += f" from:{first_day(first):%Y%m%d} to:{last_day(last):%Y%m%d}"
    elif column == "site":
        query += f" domain:{value}"
    elif column != "topic":
        return ""
    return page_address(
        "/search", {"q": query, "as": "words", "collection": wanted.values["collection"]}, {"collection": ALL}
    )


def _csv(result: StudyResult, name: str) -> str:
    table = result.tables[name]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(row.values() for row in table.to_pylist())
    return text.getvalue()
