import { LitElement, css, html } from "lit";
import { until } from "lit/directives/until.js";

class ItemList extends LitElement {
  static properties = { src: {}, chosen: { state: true } };
  static styles = css`
    :host { display: block; border: 3px solid teal; padding: 1rem; }
    li { color: teal; }
  `;

  render() {
    this.items ||= fetch(this.src).then((response) => response.json());
    const list = this.items.then((items) => {
      this.setAttribute("data-ready", "");
      return items.map((item) => html`<li @click=${() => { this.chosen = item; }}>${item.name}</li>`);
    });
    return html`<slot name="title"></slot>
      <a href="/elsewhere"><img alt="" width="20" height="20" src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>"></a>
      <ul>${until(list, html`<li>Loading</li>`)}</ul>
      <p>${this.chosen ? `${this.chosen.text} (${window.top.location.pathname})` : "Nothing chosen"}</p>`;
  }
}

customElements.define("item-list", ItemList);
addEventListener("click", (event) => {
  const { name } = event.composedPath()[0].constructor;
  document.querySelector("h2").textContent = `Clicked: ${name}`;
});
