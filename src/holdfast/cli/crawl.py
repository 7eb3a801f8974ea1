"""`holdfast crawl`: fetch web sites into the archive, and look after the crawls that do."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.crawl_inspect import expire, expiring, list_, log, status, stop, why
from holdfast.cli.crawl_options import job_options
from holdfast.cli.index import index_option
from holdfast.cli.options import archive_option, is_verbose, json_option
from holdfast.cli.output import note, show, show_fields

if TYPE_CHECKING:
    from holdfast.cli.crawl_plan import CrawlPlan
    from holdfast.crawl.job.job import CrawlJob

_SEEDS = "SEED..."


class SeedsOrCommand(click.Group):
    """A group that is itself a command: it runs unless its first word names one of those below it."""

    allow_interspersed_args = True

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in self.commands:
            own = click.Context(self, info_name=info_name, parent=parent)
            return self.commands[args[0]].make_context(args[0], args[1:], parent=own)
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        return click.Command.invoke(self, ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*click.Command.collect_usage_pieces(self, ctx), _SEEDS]


class Seeds(click.Argument):
    """Kept out of the names of the commands below the group."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        return []


@click.group(cls=SeedsOrCommand)
@archive_option
@click.argument("words", metavar=_SEEDS, nargs=-1, cls=Seeds)
@job_options
@index_option
@json_option
@click.pass_context
def crawl(
    context: click.Context,
    /,
    *,
    archive: Path,
    words: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    index: bool | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Fetch web sites into the archive.

    SEED is a URL, or a job file whose name ends in .toml. The same command again goes on with a crawl that did not come
    to its end, and looks again at what a finished one knows.

    Exits with 12 if nothing at all could be fetched.
    """
    began = time.monotonic()
    from holdfast.cli.argument_list import mask_arguments
    from holdfast.cli.crawl_options import secret_arguments
    from holdfast.cli.crawl_plan import plan_of, plan_words
    from holdfast.cli.crawl_run import Manner, run_crawl

    mask_arguments(secret_arguments(chosen))
    plan = plan_of(archive, words, chosen, tuple(crawl.commands))
    for remark in () if quiet else plan.notes:
        note(f"note: {remark}")
    if dry_run:
        _show_plan(plan, as_json=as_json)
        return
    plan.require_idle()
    for name, line in {}.items() if quiet else plan_words(plan).items():
        note(f"{name:<10}  {line}")
    run_crawl(archive, plan, Manner(began, quiet, is_verbose(context), as_json, index))


def _show_plan(plan: CrawlPlan, *, as_json: bool) -> None:
    from holdfast.cli.crawl_plan import plan_words

    words = plan_words(plan)
    if as_json:
        values = {"event": "plan", "name": plan.job.name, "scope": words["scope"]} | plan.as_dict()
        show(values | {"job": _shown_job(plan.job)}, "", as_json=True)
    else:
        show_fields(words)


def _shown_job(job: CrawlJob) -> dict[str, Any]:
    """All of it but the values of credentials."""
    values = asdict(job)
    for credential in values["fetch"]["credentials"]:
        del credential["value"]
    return values


for _command in (list_, status, stop, log, why, expiring, expire):
    crawl.add_command(_command)
