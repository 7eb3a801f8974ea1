"""How long a host is left alone after a refusal or a failure (H5, P)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.crawl.schedule.retry import failure_pause_s, refusal_pause_s, retry_after_s

NOW = 1_700_000_000.0

RETRY_AFTER = [
    ("120", 120.0),
    (" 0 ", 0.0),
    ("99999999999999999999", 86400.0),
    ("Wed, 15 Nov 2023 00:00:00 GMT", 1_700_006_400 - NOW),
    ("Wednesday, 15-Nov-23 00:00:00 GMT", 1_700_006_400 - NOW),
    ("Wed, 15 Nov 2000 00:00:00 GMT", 0.0),
    ("Wed, 15 Nov 2099 00:00:00 GMT", 86400.0),
    ("-5", None),
    ("soon", None),
    ("", None),
    ("1.5", None),
    ("٣", None),
    ("Wed, 99 Nov 2099 00:00:00 GMT", None),
]


@pytest.mark.parametrize(("value", "seconds"), RETRY_AFTER)
def test_retry_after_as_rfc_9110_has_it(value: str, seconds: float | None) -> None:
    assert retry_after_s(value, NOW) == seconds


@given(st.text())
def test_retry_after_never_raises(value: str) -> None:
    seconds = retry_after_s(value, NOW)
    assert seconds is None or 0 <= seconds <= 86400


def test_refusals_double_the_pause_up_to_its_limit_but_never_below_the_delay() -> None:
    assert [refusal_pause_s(0.0, strikes, 60.0) for strikes in (1, 2, 3, 10, 1000)] == [1, 2, 4, 60, 60]
    assert refusal_pause_s(5.0, 2, 60.0) == 10
    assert refusal_pause_s(120.0, 1, 60.0) == 120, "a Crawl-delay may be longer than our own limit"


def test_failures_double_the_pause_up_to_its_limit() -> None:
    assert [failure_pause_s(0.0, attempts, 60.0) for attempts in (0, 1, 2, 10, 1000)] == [0.25, 0.5, 1, 60, 60]
    assert failure_pause_s(5.0, 2, 60.0) == 20
    assert failure_pause_s(120.0, 0, 60.0) == 60, "the delay of the host is kept beside the pause"
