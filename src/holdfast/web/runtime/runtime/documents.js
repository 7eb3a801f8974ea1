// What a document says of itself: URL, referrer, domain, cookies; and what it keeps in the browser, by archived origin.

function documentsOf(win, scene, addresses, place) {
  const { shown, archived } = addresses;
  const document = win.Document.prototype;
  const origin = () => place.location.origin;

  for (const name of ["URL", "documentURI"])
    redefine(document, name, (get) => ({ get() { return shown(get.call(this)); } }));
  redefine(win.Node.prototype, "baseURI", (get) => ({ get() { return shown(get.call(this)); } }));
  redefine(document, "referrer", (get) => ({ get() { return archived(get.call(this)) ?? ""; } }));
  redefine(document, "domain", () => ({ get: () => place.location.hostname, set() {} }));
  redefine(document, "cookie", (get, set) => ({
    get() { return get.call(this).split("; ").filter((pair) => !/^hf_/i.test(pair)).join("; "); },
    set(text) {
      const cookie = cookieHere(String(text), scene, place);
      if (cookie) set.call(this, cookie);
    },
  }));
  redefine(win, "origin", () => ({ get: origin }));
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
    else if (/^(expires|max-age)$/i.test(name)) kept.push(attribute);
  }
  return [pair, `Path=${scene.prefix}${scene.timestamp}mp_/${place.location.origin}${path}`, ...kept].join("; ");
}

function keepApart(win, origin) {
  for (const name of ["localStorage", "sessionStorage"])
    redefine(win, name, (get) => {
      let storage;
      return { get: () => (storage ||= storageOf(win, get.call(win), `${origin()}|`)) };
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
