"""`holdfast study`: studies of the archived web, as tables, files and charts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.options import archive_option, collection_option, with_default
from holdfast.cli.study.result import check_form, form_options, show_result
from holdfast.cli.terminal import Interruption, asking, require_whole

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.cluster.answers.whole_archive import WholeArchive
    from holdfast.study import StudyResult

T = TypeVar("T")
GROUPS = ("batch", "collection", "crawl")

by_option = with_default("--by", type=click.Choice(GROUPS), default="batch", help="What is compared with what.")


@click.group()
def study() -> None:
    """Learn about the web from the archive."""


DUPLICATES = ("groups", "pairs", "types", "hosts", "sizes", "saved", "paper")


@study.command("duplicates")
@archive_option
@by_option
@collection_option
@click.option("--successful", is_flag=True, help="Only responses with a status of 2xx.")
@click.option(
    "--paper", is_flag=True, help="Print Table 1 of 'Managing duplicates in a web archive', beside its own figures."
)
@form_options(DUPLICATES)
def duplicates(*, archive: Path, by: str, collection: str | None, successful: bool, paper: bool, **form: Any) -> None:
    """Count captures that repeat a content, and URLs that persist.

    Shares are of the documents, or URLs, of the batch, collection or crawl: duplicates within it, of the one before,
    and of any before.
    """
    if paper:
        form["table"] = form["table"] or "paper"
    shown = ("groups", "types", "hosts", "saved")
    _run("duplicates", archive, collection, form, shown, by=by, successful=successful)


NEAR_DUPLICATES = ("groups", "clusters", "members")


@study.command("near-duplicates")
@archive_option
@by_option
@collection_option
@with_default(
    "--distance",
    type=click.IntRange(0, 6),
    default=4,
    help="How many of 64 bits the sketches of two texts may differ in.",
)
@click.option("--cluster", metavar="ID", default="", help="List all members of this cluster.")
@form_options(NEAR_DUPLICATES)
def near_duplicates(
    *, archive: Path, by: str, collection: str | None, distance: int, cluster: str, **form: Any
) -> None:
    """Find pages with almost the same text.

    They are listed in clusters: '--cluster ID' prints the pages of one. It needs the index ('holdfast index update').
    """
    shown = ("members",) if cluster else NEAR_DUPLICATES[:2]
    _run("near_duplicates", archive, collection, form, shown, by=by, distance=distance, cluster=cluster)


CHANGE = ("strata", "survival")


@study.command("change")
@archive_option
@collection_option
@form_options(CHANGE)
def change(*, archive: Path, collection: str | None, **form: Any) -> None:
    """Estimate how fast pages change, and how long they live.

    In days, with 95 % confidence intervals: by kind of site, top-level domain, type, depth, size and site.
    """
    _run("change", archive, collection, form, CHANGE[:1])


COMPOSITION = ("figures", "types", "sizes", "lengths")


@study.command("composition")
@archive_option
@collection_option
@form_options(COMPOSITION)
def composition(*, archive: Path, collection: str | None, **form: Any) -> None:
    """Show what the archive is made of: types, sizes, links, compression, change."""
    _run("composition", archive, collection, form, COMPOSITION[:2])


MEDIA = ("categories", "types", "sizes", "dimensions", "durations")


@study.command("media")
@archive_option
@collection_option
@with_default(
    "--images", type=click.IntRange(0), default=1000, metavar="N", help="Number of images to read for their dimensions."
)
@with_default(
    "--recordings",
    type=click.IntRange(0),
    default=200,
    metavar="N",
    help="Number of files each of sound and film to read for their durations.",
)
@form_options(MEDIA)
def media(*, archive: Path, collection: str | None, images: int, recordings: int, **form: Any) -> None:
    """Show what there is besides pages: images, sound, film, documents and the rest."""
    _run("media", archive, collection, form, (*MEDIA[:2], *MEDIA[3:]), images=images, recordings=recordings)


TOPIC = ("topics", "strength", "bursts", "kinds", "sites", "pages")


@study.command("topic")
@click.argument("queries", metavar="QUERY...", nargs=-1, required=True)
@archive_option
@collection_option
@with_default(
    "--by",
    "unit",
    type=click.Choice(("auto", "day", "week", "month", "year")),
    default="auto",
    help="Length of a period.",
)
@click.option("--within", metavar="QUERY", default="", help="Count only captures that this query finds.")
@form_options(TOPIC)
def topic(
    *, queries: tuple[str, ...], archive: Path, collection: str | None, unit: str, within: str, **form: Any
) -> None:
    """Follow topics over time: how strong they are, when they burst, and who mentions them.

    Each QUERY is a topic, in the query language: 'harbour tides', '"iraq war"', 'sars OR pneumonia'. Shares are of all
    captures, pages (URLs) and sites of the period. It needs the index ('holdfast index update').
    """
    shown = (TOPIC[0], *TOPIC[2:])
    _run("topic", archive, collection, form, shown, topics=queries, unit=unit, within=within)


def _run(
    name: str, path: Path, collection: str | None, form: dict[str, Any], shown: tuple[str, ...], **options: Any
) -> None:
    """Runs a study of that name on the archive, or on that of all nodes, and prints it."""

    def run(opened: Archive | WholeArchive, progress: Callable[[int], None]) -> StudyResult:
        from holdfast import study

        found: StudyResult = getattr(study, name)(opened, collection=collection, **options, progress=progress)
        return found

    run_and_show(path, collection, run, form, shown)


def run_and_show(
    path: Path,
    collection: str | None,
    run: Callable[[Any, Callable[[int], None]], StudyResult],
    form: dict[str, Any],
    shown: tuple[str, ...],
) -> None:
    """Runs a study of the archive or the cluster, and prints it; the tables `shown`, unless one is chosen."""
    check_form(form)
    result = measured(path, collection, 1, run)
    show_result(result, form, shown)
    require_whole(result.coverage)


def measured(path: Path, collection: str | None, scans: int, run: Callable[[Any, Callable[[int], None]], T]) -> T:
    """What a function finds in the archive or the cluster that it reads so many times, with a progress bar."""
    with (
        Interruption() as interruption,
        asking(path) as opened,
        interruption.progress_bar("captures", scans * _count(opened, collection), counts=True) as advance,
    ):
        return run(opened, advance)


def _count(opened: Archive | WholeArchive, collection: str | None) -> int:
    from holdfast.archive import Archive

    if not isinstance(opened, Archive):
        return opened.captures(collection)
    totals = opened.catalog.totals()[0]
    return sum(total.captures for name, total in totals.items() if collection in (None, name))
