import legacy from "@vitejs/plugin-legacy";
import vue from "@vitejs/plugin-vue";

export default { plugins: [vue(), legacy({ targets: ["defaults"] })] };
