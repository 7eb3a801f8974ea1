import { renderToString } from "react-dom/server";
import App from "./App.jsx";

const article = {
  title: "On location",
  paragraphs: [
    'A link to <a href="/elsewhere?top=1&amp;location=2">elsewhere</a>, and one to <a href="https://example.com/">another site</a>.',
    "In scripts, <code>top.location</code> is a place.",
  ],
};

export function page(script) {
  const data = JSON.stringify(article).replace(/</g, "\\u003c");
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${article.title}</title>
<style>article { max-width: 30rem; padding: 2rem; font: 18px/1.6 serif; background: #efe } li { color: #063 }</style>
<script id="data" type="application/json">${data}</script><script type="module" async src="${script}"></script></head>
<body><div id="root">${renderToString(<App article={article} />)}</div></body></html>`;
}
