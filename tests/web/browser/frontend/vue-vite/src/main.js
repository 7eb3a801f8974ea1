import { createPinia, defineStore } from "pinia";
import { createApp } from "vue";
import { createRouter, createWebHistory } from "vue-router";
import App from "./App.vue";

export const useItems = defineStore("items", {
  state: () => ({ items: [] }),
  actions: {
    async load() {
      this.items = await fetch(`${window.location.origin}/api/items`).then((response) => response.json());
    },
  },
});

const router = createRouter({
  history: createWebHistory(),
  routes: [
    { path: "/", component: () => import("./List.vue") },
    { path: "/book/:id", component: () => import("./Book.vue"), props: true },
    { path: "/:rest(.*)*", component: { template: "<p>Nothing</p>" } },
  ],
});
router.afterEach((to) => {
  document.title = `Library ${to.fullPath}`;
});
createApp(App).use(createPinia()).use(router).mount("#app");
