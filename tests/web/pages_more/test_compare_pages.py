"""Two captures compared, for people and for programs (N9)."""

from __future__ import annotations

import pytest
from more_archive import MARKUP, URL
from more_asking import ask
from serving import Served


def compared(seen: Served, url: str, a: str = "2020", b: str = "2023", view: str = "text") -> str:
    told = ask(seen.controls, "/compare", {"url": url, "a": a, "b": b, "view": view})
    assert told.status == 200
    return told.text


def test_without_an_address_there_is_a_form(seen: Served) -> None:
    told = ask(seen.controls, "/compare")
    assert told.status == 200 and 'name="url"' in told.text


def test_an_address_alone_offers_its_captures(seen: Served) -> None:
    told = ask(seen.controls, "/compare", {"url": "example.com"})
    assert told.text.count('name="a"') == 3
    assert told.text.count(" checked") == 2


def test_one_capture_cannot_be_compared(seen: Served) -> None:
    assert "There is one capture only" in ask(seen.controls, "/compare", {"url": URL + "once"}).text


def test_words_that_changed_are_marked_in_their_lines(seen: Served) -> None:
    text = compared(seen, URL)
    assert "<del>nine</del>" in text and "<ins>ten</ins>" in text
    assert "<del>Paragraph</del>" in text and "<ins>Section</ins>" in text
    assert "2 lines added" in text and "2 lines removed" in text


def test_links_that_came_and_went(seen: Served) -> None:
    text = compared(seen, URL, view="links")
    assert "example.com/tickets" in text and "example.com/map" in text
    assert "1 link added" in text and "1 link removed" in text


def test_header_fields_that_differ(seen: Served) -> None:
    text = compared(seen, URL, view="headers")
    assert "x-gone" in text and "<ins>b</ins>" in text and "<del>a</del>" in text


def test_side_by_side_in_frames_of_the_other_origin(seen: Served) -> None:
    text = compared(seen, URL, view="side")
    assert text.count(f'<iframe src="{seen.replay}/_hf/enter?to=') == 2
    assert text.count('sandbox="allow-scripts') == 2


def test_equal_contents_are_called_equal(seen: Served) -> None:
    assert "The content is the same, byte for byte" in compared(seen, URL, "2023", "2024")
    assert "one and the same capture" in compared(seen, URL, "2020", "20200101")


def test_pictures_are_compared_by_facts(seen: Served) -> None:
    text = compared(seen, URL + "i.png")
    assert "6 × 4 pixels" in text and "12 × 8 pixels" in text
    assert "cannot be compared" in text and "image/png" in text


def test_two_pictures_open_side_by_side_unless_another_view_is_asked_for(seen: Served) -> None:
    text = ask(seen.controls, "/compare", {"url": URL + "i.png", "a": "2020", "b": "2023"}).text
    assert text.count(f'<iframe src="{seen.replay}/_hf/enter?to=') == 2
    assert "view=text" in text
    assert "<del>nine</del>" in ask(seen.controls, "/compare", {"url": URL, "a": "2020", "b": "2023"}).text


def test_bytes_that_only_claim_to_be_a_page_are_not_compared_as_text(seen: Served) -> None:
    assert "bytes that are called" in compared(seen, URL + "binary", "2020", "2021")


def test_a_hundred_thousand_lines_all_different_are_answered_and_cut(seen: Served) -> None:
    text = compared(seen, URL + "bomb", "2020", "2021")
    assert "100,000 lines removed" in text and "not shown here" in text
    assert len(text) < 4_000_000


def test_a_redirect_and_a_page_can_be_compared(seen: Served) -> None:
    text = compared(seen, URL + "moved", "2020", "2021", view="headers")
    assert "<del>301</del> <ins>200</ins>" in text


def test_markup_in_addresses_and_texts_stays_text(seen: Served) -> None:
    for view in ("text", "links", "headers", "side"):
        text = compared(seen, MARKUP, "2020", "2021", view)
        assert "<script>alert" not in text and "<img src=x" not in text
        assert "\u202e" not in text


def test_what_is_not_archived_is_said(seen: Served) -> None:
    told = ask(seen.controls, "/compare", {"url": "http://nowhere.example/", "a": "2020", "b": "2021"})
    assert told.status == 404 and "is not archived" in told.text


@pytest.mark.parametrize(
    "values",
    [
        {"url": URL, "a": "x", "b": "2020"},
        {"url": URL, "a": "2020", "b": "20209999999999"},
        {"url": URL, "a": "2020", "b": "2021", "view": "none"},
        {"url": URL, "a": "2020", "b": "2021", "collection": "none"},
        {"url": "http://example.com/" + "x" * 20_000},
    ],
)
def test_what_makes_no_sense_is_refused(seen: Served, values: dict[str, str]) -> None:
    assert 400 <= ask(seen.controls, "/compare", values).status < 500


def test_programs_get_json(seen: Served) -> None:
    values = {"url": URL, "a": "2020", "b": "2023", "collection": "main"}
    told = ask(seen.controls, "/api/compare", values, Accept="application/json")
    assert told.status == 200
    assert (told.json["text"]["added"], told.json["links"]["kept"], told.json["is_same_content"]) == (2, 0, False)
    assert told.json["a"]["timestamp"] == "20200102030405"
