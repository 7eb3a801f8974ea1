"""Dates of every format as 14 digits."""

from __future__ import annotations

import pytest

from holdfast.formats.dates import arc_timestamp, mail_timestamp, partial_timestamp, warc_timestamp


@pytest.mark.parametrize(
    ("date", "digits"),
    [
        ("2020-01-02T03:04:05Z", "20200102030405"),
        ("2020-01-02t03:04:05z", "20200102030405"),
        ("2020-01-02T03:04:05.123456789Z", "20200102030405"),
        ("2020-01-02T03:04Z", "20200102030400"),
        ("2020-01-02", "20200102000000"),
        ("2020-02", "20200201000000"),
        ("2020", "20200101000000"),
        ("2020-01-02T03:04:05+02:00", "20200102010405"),
        ("2016-12-31T23:59:60Z", "20161231235960"),
        ("2020-02-30T03:04:05Z", ""),
        ("20200102030405", ""),
        ("", ""),
        ("٢٠٢٠-01-02", ""),
    ],
)
def test_warc(date: str, digits: str) -> None:
    assert warc_timestamp(date) == digits


@pytest.mark.parametrize(
    ("date", "digits"),
    [
        ("20200102030405", "20200102030405"),
        ("202001020304", "20200102030400"),
        ("2020", "20200101000000"),
        ("20200102030405678", "20200102030405"),
        ("20201302030405", ""),
        ("-", ""),
        ("", ""),
    ],
)
def test_arc(date: str, digits: str) -> None:
    assert arc_timestamp(date) == digits


@pytest.mark.parametrize(
    ("date", "digits"),
    [
        ("Tue, 15 Apr 2003 08:13:06 GMT", "20030415081306"),
        ("Tue, 15 Apr 2003 08:13:06 +0800", "20030415001306"),
        ("15 Apr 2003 08:13:06", "20030415081306"),
        ("Tue, 35 Apr 2003 08:13:06 GMT", ""),
        ("never", ""),
        ("", ""),
    ],
)
def test_mail(date: str, digits: str) -> None:
    assert mail_timestamp(date) == digits


@pytest.mark.parametrize(
    ("date", "digits"),
    [
        ("2020-01-02T03:04:05Z", "20200102030405"),
        ("20200102030405", "20200102030405"),
        ("Thu, 02 Jan 2020 03:04:05 GMT", "20200102030405"),
        ("2020-01-02T03:04:05Zjunk", "20200102030405"),
        ("date: 2020/01/02 03:04", "20200102030400"),
        ("2020-01-02T25:04:05Z", "20200102000000"),
        ("2020-02-30T03:04:05Z", "20200201000000"),
        ("2020-13-01T03:04:05Z", "20200101000000"),
        ("2020-0#-##", "20200101000000"),
        ("0000-00-00T00:00:00Z", ""),
        ("1066-10-14T09:00:00Z", ""),
        ("someday 17", ""),
        ("", ""),
    ],
)
def test_what_is_left_of_a_date(date: str, digits: str) -> None:
    assert partial_timestamp(date) == digits
