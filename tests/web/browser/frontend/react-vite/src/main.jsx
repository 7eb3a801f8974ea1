import { StrictMode, Suspense, lazy, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter, Link, Route, Routes, useLocation, useParams } from "react-router";
import logo from "./logo.svg";
import "./style.css";

const Details = lazy(() => import("./Details.jsx"));

function Items() {
  const [items, setItems] = useState(null);
  useEffect(() => {
    fetch("/api/items").then((response) => response.json()).then(setItems);
  }, []);
  if (!items) return <p>Loading</p>;
  return (
    <ul data-ready>
      {items.map(({ id, name }) => (
        <li key={id}><Link to={`/items/${id}`}>{name}</Link></li>
      ))}
    </ul>
  );
}

function Item() {
  return <Suspense fallback={<p>Loading</p>}><Details id={useParams().id} /></Suspense>;
}

function Page() {
  const { pathname } = useLocation();
  return (
    <>
      <header>
        <img src={logo} width="48" height="48" alt="" />
        <h1>Catalogue of {window.location.hostname}</h1>
        <nav><Link to="/">All</Link> · <a href="/about">About</a></nav>
        <p>You are at {pathname}, {document.URL === window.location.href ? "indeed" : "or elsewhere"}.</p>
      </header>
      <Routes>
        <Route path="/" element={<Items />} />
        <Route path="/items/:id" element={<Item />} />
        <Route path="/about" element={<p data-ready>About this catalogue.</p>} />
        <Route path="*" element={<p data-ready>No such page: {pathname}</p>} />
      </Routes>
    </>
  );
}

createRoot(document.getElementById("root")).render(
  <StrictMode><BrowserRouter><Page /></BrowserRouter></StrictMode>,
);
