import { Suspense, lazy, useEffect, useId, useState } from "react";

const Comments = lazy(() => import("./Comments.jsx"));

export default function App({ article }) {
  const [count, setCount] = useState(0);
  const [isHere, setHere] = useState(false);
  const id = useId();
  useEffect(() => setHere(true), []);
  return (
    <article>
      <h1>{article.title}</h1>
      {article.paragraphs.map((text, at) => <p key={at} dangerouslySetInnerHTML={{ __html: text }} />)}
      <button id={id} onClick={() => setCount(count + 1)}>Read {count} times</button>
      <Suspense fallback={<p>…</p>}>{isHere && <Comments />}</Suspense>
    </article>
  );
}
