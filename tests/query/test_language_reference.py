"""The reference of the language is true: each query in it is understood, or refused, as it says."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from holdfast.config import QuerySettings
from holdfast.errors import MalformedQuery
from holdfast.index.tables import table_schema
from holdfast.query.language.fields import ALIASES, NAMES
from holdfast.query.language.lexer import CHARACTERS_MAX
from holdfast.query.language.parser import DEPTH_MAX, TERMS_MAX, parse
from holdfast.query.language.syntax import canonical
from holdfast.query.sql.database import TABLES

DOCS = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (DOCS / "query.md").read_text()
_ROW = re.compile(r"^\| `([^|]+)` \| `([^|]+)` \|", re.MULTILINE)
LANGUAGE, MISTAKES = PAGE.split("## What is found")[0], PAGE.split("## Mistakes")[1].split("## SQL")[0]


@pytest.mark.parametrize(("text", "printed"), _ROW.findall(LANGUAGE))
def test_a_query_is_printed_back_as_the_page_says(text: str, printed: str) -> None:
    assert canonical(parse(text)) == printed


@pytest.mark.parametrize(("text", "message"), _ROW.findall(MISTAKES))
def test_a_mistake_is_told_as_the_page_says(text: str, message: str) -> None:
    with pytest.raises(MalformedQuery) as caught:
        parse(text)
    assert str(caught.value) == message


def test_the_tables_of_examples_were_read() -> None:
    assert len(_ROW.findall(LANGUAGE)) > 30
    assert len(_ROW.findall(MISTAKES)) == 5


def test_every_field_and_limit_is_on_the_page() -> None:
    assert [name for name in NAMES if not re.search(rf"`{name}[:<>]", LANGUAGE)] == []
    assert [name for name in ALIASES if f"`{name}:`" not in LANGUAGE and name not in ("links",)] == []
    limits = f"at most {CHARACTERS_MAX:,} characters, {TERMS_MAX} terms, and {DEPTH_MAX} parentheses"
    assert limits in " ".join(PAGE.split())


def test_every_column_is_on_the_page() -> None:
    rows = {name: next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")) for name in TABLES}
    for table in ("captures", "links"):
        assert [name for name in table_schema(table).names if f"`{name}`" not in rows[table]] == []


def test_the_defaults_of_settings_are_those_of_the_code() -> None:
    text = (DOCS / "settings.md").read_text()
    for field in dataclasses.fields(QuerySettings):
        assert f"| `query.{field.name}` | `{field.default}` |" in text
