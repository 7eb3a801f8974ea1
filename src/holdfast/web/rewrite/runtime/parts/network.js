// What scripts ask for: from the archive; what cannot be archived fails as it does where there is no network.

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

  const Xhr = win.XMLHttpRequest && win.XMLHttpRequest.prototype;
  wrap(Xhr, "open", (open) => function (method, url, ...rest) {
    return open.call(this, method, to(url), ...(rest.length ? rest : [true]));
  });
  redefine(Xhr, "responseURL", (get) => ({ get() { return shown(get.call(this)); } }));

  construct(win, "EventSource", ([url, ...rest]) => [to(url), ...rest]);
  redefine(win.EventSource && win.EventSource.prototype, "url", (get) => ({ get() { return shown(get.call(this)); } }));
  wrap(win.Navigator && win.Navigator.prototype, "sendBeacon", () => () => true);  // nobody is there to take it
  // A worklet has no place to tell, only the names that changed scripts call.
  const names = "Object.assign(globalThis,{__hf_of:(v)=>v,__hf_all:(v)=>v,__hf_key:(o,k)=>k,__hf_js:(t)=>t,__hf_in:(o)=>o,__hf_names:()=>({})})";
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
