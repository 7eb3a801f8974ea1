// Ways by which scripts insert markup and styles, and a watch over what comes in by any other.

function insertionOf(win, scene, addresses, markup, elements, scripts) {
  const { html, css } = markup;
  const texts = textsOf(win, css, scripts.inline, (script) => {
    const source = elements.nativeGet.call(script, "src");
    if (source && script.type === "module") elements.nativeSet.call(script, "src", addresses.whole(source, "js_"));
  });

  for (const kind of [win.Element, win.ShadowRoot])
    for (const name of ["innerHTML", "outerHTML"])
      redefine(kind && kind.prototype, name, (get, set) => ({
        set(text) {
          if (name === "innerHTML" && texts.isText(this)) texts.give(this, set, text);
          else set.call(this, html(text));
        },
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
  stylesOf(win, markup, addresses);
  const ofText = (source) => (typeof source === "string" ? css(source) : source);
  construct(win, "FontFace", ([family, source, ...rest]) => [family, ofText(source), ...rest]);
  watch(win, markup, elements);
}

// Styles that are read tell the addresses that they were given.
function stylesOf(win, { css, uncss }, { shown, spelled }) {
  const style = win.CSSStyleDeclaration.prototype;
  redefine(style, "cssText", (get, set) => ({
    get() { return uncss(get.call(this)); },
    set(text) { set.call(this, css(text)); },
  }));
  redefine(win.CSSRule.prototype, "cssText", (get) => ({ get() { return uncss(get.call(this)); } }));
  redefine(win.StyleSheet.prototype, "href", (get) => ({ get() { return get.call(this) && shown(get.call(this)); } }));
  redefine(win.CSSImportRule.prototype, "href", (get) => ({
    get() {
      const address = get.call(this);
      return address.startsWith("/") ? spelled(address) : shown(address);
    },
  }));
  wrap(style, "getPropertyValue", (get) => function (name) { return uncss(get.call(this, name)); });
  const names = ["background", "backgroundImage", "borderImage", "borderImageSource", "listStyle", "listStyleImage"];
  const more = ["cursor", "content", "mask", "maskImage", "webkitMaskImage", "filter", "clipPath", "shapeOutside"];
  for (const name of [...names, ...more]) {
    const property = name.replace(/[A-Z]/g, (sign) => `-${sign.toLowerCase()}`).replace(/^webkit/, "-webkit");
    for (const key of new Set([name, property]))
      for (const kind of [style, win.CSS2Properties?.prototype, win.CSSStyleProperties?.prototype])  // as browsers name it
        if (kind) Object.defineProperty(kind, key, {
          get() { return this.getPropertyValue(property); },
          set(text) { this.setProperty(property, text ?? ""); },
          enumerable: true,
          configurable: true,
        });
  }
}

// The text of a style or a script is changed before it counts: that of a script when it comes into the page. Read back,
// it is what was given.
function textsOf(win, css, js, addressed) {
  const known = new WeakMap();  // element -> its text as it is now, and as it was given
  const content = Object.getOwnPropertyDescriptor(win.Node.prototype, "textContent");
  const isScript = /^(?:|module|(?:text|application)\/[a-z.-]*(?:java|ecma|j|live)script[\d.]*)$/i;
  const isText = (node) => node.localName === "style" || node.localName === "script";

  function changed(element, text) {
    if (element.localName === "style") return css(text);
    return isScript.test(element.type ?? "") ? js(text) : text;
  }

  function give(element, set, given) {
    const text = String(given ?? "");
    const isDue = element.localName === "style" || element.isConnected;
    set.call(element, isDue ? changed(element, text) : text);
    known.set(element, { now: content.get.call(element), given: text });
  }

  function ready(element) {
    if (element.localName === "script" && !element.isConnected) addressed(element);
    const now = content.get.call(element);
    const made = now && changed(element, now);
    if (made === now) return;
    const before = known.get(element);
    content.set.call(element, made);
    known.set(element, { now: made, given: before && before.now === now ? before.given : now });
  }

  const properties = ["textContent", "innerText", "text"].map((name) => [win.HTMLScriptElement, name]);
  for (const [kind, name] of [...properties, [win.Node, "textContent"], [win.HTMLElement, "innerText"]])
    redefine(kind.prototype, name, (get, set) => ({
      get() {
        const text = get.call(this);
        const before = text && isText(this) && known.get(this);
        return before && before.now === text ? before.given : text;
      },
      set(text) {
        if (isText(this)) give(this, set, text);
        else set.call(this, text);
      },
    }));
  redefine(win.CharacterData.prototype, "data", (get, set) => ({
    set(text) {
      const parent = this.parentNode;
      set.call(this, parent && isText(parent) ? changed(parent, String(text)) : text);
    },
  }));

  function inserted(into, node) {
    if (typeof node === "string") return into && isText(into) ? changed(into, node) : node;
    if (!node || !node.nodeType) return node;
    if (node.nodeType === 3 && into && isText(into) && (into.localName === "style" || into.isConnected))
      node.data = changed(into, node.data);
    else if (node.nodeType === 1 && isText(node)) ready(node);
    else if (node.firstElementChild) node.querySelectorAll("style, script").forEach(ready);
    return node;
  }
  const puts = (object, names, isInto) => names.forEach((name) => wrap(object, name, (put) => function (...nodes) {
    return put.apply(this, nodes.map((node) => inserted(isInto ? this : this.parentNode, node)));
  }));
  puts(win.Node.prototype, ["appendChild", "insertBefore", "replaceChild"], true);
  for (const kind of [win.Element, win.Document, win.DocumentFragment])
    puts(kind.prototype, ["append", "prepend", "replaceChildren"], true);
  for (const kind of [win.Element, win.CharacterData, win.DocumentType])
    puts(kind.prototype, ["before", "after", "replaceWith"], false);
  wrap(win.Element.prototype, "insertAdjacentElement", (insert) => function (where, node) {
    return insert.call(this, where, inserted(null, node));
  });
  wrap(win.Range.prototype, "insertNode", (insert) => function (node) { return insert.call(this, inserted(null, node)); });
  return { isText, give };
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
