// `location` and `top` as archived scripts see them; their texts name these by `__hf_location` and `__hf_top`, and ask
// `__hf_of` before they read them from an owner, whatever that is (`javascript.py`).

function placeIn(win, scene, addresses, scripts) {
  const native = win.location;
  const { archived, to, shown } = addresses;
  const isPage = typeof win.document === "object";
  const location = Object.create(isPage ? win.Location.prototype : win.WorkerLocation.prototype);

  function now() {
    if (native.protocol === "blob:") return native.href.replace(scene.home, () => new win.URL(scene.url).origin);
    return archived(native.href) ?? (isPage ? native.href : scene.url);
  }

  function address(url) {
    return String(url).startsWith("#") ? url : scene.home + addresses.whole(url).replace(scene.home, "");
  }

  function go(url, how) {
    const text = String(url);
    if (/^\s*javascript:/i.test(text)) return void (native.href = scripts.inUrl(text));
    native[how](schemeOf(text) ? text : address(text));
  }

  function schemeOf(text) {
    return /^\s*(?!https?:)[a-z][a-z0-9+.-]*:/i.test(text);
  }

  function part(name) {
    return {
      enumerable: true,
      get: () => new win.URL(now())[name],
      set(value) {
        if (name === "origin") return;
        if (name === "hash") return void (native.hash = value);
        const url = new win.URL(now());
        url[name] = value;
        go(url.href, "assign");
      },
    };
  }

  const nobody = Object.defineProperties({}, {
    length: { value: 0 }, contains: { value: () => false }, item: { value: () => null },
  });
  if (isPage) Object.defineProperty(location, "ancestorOrigins", { enumerable: true, get: () => nobody });
  Object.defineProperty(location, "href", { enumerable: true, get: now, set: (url) => go(url, "assign") });
  const parts = ["origin", "protocol", "host", "hostname", "port", "pathname", "search", "hash"];
  for (const name of parts) Object.defineProperty(location, name, part(name));
  Object.defineProperties(location, {
    assign: { enumerable: true, value: (url) => go(url, "assign") },
    replace: { enumerable: true, value: (url) => go(url, "replace") },
    reload: { enumerable: true, value: () => native.reload() },
    toString: { enumerable: true, value: now },
    valueOf: { value: () => location },
  });

  const highest = isPage ? highestOf(win, scene) : win;
  // That of what has no address of its own is its creator's.
  const isBoxed = isPage ? isInSandbox(win) : win.origin === "null";
  const origin = () => (isBoxed ? "null" : new win.URL(archived(native.href) ?? scene.url).origin);
  const nativePost = win.postMessage;
  const boundPost = nativePost && nativePost.bind(win);
  const post = isPage ? postingFrom(win, scene, origin) : null;
  const view = {  // of a window: what may differ from it
    get location() { return location; },
    set location(url) { location.href = url; },
    get top() { return highest; },
    set top(_) {},
    get eval() { return win.__hf_eval; },
    set eval(other) { win.eval = other; },
    get postMessage() { return isPage || win.postMessage !== nativePost ? win.postMessage : boundPost; },
    set postMessage(other) { win.postMessage = other; },
    origin,
    get shift() { return scene.shift; },
    enter: (next) => Object.assign(scene, next),
    native: { postMessage: nativePost },
  };
  Object.seal(view);  // `delete window.location` deletes nothing
  const define = (object, name, given) => Object.defineProperty(object, name, { configurable: false, ...given });
  define(win, "__hf_view", { value: view });
  define(win, "__hf_location", { get: () => location, set: (url) => (location.href = url) });
  define(win, "__hf_top", { get: () => highest, set() {} });
  define(win, "__hf_to", { value: (reference) => to(reference, "js_") });
  define(win, "__hf_from", { value: addresses.module });
  const metas = new WeakMap();  // of modules -> as they were captured
  define(win, "__hf_meta", { value: (meta) => {
    if (!metas.has(meta)) metas.set(meta, capturedMeta(meta));
    return metas.get(meta);
  } });
  function capturedMeta(meta) {
    const made = Object.assign(Object.create(null), meta);
    made.url = meta.url.startsWith("blob:") ? meta.url.replace(scene.home, origin) : shown(meta.url);
    if (meta.resolve) made.resolve = (name) => shown(meta.resolve(to(name, "js_")));
    return made;
  }
  if (isPage) {
    define(win.Document.prototype, "__hf_view", { get() { return documentView(this); } });
    define(win.Document.prototype, "__hf_location", {
      get() { return documentView(this)?.location ?? null; },
      set(url) {
        const view = documentView(this);
        if (view) view.location = url;
      },
    });
  }
  viewsOf(win, to, post);
  return { location, highest, now, shown, origin, post };
}

// Of a document only `location` differs; one without a window has none.
function documentView(document) {
  const window = document.defaultView;
  if (!window || !window.__hf_view) return undefined;
  return Object.seal({
    get location() { return window.__hf_location; },
    set location(url) { window.__hf_location = url; },
    get top() { return document.top; },
    set top(value) { document.top = value; },
    get eval() { return document.eval; },
    set eval(value) { document.eval = value; },
    get postMessage() { return document.postMessage; },
    set postMessage(value) { document.postMessage = value; },
  });
}

// The functions that the changed texts of scripts call, and natives that read members by name.
function viewsOf(win, to, post) {
  const own = win.__hf_view;
  const names = new Set(["location", "top", "eval"]);
  const others = new WeakMap();  // window -> its view, with what depends on who asks

  // Of a window or a document, a view that tells the archived place; of anything else nothing.
  function viewOf(value) {
    if (value === win) return own;
    if (value === null || typeof value !== "object") return undefined;
    try {
      const view = value.__hf_view;
      return view === undefined || !post || !view.native ? view : sentFrom(value, view);
    } catch {
      return foreignView(value, to, post);
    }
  }

  // Who sends a message is known only where it is sent.
  function sentFrom(window, view) {
    let made = others.get(window);
    if (!made || Object.getPrototypeOf(made) !== view) {
      made = Object.create(view, { postMessage: { value: post(window), writable: true } });
      others.set(window, made);
    }
    return made;
  }

  const define = (name, value) => Object.defineProperty(win, name, { value, configurable: false });
  define("__hf_of", (value) => viewOf(value) ?? value);
  define("__hf_key", (owner, key) => {
    if (key !== "location" && key !== "top" && key !== "eval") return key;
    const view = viewOf(owner);
    return view && `__hf_${key}` in owner ? `__hf_${key}` : key;
  });
  // What is taken apart as a whole; no method is called on it.
  define("__hf_all", (value) => {
    const view = viewOf(value);
    return view ? new Proxy(value, { get: (_, name) => (names.has(name) ? view[name] : value[name]) }) : value;
  });

  // Of the object of a `with` statement, the members that changed scripts know by other names.
  let within = null;
  define("__hf_in", (object) => (within = object));
  define("__hf_names", () => {
    const object = within;
    const plain = (name) => (typeof name === "string" && /^__hf_(?:location|top|eval)$/.test(name) ? name.slice(5) : "");
    return new Proxy({}, {
      has: (_, name) => plain(name) !== "" && plain(name) in Object(object),
      get: (_, name) => (plain(name) ? (viewOf(object) ?? object)[plain(name)] : undefined),
      set(_, name, value) {
        (viewOf(object) ?? object)[plain(name)] = value;
        return true;
      },
    });
  });

  const { get, set } = win.Reflect;
  Object.assign(win.Reflect, {
    get(target, name, ...rest) {
      const view = names.has(name) && viewOf(target);
      return view ? view[name] : get(target, name, ...rest);
    },
    set(target, name, value, ...rest) {
      const view = names.has(name) && viewOf(target);
      if (!view) return set(target, name, value, ...rest);
      view[name] = value;
      return true;
    },
  });
  for (const object of [win.Object, win.Reflect])
    wrap(object, "getOwnPropertyDescriptor", (describe) => (target, name) => {
      const found = describe.call(object, target, name);
      const view = found && found.get && names.has(name) && viewOf(target);
      return view ? { ...found, get: () => view[name], set: found.set && ((value) => { view[name] = value; }) } : found;
    });
}

// A window of another origin can only be led elsewhere, and that within the archive.
function foreignView(window, to, post) {
  return {
    get location() {
      return new Proxy(window.location, {
        get: (target, name) => (name === "replace" ? (url) => target.replace(to(url)) : target[name]),
        set(target, name, value) {
          target[name] = name === "href" ? to(value) : value;
          return true;
        },
      });
    },
    set location(url) { window.location = to(url); },
    get top() { return window.top; },
    get eval() { return window.eval; },
    postMessage: post ? post(window) : window.postMessage,
  };
}

// Whether the frame had no origin of its own. It has one here, to load its parts (`elements.py`).
function isInSandbox(win) {
  if (win.origin === "null") return true;
  const { frameElement, parent } = win;
  if (!frameElement) return false;
  return frameElement.hasAttribute("data-hf-boxed") || (parent.__hf_view?.origin() === "null");
}

// The window that archived pages take for the topmost: the banner above it is of another origin. So are, for a frame in
// a sandbox, the archived pages around it.
function highestOf(win, scene) {
  const origins = win.location.ancestorOrigins;
  const hasBanner = Boolean(origins && origins.length) && origins[origins.length - 1] === scene.controls;
  const isBoxed = win.origin === "null";
  let at = win;
  for (;;) {
    const above = at.parent;
    if (above === at || (hasBanner && above === win.top)) return at;
    try {
      if (!above.__hf_location) return at;
    } catch {
      if (!isBoxed) return at;
    }
    at = above;
  }
}
