import { createSSRApp } from "vue";
import Page from "./Page.vue";

createSSRApp(Page).mount("#app");
