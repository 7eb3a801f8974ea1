// Workers: the server puts this runtime before those that have an archived URL; those that the page makes of its own
// text get it here. A page cannot put a service worker of its own into the place of ours.

const BLOB_SIZE_MAX = 16 << 20;

function workersOf(win, scene, addresses, scripts, markup) {
  const { whole } = addresses;
  const URL = win.URL;
  const create = URL.createObjectURL.bind(URL);
  const made = new Map();  // addresses of blobs -> the blobs
  let sceneScript = "";

  // A blob's text, as far as it was given as text: what is made of it at once cannot wait until it is read.
  const NativeBlob = win.Blob;
  const texts = new WeakMap();
  const textOf = (part) => (typeof part === "string" ? part : texts.get(part));
  win.Blob = new Proxy(NativeBlob, {
    construct(target, given, as) {
      const blob = Reflect.construct(target, given, as);
      const parts = Array.isArray(given[0]) && blob.size <= BLOB_SIZE_MAX ? given[0].map(textOf) : [undefined];
      if (parts.every((part) => part !== undefined)) texts.set(blob, parts.join(""));
      return blob;
    },
  });
  Object.defineProperty(NativeBlob.prototype, "constructor", { value: win.Blob, writable: true, configurable: true });

  // What browsers are given instead of a blob that is a page or a script.
  function inArchive(blob) {
    const text = texts.get(blob);
    if (text === undefined) return blob;
    const isPage = markup && /^(?:text\/html|application\/xhtml\+xml)/i.test(blob.type);
    if (!isPage && !/(?:java|ecma)script/i.test(blob.type)) return blob;
    return new NativeBlob([isPage ? markup.inBlob(text) : scripts.blob(text)], { type: blob.type });
  }

  wrap(URL, "createObjectURL", () => (object) => {
    const address = create(inArchive(object));
    if (object instanceof NativeBlob) made.set(address, object);
    return address;
  });
  wrap(URL, "revokeObjectURL", (revoke) => (address) => {
    made.delete(String(address));
    return revoke.call(URL, address);
  });

  function script(parts) {
    return create(new NativeBlob(parts, { type: "text/javascript" }));
  }

  // The text of a worker behind what it has to have run first.
  function prepared(text, isModule) {
    const runtime = JSON.stringify(`${scene.home}/_hf/worker-runtime.js?${scene.version}`);
    const told = `self.__hf_scene=${JSON.stringify(scene)};`;
    if (!isModule) return script([told, `importScripts(${runtime});\n`, text]);
    sceneScript ||= script([told]);
    return script([`import ${JSON.stringify(sceneScript)};import ${runtime};\n`, text]);
  }

  function source(given, options) {
    const url = String(given);
    const isModule = Boolean(options) && options.type === "module";
    if (made.has(url)) {
      const text = texts.get(made.get(url));
      return prepared(text === undefined ? made.get(url) : scripts.blob(text), isModule);
    }
    if (/^\s*data:/i.test(url)) return prepared(scripts.blob(dataText(win, url.trim())), isModule);
    return whole(url, "js_");
  }

  for (const name of ["Worker", "SharedWorker"])
    construct(win, name, ([url, options, ...rest]) => [source(url, options), options, ...rest]);
  wrap(win, "importScripts", (load) => (...urls) => load.apply(win, urls.map((url) => whole(url, "js_"))));

  const container = win.ServiceWorkerContainer && win.ServiceWorkerContainer.prototype;
  const refusal = () => new win.DOMException("Service workers of archived pages do not run.", "SecurityError");
  wrap(container, "register", () => () => Promise.reject(refusal()));
  wrap(container, "getRegistration", () => () => Promise.resolve(undefined));
  wrap(container, "getRegistrations", () => () => Promise.resolve([]));
  redefine(container, "ready", () => ({ get: () => new Promise(() => {}) }));
  redefine(container, "controller", () => ({ get: () => null }));
}

function dataText(win, url) {
  const [, head, body] = /^data:([^,]*),(.*)$/is.exec(url) || ["", "", ""];
  const plain = win.unescape(body);
  return /;\s*base64\s*$/i.test(head) ? win.atob(plain) : plain;
}
