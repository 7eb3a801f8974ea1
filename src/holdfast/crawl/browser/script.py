"""What is asked of a page, in a world of its own that the page's scripts cannot reach."""

from __future__ import annotations

SCROLL = """((steps) => {
  const page = document.scrollingElement || document.documentElement;
  if (!page) return true;
  const left = page.scrollHeight - innerHeight - page.scrollTop;
  const step = Math.max(innerHeight * 0.9, left / steps, 100);
  scrollTo({top: page.scrollTop + step, behavior: 'instant'});
  return left <= 2;
})(%d)"""  # whether it was at the end; as fast as it must be to come there in so many steps

TO_TOP = "scrollTo({top: 0, behavior: 'instant'})"

HEIGHT = """(() => {
  const page = document.scrollingElement || document.documentElement;
  return page ? Math.ceil(Math.max(page.scrollHeight, innerHeight)) : innerHeight;
})()"""

HARVEST = """((bytes, count) => {
  const links = [], seen = new Set();
  const add = (url, hop) => {
    if (typeof url === 'string' && /^https?:/.test(url) && links.length < count && !seen.has(url)) {
      seen.add(url);
      links.push([url, hop]);
    }
  };
  const walk = (root, depth) => {
    for (const each of root.querySelectorAll('a[href], area[href]')) add(each.href, 'L');
    for (const each of root.querySelectorAll('iframe[src], frame[src]')) add(each.src, 'E');
    if (depth < 20)
      for (const each of root.querySelectorAll('*')) if (each.shadowRoot) walk(each.shadowRoot, depth + 1);
  };
  walk(document, 0);
  const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) + '\\n' : '';
  const dom = document.documentElement ? type + document.documentElement.outerHTML : '';
  const text = document.body ? document.body.innerText || '' : '';
  return {url: location.href, links, dom: dom.slice(0, bytes), text: text.slice(0, bytes)};
})(%d, %d)"""
