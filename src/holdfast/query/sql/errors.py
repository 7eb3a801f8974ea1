"""Errors of DuckDB and Arrow, as errors of our tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.config import QuerySettings
from holdfast.errors import DamagedIndex, Denied, HoldfastError, MalformedQuery, TooLarge
from holdfast.index.state import REPAIR


@contextmanager
def translated_errors(settings: QuerySettings) -> Iterator[None]:
    """Inside, errors of DuckDB and Arrow become ours."""
    import duckdb
    import pyarrow

    try:
        yield
    except MemoryError:  # of Python or of Arrow
        raise too_much_memory(settings) from None
    except duckdb.Error as error:
        raise _error(error, settings) from None
    except (pyarrow.ArrowException, OSError) as error:  # what fails while rows are read comes through Arrow
        raise _error(error, settings) from None


def too_long(settings: QuerySettings) -> TooLarge:
    return TooLarge(f"SQL takes longer than {settings.sql_seconds_max:g} s: narrow it, or raise query.sql_seconds_max")


def too_much_memory(settings: QuerySettings) -> TooLarge:
    return TooLarge(
        f"SQL takes more than {settings.sql_memory_bytes} bytes of memory and {settings.sql_spill_bytes_max} of disk: "
        "narrow it, or raise query.sql_memory_bytes and query.sql_spill_bytes_max"
    )


def _error(error: Exception, settings: QuerySettings) -> HoldfastError:
    kind, _, rest = str(error).partition("Error: ")
    message = " ".join((rest or kind).split("\n\n")[0].split())
    match kind.strip():
        case "Out of Memory":
            return too_much_memory(settings)
        case "Permission":
            return Denied(f"cannot run SQL: {message}")
        case "IO":
            return DamagedIndex(f"cannot read the tables of the index: {message}; run it again, or {REPAIR}")
    return MalformedQuery(f"cannot run SQL: {message}")
