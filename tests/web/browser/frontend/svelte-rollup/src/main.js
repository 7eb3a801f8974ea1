import { mount } from "svelte";
import Notes from "./Notes.svelte";

mount(Notes, { target: document.body, props: { at: location.pathname } });
