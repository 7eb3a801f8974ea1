"""What all commands have in common: finding the archive, failing clearly, starting fast."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from program import SOURCE, Shell

import holdfast
from holdfast.cli.main import _COMMANDS

HEAVY = (
    "rocksdict",
    "zstandard",
    "rich",
    "tomlkit",
    "brotli",
    "anycrc",
    "isal",
    "holdfast.archive",
    "holdfast.catalog",
)
KEY = "v0:" + "00" * 32


def test_version(shell: Shell) -> None:
    assert shell("--version").text == f"holdfast {holdfast.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["content", "put", "--help"],
        ["import", "--help"],
        ["cdx", "--help"],
        ["rm", "--help"],
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys; from holdfast.cli.main import run; code = run(); "
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(SOURCE)}, capture_output=True, check=True)
    assert done.stderr == b"[]\n"
    assert done.stdout


def test_contents_are_kept_without_what_only_the_index_needs(tmp_path: Path) -> None:
    """It would take longer to load than a small content to store."""
    program = (
        "import sys, holdfast; holdfast.init(sys.argv[1]); archive = holdfast.open(sys.argv[1]); "
        "archive.contents.get(archive.contents.put(b'small')); archive.close(); "
        "print([name for name in ('numpy', 'pyarrow', 'tantivy', 'duckdb') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "archive")]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(SOURCE)}, capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_help_lists_every_command(shell: Shell) -> None:
    text = shell("--help").text
    for command in _COMMANDS:
        assert f"\n  {command} " in text
    assert shell(code=2).errors == text


def test_a_new_archive_is_where_the_option_or_the_variable_says(shell: Shell) -> None:
    """As in a container, which names its archive by the variable."""
    shell("-a", "one", "init")
    shell("init", HOLDFAST_ARCHIVE="two")
    shell("-a", "one", "init", "three")
    for name in ("one", "two", "three"):
        assert (shell.directory / name / "holdfast.toml").exists()
    refused = shell("init", code=2)
    assert "name the directory of the new archive" in refused.errors
    assert not (shell.directory / "holdfast.toml").exists()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_shells_get_their_completion(shell: Shell, name: str) -> None:
    command = [sys.executable, "-m", "holdfast"]
    variables = {"PYTHONPATH": str(SOURCE), "_HOLDFAST_COMPLETE": f"{name}_source"}
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
    assert "holdfast" in done.stdout
    assert "complet" in done.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("sea", ["plain,search"]),
        ("search --lat", ["plain,--latest"]),
        ("crawl l", ["plain,list", "plain,log"]),
        ("crawl --dela", ["plain,--delay"]),
        ("crawl job", ["file,job"]),
    ],
)
def test_words_are_completed(shell: Shell, words: str, completed: list[str]) -> None:
    variables = {"PYTHONPATH": str(SOURCE), "_HOLDFAST_COMPLETE": "bash_complete"}
    variables |= {"COMP_WORDS": f"holdfast {words}", "COMP_CWORD": str(len(words.split()))}
    command = [sys.executable, "-m", "holdfast"]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
    assert done.stdout.split() == completed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["contents"], "No such command 'contents'. Did you mean 'content'"),
        (["frobnicate"], "No such command 'frobnicate'.\n"),
        (["content", "put"], "Missing argument 'FILE...'"),
        (["content", "put", "x", "--mode", "sloppy"], "'sloppy' is not one of"),
        (["content", "get", KEY, "--colour"], "No such option '--colour'"),
        (["serve", "--port", "80000"], "80000 must be at least 0 and at most 65535.\n"),
        (["sample", "--size", "0"], "'--size': 0 must be at least 1.\n"),
        (["sample"], "give one of --size N and --bytes BYTES\n"),
        (["check", "--rate-limit", "fast"], "'fast' is not a number of bytes"),
        (["check", "--rate-limit", "0"], "'0' is not a number of bytes"),
        (["volume", "set-state", "v0", "broken"], "'broken' is not one of"),
        (["volume", "compact", "--min-dead", "2"], "2.0 must be at least 0 and at most 1"),
        (["init", "new", "--replicas", "2"], "2 replicas need at least 2 volumes"),
        (["content", "get", KEY, "--json"], "--json needs -o FILE"),
    ],
)
def test_wrong_usage(shell: Shell, arguments: list[str], message: str) -> None:
    result = shell(*arguments, code=2)
    assert result.errors.startswith("holdfast: ")
    assert message in result.errors
    assert result.output == b""
    assert list(shell.directory.iterdir()) == []


# -- which archive -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["content", "get", KEY],
        ["content", "put", "/dev/null"],
        ["status"],
        ["check"],
        ["volume", "list"],
        ["cdx", "*"],
        ["import", "/dev/null"],
        ["batch", "list"],
        ["reindex"],
    ],
)
def test_no_archive(shell: Shell, arguments: list[str]) -> None:
    result = shell(*arguments, code=3)
    assert result.errors.startswith("holdfast: no archive in '.'")
    assert "holdfast init" in result.errors
    assert list(shell.directory.iterdir()) == []


def test_archive_is_chosen_by_option_then_variable_then_directory(shell: Shell) -> None:
    for name in ("here", "there", "elsewhere"):
        shell("init", name)
    shell("content", "put", "-", "-a", "here", input=b"one")
    before_wins = shell("-a", "here", "status", "--json", HOLDFAST_ARCHIVE="there").objects[0]
    after_wins = shell("-a", "there", "status", "--json", "-a", "here").objects[0]
    variable_wins = shell("status", "--json", HOLDFAST_ARCHIVE="here").objects[0]
    by_directory = Shell(shell.directory / "here")("status", "--json").objects[0]
    assert before_wins == after_wins == variable_wins
    assert before_wins["contents"] == by_directory["contents"] == 1
    assert shell("-a", "elsewhere", "status", "--json").objects[0]["contents"] == 0


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_settings_of_a_later_release(archive: Shell) -> None:
    settings = archive.directory / "holdfast.toml"
    settings.write_text(settings.read_text().replace("format = 1", "format = 2"))
    assert "use a later one" in archive("status", code=6).errors


def test_unknown_setting(archive: Shell) -> None:
    settings = archive.directory / "holdfast.toml"
    settings.write_text(settings.read_text().replace("[store]", "[store]\nreplica = 2"))
    assert "did you mean 'replicas'?" in archive("status", code=2).errors


def test_second_writer_is_refused_and_readers_are_not(archive: Shell) -> None:
    with holdfast.open(archive.directory) as opened:
        key = opened.contents.put(b"written by the first")
        refused = archive("content", "put", "-", input=b"by the second", code=4)
        assert refused.errors.startswith("holdfast: archive '.' is being written by another process (pid ")
        assert "wait for it to end" in refused.errors
        archive("check", "--repair", code=4)
        assert archive("content", "get", str(key)).output == b"written by the first"
        assert archive("content", "list").lines == [str(key)]
        assert archive("status", "--json").objects[0]["contents"] == 1
        archive("check")
    archive("content", "put", "-", input=b"by the second")


def test_missing_permission(archive: Shell) -> None:
    key = archive("content", "put", "-", input=b"kept").lines[0]
    for path in [archive.directory, *archive.directory.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in archive.directory.rglob("*")}
    try:
        for arguments in (
            ["content", "put", "/dev/null"],
            ["content", "rm", key],
            ["init", "new"],
            ["check", "--repair"],
        ):
            result = as_nobody(archive, arguments)
            assert result.returncode == 8, result
            assert result.stderr.startswith(b"holdfast: not permitted to use '")
            assert b"Traceback" not in result.stderr
        assert {path: path.stat().st_mtime_ns for path in archive.directory.rglob("*")} == before
    finally:
        for path in [archive.directory, *archive.directory.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert archive("content", "get", key).output == b"kept"


def test_an_archive_of_somebody_else_is_searched() -> None:
    """B12: whoever may read an archive may search it, though tantivy locks a file to do so."""
    with tempfile.TemporaryDirectory() as directory:  # one that others can reach, unlike those of pytest
        Path(directory).chmod(0o755)
        archive = Shell(Path(directory))
        archive("init", ".")
        with holdfast.open(archive.directory) as opened:
            opened.add([holdfast.page("http://example.org/", b"<title>Whales</title>")])
            opened.index.update()
        files = [archive.directory, *archive.directory.rglob("*")]
        assert {path.stat().st_mode & 0o044 for path in files} == {0o044}, "others may read all of it"
        for path in files:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            found = as_nobody(archive, ["search", "whales"])
            assert b"http://example.org/\n    Whales" in found.stdout, found
            assert b"no faults" in as_nobody(archive, ["check"]).stderr
            next(archive.directory.rglob("meta.json")).chmod(0)
            refused = as_nobody(archive, ["search", "whales"])
            assert refused.returncode == 8, refused
            assert refused.stderr.startswith(b"holdfast: not permitted to read '"), refused
        finally:
            for path in files:
                path.chmod(0o755)


def as_nobody(shell: Shell, arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Runs a command as somebody whom modes of files can stop: root is not.

    Everything is imported before root's rights go, since nobody may not be able to read the interpreter's files.
    """
    program = (
        "import os, sys, rocksdict, tomlkit, holdfast.archive.check, holdfast.cli.archive.archive\n"
        "import holdfast.cli.store.content, holdfast.cli.captures.import_, holdfast.cli.captures.rm\n"
        "import holdfast.archive.create, holdfast.archive.ingest.importer, holdfast.cli.store.volume\n"
        "import holdfast.archive.check, holdfast.cli.search, holdfast.query.engine, pyarrow.parquet, tantivy\n"
        "from holdfast.cli.main import run\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "sys.exit(run())"
    )
    return shell.run([sys.executable, "-c", program, *arguments], capture_output=True)


# -- streams -----------------------------------------------------------------------------------------------------------


def test_reader_that_goes_away(archive: Shell) -> None:
    archive("content", "put", "-", input=b"x")
    reading, writing = os.pipe()
    os.close(reading)
    done = archive.run(archive.command("content", "list"), stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_on_a_full_disk(archive: Shell) -> None:
    key = archive("content", "put", "-", input=b"x").lines[0]
    with open("/dev/full", "wb") as full:
        done = archive.run(archive.command("content", "get", key), stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (7, b"holdfast: No space left on device\n")


def test_progress_is_shown_on_a_terminal_and_stays_out_of_the_data(archive: Shell) -> None:
    archive.file("page", b"word " * 1000)
    terminal, end = pty.openpty()
    done = archive.run(
        archive.command("content", "put", "page"),
        stdout=subprocess.PIPE,
        stderr=end,
        env=archive.environment(TERM="vt100"),
    )
    os.close(end)
    shown = os.read(terminal, 1 << 16)
    os.close(terminal)
    assert done.stdout.decode().split() == archive.keys()
    assert b"storing" in shown


def test_warnings_are_plain_lines_and_verbosity_is_accepted(archive: Shell) -> None:
    (archive.directory / "volumes" / "v1" / "VOLUME").unlink()
    result = archive("-vv", "status", "--json")
    assert result.objects[0]["volumes_down"] == 1
    assert any(line.startswith("holdfast: volume 'v1' is down: ") for line in result.errors.splitlines())
