import React from "react";
import { createRoot } from "react-dom/client";
import "./main.css";

class Clock extends React.Component {
  state = { items: [], top: 3, location: "here" };

  async componentDidMount() {
    const { items: location } = { items: await (await fetch("/api/items")).json() };
    this.setState({ items: location });
  }

  render() {
    const { items, top, location } = this.state;
    return (
      <div style={{ position: "relative", top }}>
        <h1>{location} is {window.location.hostname}</h1>
        {items.length > 0 && <p data-ready>{items.map((item) => item.name).join(", ")}</p>}
      </div>
    );
  }
}

createRoot(document.getElementById("root")).render(<Clock />);
