// Addresses: from what an archived script names to where the archive has it, and back.
//
//   https://cdn.example/a.png  <->  /main/20240102030405im_/https://cdn.example/a.png
//
// Relative references stay as they are: the document's own address ends in its archived URL.

const WRITTEN_MAX = 10000;

function addressesOf(win, scene) {
  const URL = win.URL;
  const replayed = /^\/[a-z0-9][a-z0-9._-]*\/(?:(?:nearest|not-newer|record\/[a-z0-9._-]+)\/)?\d{0,14}(?:[a-z]{2}_)?\/(https?:\/\/?.*)$/is;
  const schemed = /^[a-z][a-z0-9+.-]*:/i;
  const baseURI = win.Node && Object.getOwnPropertyDescriptor(win.Node.prototype, "baseURI").get;

  // The archived URL of an address; null if it is none of the archive.
  function archived(address) {
    const text = String(address);
    const path = text.startsWith(scene.home + "/") ? text.slice(scene.home.length) : misjoined(text);
    const found = replayed.exec(path);
    return found && found[1].replace(/^(https?:\/)(?!\/)/i, "$1/");
  }

  // A rewritten address that a script has joined to an archived one: https://a.example/main/20240102030405im_/https://...
  function misjoined(text) {
    const at = text.startsWith("http") ? text.indexOf("/", text.indexOf("//") + 2) : -1;
    return at > 0 && text.startsWith(scene.prefix + scene.timestamp, at) ? text.slice(at) : text;
  }

  // What references of this window are relative to, as it was on the web.
  function base() {
    const own = baseURI ? baseURI.call(win.document) : win.location.href;
    return archived(own) || scene.url;
  }

  // A script that is a blob has no address that others could be relative to.
  const start = win.location.protocol === "blob:" ? scene.home : "";

  function timed(modifier, url) {
    return start + scene.prefix + scene.timestamp + modifier + "/" + url;
  }

  // What to ask for instead of a reference; the reference itself if it may stay.
  function to(reference, modifier = "mp_") {
    const text = String(reference).trim();
    const first = text[0];
    if (first === undefined || first === "#" || first === "?" || archived(text) !== null) return String(reference);
    const rooted = first === "/" || first === "\\";
    if (schemed.test(text) ? !/^https?:/i.test(text) : !rooted && !/\.\.|%2e/i.test(text)) return String(reference);
    if (text.startsWith(scene.home + "/_hf/")) return text;
    let url;
    try {
      url = new URL(text, base());
    } catch {
      return String(reference);
    }
    if (url.origin === scene.home) url = new URL(url.pathname + url.search + url.hash, scene.url);
    return noted(timed(modifier, url.href), String(reference));
  }

  const written = new Map();  // what scripts have put into the page: addresses -> how they wrote them

  function noted(address, reference) {
    if (written.size >= WRITTEN_MAX && !written.has(address)) written.delete(written.keys().next().value);
    written.set(address, reference);
    return address;
  }

  // An address as it stands in an attribute: as the script wrote it; of the page itself, as most of its links are.
  function spelled(address) {
    const text = String(address);
    const path = text.startsWith(`${scene.home}/`) ? text.slice(scene.home.length) : text;
    const url = written.has(path) ? null : archived(path);
    if (url === null) return written.get(path) ?? text;
    const origin = scene.rooted ? new URL(base()).origin : "";
    return origin && url.startsWith(`${origin}/`) ? url.slice(origin.length) : url;
  }

  // The same, but whole also for relative references.
  function whole(reference, modifier = "mp_") {
    const text = String(reference);
    if (schemed.test(text.trim()) || archived(text) !== null) return to(text, modifier);
    try {
      return timed(modifier, new URL(text, base()).href);
    } catch {
      return to(text, modifier);
    }
  }

  // The address of what a script of a page imports; bare names are the import map's.
  function module(name) {
    const text = String(name);
    if (/^\.\.?\//.test(text)) return whole(text, "js_");
    return /^(?:https?:|\/)/i.test(text) ? to(text, "js_") : text;
  }

  // What the page is shown instead of an address.
  function shown(address) {
    return archived(address) ?? String(address);
  }

  return { archived, base, to, whole, module, shown, spelled, home: scene.home };
}

// A getter or a setter of an object's property is replaced; the other one stays.
function redefine(object, name, change) {
  const old = object && Object.getOwnPropertyDescriptor(object, name);
  if (!old || !old.configurable) return;
  const given = change(old.get, old.set);
  Object.defineProperty(object, name, {
    get: given.get || old.get,
    set: given.set || old.set,
    enumerable: old.enumerable,
    configurable: true,
  });
}

const natives = new WeakMap();  // a function of ours -> the one that it stands for

// A page that looks whether a function is the browser's own finds it so.
function nativeTexts(win) {
  wrap(win.Function.prototype, "toString", (text) => function () { return text.call(natives.get(this) ?? this); });
}

// A method is replaced by what `change` makes of it.
function wrap(object, name, change) {
  const old = object && object[name];
  if (typeof old !== "function") return;
  const made = change(old);
  const named = { [name](...given) { return made.apply(this, given); } }[name];
  Object.defineProperty(named, "length", { value: old.length, configurable: true });
  natives.set(named, natives.get(old) ?? old);
  Object.defineProperty(object, name, { value: named, writable: true, enumerable: true, configurable: true });
}

// Constructors keep their prototypes and their names: only what they are given changes.
function construct(win, name, change) {
  if (typeof win[name] !== "function") return;
  win[name] = new Proxy(win[name], {
    construct(target, given, as) {
      return Reflect.construct(target, change(given), as);
    },
  });
}
