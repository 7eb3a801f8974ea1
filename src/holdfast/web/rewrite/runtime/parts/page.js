// The first script of every archived page: everything above is put into its window, and into those that it makes.

function install(win, scene) {
  if (win.__hf_location) return;
  const addresses = addressesOf(win, scene);
  const scripts = scriptsOf(win, addresses);
  const place = placeIn(win, scene, addresses, scripts);
  timeOf(win, scene);
  const markup = markupOf(win, scene, addresses, scripts);
  networkOf(win, scene, addresses);
  messagesOf(win, scene, addresses, place);
  workersOf(win, scene, addresses, scripts, markup);
  navigationOf(win, scene, addresses, place, scripts);
  const elements = elementsOf(win, scene, addresses, markup);
  selectorsOf(win, scene, addresses);
  insertionOf(win, scene, addresses, markup, elements, scripts);
  framesOf(win, scene);
  documentsOf(win, scene, addresses, place);
  nativeTexts(win);
}

// Frames without an address of their own have no script of the server's: they are given theirs when first touched. It
// runs as theirs, because browsers keep the window when the frame's first page comes, and ask whose function calls.
function framesOf(win, scene) {
  function prepare(frame) {
    if (frame.__hf_location) return;
    let run = null;
    try {
      run = frame.eval(`(${SOURCE})`);
    } catch {
      // it runs no scripts
    }
    if (run) run({ ...scene });
    else install(frame, { ...scene });
  }
  const inner = (frame) => {
    try {
      if (frame && /^about:blank/.test(frame.location.href)) prepare(frame);
    } catch {
      // of another origin, and closed to the page as well
    }
    return frame;
  };
  for (const kind of ["HTMLIFrameElement", "HTMLFrameElement", "HTMLObjectElement"]) {
    const prototype = win[kind] && win[kind].prototype;
    redefine(prototype, "contentWindow", (get) => ({ get() { return inner(get.call(this)); } }));
    redefine(prototype, "contentDocument", (get) => ({
      get() {
        const document = get.call(this);
        if (document) inner(document.defaultView);
        return document;
      },
    }));
  }
  // Whatever may have brought in a frame, it is given its runtime before the page can reach for it.
  const sweep = (result) => {
    for (let index = 0; index < win.length; index += 1) inner(win[index]);
    return result;
  };
  const after = (object, names) => names.forEach((name) =>
    wrap(object, name, (old) => function (...given) { return sweep(old.apply(this, given)); }));
  after(win.Node.prototype, ["appendChild", "insertBefore", "replaceChild"]);
  for (const kind of [win.Element, win.Document, win.DocumentFragment])
    after(kind.prototype, ["append", "prepend", "replaceChildren", "moveBefore"]);
  for (const kind of [win.Element, win.CharacterData, win.DocumentType])
    after(kind.prototype, ["before", "after", "replaceWith"]);
  after(win.Element.prototype, ["insertAdjacentElement", "insertAdjacentHTML", "setHTMLUnsafe"]);
  after(win.Document.prototype, ["write", "writeln", "open", "execCommand"]);
  after(win.Range.prototype, ["insertNode", "surroundContents"]);
  for (const kind of [win.Element, win.ShadowRoot])
    for (const name of ["innerHTML", "outerHTML"])
      redefine(kind.prototype, name, (get, set) => ({ set(text) { sweep(set.call(this, text)); } }));
  new win.MutationObserver(sweep).observe(win.document, { subtree: true, childList: true });
}

(function begin() {
  if (given) return install(window, given);
  const script = document.currentScript;
  const { prefix, timestamp, url, controls = "" } = script.dataset;
  const rooted = "rooted" in script.dataset;
  const source = new URL(script.src);
  script.remove();
  const scene = { prefix, timestamp, url, controls, rooted, home: source.origin, version: source.search.slice(1) };
  return window.__hf_view ? window.__hf_view.enter(scene) : install(window, scene);
})();
