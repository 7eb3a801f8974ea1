import { AsyncPipe, DOCUMENT, Location } from "@angular/common";
import { HttpClient, provideHttpClient } from "@angular/common/http";
import { Component, inject } from "@angular/core";
import { bootstrapApplication } from "@angular/platform-browser";
import { RouterLink, RouterOutlet, provideRouter } from "@angular/router";

interface Item { id: number; name: string; text: string }

@Component({
  selector: "app-list",
  imports: [AsyncPipe, RouterLink],
  template: `
    @if (items | async; as all) {
      <ul data-ready>@for (item of all; track item.id) { <li><a [routerLink]="['/item', item.id]">{{ item.name }}</a></li> }</ul>
    }`,
})
class List {
  items = inject(HttpClient).get<Item[]>("/api/items");
}

@Component({
  selector: "app-root",
  imports: [RouterOutlet],
  template: `<h1>{{ document.location.hostname }}{{ path() }}</h1><router-outlet />`,
  styles: "h1 { color: #408; border-bottom: 3px solid }",
})
class App {
  document = inject(DOCUMENT);
  location = inject(Location);
  path = () => this.location.path();
}

bootstrapApplication(App, {
  providers: [
    provideHttpClient(),
    provideRouter([
      { path: "", component: List },
      { path: "item/:id", loadComponent: () => import("./item").then((module) => module.ItemPage) },
    ]),
  ],
}).catch((error) => console.error(error));
