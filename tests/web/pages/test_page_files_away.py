"""A capture by reference whose file is away: it is known, so nobody is told that it is not archived (I10)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from page_visits import ask
from serving import Served, serving

import holdfast
from holdfast.records.references import reference_drafts

URL = "http://away.example/page"
LINE = f"example,away)/page 20240102030405 {URL} text/html 200 3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ - - 0 0 gone.warc"


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("away") / "archive"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        archive.add_drafts(reference_drafts([LINE.encode()], "main"))
    with serving(path) as there:
        yield there


def test_the_page_says_that_the_file_is_away_and_not_that_the_page_is(away: Served) -> None:
    for origin, modifier in ((away.controls, "id_"), (away.replay, "mp_")):
        visit = ask(origin, f"/main/20240102030405{modifier}/{URL}")
        assert visit.status == 404
        assert visit.page.one("h1").text == "Its file is not at hand"
        assert "is known, but the file that holds it is not where the archive looks" in visit.page.one("main").text
        assert "gone.warc" not in visit.text
    links = ask(away.controls, f"/main/20240102030405id_/{URL}").page.links()
    assert links["All captures of this address"] == f"/main/*/{URL}"


def test_programs_are_told_the_file(away: Served) -> None:
    visit = ask(away.controls, f"/main/20240102030405id_/{URL}", {})
    assert visit.status == 404
    assert "gone.warc" in visit.text
