// What a document says of itself: URL, referrer, domain, cookies; and what it keeps in the browser, by archived origin.

function documentsOf(win, scene, addresses, place) {
  const { shown, archived } = addresses;
  const document = win.Document.prototype;
  const { origin } = place;

  const blob = `blob:${scene.home}/`;
  for (const name of ["URL", "documentURI"])
    redefine(document, name, (get) => ({
      get() { return shown(get.call(this)).replace(blob, () => `blob:${origin()}/`); },
    }));
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
  keepApart(win, origin, shown);
}

// As the server does it for Set-Cookie: bound to the archived site, and never by a name of ours.
function cookieHere(text, scene, place) {
  const [pair, ...attributes] = text.split(";").map((part) => part.trim());
  if (/^hf_/i.test(pair)) return "";
  const { hostname } = place.location;
  let path = place.location.pathname.replace(/[^/]*$/, "");
  const kept = [];
  for (const attribute of attributes) {
    const [name, value = ""] = attribute.split("=").map((part) => part.trim());
    if (/^domain$/i.test(name) && !isDomainOf(value, hostname)) return "";
    if (/^path$/i.test(name) && value.startsWith("/")) path = value;
    else if (/^max-age$/i.test(name)) kept.push(attribute);
    else if (/^expires$/i.test(name)) kept.push(`Expires=${expiry(value, scene.shift)}`);
  }
  const name = /^__(?:host|secure)-/i.test(pair) ? `kept.${pair}` : pair;  // browsers take them only as they were sent
  return [name, `Path=${scene.prefix}${scene.timestamp}mp_/${place.location.origin}${path}`, ...kept].join("; ");
}

// Whether browsers take a cookie of this domain from the host. Of public suffixes only those of one label are known.
function isDomainOf(value, host) {
  const domain = value.replace(/^\./, "").toLowerCase();
  return domain === "" || domain === host || (domain.includes(".") && host.endsWith(`.${domain}`));
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

function keepApart(win, origin, shown) {
  const prefix = () => `${origin()}|`;
  const within = (name) => prefix() + name;
  const plain = (name) => (name.startsWith(prefix()) ? name.slice(prefix().length) : name);
  const mine = (names) => names.filter((name) => name.startsWith(prefix())).map(plain);

  storagesOf(win, origin, prefix, shown);
  const databases = win.IDBFactory && win.IDBFactory.prototype;
  for (const method of ["open", "deleteDatabase"])
    wrap(databases, method, (native) => function (name, ...rest) { return native.call(this, within(name), ...rest); });
  wrap(databases, "databases", (all) => async function () {
    const found = await all.call(this);
    return found.filter(({ name }) => name.startsWith(prefix())).map((each) => ({ ...each, name: plain(each.name) }));
  });
  const caches = win.CacheStorage && win.CacheStorage.prototype;
  for (const method of ["open", "delete", "has"])
    wrap(caches, method, (native) => function (name) { return native.call(this, within(name)); });
  wrap(caches, "keys", (keys) => async function () { return mine(await keys.call(this)); });
  construct(win, "BroadcastChannel", ([name]) => [within(name)]);
  for (const kind of [win.IDBDatabase, win.BroadcastChannel])
    redefine(kind && kind.prototype, "name", (get) => ({ get() { return plain(get.call(this)); } }));
}

// A storage in which only the entries of one archived origin are seen.
function storagesOf(win, origin, prefix, shown) {
  if (!win.Storage) return;
  const { prototype } = win.Storage;
  const natives = Object.fromEntries(["getItem", "setItem", "removeItem"].map((name) => [name, prototype[name]]));
  const real = new WeakMap();  // a storage of ours -> the browser's
  const ours = new WeakMap();  // and back

  const keys = (native) => Object.keys(native).filter((key) => key.startsWith(prefix()))
    .map((key) => key.slice(prefix().length));
  const read = (native, key) => natives.getItem.call(native, prefix() + key);
  const methods = {
    getItem: read,
    setItem: (native, key, value) => natives.setItem.call(native, prefix() + key, value),
    removeItem: (native, key) => natives.removeItem.call(native, prefix() + key),
    key: (native, index) => keys(native)[index] ?? null,
    clear: (native) => keys(native).forEach((key) => natives.removeItem.call(native, prefix() + key)),
  };
  for (const [name, method] of Object.entries(methods))
    wrap(prototype, name, (old) => function (...given) {
      const native = real.get(this);
      if (!native || given.length < old.length) return old.apply(native ?? this, given);  // the latter for its error
      return method(native, ...given);
    });
  redefine(prototype, "length", (get) => ({
    get() { return real.has(this) ? keys(real.get(this)).length : get.call(this); },
  }));

  function made(native) {
    const has = (name) => typeof name === "string" && read(native, name) !== null;
    const storage = new Proxy(Object.create(prototype), {
      get: (target, name, self) => (name in target || !has(name) ? Reflect.get(target, name, self) : read(native, name)),
      set(target, name, value) {
        methods.setItem(native, String(name), value);
        return true;
      },
      has: (target, name) => has(name) || name in target,
      deleteProperty(target, name) {
        methods.removeItem(native, String(name));
        return true;
      },
      ownKeys: () => keys(native),
      getOwnPropertyDescriptor(target, name) {
        if (name in target || !has(name)) return undefined;
        return { value: read(native, name), writable: true, enumerable: true, configurable: true };
      },
    });
    real.set(storage, native);
    ours.set(native, storage);
    return storage;
  }

  for (const name of ["localStorage", "sessionStorage"])
    redefine(win, name, (get) => ({
      get() {
        if (origin() === "null") throw boxedError(win, `Failed to read the '${name}' property from 'Window'`);
        const native = get.call(win);
        return ours.get(native) ?? made(native);
      },
    }));

  // What other windows change is heard only of the same archived origin.
  const event = win.StorageEvent.prototype;
  const keyOf = Object.getOwnPropertyDescriptor(event, "key").get;
  win.addEventListener("storage", (heard) => {
    if (heard.isTrusted && !String(keyOf.call(heard)).startsWith(prefix())) heard.stopImmediatePropagation();
  }, true);
  redefine(event, "key", (get) => ({
    get() {
      const key = get.call(this);
      return this.isTrusted && key !== null && key.startsWith(prefix()) ? key.slice(prefix().length) : key;
    },
  }));
  redefine(event, "url", (get) => ({ get() { return shown(get.call(this)); } }));
  redefine(event, "storageArea", (get) => ({
    get() {
      const area = get.call(this);
      return area && (ours.get(area) ?? made(area));
    },
  }));
  construct(win, "StorageEvent", ([type, init, ...rest]) =>
    [type, real.has(init?.storageArea) ? { ...init, storageArea: real.get(init.storageArea) } : init, ...rest]);
}
