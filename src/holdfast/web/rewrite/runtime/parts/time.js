// Time and chance: the clock of a page starts at the moment of its capture, and its random numbers are the same each
// time that it is shown. Settings of the server turn off each (`OPTIONS`).

function timeOf(win, scene) {
  if (OPTIONS.captureTime) clockOf(win, shiftOf(win, scene));
  if (OPTIONS.seededRandom) wrap(win.Math, "random", () => randomFrom(`${scene.url} ${scene.timestamp}`));
}

// How far the clock is put forward, in milliseconds: all frames of a page have the clock of the topmost.
function shiftOf(win, scene) {
  if (scene.shift !== undefined) return scene.shift;
  const [, year, ...rest] = /^(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?/.exec(scene.timestamp) || [];
  if (!year) return 0;
  const [month = 1, day = 1, ...time] = rest.map((part) => (part === undefined ? undefined : Number(part)));
  const captured = win.Date.UTC(Number(year), month - 1, day, ...time.map((part) => part || 0));
  const above = outer(win);
  scene.shift = above ?? captured - win.Date.now();
  return scene.shift;
}

function outer(win) {
  try {
    return win.parent !== win ? win.parent.__hf_view.shift : undefined;
  } catch {
    return undefined;  // of another origin, or a worker
  }
}

function clockOf(win, shift) {
  const Native = win.Date;
  const nativeNow = Native.now;
  const shifted = () => nativeNow.call(Native) + shift;
  win.Date = new Proxy(Native, {
    construct: (target, given, as) => Reflect.construct(target, given.length ? given : [shifted()], as),
    apply: () => new Native(shifted()).toString(),
  });
  natives.set(win.Date, Native);
  Object.defineProperty(Native.prototype, "constructor", { value: win.Date, writable: true, configurable: true });
  wrap(Native, "now", () => shifted);

  // What tells the time without being asked for a date.
  const format = win.Intl.DateTimeFormat.prototype;
  redefine(format, "format", (get) => ({
    get() {
      const bound = get.call(this);
      return (date) => bound(date === undefined ? shifted() : date);
    },
  }));
  wrap(format, "formatToParts", (parts) => function (date) { return parts.call(this, date === undefined ? shifted() : date); });
  redefine(win.Performance && win.Performance.prototype, "timeOrigin", (get) => ({ get() { return get.call(this) + shift; } }));
  const timing = win.PerformanceTiming && win.PerformanceTiming.prototype;
  const later = (time) => (time ? time + shift : 0);  // 0: it has not come yet
  for (const [name, { get }] of Object.entries(timing ? Object.getOwnPropertyDescriptors(timing) : {}))
    if (get) redefine(timing, name, () => ({ get() { return later(get.call(this)); } }));
  wrap(timing, "toJSON", (json) => function () {
    return Object.fromEntries(Object.entries(json.call(this)).map(([name, time]) => [name, later(time)]));
  });
  const { Temporal } = win;
  if (!Temporal) return;
  const instant = () => Temporal.Instant.fromEpochMilliseconds(shifted());
  const zoned = (zone = Temporal.Now.timeZoneId()) => instant().toZonedDateTimeISO(zone);
  wrap(Temporal.Now, "instant", () => instant);
  wrap(Temporal.Now, "zonedDateTimeISO", () => zoned);
  for (const [name, to] of [["plainDateTimeISO", "toPlainDateTime"], ["plainDateISO", "toPlainDate"], ["plainTimeISO", "toPlainTime"]])
    wrap(Temporal.Now, name, () => (zone) => zoned(zone)[to]());
}

// Numbers from 0 up to 1 that look random, always the same ones for a text.
function randomFrom(text) {
  let state = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) state = Math.imul(state ^ text.charCodeAt(index), 0x01000193);
  const next = () => {  // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  return () => (next() * 2 ** 21 + (next() >>> 11)) / 2 ** 53;
}
