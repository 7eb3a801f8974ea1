"""`holdfast sample`: reproducible test collections that represent the archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.options import PATH, archive_option, collection_option, read_bytes
from holdfast.cli.study.result import form_options
from holdfast.cli.study.study import run_and_show
from holdfast.cli.terminal import note

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.cluster.access.whole_archive import WholeArchive
    from holdfast.study import StudyResult

TABLES = ("sizes", "distances", "distributions", "strata")
_OF_THE_DRAW = ("size", "bytes_max", "by", "topic", "unit", "equal", "within", "collection", "seed", "records")


@click.command()
@click.argument("directory", type=PATH, required=False)
@archive_option
@click.option("--size", type=click.IntRange(1), metavar="N", help="Number of captures.")
@click.option("--bytes", "bytes_max", callback=read_bytes, metavar="BYTES", help="Most bytes of payloads.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(("site", "type", "time", "topic")),
    help="Strata; may be repeated: each combination is one.",
)
@click.option("--topic", multiple=True, metavar="QUERY", help="A stratum of --by topic; may be repeated.")
@click.option(
    "--unit",
    type=click.Choice(("day", "week", "month", "year")),
    default="month",
    show_default=True,
    help="Strata of --by time.",
)
@click.option("--equal", is_flag=True, help="As many captures from each stratum, instead of its share.")
@click.option("--within", metavar="QUERY", default="", help="Draw only from captures that this query finds.")
@collection_option
@click.option("--seed", default="1", show_default=True, metavar="TEXT", help="Another seed makes another sample.")
@click.option(
    "--records",
    type=click.Choice(("warc", "warc.gz", "warc.zst", "parquet")),
    default="warc.gz",
    show_default=True,
    help="Form of the records.",
)
@click.option("--again", metavar="MANIFEST", type=PATH, help="Make the sample of this manifest again, byte for byte.")
@form_options(TABLES)
@click.pass_context
def sample(
    context: click.Context, /, *, directory: Path | None, archive: Path, again: Path | None, **given: Any
) -> None:
    """Draw a sample of the archive into a new DIRECTORY, with a report on how well it represents the archive.

    Without DIRECTORY only the report is printed. The same seed draws the same captures; '--again' makes a sample once
    more and compares every byte.
    """
    form = {name: given.pop(name) for name in ("table", "rows", "form", "as_json", "as_csv", "plots")}
    if again is not None:
        odd = [name for name in _OF_THE_DRAW if context.get_parameter_source(name) is _COMMANDLINE]
        if odd or directory is None:
            raise click.UsageError("--again takes a DIRECTORY, and everything else from the manifest")
    elif (given["size"] is None) == (given["bytes_max"] is None):
        raise click.UsageError("give one of --size N and --bytes BYTES")

    def run(opened: Archive | WholeArchive, progress: Callable[[int], None]) -> StudyResult:
        from holdfast import study

        if again is not None:
            assert directory is not None, "checked above"
            return study.sample_again(opened, again, directory, progress=progress)
        return study.sample(opened, _options(given), directory, progress=progress)

    run_and_show(archive, given["collection"], run, form, TABLES[:2])
    if directory is not None:
        note(f"wrote '{directory}'" + (": every byte as before" if again is not None else ""))


_COMMANDLINE = click.core.ParameterSource.COMMANDLINE


def _options(given: dict[str, Any]) -> Any:
    from holdfast.study import SampleOptions

    return SampleOptions(
        captures=given["size"] or 0,
        bytes_max=given["bytes_max"] or 0,
        by=given["by"],
        topics=given["topic"],
        unit=given["unit"],
        allocation="equal" if given["equal"] else "proportional",
        within=given["within"],
        collection=given["collection"],
        seed=given["seed"],
        format=given["records"],
    )
