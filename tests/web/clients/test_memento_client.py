"""memento_client, unmodified, finds its way by our TimeGate (I10)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from client_archive import TIMES, A
from serving import Served

memento_client = pytest.importorskip("memento_client")


@pytest.fixture
def client(served: Served) -> Iterator[memento_client.MementoClient]:
    timegate = f"{served.controls}/main/timegate/"
    with memento_client.MementoClient(timegate_uri=timegate, check_native_timegate=False) as made:
        yield made


def moment(timestamp: str) -> datetime:
    return datetime.strptime(timestamp, "%Y%m%d%H%M%S")


def test_the_memento_nearest_to_a_time_and_those_around_it(
    served: Served, client: memento_client.MementoClient
) -> None:
    # Asked for a memento, it first looks up the original by the Link header, which needs no live web.
    asked = f"{served.controls}/main/{TIMES[2]}id_/{A}/"
    told = client.get_memento_info(asked, datetime(2024, 2, 4))
    assert told["original_uri"] == f"{A}/"
    assert told["timegate_uri"] == f"{served.controls}/main/timegate/{A}/"
    mementos = told["mementos"]
    assert mementos["closest"]["datetime"] == moment(TIMES[1])
    assert mementos["closest"]["http_status_code"] == 200
    assert {each: mementos[each]["datetime"] for each in ("first", "prev", "next", "last")} == {
        "first": moment(TIMES[0]),
        "prev": moment(TIMES[0]),
        "next": moment(TIMES[2]),
        "last": moment(TIMES[2]),
    }
    assert mementos["first"]["uri"] == [f"{served.controls}/main/{TIMES[0]}/{A}/"]


def test_it_tells_mementos_and_timegates_by_their_headers(served: Served, client: memento_client.MementoClient) -> None:
    kind = memento_client.MementoClient
    assert kind.is_memento(f"{served.controls}/main/{TIMES[0]}id_/{A}/", session=client.session)
    assert kind.is_timegate(f"{served.controls}/main/timegate/{A}/", session=client.session)
    assert not kind.is_memento(f"{served.controls}/main/timemap/link/{A}/", session=client.session)
