import { createRoot } from "react-dom/client";
import useSWR from "swr";

const get = (url) => fetch(url).then((response) => response.json());

function Card({ id }) {
  const { data } = useSWR(`/api/items/${id}`, get);
  return data ? <div className="card"><b>{data.name}</b> {data.text} {new URL("/x", location).hostname}</div> : null;
}

function Board() {
  const { data } = useSWR("/api/items", get);
  return data ? <>{data.map(({ id }) => <Card key={id} id={id} />)}<p data-ready>{data.length} cards</p></> : null;
}

createRoot(document.getElementById("app")).render(<Board />);
