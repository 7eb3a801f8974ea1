"""What is asked of a page, in a world of its own that the page's scripts cannot reach."""

from __future__ import annotations

SCROLL = """(() => {
  const page = document.scrollingElement || document.documentElement;
  if (!page) return true;
  const end = page.scrollTop + innerHeight + 2 >= page.scrollHeight;
  scrollTo({top: page.scrollTop + Math.max(innerHeight * 0.9, 100), behavior: 'instant'});
  return end;
})()"""

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
