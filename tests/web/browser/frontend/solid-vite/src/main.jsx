import { For, Show, createResource, createSignal } from "solid-js";
import { render } from "solid-js/web";

function App() {
  const [count, setCount] = createSignal(0);
  const [items] = createResource(() => fetch("./api/items").then((response) => response.json()));
  return (
    <main style={{ "font-family": "sans-serif", background: "#def", padding: "2rem" }}>
      <button onClick={() => setCount(count() + 1)}>Pressed {count()} times</button>
      <Show when={items()}>
        <ul data-ready><For each={items()}>{(item) => <li>{item.name} at {document.location.pathname}</li>}</For></ul>
      </Show>
    </main>
  );
}

render(() => <App />, document.getElementById("root"));
