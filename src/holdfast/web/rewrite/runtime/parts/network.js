// What scripts ask for: from the archive; what cannot be archived fails as it does where there is no network.

const OF_ARCHIVE = "memento-datetime";  // a field of every archived response
const ORIGINAL = "x-archive-orig-";
const SENT_AS_CAPTURED = new Set(
  ["content-type", "content-length", "content-language", "content-disposition", "content-range", "content-encoding"]);
const UNSEEN = new Set(["set-cookie", "set-cookie2"]);  // by scripts

// The fields of a response as they were captured, of those that the archive sent: most have another name there.
function capturedFields(sent) {
  const found = new Map(sent.filter(([name]) => SENT_AS_CAPTURED.has(name)));
  for (const [name, value] of sent) {
    const own = name.startsWith(ORIGINAL) ? name.slice(ORIGINAL.length) : "";
    if (own && !UNSEEN.has(own)) found.set(own, value);
  }
  return [...found];
}

function networkOf(win, scene, addresses) {
  const { to, whole, shown } = addresses;
  const NativeRequest = win.Request;

  // Contents have been rewritten: the page's checksums of them do not hold.
  const loose = (init) => (init && init.integrity ? { ...init, integrity: "" } : init);
  const target = (input) => (input instanceof NativeRequest ? input : to(input));

  construct(win, "Request", ([input, init, ...rest]) => [target(input), loose(init), ...rest]);
  const asked = new WeakMap();  // response -> the archived URL that was asked for
  const plain = (address) => shown(new win.URL(address, win.document ? win.document.baseURI : win.location.href).href);
  const note = (response, address) => {
    asked.set(response, plain(address).replace(/#.*$/s, ""));
    return response;
  };
  wrap(win, "fetch", (fetch) => (input, init) => {
    try {
      const wanted = target(input);
      const address = wanted instanceof NativeRequest ? wanted.url : wanted;
      return fetch.call(win, wanted, loose(init)).then((response) => note(response, address));
    } catch (error) {
      return Promise.reject(error);
    }
  });
  redefine(win.Response && win.Response.prototype, "redirected", (get) => ({
    get() { return get.call(this) && asked.get(this) !== this.url; },  // to another time is to nowhere else
  }));
  for (const kind of [win.Request, win.Response])
    redefine(kind && kind.prototype, "url", (get) => ({ get() { return shown(get.call(this)); } }));

  const store = win.Cache && win.Cache.prototype;
  for (const name of ["add", "match", "matchAll", "put", "delete", "keys"])
    wrap(store, name, (old) => function (...given) {
      return old.apply(this, given.length && given[0] !== undefined ? [target(given[0]), ...given.slice(1)] : given);
    });
  wrap(store, "addAll", (old) => function (all) { return old.call(this, [...all].map(target)); });
  wrap(win.CacheStorage && win.CacheStorage.prototype, "match", (match) => function (wanted, ...rest) {
    return match.call(this, target(wanted), ...rest);
  });

  const fields = new WeakMap();  // as the browser has them -> as they were captured
  redefine(win.Response && win.Response.prototype, "headers", (get) => ({
    get() {
      const sent = get.call(this);
      if (!sent.has(OF_ARCHIVE)) return sent;
      if (!fields.has(sent)) fields.set(sent, new win.Headers(capturedFields([...sent])));
      return fields.get(sent);
    },
  }));

  const Xhr = win.XMLHttpRequest && win.XMLHttpRequest.prototype;
  wrap(Xhr, "getResponseHeader", (get) => function (name) {
    const key = String(name).toLowerCase();
    if (get.call(this, OF_ARCHIVE) === null) return get.call(this, name);
    return get.call(this, ORIGINAL + key) ?? (SENT_AS_CAPTURED.has(key) ? get.call(this, key) : null);
  });
  wrap(Xhr, "getAllResponseHeaders", (all) => function () {
    const text = all.call(this);
    const pairs = text.split("\r\n").filter(Boolean).map((line) => /^([^:]*):\s*(.*)$/s.exec(line).slice(1));
    if (!pairs.some(([name]) => name === OF_ARCHIVE)) return text;
    return capturedFields(pairs).sort().map(([name, value]) => `${name}: ${value}\r\n`).join("");
  });
  wrap(Xhr, "open", (open) => function (method, url, ...rest) {
    return open.call(this, method, to(url), ...(rest.length ? rest : [true]));
  });
  redefine(Xhr, "responseURL", (get) => ({ get() { return shown(get.call(this)); } }));

  construct(win, "EventSource", ([url, ...rest]) => [to(url), ...rest]);
  redefine(win.EventSource && win.EventSource.prototype, "url", (get) => ({ get() { return shown(get.call(this)); } }));
  wrap(win.Navigator && win.Navigator.prototype, "sendBeacon", () => () => true);  // nobody is there to take it
  // A worklet has no place to tell, only the names that changed scripts call.
  const names = "Object.assign(globalThis,{__hf_of:(v)=>v,__hf_all:(v)=>v,__hf_key:(o,k)=>k,__hf_js:(t)=>t,__hf_in:(o)=>o,__hf_names:()=>({}),__hf_meta:(m)=>m})";
  wrap(win.Worklet && win.Worklet.prototype, "addModule", (add) => function (url, ...rest) {
    const known = add.call(this, `data:text/javascript,${names}`, ...rest);
    return known.then(() => add.call(this, whole(url, "js_"), ...rest));
  });

  if (win.WebSocket) win.WebSocket = deadSocket(win, "WebSocket");
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "WebSocketStream", "cookieStore"])
    Object.defineProperty(win, name, { value: undefined, writable: true, configurable: true });
}

// A socket that never gets through: error, then close, as if the cable were out.
function deadSocket(win, name) {
  const states = { CONNECTING: 0, OPEN: 1, CLOSING: 2, CLOSED: 3 };

  class DeadSocket extends win.EventTarget {
    #url;
    #state = states.CONNECTING;

    constructor(url) {
      super();
      try {
        this.#url = new win.URL(url, win.__hf_location.href).href.replace(/^http/, "ws");
      } catch {
        throw new win.DOMException(`The URL '${url}' is invalid.`, "SyntaxError");
      }
      this.binaryType = "blob";
      win.setTimeout(() => this.#fail(), 0);
    }

    #fail() {
      this.#state = states.CLOSED;
      this.#tell(new win.Event("error"));
      this.#tell(new win.CloseEvent("close", { code: 1006, wasClean: false }));
    }

    #tell(event) {
      this.dispatchEvent(event);
      const handler = this["on" + event.type];
      if (typeof handler === "function") handler.call(this, event);
    }

    get url() { return this.#url; }
    get readyState() { return this.#state; }
    get bufferedAmount() { return 0; }
    get protocol() { return ""; }
    get extensions() { return ""; }
    close() {}
    send() {
      if (this.#state === states.CONNECTING)
        throw new win.DOMException("Still in CONNECTING state.", "InvalidStateError");
    }
  }

  Object.defineProperty(DeadSocket, "name", { value: name });
  for (const kind of [DeadSocket, DeadSocket.prototype]) Object.assign(kind, states);
  for (const event of ["open", "message", "error", "close"]) DeadSocket.prototype["on" + event] = null;
  return DeadSocket;
}
