"""The job of a crawl as a TOML file: written by people, and kept by the crawl as `job.toml`.

    name = "news"
    seeds = ["https://example.com/news/"]
    scope = "prefix"
    time = "2h"

    [fetch]
    delay = "1.5s"
    headers = ["Accept-Language: en"]
    credentials = ["https://example.com Authorization: Bearer 3f9c..."]

Keys are the fields of `CrawlJob` and of its parts, without the `_s` of durations. Sizes and durations are numbers of
bytes and seconds, or texts (`holdfast.env.units`). Only values that differ from the defaults are needed. An unknown
key is an error that names the nearest known one.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.crawl.job.credentials import credential_of, write_credential
from holdfast.crawl.job.job import CrawlJob, ScopeKind, checked, header_of, lifetime_of, resolution_of
from holdfast.env.units import duration_text, parse_duration, parse_size, size_text
from holdfast.errors import Denied, FormatTooNew, InvalidSetting, NotFound, UsageError

FORMAT = 1
PARTS = ("fetch", "traps", "browser", "revisit")
_SIZES = frozenset({"bytes_max", "body_bytes_max", "head_bytes_max", "memory_bytes_max"})
_DURATIONS = frozenset({"delay", "delay_max"})  # beside all whose names end in '_s'
_TEXTS: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {  # values that are written as texts
    "headers": (header_of, ": ".join),
    "credentials": (credential_of, write_credential),
    "resolve": (resolution_of, "=".join),
    "lifetimes": (lifetime_of, lambda rule: f"{rule[0]}={duration_text(rule[1])}"),
}


# -- reading -----------------------------------------------------------------------------------------------------------


def read_job(path: Path, more_seeds: Iterable[str] = ()) -> CrawlJob:
    """The job in a file, with more seeds than it names. Raises NotFound, Denied, FormatTooNew or UsageError."""
    try:
        return parse_job(path.read_bytes(), str(path), more_seeds)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"no job file '{path}'") from None
    except IsADirectoryError:
        raise UsageError(f"'{path}' is a folder: name a job file") from None
    except PermissionError:
        raise Denied(f"not permitted to read '{path}'") from None


def parse_job(text: bytes | str, where: str, more_seeds: Iterable[str] = ()) -> CrawlJob:
    """The job that a text describes; `where` is how messages call the text. Raises FormatTooNew or InvalidSetting."""
    try:
        table = tomllib.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"cannot read '{where}': {error}") from None
    number = table.pop("format", FORMAT)
    if isinstance(number, int) and number > FORMAT:
        raise FormatTooNew(f"'{where}' has format {number}; this release reads {FORMAT}: use a later one")
    if number != FORMAT:
        raise InvalidSetting(f"'{where}': format must be {FORMAT}, found {number!r}")
    try:
        job = _filled(CrawlJob(), table, "")
        return checked(replace(job, seeds=(*job.seeds, *more_seeds)))
    except UsageError as error:
        raise InvalidSetting(f"'{where}': {error}") from None


def _filled(part: Any, table: Any, prefix: str) -> Any:
    """The part with what the table says."""
    if not isinstance(table, dict):
        raise UsageError(f"{prefix[:-1]} must be a table, found {table!r}")
    known = {_key(each.name): each for each in fields(part)}
    chosen = {}
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"unknown setting {prefix}{key}{_hint(key, list(known))}")
        chosen[known[key].name] = _value(known[key].name, str(known[key].type), value, prefix + key, part)
    return replace(part, **chosen)


def _key(field: str) -> str:
    return field.removesuffix("_s")


def _hint(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"


def _value(field: str, kind: str, value: Any, key: str, part: Any) -> Any:
    if is_dataclass(found := getattr(part, field)):
        return _filled(found, value, key + ".")
    if field == "scope":
        return _scope(value, key)
    if field in _TEXTS:
        return tuple(map(_TEXTS[field][0], _texts(value, key)))
    if kind.startswith("tuple"):
        return _texts(value, key)
    if isinstance(value, str) and (field in _SIZES or _is_duration(field)):
        return _quantity(field, value, key)
    return _plain(kind, value, key)


def _quantity(field: str, text: str, key: str) -> int | float:
    try:
        return parse_size(text) if field in _SIZES else parse_duration(text)
    except UsageError as error:
        raise UsageError(f"{key}: {error}") from None


def _is_duration(field: str) -> bool:
    return field.endswith("_s") or field in _DURATIONS


def _scope(value: Any, key: str) -> ScopeKind:
    if value not in list(ScopeKind):
        raise UsageError(f"{key} must be one of {', '.join(ScopeKind)}, found {value!r}")
    return ScopeKind(value)


def _texts(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UsageError(f"{key} must be a list of texts, found {value!r}")
    return tuple(value)


def _plain(kind: str, value: Any, key: str) -> Any:
    wanted = kind.partition(" ")[0]
    accepted: dict[str, tuple[type[Any], ...]]
    accepted = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
    if not isinstance(value, accepted[wanted]) or (isinstance(value, bool) and wanted != "bool"):
        names = {"int": "a number", "float": "a number", "str": "a text", "bool": "true or false"}
        raise UsageError(f"{key} must be {names[wanted]}, found {value!r}")
    return float(value) if wanted == "float" else value


# -- writing -----------------------------------------------------------------------------------------------------------


def write_job(job: CrawlJob) -> str:
    """The text of a job file: name, seeds and scope, and values that differ from the defaults. It reads back equal."""
    import tomlkit

    head = tomlkit.dumps({"format": FORMAT, "name": job.name})
    rest: dict[str, Any] = {"scope": job.scope.value}
    for key, value in _differences(job).items():
        if key not in ("name", "seeds"):
            rest.setdefault(key, value)
    for name in PARTS:
        if different := _differences(getattr(job, name)):
            rest[name] = different
    return head + _written_seeds(job.seeds) + tomlkit.dumps(rest)


def _written_seeds(seeds: tuple[str, ...]) -> str:
    """One to a line. Not by an array of tomlkit, which takes quadratic time, and there may be very many."""
    import tomlkit

    texts = [tomlkit.string(seed).as_string() for seed in seeds]
    if len(texts) > 1:
        return "seeds = [\n" + "".join(f"    {text},\n" for text in texts) + "]\n"
    return f"seeds = [{''.join(texts)}]\n"


def _differences(part: Any) -> dict[str, Any]:
    default = type(part)()
    return {
        _key(each.name): _written(each.name, value)
        for each in fields(part)
        if each.name not in PARTS and (value := getattr(part, each.name)) != getattr(default, each.name)
    }


def _written(field: str, value: Any) -> Any:
    if field in _TEXTS:
        return [_TEXTS[field][1](each) for each in value]
    if isinstance(value, tuple):
        return list(value)
    if field in _SIZES:
        return size_text(value)
    if _is_duration(field):
        return duration_text(value)
    return value


# -- seeds in a file ---------------------------------------------------------------------------------------------------


def read_seeds(lines: Iterable[str]) -> list[str]:
    """One URL to a line; blank lines, and what follows a '#' at the start of a line or after a space, do not count."""
    stripped = (line.strip().removeprefix("\ufeff").lstrip() for line in lines)  # a mark that editors put at the start
    return [line.split(" #")[0].split("\t#")[0].rstrip() for line in stripped if line and not line.startswith("#")]
