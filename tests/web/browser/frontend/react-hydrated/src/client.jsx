import { hydrateRoot } from "react-dom/client";
import App from "./App.jsx";

const data = JSON.parse(document.getElementById("data").textContent);
hydrateRoot(document.getElementById("root"), <App article={data} />);
