// Markup, styles and lists of pictures that scripts put into the page: their addresses lead into the archive.

const ATTRIBUTES = {  // by element, what an attribute's address is asked for as
  a: { href: "mp_" }, area: { href: "mp_" }, base: { href: "mp_" }, link: { href: "cs_" }, script: { src: "js_" },
  img: { src: "im_", srcset: "*", lowsrc: "im_" }, source: { src: "im_", srcset: "*" }, track: { src: "im_" },
  video: { src: "im_", poster: "im_" }, audio: { src: "im_" }, input: { src: "im_", formaction: "mp_" },
  button: { formaction: "mp_" }, form: { action: "mp_" }, iframe: { src: "if_", srcdoc: "markup" },
  frame: { src: "fr_" }, embed: { src: "oe_" }, object: { data: "oe_", codebase: "oe_" }, body: { background: "im_" },
  table: { background: "im_" }, td: { background: "im_" }, image: { href: "im_", "xlink:href": "im_" },
  use: { href: "im_", "xlink:href": "im_" }, feimage: { href: "im_", "xlink:href": "im_" },
};
const DROPPED = new Set(["integrity", "ping", "attributionsrc"]);
const NAMES = ["src", "srcset", "href", "xlink:href", "action", "formaction", "data", "poster", "background", "style"];

function markupOf(win, scene, addresses, scripts) {
  const { to } = addresses;
  const tag = /<([a-z][^\s/>]*)((?:\s|\/)(?:"[^"]*"|'[^']*'|[^'">])*)>/gi;
  const attribute = /([\s/])([a-z][a-z:-]*)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)/gi;
  const address = /url\(\s*(?:"([^"]*)"|'([^']*)'|([^\s"'()]+))\s*\)|(@import\s+)(?:"([^"]*)"|'([^']*)')/gi;

  function css(text) {
    const source = String(text);
    if (!/url\(|@import/i.test(source)) return source;
    return source.replace(address, (all, double, single, bare, rule, named, other) => {
      const old = double ?? single ?? bare ?? named ?? other;
      const now = to(old, rule ? "cs_" : "im_");
      if (now === old) return all;
      return rule ? `${rule}"${now}"` : `url("${now.replace(/"/g, "%22")}")`;
    });
  }

  // Addresses as they were, in a style that is read.
  function uncss(text) {
    if (typeof text !== "string" || !text.includes("url(")) return text;
    return text.replace(address, (all, double, single, bare) => {
      const now = double ?? single ?? bare;
      if (now === undefined || addresses.archived(now) === null) return all;
      return all.replace(now, () => (now.startsWith("/") ? addresses.spelled(now) : addresses.archived(now)));
    });
  }

  // A frame in a sandbox shares the page's origin, to load its parts; `data-hf-boxed` says that it did not.
  function boxed(text) {
    return /(?:^|\s)allow-same-origin(?:\s|$)/i.test(text) ? text : `${text} allow-same-origin`.trim();
  }

  function srcset(text) {
    const candidate = /([^\s,]\S*[^\s,]|[^\s,])(\s+[^,]+)?/g;
    return String(text).replace(candidate, (all, url, size) => to(url, "im_") + (size || ""));
  }

  // The list as it was given.
  function unsrcset(text) {
    return text.replace(/[^\s,]\S*[^\s,]|[^\s,]/g, (url) => (addresses.archived(url) === null ? url : addresses.spelled(url)));
  }

  // The value that an element's attribute has to have; null if it must not be set.
  function value(element, name, given) {
    const text = String(given);
    if (DROPPED.has(name)) return null;
    if (name === "style") return css(text);
    if (/^on[a-z]/.test(name)) return scripts.inline(text);
    if (element === "iframe" && name === "sandbox") return boxed(text);
    if (element === "param" && name === "value" && /^https?:/i.test(text)) return to(text, "oe_");
    const kind = (ATTRIBUTES[element] || {})[name];
    if (!kind) return text;
    if (kind === "*") return srcset(text);
    if (kind === "markup") return framed(text);
    return to(scripts.inUrl(text), kind);
  }

  function html(text) {
    const source = String(text);
    if (!source.includes("<")) return source;
    const style = /(<style\b[^>]*>)([^]*?)(<\/style|$)/gi;
    const styled = source.replace(style, (_, head, body, tail) => head + css(body) + tail);
    const script = /(<script\b[^>]*>)([^]*?)(<\/script|$)/gi;
    const data = /\stype\s*=\s*["']?(?!module|[a-z]+\/[a-z.-]*script)[^\s"'>]/i;
    const scripted = styled.replace(script, (_, head, body, tail) =>
      head + (data.test(head) ? body : scripts.inline(body)) + tail);
    return scripted.replace(tag, (all, name, rest) => {
      const element = name.toLowerCase();
      return `<${name}${rest.replace(attribute, (whole, gap, key, sign, quoted) => {
        const isQuoted = /^["']/.test(quoted);
        const quote = isQuoted ? quoted[0] : '"';
        const old = isQuoted ? quoted.slice(1, -1) : quoted;
        const isText = /^on|^srcdoc$/i.test(key) || /^\s*javascript:/i.test(old);  // has to be read as it is meant
        const now = isText ? reescaped(old, value(element, key.toLowerCase(), unescaped(old)))
          : value(element, key.toLowerCase(), old);
        if (now === null) return gap;
        if (now === old) return whole;
        if (key.toLowerCase() === "sandbox") return `${gap}sandbox="${now}" data-hf-boxed`;
        return gap + key + sign + quote + now.replaceAll(quote, `&#${quote.charCodeAt(0)};`) + quote;
      })}>`;
    });
  }

  const unescaped = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'").replaceAll("&amp;", "&");
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("'", "&#39;");

  const reescaped = (old, now) => (now === unescaped(old) ? old : escaped(now));

  // A document of its own, which needs the runtime too.
  function framed(text) {
    const source = String(text);
    if (source.includes("/_hf/runtime.js")) return source;
    return runtimeTag(scene) + html(source);
  }

  // The same as a blob, of which no address is relative to the archive.
  const inBlob = (text) => {
    const tag = runtimeTag(scene);
    return `${tag}<base href="${scene.home}/">${html(text)}`;
  };

  return { css, uncss, srcset, unsrcset, value, html, framed, inBlob };
}

function runtimeTag(scene) {
  const safe = (text) => String(text).replace(/[&"<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const { prefix, timestamp, url, controls } = scene;
  const told = Object.entries({ prefix, timestamp, url, controls });
  const data = told.map(([name, text]) => ` data-${name}="${safe(text)}"`).join("");
  const rooted = scene.rooted ? " data-rooted" : "";
  return `<script src="${scene.home}/_hf/runtime.js?${scene.version}"${data}${rooted}></script>`;
}
