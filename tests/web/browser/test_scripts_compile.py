"""Rewritten scripts are scripts still: the browser reads every snippet before and after."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from replay_browser import Stage, needs_browser

from holdfast.web.rewrite import runtime
from holdfast.web.rewrite.javascript import rewrite_script

sys.path.append(str(Path(__file__).parents[1] / "rewriting"))
from script_snippets import CHANGED, KEPT, SCENE

pytestmark = needs_browser

# What a module imports is not there: that it cannot be linked is not its fault, that it cannot be read is.
_COMPILES = """async (source) => {
  if (!/^(import|export)|; *(import|export)/.test(source)) { new Function(source); return "" }
  const text = source.replace(/(["'])(\\/main\\/|https?:|\\/|\\.|react)[^"']*\\1/g, '"data:text/javascript,"');
  try {
    await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  } catch (error) {
    if (error.name === "SyntaxError" && !/does not provide an export/.test(error)) return String(error);
  }
  return "";
}"""


@pytest.mark.parametrize("source", [source for source, _ in CHANGED] + KEPT)
def test_w17_rewritten_script_compiles(stage: Stage, source: str) -> None:
    for text in (source, rewrite_script(source.encode(), SCENE).decode()):
        assert stage.blank.evaluate(_COMPILES, text) == ""


# The runtime's rewriter; what it asks for addresses resolves them as the page does.
_REWRITTEN = """([rewriter, source]) => new Function(rewriter + `;return scriptRewriter`)()(source, (name) => {
  if (!/^(?:https?:|[/](?!main))/.test(name)) return name;
  return "/main/20240102030405js_/" + new URL(name, "https://news.example/a/page.html").href;
})"""


@pytest.mark.parametrize("source", [source for source, _ in CHANGED] + KEPT)
def test_p3_the_runtime_rewrites_scripts_as_the_server_does(stage: Stage, source: str) -> None:
    rewriter = (Path(runtime.__file__).parent / "parts" / "script.js").read_text()
    once = stage.blank.evaluate(_REWRITTEN, [rewriter, source])
    assert once == rewrite_script(source.encode(), SCENE).decode()
    assert stage.blank.evaluate(_REWRITTEN, [rewriter, once]) == once


@pytest.mark.parametrize("source", ["import a from", "export const = 1", "; import {a:b} from '/a.js'"])
def test_a_module_that_does_not_compile_is_noticed(stage: Stage, source: str) -> None:
    assert "SyntaxError" in stage.blank.evaluate(_COMPILES, source)
