// What a document says of itself: URL, referrer, domain, cookies; and what it keeps in the browser, by archived origin.

function documentsOf(win, scene, addresses, place) {
  const { shown, archived } = addresses;
  const document = win.Document.prototype;
  const { origin } = place;

  for (const name of ["URL", "documentURI"])
    redefine(document, name, (get) => ({ get() { return shown(get.call(this)); } }));
  redefine(win.Node.prototype, "baseURI", (get) => ({ get() { return shown(get.call(this)); } }));
  redefine(document, "referrer", (get) => ({ get() { return archived(get.call(this)) ?? ""; } }));
  redefine(document, "domain", () => ({ get: () => (origin() === "null" ? "" : new win.URL(origin()).hostname), set() {} }));
  redefine(document, "cookie", (get, set) => ({
    get() {
      if (origin() === "null") throw boxedError(win, "Failed to read the 'cookie' property from 'Document'");
      const pairs = get.call(this).split("; ").filter((pair) => !/^hf_/i.test(pair));
      return pairs.map((pair) => pair.replace(/^kept\.(?=__)/, "")).join("; ");
    },
    set(text) {
      const cookie = cookieHere(String(text), scene, place);
      if (cookie) set.call(this, cookie);
    },
  }));
  redefine(win, "origin", () => ({ get: origin }));
  performanceOf(win, shown);
  keepApart(win, origin);
}

// As the server does it for Set-Cookie: bound to the archived site, and never by a name of ours.
function cookieHere(text, scene, place) {
  const [pair, ...attributes] = text.split(";").map((part) => part.trim());
  if (/^hf_/i.test(pair)) return "";
  let path = place.location.pathname.replace(/[^/]*$/, "");
  const kept = [];
  for (const attribute of attributes) {
    const [name, value = ""] = attribute.split("=").map((part) => part.trim());
    if (/^path$/i.test(name) && value.startsWith("/")) path = value;
    else if (/^max-age$/i.test(name)) kept.push(attribute);
    else if (/^expires$/i.test(name)) kept.push(`Expires=${expiry(value, scene.shift)}`);
  }
  const name = /^__(?:host|secure)-/i.test(pair) ? `kept.${pair}` : pair;  // browsers take them only as they were sent
  return [name, `Path=${scene.prefix}${scene.timestamp}mp_/${place.location.origin}${path}`, ...kept].join("; ");
}

// The browser's own clock decides when a cookie ends: by that, it ends as much later as the page's clock says.
function expiry(value, shift = 0) {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? value : new Date(date.getTime() - shift).toUTCString();
}

function boxedError(win, text) {
  return new win.DOMException(`${text}: The document is sandboxed and lacks the 'allow-same-origin' flag.`, "SecurityError");
}

// The browser's record of what was loaded.
function performanceOf(win, shown) {
  redefine(win.PerformanceEntry && win.PerformanceEntry.prototype, "name", (get) => ({
    get() { return shown(get.call(this)); },
  }));
  for (const kind of ["PerformanceEntry", "PerformanceResourceTiming", "PerformanceNavigationTiming"])
    wrap(win[kind] && win[kind].prototype, "toJSON", (json) => function () { return { ...json.call(this), name: this.name }; });
  for (const kind of [win.Performance, win.PerformanceObserverEntryList])
    wrap(kind && kind.prototype, "getEntriesByName", () => function (name, type) {
      const isOf = (entry) => entry.name === String(name) && (type === undefined || entry.entryType === type);
      return this.getEntries().filter(isOf);
    });
}

function keepApart(win, origin) {
  for (const name of ["localStorage", "sessionStorage"])
    redefine(win, name, (get) => {
      let storage;
      const read = () => (storage ||= storageOf(win, get.call(win), `${origin()}|`));
      return {
        get() {
          if (origin() === "null") throw boxedError(win, `Failed to read the '${name}' property from 'Window'`);
          return read();
        },
      };
    });
  const named = (name) => `${origin()}|${name}`;
  const databases = win.IDBFactory && win.IDBFactory.prototype;
  for (const method of ["open", "deleteDatabase"])
    wrap(databases, method, (native) => function (name, ...rest) { return native.call(this, named(name), ...rest); });
  redefine(win.IDBDatabase && win.IDBDatabase.prototype, "name", (get) => ({
    get() { return get.call(this).replace(named(""), ""); },
  }));
  const caches = win.CacheStorage && win.CacheStorage.prototype;
  for (const method of ["open", "delete", "has"])
    wrap(caches, method, (native) => function (name) { return native.call(this, named(name)); });
  construct(win, "BroadcastChannel", ([name]) => [named(name)]);
}

// A storage in which only the entries of one archived origin are seen.
function storageOf(win, native, prefix) {
  const keys = () => Object.keys(native).filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length));
  const methods = {
    getItem: (key) => native.getItem(prefix + key),
    setItem: (key, value) => native.setItem(prefix + key, value),
    removeItem: (key) => native.removeItem(prefix + key),
    key: (index) => keys()[index] ?? null,
    clear: () => keys().forEach((key) => native.removeItem(prefix + key)),
  };
  const has = (name) => typeof name === "string" && native.getItem(prefix + name) !== null;
  return new Proxy(Object.create(win.Storage.prototype), {
    get(target, name) {
      if (name === "length") return keys().length;
      if (Object.hasOwn(methods, name)) return methods[name];
      return has(name) ? native.getItem(prefix + name) : Reflect.get(Object.prototype, name);
    },
    set(target, name, value) {
      native.setItem(prefix + String(name), value);
      return true;
    },
    has: (target, name) => has(name) || name in win.Storage.prototype,
    deleteProperty(target, name) {
      native.removeItem(prefix + String(name));
      return true;
    },
    ownKeys: keys,
    getOwnPropertyDescriptor(target, name) {
      if (!has(name)) return undefined;
      return { value: native.getItem(prefix + name), writable: true, enumerable: true, configurable: true };
    },
  });
}
