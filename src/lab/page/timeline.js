// SPDX-License-Identifier: Apache-2.0
// Jobs over time as in figures 4.1-4.6 of the thesis: computing is grey, waiting has no colour, I/O is coloured with its
// MB/s above it. Zoom with the buttons, by dragging, with Ctrl and the wheel, two fingers, or the keyboard.
const kKinds = ["compute", "waiting", "io"];
const kKindNames = ["computing", "waiting", "I/O"];
const kRowsAtFirst = 40;

// The visible part of [0, end]: at least a hundred-thousandth of it.
class View {
  constructor(end) {
    this.end = end;
    this.reset();
  }
  reset() {
    this.set(0, this.end);
  }
  set(from, to) {
    const span = Math.min(this.end, Math.max(this.end / 1e5, to - from));
    this.from = Math.min(Math.max(from, 0), this.end - span);
    this.to = this.from + span;
  }
  zoom(factor, at = (this.from + this.to) / 2) {
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  move(by) {
    this.set(this.from + by, this.to + by);
  }
}

function drawTimeline(data, end) {
  const jobs = data.jobs.map((name) => ({name, segments: []}));
  for (const [job, kind, from, to, rate] of data.segments) jobs[job]?.segments.push({kind, from, to, rate});
  for (const job of jobs) job.segments.sort((a, b) => a.from - b.from);
  const view = new View(end);
  const state = {rows: Math.min(jobs.length, kRowsAtFirst), left: 0, right: 1, scheduled: false};

  const plot = element("div", {
    class: "plot",
    tabindex: "0",
    role: "group",
    "aria-label": data.title + ": plus and minus zoom, arrows move, 0 shows the whole run",
  });
  const range = element("span", {class: "soft range"});
  const paint = () => {
    plot.replaceChildren(timelineShapes(data.title, jobs.slice(0, state.rows), view, state, plot.clientWidth));
    const {unit, factor} = timeUnit(view.end);
    const text = (time) => number(time * factor);
    range.textContent = `${text(view.from)} to ${text(view.to)} ${unit} of ${text(view.end)} ${unit}`;
  };
  const change = (action) => {
    action();
    if (state.scheduled) return;
    state.scheduled = true;
    requestAnimationFrame(() => {
      state.scheduled = false;
      paint();
    });
  };
  const button = (text, title, action) => {
    const node = element("button", {type: "button", title}, text);
    node.addEventListener("click", () => change(action));
    return node;
  };
  const buttons = element(
    "div",
    {class: "bar"},
    button("\u2212", "Zoom out", () => view.zoom(2)),
    button("+", "Zoom in", () => view.zoom(0.5)),
    button("Whole run", "Show the whole run", () => view.reset()),
    range,
  );
  const kinds = new Set(data.segments.map((segment) => segment[1]));
  const parts = [element("figcaption", {}, data.title), timelineLegend(kinds), buttons, plot];
  if (jobs.length > state.rows) {
    const more = button(`Show all ${jobs.length} jobs`, "Show every job", () => {
      state.rows = jobs.length;
      more.remove();
    });
    parts.push(more);
  }
  followPointers(plot, view, state, change);
  followKeys(plot, view, change);
  responsive(plot, paint);
  return element("figure", {class: "timeline"}, ...parts);
}

// Only for kinds that occur.
function timelineLegend(kinds) {
  const key = (kind) =>
    shape(
      "svg",
      {class: "key", viewBox: "0 0 24 12", "aria-hidden": "true"},
      shape("rect", {class: kind, x: 1, y: 1, width: 22, height: 10}),
    );
  return element(
    "div",
    {class: "legend"},
    ...["computing", "waiting for its turn", "I/O, its MB/s above"].map((text, kind) =>
      kinds.has(kind) ? element("span", {}, key(kKinds[kind]), text) : null,
    ),
  );
}

const kRow = 32,
  kBlock = 14;

function timelineShapes(title, jobs, view, state, width) {
  const most = Math.max(60, width * 0.22);
  state.left = Math.min(most, Math.max(30, ...jobs.map((job) => textWidth(job.name, 12) + 12)));
  state.right = Math.max(width - 8, state.left + 1);
  const bottom = jobs.length * kRow + 6;
  const x = (time) => state.left + ((state.right - state.left) * (time - view.from)) / (view.to - view.from);
  const svg = shape("svg", {viewBox: `0 0 ${width} ${bottom + 38}`, role: "img", "aria-label": title});
  const {unit, factor} = timeUnit(view.to);
  for (const time of ticks(view.from, view.to, Math.max(2, width / 110)))
    svg.append(
      shape("line", {class: "grid", x1: x(time), x2: x(time), y1: 4, y2: bottom}),
      shape("text", {x: x(time), y: bottom + 16, "text-anchor": "middle"}, number(time * factor, 6)),
    );
  svg.append(
    shape("line", {class: "axis", x1: state.left, x2: state.right, y1: bottom, y2: bottom}),
    shape("text", {x: (state.left + state.right) / 2, y: bottom + 34, "text-anchor": "middle"}, unit),
  );
  jobs.forEach((job, row) => {
    const base = (row + 1) * kRow;
    const letters = Math.floor((state.left - 12) / (12 * 0.58));
    const name = job.name.length > letters ? job.name.slice(0, Math.max(1, letters - 1)) + "\u2026" : job.name;
    svg.append(shape("text", {class: "job", x: 0, y: base - 3, "data-tip": job.name}, name));
    drawSegments(svg, job, base, x, state);
  });
  return svg;
}

// Blocks too thin to see are left out if one of their kind is already there, and numbers that would overlap.
function drawSegments(svg, job, base, x, state) {
  const drawn = [-1, -1, -1];
  let free = -Infinity;
  for (const segment of job.segments) {
    const a = Math.max(x(segment.from), state.left),
      b = Math.min(x(segment.to), state.right);
    if (b <= a || (b - a < 0.5 && b - drawn[segment.kind] < 0.5)) continue;
    drawn[segment.kind] = b;
    const rate = segment.kind === 2 ? `, ${number(segment.rate)} MB/s` : "";
    const {unit, factor} = timeUnit(segment.to);
    const span = `${number(segment.from * factor, 6)} to ${number(segment.to * factor, 6)} ${unit}`;
    const tip = `${job.name}: ${kKindNames[segment.kind]}${rate}\n${span} (${timeText(segment.to - segment.from)})`;
    const hollow = segment.kind === 1 ? 0.5 : 0;
    svg.append(
      shape("rect", {
        class: kKinds[segment.kind],
        x: a + hollow,
        y: base - kBlock + hollow,
        width: Math.max(0.5, b - a - 2 * hollow),
        height: kBlock - 2 * hollow,
        "data-tip": tip,
      }),
    );
    if (segment.kind !== 2) continue;
    const text = number(segment.rate, 3),
      half = textWidth(text, 10.5) / 2;
    const middle = Math.min(Math.max((a + b) / 2, state.left + half), state.right - half);
    if (middle - half < free + 4) continue;
    free = middle + half;
    svg.append(shape("text", {class: "rate", x: middle, y: base - kBlock - 4, "text-anchor": "middle"}, text));
  }
}

function followPointers(plot, view, state, change) {
  const perPixel = () => (view.to - view.from) / (state.right - state.left);
  const timeAt = (clientX) => view.from + (clientX - plot.getBoundingClientRect().left - state.left) * perPixel();
  const held = new Map();
  plot.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      change(() => view.zoom(Math.exp(event.deltaY * 0.0025), timeAt(event.clientX)));
    },
    {passive: false},
  );
  plot.addEventListener("dblclick", (event) => change(() => view.zoom(0.5, timeAt(event.clientX))));
  plot.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, event.clientX);
    plot.setPointerCapture?.(event.pointerId);
    plot.classList.add("moving");
  });
  plot.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId)) return;
    const before = held.get(event.pointerId);
    const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
    held.set(event.pointerId, event.clientX);
    if (other === undefined) return change(() => view.move((before - event.clientX) * perPixel()));
    const apart = Math.max(8, Math.abs(before - other)),
      now = Math.max(8, Math.abs(event.clientX - other));
    change(() => view.zoom(apart / now, timeAt((event.clientX + other) / 2)));
  });
  const release = (event) => {
    held.delete(event.pointerId);
    if (!held.size) plot.classList.remove("moving");
  };
  plot.addEventListener("pointerup", release);
  plot.addEventListener("pointercancel", release);
}

function followKeys(plot, view, change) {
  const step = () => (view.to - view.from) / 8;
  const actions = {
    "+": () => view.zoom(0.5),
    "=": () => view.zoom(0.5),
    "-": () => view.zoom(2),
    0: () => view.reset(),
    ArrowLeft: () => view.move(-step()),
    ArrowRight: () => view.move(step()),
  };
  plot.addEventListener("keydown", (event) => {
    if (!Object.hasOwn(actions, event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    change(actions[event.key]);
  });
}
