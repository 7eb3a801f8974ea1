// Ways by which scripts insert markup and styles, and a watch over what comes in by any other.

function insertionOf(win, scene, addresses, markup, elements) {
  const { html, css } = markup;

  for (const kind of [win.Element, win.ShadowRoot])
    for (const name of ["innerHTML", "outerHTML"])
      redefine(kind && kind.prototype, name, (get, set) => ({
        set(text) { set.call(this, this.localName === "style" ? css(text) : html(text)); },
      }));
  for (const kind of [win.Element, win.ShadowRoot])
    wrap(kind && kind.prototype, "setHTMLUnsafe", (set) => function (text, ...rest) {
      return set.call(this, html(text), ...rest);
    });
  wrap(win.Element.prototype, "insertAdjacentHTML", (insert) => function (where, text) {
    return insert.call(this, where, html(text));
  });
  wrap(win.Range.prototype, "createContextualFragment", (make) => function (text) {
    return make.call(this, html(text));
  });
  wrap(win.DOMParser.prototype, "parseFromString", (parse) => function (text, type) {
    return parse.call(this, type === "text/html" ? html(text) : text, type);
  });
  for (const name of ["write", "writeln"])
    wrap(win.Document.prototype, name, (write) => function (...texts) {
      return write.call(this, html(texts.join("")));
    });

  const sheet = win.CSSStyleSheet.prototype;
  wrap(sheet, "insertRule", (insert) => function (rule, ...rest) { return insert.call(this, css(rule), ...rest); });
  wrap(sheet, "addRule", (add) => function (where, rule, ...rest) {
    return add.call(this, where, css(rule ?? ""), ...rest);
  });
  for (const name of ["replace", "replaceSync"])
    wrap(sheet, name, (replace) => function (text) { return replace.call(this, css(text)); });
  wrap(win.CSSGroupingRule && win.CSSGroupingRule.prototype, "insertRule", (insert) => function (rule, ...rest) {
    return insert.call(this, css(rule), ...rest);
  });
  wrap(win.CSSStyleDeclaration.prototype, "setProperty", (set) => function (name, value, ...rest) {
    return set.call(this, name, css(value ?? ""), ...rest);
  });
  redefine(win.CSSStyleDeclaration.prototype, "cssText", (get, set) => ({ set(text) { set.call(this, css(text)); } }));
  const ofText = (source) => (typeof source === "string" ? css(source) : source);
  construct(win, "FontFace", ([family, source, ...rest]) => [family, ofText(source), ...rest]);
  styleSheetText(win, css);
  watch(win, markup, elements);
}

// A style element's text, given as text.
function styleSheetText(win, css) {
  const isStyle = (node) => Boolean(node) && node.localName === "style";
  const inStyle = (node) => isStyle(node) || isStyle(node.parentNode);
  redefine(win.Node.prototype, "textContent", (get, set) => ({
    set(text) { set.call(this, inStyle(this) && text !== null ? css(text) : text); },
  }));
  redefine(win.HTMLElement.prototype, "innerText", (get, set) => ({
    set(text) { set.call(this, inStyle(this) ? css(text) : text); },
  }));
  redefine(win.CharacterData.prototype, "data", (get, set) => ({
    set(text) { set.call(this, inStyle(this) ? css(text) : text); },
  }));
  for (const name of ["appendChild", "insertBefore", "replaceChild"])
    wrap(win.Node.prototype, name, (put) => function (node, ...rest) {
      if (this.localName === "style" && node instanceof win.Text) node.data = css(node.data);
      return put.call(this, node, ...rest);
    });
  wrap(win.Element.prototype, "append", (append) => function (...nodes) {
    const given = isStyle(this) ? nodes.map((node) => (typeof node === "string" ? css(node) : node)) : nodes;
    return append.apply(this, given);
  });
}

// Attributes that were set in ways that nobody foresaw are corrected as soon as they are seen.
function watch(win, markup, { changed, nativeSet, nativeGet }) {
  const names = [...NAMES, ...DROPPED];

  function correct(element, name) {
    const now = nativeGet.call(element, name);
    if (now === null || !element.localName) return;
    const wanted = changed(element, name, now);
    if (wanted === null) element.removeAttribute(name);
    else if (wanted !== now) nativeSet.call(element, name, wanted);
  }

  function look(node) {
    if (node.nodeType !== 1) return;
    for (const element of [node, ...node.getElementsByTagName("*")])
      for (const name of names) if (element.hasAttribute(name)) correct(element, name);
  }

  const observer = new win.MutationObserver((changes) => {
    for (const change of changes)
      if (change.type === "attributes") correct(change.target, change.attributeName);
      else change.addedNodes.forEach(look);
  });
  const options = { subtree: true, childList: true, attributes: true, attributeFilter: names };
  observer.observe(win.document, options);
  wrap(win.Element.prototype, "attachShadow", (attach) => function (given) {
    const root = attach.call(this, given);
    observer.observe(root, options);
    return root;
  });
}
