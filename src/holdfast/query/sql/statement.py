"""One SQL statement that only reads the known tables; anything else is rejected before it runs.

DuckDB may access no files but ours, load nothing and change no settings. That stops most
attacks, but not functions that read (`read_blob` on our own files would show removed records),
run other statements (`query`) or take memory addresses (`arrow_scan`). So DuckDB's own parser takes
the statement apart, and every table and table function must be on a short list.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.arguments import nearest
from holdfast.errors import Denied, MalformedQuery

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CHARACTERS_MAX = 32_768
_PARSER_BYTES = 256 << 20
INTERNAL = "_holdfast_"  # prefix of internal tables
_QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")
_ROWS_OF_FUNCTIONS = ("range", "generate_series", "unnest", "json_each", "json_tree")
_REFUSED_FUNCTIONS = (
    *("write_log", "nextval", "currval", "setval", "setseed", "current_setting", "getenv", "getvariable"),
    *("sleep_ms", "pg_sleep"),
)
_SHOW = "SHOW_REF"
_EVERY_TABLE = "tables"  # to SHOW
_OF_DUCKDB = """
    SELECT view_name FROM duckdb_views() WHERE schema_name <> 'information_schema'
    UNION SELECT table_name FROM duckdb_tables()
"""
_READ_ONLY = "SQL only reads here, one SELECT at a time"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that may run."""

    text: str
    tables: frozenset[str]  # the tables it names


def checked_alone(text: str, tables: Collection[str]) -> Statement:
    """As `checked`, with a new, empty database."""
    import duckdb

    with duckdb.connect(":memory:", config={"threads": "1", "memory_limit": f"{_PARSER_BYTES}B"}) as connection:
        return checked(connection, text, tables)


def checked(connection: DuckDBPyConnection, text: str, tables: Collection[str]) -> Statement:
    """The statement, if it only reads these tables. Raises MalformedQuery or Denied; runs nothing."""
    if len(text) > CHARACTERS_MAX:
        raise MalformedQuery(f"SQL of {len(text)} characters: at most {CHARACTERS_MAX} are taken")
    tree = _parsed(connection, text)
    statements = tree["statements"]
    if len(statements) != 1:
        raise MalformedQuery(f"{len(statements)} statements: give one SELECT")
    nodes = list(_nodes(statements[0]))
    own = {name.lower() for node in nodes for name in _defined(node)}
    if own:
        _check_names(connection, own)
    named = set()
    for node in nodes:
        if (table := _table_of(node)) is not None:
            if table not in tables and (table not in own or node["type"] == _SHOW):
                raise _unknown(table, tables)
            named.add(table)
        _check(node)
    if any(map(_lists_tables, nodes)):
        if not _lists_tables(statements[0]["node"].get("from_table")):
            raise Denied(f"SHOW TABLES stands alone: {_READ_ONLY}")
        rows = ", ".join(f"('{name}')" for name in sorted(tables))
        text = f"SELECT name FROM (VALUES {rows}) AS listed(name)"  # DuckDB would list internal tables, too
    return Statement(text, frozenset(named.intersection(tables)))


def _check_names(connection: DuckDBPyConnection, own: set[str]) -> None:
    """Raises Denied for WITH names that mean something outside the scope of that WITH: files, tables of DuckDB.

    All other names mean nothing there, so scopes need not be tracked here.
    """
    taken = {name.lower() for (name,) in connection.execute(_OF_DUCKDB).fetchall()}
    for name in sorted(own):
        if not name.isidentifier():
            raise Denied(f"no name such as '{name[:80]}' in WITH: give one of letters, digits and '_'")
        if name in taken or name.startswith(INTERNAL):
            raise Denied(f"no name such as '{name[:80]}' in WITH, as DuckDB has a table of this name: give another")


def _lists_tables(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") == _SHOW and _shown_by(node) == _EVERY_TABLE


def _parsed(connection: DuckDBPyConnection, text: str) -> dict[str, Any]:
    """The statement as DuckDB's parser understands it; it serializes only SELECT."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MalformedQuery("SQL with an invalid character: leave it out") from None
    ((written,),) = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
    try:
        tree: dict[str, Any] = json.loads(written)
    except RecursionError:
        raise MalformedQuery("SQL is nested too deeply: write it with WITH") from None
    if not tree["error"]:
        return tree
    message = tree.get("error_message", "")
    if message.startswith("Only SELECT"):
        kinds = [each.type.name.replace("_", " ") for each in connection.extract_statements(text)]
        raise Denied(f"cannot run {' and '.join(kinds)}: {_READ_ONLY}")
    at = f" at character {int(tree['position']) + 1}" if tree.get("position") else ""
    raise MalformedQuery(f"cannot understand SQL{at}: {message}")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in the tree, without recursion, so that nesting cannot exhaust the stack."""
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _defined(node: dict[str, Any]) -> Iterator[str]:
    names = node.get("cte_map")
    if isinstance(names, dict):
        yield from (each["key"] for each in names["map"])
    if node.get("type") in ("RECURSIVE_CTE_NODE", "CTE_NODE") and isinstance(name := node.get("cte_name"), str):
        yield name


def _table_of(node: dict[str, Any]) -> str | None:
    """The table that a node names. Raises Denied if it is not one of ours."""
    if node.get("type") not in ("BASE_TABLE", _SHOW) or "table_name" not in node:
        return None
    if outside := node.get("schema_name") or node.get("catalog_name"):
        subject = f"{outside}.{node['table_name']}".rstrip(".")
        raise Denied(f"no table outside of the archive's may be read, such as '{subject}': {_READ_ONLY}")
    if node["type"] == _SHOW:
        shown = _shown_by(node)
        return None if shown in ("", _EVERY_TABLE) else shown
    return str(node["table_name"]).lower()


def _shown_by(node: dict[str, Any]) -> str:
    """What SHOW names; DESCRIBE and SUMMARIZE have a query of their own instead."""
    return str(node.get("table_name", "")).strip('"').lower()


def _unknown(table: str, known: Collection[str]) -> MalformedQuery | Denied:
    if "/" in table or "." in table:
        return Denied(f"no file may be read, such as '{table[:80]}': {_READ_ONLY}")
    return MalformedQuery(f"no table '{table[:80]}'{nearest(table, sorted(known))}")


def _check(node: dict[str, Any]) -> None:
    """Raises Denied for anything but reads of our tables."""
    kind = node.get("type")
    if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _QUERIES:
        raise Denied(f"no {kind.removesuffix('_NODE')} inside a SELECT: {_READ_ONLY}")
    if kind == "TABLE_FUNCTION":
        name = _function_of(node.get("function"))
        if name not in _ROWS_OF_FUNCTIONS:
            raise Denied(f"no function '{name}' in FROM: {_READ_ONLY}, from the archive's own tables")
    elif node.get("class") == "FUNCTION" and (name := _function_of(node)) in _REFUSED_FUNCTIONS:
        raise Denied(f"no function '{name}': {_READ_ONLY}")


def _function_of(node: Any) -> str:
    return str(node.get("function_name", "")).lower() if isinstance(node, dict) else ""
