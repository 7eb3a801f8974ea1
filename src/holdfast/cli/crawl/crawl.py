"""`holdfast crawl`: fetch web sites into the archive, and inspect crawls."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from holdfast.cli.crawl.inspect import expire, expiring, list_, log, status, stop, why
from holdfast.cli.crawl.options import job_options
from holdfast.cli.options import archive_option, index_option, init_option, is_verbose, json_option
from holdfast.cli.terminal import is_running_node, make_archive, note, show_fields, show_json

if TYPE_CHECKING:
    from holdfast.cli.crawl.plan import CrawlPlan

_SEEDS = "SEED..."


class SeedsOrCommand(click.Group):
    """A group that is also a command: it runs unless its first word is one of its commands."""

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
    """An argument that the usage of the commands leaves out. It is completed to one of them, or to a file."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [CompletionItem(name) for name in crawl.commands if name.startswith(incomplete)]
        return commands or [CompletionItem(incomplete, type="file")]

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        return []


@click.group(cls=SeedsOrCommand)
@archive_option
@click.argument("words", metavar=_SEEDS, nargs=-1, cls=Seeds)
@job_options
@init_option
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
    makes: bool,
    index: bool | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Fetch web sites into the archive.

    SEED is a URL, or a job file whose name ends in .toml. The same command again continues an unfinished crawl, and
    visits the pages of a finished one again.

    Exits with 12 if nothing at all could be fetched.
    """
    began = time.monotonic()
    from holdfast.cli.crawl.cluster import run_shared_crawl
    from holdfast.cli.crawl.options import mask_arguments, secret_arguments
    from holdfast.cli.crawl.plan import plan_of, plan_words
    from holdfast.cli.crawl.run import run_crawl

    mask_arguments(secret_arguments(chosen))
    plan = plan_of(archive, words, chosen, tuple(crawl.commands), makes=makes)
    if makes and not dry_run:
        make_archive(archive)
    for remark in () if quiet else plan.notes:
        note(f"note: {remark}")
    words_of_plan = plan_words(plan)
    if dry_run:
        _show_plan(plan, words_of_plan, as_json=as_json)
        return
    plan.require_idle()
    for name, line in () if quiet else words_of_plan.items():
        note(f"{name:<10}  {line}")
    if is_running_node(archive):
        run_shared_crawl(archive, plan, quiet=quiet, verbose=is_verbose(context), as_json=as_json)
        return
    run_crawl(archive, plan, began=began, index=index, quiet=quiet, verbose=is_verbose(context), as_json=as_json)


def _show_plan(plan: CrawlPlan, words: dict[str, str], *, as_json: bool) -> None:
    if not as_json:
        show_fields(words)
        return
    job = asdict(plan.job)
    for credential in job["fetch"]["credentials"]:
        del credential["value"]
    show_json({"event": "plan", "name": plan.job.name, "scope": words["scope"]} | plan.as_dict() | {"job": job})


for _command in (list_, status, stop, log, why, expiring, expire):
    crawl.add_command(_command)
