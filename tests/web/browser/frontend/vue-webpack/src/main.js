import { createApp } from "vue";
import Timetable from "./Timetable.vue";

const place = document.createElement("div");
document.body.append(place);
createApp(Timetable).mount(place);
