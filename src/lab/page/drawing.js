// SPDX-License-Identifier: Apache-2.0
// Text only becomes text nodes and attributes, never markup.
const report = document.getElementById("report");

addEventListener("error", (event) => {
  document.documentElement.dataset.error = event.message;
  report.prepend(element("p", {class: "broken"}, "This report could not be drawn in full: " + event.message));
});

function make(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {}))
    if (value !== undefined && value !== null) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function element(name, attributes, ...children) {
  return make(document.createElement(name), attributes, children);
}

function shape(name, attributes, ...children) {
  return make(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

// ---- numbers

function withSigns(text) {
  const [whole, fraction] = text.replace("-", "\u2212").split(".");
  const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
  return fraction ? grouped + "." + fraction : grouped;
}

// A number with this many significant digits, without trailing zeros.
function number(value, digits = 4) {
  if (value === null || value === undefined) return "\u2013";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e9 || size < 1e-6) return value.toExponential(2).replace("-", "\u2212");
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const text = value.toFixed(Math.min(places, 9));
  return withSigns(text.includes(".") ? text.replace(/\.?0+$/, "") : text);
}

// The unit people read times of this size in, and how many of it a second has.
function timeUnit(largest) {
  const size = Math.abs(largest);
  if (size === 0 || size >= 0.9995) return {unit: "s", factor: 1};
  return size >= 0.9995e-3 ? {unit: "ms", factor: 1e3} : {unit: "\u00b5s", factor: 1e6};
}

function timeText(seconds) {
  const {unit, factor} = timeUnit(seconds);
  return number(seconds * factor, 3) + "\u00a0" + unit;
}

const largestOf = (values) =>
  values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 0);

// The number of decimals of a column: four digits of the largest value, at least two of the smallest.
function columnFormat(values) {
  const sizes = values.filter((value) => typeof value === "number" && value !== 0).map(Math.abs);
  if (sizes.every((size) => Math.abs(size - Math.round(size)) < 1e-9 * size)) return (value) => number(value, 12);
  const decimals = (size, digits) => digits - 1 - Math.floor(Math.log10(size));
  const places = Math.max(0, Math.min(5, Math.max(decimals(Math.max(...sizes), 4), decimals(Math.min(...sizes), 2))));
  return (value) => (typeof value === "number" ? withSigns(value.toFixed(places)) : number(value));
}

function ticks(from, to, count) {
  const rough = (to - from) / Math.max(1, count);
  if (!(rough > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const list = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; ++i) list.push(i * step);
  return list;
}

// ---- shared by all figures

const textWidth = (text, size = 11.5) => String(text).length * size * 0.58;

// Draws when the page is built and whenever its width changes. Printing scales the drawing.
const kFigures = [];
function responsive(holder, draw) {
  let width = 0;
  const update = () => {
    const now = Math.round(holder.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    draw(width);
  };
  new ResizeObserver(() => requestAnimationFrame(update)).observe(holder);
  kFigures.push(update);
}

const kKnown = new Map(
  Object.entries({fifo: 0, base: 0, ori: 0, window: 1, locking: 1, cio: 1, concert: 2, backoff: 2}),
);
const kDashes = [null, "6 3", "2 2", "8 2 2 2", "1 3"];
const kShades = [1, 0.7, 0.45, 0.28, 0.15];

// A policy has the same colour in every chart; lines of one policy differ in dashes and markers, bars in shade.
function styles(lines) {
  const policies = lines.map((line) => line.name.split(/[\s-]/).find((word) => kKnown.has(word)));
  const taken = new Set(policies.map((policy) => kKnown.get(policy)));
  const free = [1, 2, 3, 4, 5, 6, 7, 0].filter((index) => !taken.has(index));
  const uses = new Map();
  return lines.map((line, i) => {
    const series = line.reference ? -1 : kKnown.get(policies[i]) ?? (free.length ? free.shift() : 0);
    const use = uses.get(series) ?? 0;
    uses.set(series, use + 1);
    const dash = line.reference ? kDashes[1 + (use % 4)] : kDashes[use % 5];
    const colour = line.reference ? "var(--ink)" : `var(--series-${series})`;
    return {colour, use, dash, shade: kShades[use % 5], reference: line.reference};
  });
}

// A line over another one is dashed and has smaller markers, so that both are seen.
const lineDash = (style) => style.dash ?? (style.over ? "7 7" : null);

function marker(style, x, y, tip) {
  const r = 3.4 / (1 + 0.6 * (style.over ?? 0));
  const attributes = {
    fill: style.use % 2 ? "var(--ground)" : style.colour,
    stroke: style.colour,
    "stroke-width": 1.5,
    "data-tip": tip,
  };
  if (style.use < 2) return shape("circle", {cx: x, cy: y, r, ...attributes});
  return shape("rect", {x: x - r + 0.4, y: y - r + 0.4, width: 2 * r - 0.8, height: 2 * r - 0.8, ...attributes});
}

function legendKey(style, bars) {
  const key = shape("svg", {class: "key", viewBox: "0 0 24 12", "aria-hidden": "true"});
  if (bars) key.append(bar({x: 6, y: 1, width: 12, height: 10}, style));
  else {
    key.append(
      shape("line", {
        x1: 0,
        x2: 24,
        y1: 6,
        y2: 6,
        stroke: style.colour,
        "stroke-width": 1.8,
        "stroke-dasharray": lineDash(style),
      }),
    );
    if (!style.reference) key.append(marker(style, 12, 6));
  }
  return key;
}

function bar(box, style, tip) {
  const hollow = style.reference || style.use > 0;
  return shape("rect", {
    ...box,
    fill: style.colour,
    "fill-opacity": style.reference ? 0 : style.shade,
    stroke: hollow ? style.colour : null,
    "stroke-dasharray": style.reference ? style.dash : null,
    "data-tip": tip,
  });
}

// ---- charts

function axes(chart, width) {
  const highest = Math.max(0, ...chart.lines.flatMap((line) => line.y.filter(Number.isFinite)));
  const lowest = Math.min(0, ...chart.lines.flatMap((line) => line.y.filter(Number.isFinite)));
  const values = ticks(lowest, (highest || 1) * 1.04, 5);
  const left = Math.max(...values.map((value) => textWidth(number(value)))) + 12;
  const top = 22,
    height = 200,
    right = 12;
  const low = Math.min(lowest, values[0]),
    high = Math.max(highest * 1.04, values.at(-1)) || 1;
  const y = (value) => top + height * (1 - (value - low) / (high - low));
  const svg = shape("svg", {viewBox: `0 0 ${width} ${top + height + 42}`, role: "img", "aria-label": chart.title});
  svg.append(shape("text", {x: 0, y: 11}, chart.y_label));
  for (const value of values)
    svg.append(
      shape("line", {class: value === 0 ? "axis" : "grid", x1: left, x2: width - right, y1: y(value), y2: y(value)}),
      shape("text", {x: left - 8, y: y(value) + 4, "text-anchor": "end"}, number(value)),
    );
  svg.append(
    shape("text", {x: (left + width - right) / 2, y: top + height + 38, "text-anchor": "middle"}, chart.x_label),
  );
  let free = -Infinity; // where the last label along x ended
  const label = (text, x) => {
    const half = textWidth(text) / 2;
    if (x - half < free + 6) return;
    free = x + half;
    svg.append(shape("text", {x, y: top + height + 18, "text-anchor": "middle"}, text));
  };
  return {svg, y, left, right: width - right, label};
}

const categoryName = (chart, x) => chart.x_names[x] ?? number(x);

function barChart(chart, style, width) {
  const frame = axes(chart, width);
  const categories = [...new Set(chart.lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const band = (frame.right - frame.left) / Math.max(1, categories.length);
  const thick = Math.min(46, (band * 0.78) / Math.max(1, chart.lines.length));
  categories.forEach((category, place) => {
    const middle = frame.left + band * (place + 0.5);
    frame.label(categoryName(chart, category), middle);
    chart.lines.forEach((line, i) => {
      const value = line.y[line.x.indexOf(category)];
      if (!Number.isFinite(value)) return;
      const x = middle + thick * (i - chart.lines.length / 2);
      const inset = style[i].reference ? 1 : 0;
      const box = {
        x: x + inset,
        y: Math.min(frame.y(value), frame.y(0)),
        width: Math.max(0.5, thick - Math.min(2, thick * 0.15) - inset),
        height: Math.abs(frame.y(value) - frame.y(0)),
      };
      frame.svg.append(
        bar(
          box,
          style[i],
          `${line.name}, ${categoryName(chart, category)} ${chart.x_label}\n${number(value)} ${chart.y_label}`,
        ),
      );
      const text = number(value, 3);
      if (thick > textWidth(text, 10.5) + 2)
        frame.svg.append(
          shape("text", {class: "rate", x: x + thick / 2, y: box.y - 4, "text-anchor": "middle"}, text),
        );
    });
  });
  return frame.svg;
}

// Categories with long names are listed on the left side.
function longNames(chart) {
  return chart.bars && Math.max(0, ...chart.x_names.map((name) => name.length)) > 8;
}

function sideBarChart(chart, style, width) {
  const highest = Math.max(1e-9, ...chart.lines.flatMap((line) => line.y.filter(Number.isFinite)));
  const left = Math.min(width * 0.42, Math.max(...chart.x_names.map((name) => textWidth(name, 12))) + 10);
  const thick = 11,
    group = thick * chart.lines.length + 9;
  const bottom = 6 + group * chart.x_names.length,
    right = width - 34;
  const x = (value) => left + ((right - left) * Math.max(0, value)) / highest;
  const svg = shape("svg", {viewBox: `0 0 ${width} ${bottom + 38}`, role: "img", "aria-label": chart.title});
  for (const value of ticks(0, highest, Math.max(2, width / 120)))
    svg.append(
      shape("line", {class: value === 0 ? "axis" : "grid", x1: x(value), x2: x(value), y1: 0, y2: bottom}),
      shape("text", {x: x(value), y: bottom + 15, "text-anchor": "middle"}, number(value)),
    );
  svg.append(shape("text", {x: (left + right) / 2, y: bottom + 33, "text-anchor": "middle"}, chart.y_label));
  chart.x_names.forEach((name, place) => {
    const top = 6 + group * place;
    svg.append(shape("text", {class: "job", x: left - 8, y: top + (group - 9) / 2 + 4, "text-anchor": "end"}, name));
    chart.lines.forEach((line, i) => {
      const value = line.y[line.x.indexOf(place)];
      if (!Number.isFinite(value)) return;
      svg.append(
        bar(
          {x: x(0), y: top + thick * i, width: x(value) - x(0), height: thick - 1},
          style[i],
          `${line.name}, ${name}\n${number(value)} ${chart.y_label}`,
        ),
        shape("text", {class: "rate", x: x(value) + 4, y: top + thick * (i + 1) - 2}, number(value, 3)),
      );
    });
  });
  return svg;
}

function lineChart(chart, style, width) {
  const frame = axes(chart, width);
  const places = [...new Set(chart.lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const scaled = chart.logarithmic_x && places[0] > 0 ? Math.log2 : (value) => value;
  const from = scaled(places[0] ?? 0),
    to = scaled(places.at(-1) ?? 1);
  const inner = 12;
  const x = (value) =>
    frame.left +
    inner +
    (frame.right - frame.left - 2 * inner) * (to > from ? (scaled(value) - from) / (to - from) : 0.5);
  for (const place of places.length <= 24 ? places : ticks(places[0], places.at(-1), 8))
    frame.label(number(place), x(place));
  chart.lines.forEach((line, i) => {
    const points = line.x.map((value, k) => [value, line.y[k]]).filter((point) => Number.isFinite(point[1]));
    frame.svg.append(
      shape("polyline", {
        class: style[i].reference ? "line reference" : "line",
        stroke: style[i].colour,
        "stroke-dasharray": lineDash(style[i]),
        points: points.map((p) => `${x(p[0])},${frame.y(p[1])}`).join(" "),
      }),
    );
  });
  chart.lines.forEach((line, i) => {
    line.x.forEach((value, k) => {
      if (!Number.isFinite(line.y[k])) return;
      const tip = `${line.name}, ${number(value)} ${chart.x_label}\n${number(line.y[k])} ${chart.y_label}`;
      if (!style[i].reference) frame.svg.append(marker(style[i], x(value), frame.y(line.y[k]), tip));
    });
  });
  return frame.svg;
}

// Whether an earlier line has the same place as line `place` at two neighbouring points or more, as far as one can see.
function covers(chart, place) {
  const line = chart.lines[place];
  const near = 0.01 * largestOf(chart.lines.flatMap((each) => each.y));
  return (other) => {
    const meets = line.x.map((x, i) => Math.abs(other.y[other.x.indexOf(x)] - line.y[i]) <= near);
    return meets.some((meet, i) => meet && (meets[i + 1] || line.x.length === 1));
  };
}

// A series that lies on an earlier one is named in the legend.
function same(chart, place) {
  const line = chart.lines[place];
  const equal = (other) =>
    other.x.length === line.x.length &&
    other.x.every((value, i) => value === line.x[i] && Math.abs(other.y[i] - line.y[i]) <= 0.005 * Math.abs(line.y[i]));
  const other = chart.lines.slice(0, place).find(equal);
  return other && line.x.length ? ` (the same as ${other.name})` : "";
}

// A chart of times in the unit people read.
function readable(chart) {
  const second = {seconds: 1, s: 1, ms: 1e-3}[chart.y_label];
  if (!second) return chart;
  const {unit, factor} = timeUnit(second * largestOf(chart.lines.flatMap((line) => line.y)));
  const scaled = (value) => (Number.isFinite(value) ? value * second * factor : value);
  return {...chart, y_label: unit, lines: chart.lines.map((line) => ({...line, y: line.y.map(scaled)}))};
}

function drawChart(given) {
  const chart = readable(given);
  const style = styles(chart.lines);
  if (!chart.bars) style.forEach((each, i) => (each.over = chart.lines.slice(0, i).filter(covers(chart, i)).length));
  const plot = element("div", {class: "plot"});
  const legend = element(
    "div",
    {class: "legend"},
    ...chart.lines.map((line, i) => element("span", {}, legendKey(style[i], chart.bars), line.name + same(chart, i))),
  );
  const draw = !chart.bars ? lineChart : longNames(chart) ? sideBarChart : barChart;
  responsive(plot, (width) => plot.replaceChildren(draw(chart, style, width)));
  return element("figure", {class: "chart"}, element("figcaption", {}, chart.title), legend, plot);
}

// ---- a claim on the scale of its unit: our value is a bar, the paper's a diamond, the goal a shaded side, the bound dashed

const claimValues = (claim) =>
  [claim.ours, claim.paper, claim.goal, claim.low, claim.high, claim.bound].filter(Number.isFinite);

// One range for all claims of a unit.
function rangeOf(claims) {
  const values = claims.flatMap(claimValues);
  const from = Math.min(0, ...values);
  return {from, to: from + (Math.max(...values, from + 1e-9) - from) * 1.04};
}

const placeIn = (range, width) => (value) => 8 + ((width - 16) * (value - range.from)) / (range.to - range.from);

function scaleAxis(range, unit) {
  const plot = element("div", {class: "plot scale-axis"});
  responsive(plot, (width) => {
    const x = placeIn(range, width);
    const svg = shape("svg", {viewBox: `0 0 ${width} 22`, role: "img", "aria-label": `scale in ${unit}`});
    svg.append(shape("line", {class: "axis", x1: x(range.from), x2: x(range.to), y1: 2, y2: 2}));
    for (const value of ticks(range.from, range.to, Math.max(2, width / 90)))
      svg.append(
        shape("line", {class: "axis", x1: x(value), x2: x(value), y1: 2, y2: 6}),
        shape("text", {x: x(value), y: 18, "text-anchor": "middle"}, number(value)),
      );
    plot.replaceChildren(svg);
  });
  return plot;
}

function drawScale(claim, range) {
  const {from, to} = range;
  const plot = element("div", {class: "plot"});
  responsive(plot, (width) => {
    const x = placeIn(range, width);
    const svg = shape("svg", {
      viewBox: `0 0 ${width} 22`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": scaleText(claim),
    });
    const edges = [claim.goal, claim.low, claim.high].filter(Number.isFinite);
    if (edges.length) {
      const [a, b] = Number.isFinite(claim.low)
        ? [claim.low, claim.high]
        : claim.goal_is === "at most"
          ? [from, claim.goal]
          : [claim.goal, to];
      svg.append(
        shape("rect", {class: "goal-zone", x: x(a), y: 2, width: Math.max(0, x(b) - x(a)), height: 18}),
        ...edges.map((edge) => shape("line", {class: "goal-edge", x1: x(edge), x2: x(edge), y1: 2, y2: 20})),
      );
    }
    const ends = [x(0), x(claim.ours ?? 0)].sort((a, b) => a - b);
    svg.append(
      shape("rect", {
        class: claim.holds === false ? "ours-bar bad" : "ours-bar",
        x: ends[0],
        y: 8,
        width: Math.max(1, ends[1] - ends[0]),
        height: 6,
      }),
    );
    if (Number.isFinite(claim.bound))
      svg.append(shape("line", {class: "bound-mark", x1: x(claim.bound), x2: x(claim.bound), y1: 1, y2: 21}));
    if (Number.isFinite(claim.paper)) {
      const p = x(claim.paper);
      svg.append(shape("path", {class: "paper-mark", d: `M${p} 5.5L${p + 5.5} 11L${p} 16.5L${p - 5.5} 11Z`}));
    }
    svg.setAttribute("data-tip", scaleText(claim));
    plot.replaceChildren(svg);
  });
  return plot;
}

function scaleText(claim) {
  const parts = [`ours ${number(claim.ours)} ${claim.unit}`];
  if (Number.isFinite(claim.paper)) parts.push(`paper ${number(claim.paper)}`);
  if (Number.isFinite(claim.low)) parts.push(`wanted ${number(claim.low)} to ${number(claim.high)}`);
  if (Number.isFinite(claim.goal)) parts.push(`goal ${claim.goal_is} ${number(claim.goal)}`);
  if (Number.isFinite(claim.bound)) parts.push(`bound ${number(claim.bound)}`);
  return parts.join("\n");
}
