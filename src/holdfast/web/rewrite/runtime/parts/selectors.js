// Selectors that name addresses, a[href="/about"]: elements of the page have them as rewritten.

function selectorsOf(win, scene, { base }) {
  const named = /\[\s*(href|src|action|poster|data)\s*(\^?=)\s*(?:"([^"\\]*)"|'([^'\\]*)'|([^\s\]"'\\]+))\s*\]/gi;
  const quoted = (text) => `"${text.replace(/["\\]/g, "\\$&")}"`;

  // The same for a rewritten address, which ends in the archived URL; '' if the selector means none.
  function rewritten(name, sign, value) {
    if (sign === "^=") {
      const { origin } = new win.URL(base());
      const own = `[${name}*=${quoted(`_/${origin}/`)}]`;
      if (/^\/(?!\/)/.test(value)) return scene.rooted ? `[${name}*=${quoted(`_/${origin}${value}`)}]` : "";
      return /^https?/i.test(value) ? `[${name}*=${quoted(`_/${value}`)}]${scene.rooted ? `:not(${own})` : ""}` : "";
    }
    if (!/^(?:https?:|\/)/i.test(value)) return "";
    try {
      return `[${name}$=${quoted(`_/${new win.URL(value, base()).href}`)}]`;
    } catch {
      return "";
    }
  }

  function both(selector) {
    if (typeof selector !== "string" || !selector.includes("[")) return selector;
    return selector.replace(named, (all, name, sign, double, single, bare) => {
      const other = rewritten(name, sign, double ?? single ?? bare);
      return other ? `:is(${all},${other})` : all;
    });
  }

  for (const kind of [win.Document, win.Element, win.DocumentFragment])
    for (const name of ["querySelector", "querySelectorAll", "matches", "closest"])
      wrap(kind.prototype, name, (find) => function (selector) { return find.call(this, both(selector)); });
}
