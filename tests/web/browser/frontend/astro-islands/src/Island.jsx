import { useEffect, useState } from "react";

export default function Island({ greeting }) {
  const [names, setNames] = useState("");
  const [count, setCount] = useState(0);
  useEffect(() => {
    fetch("/api/items").then((response) => response.json()).then((items) => setNames(items.map(({ name }) => name).join(", ")));
  }, []);
  return (
    <section {...(names && { "data-ready": "" })}>
      {greeting} <button onClick={() => setCount(count + 1)}>{greeting} {count}</button> {names}
    </section>
  );
}
