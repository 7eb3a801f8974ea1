"""`holdfast sample`: reproducible test collections that represent the archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from holdfast.cli.options import PATH, archive_option, collection_option, size_option, with_default
from holdfast.cli.study.result import form_options
from holdfast.cli.study.study import run_and_show
from holdfast.cli.terminal import note

if TYPE_CHECKING:
    from holdfast.archive import Archive
    from holdfast.cluster.answers.whole_archive import WholeArchive
    from holdfast.study import StudyResult

FORMATS = ("warc", "warc.gz", "warc.zst", "parquet")
TABLES = ("sizes", "distances", "distributions", "strata")


@click.command()
@click.argument("directory", type=PATH, required=False)
@archive_option
@click.option("--size", "captures", type=click.IntRange(1), metavar="N", help="Number of captures.")
@size_option("--bytes", "bytes_max", help="Most bytes of payloads.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(("site", "type", "time", "topic")),
    help="Strata; may be repeated: each combination is one.",
)
@click.option("--topic", "topics", multiple=True, metavar="QUERY", help="A stratum of --by topic; may be repeated.")
@with_default(
    "--unit", type=click.Choice(("day", "week", "month", "year")), default="month", help="Strata of --by time."
)
@click.option("--equal", "is_equal", is_flag=True, help="As many captures from each stratum, instead of its share.")
@click.option("--within", metavar="QUERY", default="", help="Draw only from captures that this query finds.")
@collection_option
@with_default("--seed", default="1", metavar="TEXT", help="Another seed makes another sample.")
@with_default("--records", "format", type=click.Choice(FORMATS), default="warc.gz", help="Form of the records.")
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
        odd = [name for name in given if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if odd or directory is None:
            raise click.UsageError("--again takes a DIRECTORY, and everything else from the manifest")
    elif (given["captures"] is None) == (given["bytes_max"] is None):
        raise click.UsageError("give one of --size N and --bytes BYTES")

    given |= {name: given[name] or 0 for name in ("captures", "bytes_max")}
    given["allocation"] = "equal" if given.pop("is_equal") else "proportional"

    def run(opened: Archive | WholeArchive, progress: Callable[[int], None]) -> StudyResult:
        from holdfast import study

        if again is not None:
            assert directory is not None, "checked above"
            return study.sample_again(opened, again, directory, progress=progress)
        return study.sample(opened, study.SampleOptions(**given), directory, progress=progress)

    run_and_show(archive, given["collection"], run, form, TABLES[:2])
    if directory is not None:
        note(f"wrote '{directory}'" + (": every byte as before" if again is not None else ""))
