import { AsyncPipe } from "@angular/common";
import { HttpClient } from "@angular/common/http";
import { Component, inject } from "@angular/core";
import { ActivatedRoute, RouterLink } from "@angular/router";

@Component({
  selector: "app-item",
  imports: [AsyncPipe, RouterLink],
  template: `@if (item | async; as found) { <p data-ready>{{ found.text }} <a routerLink="/">Back</a></p> }`,
})
export class ItemPage {
  item = inject(HttpClient).get<{ text: string }>(`/api/items/${inject(ActivatedRoute).snapshot.params["id"]}`);
}
