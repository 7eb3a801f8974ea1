"""Rewritten scripts are scripts still: the browser reads every snippet before and after."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from replay_browser import Stage, needs_browser

from holdfast.replay.rewriting.javascript import rewrite_script

sys.path.append(str(Path(__file__).parents[1] / "rewriting"))
from script_snippets import CHANGED, KEPT, SCENE

pytestmark = needs_browser

# A module is linked only when what it imports is there, so a syntax error is told from everything else by its name.
_COMPILES = """async (source) => {
  if (!/^(import|export)|; *(import|export)|await /.test(source)) { new Function(source); return "" }
  const url = URL.createObjectURL(new Blob([source.replace(/(["'])(\\/main\\/|https?:|\\/)[^"']*\\1/g, '"data:text/javascript,"')],
    { type: "text/javascript" }));
  try { await import(url) } catch (error) { return /does not provide an export|Failed to/.test(error) || error.name !== "SyntaxError" ? "" : String(error) }
  return "";
}"""


@pytest.mark.parametrize("source", [source for source, _ in CHANGED] + KEPT)
def test_w17_rewritten_script_compiles(stage: Stage, source: str) -> None:
    with_page = stage.blank
    for text in (source, rewrite_script(source.encode(), SCENE).decode()):
        assert with_page.evaluate(_COMPILES, text) == ""
