"""Everything a user can name is in the reference."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OF_OTHER_PROGRAMS = {  # wget, rsync, curl
    "--checksum",
    "--data-binary",
    "--delete-after",
    "--recursive",
    "--warc",
    "--warc-cdx",
    "--warc-file",
}


def page(name: str) -> str:
    return (DOCS / name).read_text()


def sections(text: str) -> dict[str, str]:
    """The text under each heading, without that of deeper headings; backticks in headings do not count."""
    parts = re.split(r"^#+ +(.+)$", text, flags=re.MULTILINE)
    return {title.replace("`", "").strip(): body for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Every visible command below `command`, itself first, with its full name."""
    yield context.command_path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, name
            if not child.hidden:
                yield from commands(child, click.Context(child, parent=context, info_name=name))


def undocumented(cli: click.Command, text: str) -> list[str]:
    """Commands without a heading of their own, and options missing below that heading.

    An option of the program itself, such as `--archive`, is documented once, for all commands.
    """
    documented = sections(text)
    missing = []
    common = {word for param in cli.params for word in param.opts}
    for name, command in commands(cli, click.Context(cli, info_name="holdfast")):
        if name not in documented:
            missing.append(name)
            continue
        options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
        spellings = [word for option in options for word in (*option.opts, *option.secondary_opts)]
        body = documented[name]
        if command is not cli:
            spellings = [word for word in spellings if word not in common]
        missing += [f"{name} {word}" for word in spellings if not re.search(rf"(?<![\w-]){word}(?![\w-])", body)]
    return missing


def test_public_names_are_few_sorted_and_documented() -> None:
    names = importlib.import_module("holdfast").__all__
    text = page("reference/python.md")
    assert list(names) == sorted(names)
    assert len(names) < 30
    assert [name for name in names if not re.search(rf"`(?:holdfast\.)?{name}\b", text)] == []


def test_public_names_exist() -> None:
    holdfast = importlib.import_module("holdfast")
    assert [name for name in holdfast.__all__ if not hasattr(holdfast, name)] == []


def test_public_names_are_what_their_modules_define() -> None:
    """However often they are used: a module of the same name must not take the place of a function."""
    holdfast = importlib.import_module("holdfast")
    for name in holdfast.__all__ * 2:
        assert not inspect.ismodule(getattr(holdfast, name)), name


def test_commands_and_options_are_documented() -> None:
    cli = importlib.import_module("holdfast.cli.main").cli
    assert undocumented(cli, page("reference/cli.md")) == []


def test_options_that_the_docs_name_exist() -> None:
    cli = importlib.import_module("holdfast.cli.main").cli
    known = {"--help", "--version", *OF_OTHER_PROGRAMS}
    bench = importlib.import_module("benchmarks.__main__").bench
    for group, name in ((cli, "holdfast"), (bench, "benchmarks")):
        for _, command in commands(group, click.Context(group, info_name=name)):
            known.update(word for param in command.params for word in (*param.opts, *param.secondary_opts))
    named = {
        (str(path.relative_to(ROOT)), word)
        for path in [*DOCS.rglob("*.md"), ROOT / "README.md"]
        for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])", path.read_text())
    }
    assert sorted(each for each in named if each[1] not in known) == []


def test_an_undocumented_option_is_noticed() -> None:
    cli = click.Group("holdfast", commands=[click.Command("get", params=[click.Option(["-o", "--output"])])])
    assert undocumented(cli, "# holdfast\n## `holdfast get`\n`-o`, `--output FILE`") == []
    assert undocumented(cli, "# holdfast\n`-o`\n## holdfast get\n`--output`") == ["holdfast get -o"]
    assert undocumented(cli, "# holdfast") == ["holdfast get"]


def test_errors_are_documented_with_their_exit_codes() -> None:
    errors = importlib.import_module("holdfast.errors")
    lines = page("reference/errors.md").splitlines()
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert classes
    missing = [
        f"{kind.__name__} exit {kind.exit_code}"
        for kind in classes
        if not any(f"`{kind.__name__}`" in line and re.search(rf"\b{kind.exit_code}\b", line) for line in lines)
    ]
    assert missing == []


def test_settings_are_documented() -> None:
    config = importlib.import_module("holdfast.config")
    text = page("reference/settings.md")
    classes = [kind for _, kind in inspect.getmembers(config, dataclasses.is_dataclass) if inspect.isclass(kind)]
    fields = [f"{kind.__name__}.{field.name}" for kind in classes for field in dataclasses.fields(kind)]
    assert fields
    spans = re.findall(r"`([^`\s]+)`", text)
    words = {word for span in spans for word in re.findall(r"\w+", span)}
    assert [field for field in fields if field.partition(".")[2] not in words] == []


def test_packages_are_listed_in_the_architecture() -> None:
    text = page("architecture.md")
    packages = [path.parent.name for path in sorted((ROOT / "src" / "holdfast").glob("*/__init__.py"))]
    assert packages
    assert [name for name in packages if not re.search(rf"(?<!\w){name}[/`]", text)] == []
