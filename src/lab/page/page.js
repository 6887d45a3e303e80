// SPDX-License-Identifier: Apache-2.0
const data = JSON.parse(document.getElementById("data").textContent);
const kManyRows = 24;

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const anchor = (name) => "experiment-" + name.replace(/[^A-Za-z0-9]+/g, "-");
const goalText = (claim) =>
  Number.isFinite(claim.low)
    ? `${number(claim.low)} to ${number(claim.high)}`
    : claim.goal === null
      ? "\u2013"
      : (claim.goal_is === "at most" ? "\u2264\u202f" : "\u2265\u202f") + number(claim.goal);
const withUnit = (value, unit) =>
  number(value) +
  (value === null || !unit ? "" : unit === "x" ? "\u00d7" : (unit === "%" ? "\u202f" : "\u00a0") + unit);
const mark = (claim) =>
  claim.holds === null
    ? element("span", {class: "soft"}, claim.fitted ? "fitted" : "undecided")
    : claim.holds
      ? element("span", {class: "holds"}, "\u2713", element("span", {class: "word"}, " holds"))
      : element("span", {class: "fails-mark"}, "\u2717", element("span", {class: "word"}, " does not hold"));

// ---- claims

function claimRow(claim) {
  return element(
    "tr",
    {class: claim.holds === false ? "claim fails" : "claim"},
    element("td", {class: "what"}, claim.what, element("code", {}, claim.id)),
    element("td", {}, claim.kind),
    element("td", {class: "figure"}, number(claim.paper)),
    element("td", {class: "figure"}, goalText(claim)),
    element(
      "td",
      {class: "figure ours"},
      withUnit(claim.ours, claim.unit),
      Number.isFinite(claim.interval) ? element("span", {class: "soft"}, ` \u00b1 ${number(claim.interval)}`) : null,
    ),
    element("td", {class: "figure"}, number(claim.bound)),
    element("td", {}, mark(claim)),
  );
}

function summary() {
  const all = data.results
    .flatMap((result) => result.claims.map((claim) => ({claim, result})))
    .filter(({claim}) => claim.holds !== null);
  if (!all.length) return null;
  const failing = all.filter(({claim}) => !claim.holds);
  const head = element(
    "thead",
    {},
    element(
      "tr",
      {},
      element("th", {scope: "col"}, "Claim"),
      element("th", {scope: "col"}, "Kind"),
      ...["Paper", "Wanted", "Ours", "Bound"].map((name) => element("th", {class: "figure", scope: "col"}, name)),
      element("th", {scope: "col"}, "Result"),
    ),
  );
  const bodies = data.results
    .filter((result) => result.claims.length)
    .map((result) =>
      element(
        "tbody",
        {},
        element(
          "tr",
          {class: "group"},
          element(
            "td",
            {colspan: "7"},
            element("a", {href: "#" + anchor(result.name)}, result.name),
            result.figure ? element("span", {class: "soft"}, ` \u2014 ${result.figure}`) : null,
          ),
        ),
        ...result.claims.map(claimRow),
      ),
    );
  const verdict = element(
    "p",
    {class: "verdict"},
    element("b", {}, `${all.length - failing.length} of ${plural(all.length, "claim")}`),
    failing.length ? " hold." : all.length === 1 ? " holds." : " hold, all of them.",
  );
  const alarm = failing.length
    ? element(
        "div",
        {class: "failing", role: "note"},
        element("p", {}, failing.length === 1 ? "One claim does not hold" : `${failing.length} claims do not hold`),
        element(
          "ul",
          {},
          ...failing.map(({claim, result}) =>
            element(
              "li",
              {},
              element("a", {href: "#" + anchor(result.name)}, claim.id),
              `: ${claim.what}: ${withUnit(claim.ours, claim.unit)}, goal ${goalText(claim)}`,
            ),
          ),
        ),
      )
    : null;
  return element(
    "section",
    {id: "summary"},
    element("h2", {}, "Claims"),
    verdict,
    alarm,
    element(
      "p",
      {class: "soft small"},
      "Reproduced: the paper's method on the paper's set-up, wanted inside 20% of the paper's figure. Advance: our method " +
        "against the best baseline. Bound is what nothing can beat. Ours was computed or measured in this run, with its " +
        "95% interval; a claim that the interval does not decide is undecided.",
    ),
    element("div", {class: "wide"}, element("table", {class: "claims"}, head, ...bodies)),
  );
}

const kUnits = {x: "times", t: "t, the paper's unit of time"};

function scales(result) {
  const shown = result.claims.filter((claim) => [claim.paper, claim.goal, claim.bound].some(Number.isFinite));
  if (!shown.length) return null;
  const occurs = (name) => shown.some((claim) => Number.isFinite(claim[name]));
  const key = (...shapes) => shape("svg", {class: "key", viewBox: "0 0 24 12", "aria-hidden": "true"}, ...shapes);
  const legend = element(
    "div",
    {class: "legend"},
    element("span", {}, key(shape("rect", {class: "ours-bar", x: 1, y: 3, width: 22, height: 6})), "ours"),
    occurs("paper")
      ? element("span", {}, key(shape("path", {class: "paper-mark", d: "M12 1L17 6L12 11L7 6Z"})), "paper")
      : null,
    occurs("goal") || occurs("low")
      ? element(
          "span",
          {},
          key(
            shape("rect", {class: "goal-zone", x: 1, y: 0, width: 22, height: 12}),
            shape("line", {class: "goal-edge", x1: 1, x2: 1, y1: 0, y2: 12}),
          ),
          "where the goal is met",
        )
      : null,
    occurs("bound")
      ? element("span", {}, key(shape("line", {class: "bound-mark", x1: 12, x2: 12, y1: 0, y2: 12})), "bound")
      : null,
  );
  const ranges = new Map();
  for (const unit of new Set(shown.map((claim) => claim.unit)))
    ranges.set(unit, rangeOf(shown.filter((claim) => claim.unit === unit)));
  const row = (claim) => [
    element("div", {class: "name"}, claim.what, element("code", {}, claim.id)),
    drawScale(claim, ranges.get(claim.unit)),
    element(
      "div",
      {class: "value"},
      element("b", {}, withUnit(claim.ours, claim.unit)),
      Number.isFinite(claim.paper) ? element("span", {class: "soft"}, ` paper ${number(claim.paper)}`) : null,
      claim.holds !== false ? null : element("span", {class: "fails-mark"}, " \u2717"),
    ),
  ];
  const rows = [...ranges].flatMap(([unit, range]) => [
    ...shown.filter((claim) => claim.unit === unit).flatMap(row),
    element("div"),
    scaleAxis(range, unit),
    element("div", {class: "soft value"}, kUnits[unit] ?? unit),
  ]);
  return element(
    "figure",
    {},
    element("h3", {}, "Ours beside the " + (shown.some((claim) => Number.isFinite(claim.paper)) ? "paper" : "goal")),
    legend,
    element("div", {class: "scales"}, ...rows),
  );
}

// ---- tables

// Columns of times, with names such as "makespan s", in the unit people read.
function readableColumns(given) {
  const columns = [],
    rows = given.rows.map(() => ({}));
  for (const column of given.columns) {
    const largest = largestOf(given.rows.map((row) => row[column]));
    const {unit, factor} = timeUnit(column.endsWith(" s") ? largest : 0);
    const name = unit === "s" ? column : column.slice(0, -1) + unit;
    columns.push(name);
    given.rows.forEach((row, i) => {
      rows[i][name] = typeof row[column] === "number" && factor !== 1 ? row[column] * factor : row[column];
    });
  }
  return {columns, rows};
}

// `given` has columns and rows: an experiment or one of its detail tables.
function rowsTable(given, title = "Table") {
  if (!given.rows.length) return null;
  const result = readableColumns(given);
  const numeric = result.columns.map((column) => result.rows.some((row) => typeof row[column] === "number"));
  const formats = result.columns.map((column) => columnFormat(result.rows.map((row) => row[column])));
  const head = element(
    "thead",
    {},
    element(
      "tr",
      {},
      ...result.columns.map((column, i) =>
        element("th", {class: numeric[i] ? "figure" : null, scope: "col"}, column),
      ),
    ),
  );
  const body = element(
    "tbody",
    {},
    ...result.rows.map((row, place) =>
      element(
        "tr",
        {class: place >= kManyRows ? "hidden-row" : null},
        ...result.columns.map((column, i) =>
          element("td", {class: numeric[i] ? "figure" : null}, formats[i](row[column])),
        ),
      ),
    ),
  );
  const parts = [
    element("h3", {}, title),
    element("div", {class: "wide"}, element("table", {class: "rows"}, head, body)),
  ];
  if (result.rows.length > kManyRows) {
    const more = element("button", {type: "button"}, `Show all ${result.rows.length} rows`);
    more.addEventListener("click", () => {
      for (const row of body.querySelectorAll(".hidden-row")) row.classList.remove("hidden-row");
      more.remove();
    });
    parts.push(more);
  }
  return element("div", {}, ...parts);
}

// ---- the page

function facts(result) {
  const pairs = [
    ["Paper", [result.paper, result.figure].filter(Boolean).join(", ")],
    ["Device", result.device],
    [
      "Run",
      (result.mode === "live" ? "on real nodes" : "simulated") +
        `, took ${result.seconds < 0.1 ? "less than 0.1" : number(result.seconds, 2)} s`,
    ],
  ];
  return element(
    "dl",
    {class: "facts"},
    ...pairs.filter((pair) => pair[1]).flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]),
  );
}

// The answer: one sentence, and bars on one scale.
function answer({sentence, unit, bars}) {
  if (!sentence) return null;
  const longest = largestOf(bars.map((each) => each.value)) || 1;
  const style = styles(bars);
  return element(
    "div",
    {class: "answer"},
    element("p", {class: "sentence"}, sentence[0].toUpperCase() + sentence.slice(1) + "."),
    ...bars.map((each, i) =>
      element(
        "div",
        {class: "answer-row"},
        element("span", {}, each.name),
        element("span", {
          class: "answer-bar",
          style: `width:${(60 * Math.abs(each.value)) / longest}%;background:${style[i].colour}`,
        }),
        element("b", {}, unit === "s" ? timeText(each.value) : withUnit(each.value, unit)),
      ),
    ),
  );
}

function experiment(result) {
  const failing = result.claims.filter((claim) => claim.holds === false).length;
  return element(
    "section",
    {id: anchor(result.name), class: "experiment"},
    element("h2", {}, result.name),
    data.results.length > 1 ? answer(result.answer) : null,
    result.what ? element("p", {}, result.what[0].toUpperCase() + result.what.slice(1) + ".") : null,
    failing
      ? element(
          "p",
          {class: "fails-mark"},
          `\u2717 ${failing} of ${plural(result.claims.length, "claim")} ${failing === 1 ? "does" : "do"} not hold`,
        )
      : null,
    facts(result),
    rowsTable(result),
    ...result.details.map((detail) => rowsTable(detail, detail.title)),
    scales(result),
    result.charts.length
      ? element(
          "div",
          {class: result.charts.length === 1 ? "charts single" : "charts"},
          ...result.charts.map(drawChart),
        )
      : null,
    ...timelines(result),
  );
}

// All timelines of an experiment have the same scale, so that they can be compared.
function timelines(result) {
  const end = result.timelines.reduce(
    (most, each) => each.segments.reduce((to, segment) => Math.max(to, segment[3]), most),
    1e-9,
  );
  return result.timelines.map((each) => drawTimeline(each, end));
}

function followTips() {
  const tip = element("div", {id: "tip", hidden: ""});
  document.body.append(tip);
  addEventListener("pointermove", (event) => {
    const text = event.target.closest?.("[data-tip]")?.getAttribute("data-tip");
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4)) + "px";
    tip.style.top =
      (event.clientY + 18 + tip.offsetHeight > innerHeight
        ? event.clientY - tip.offsetHeight - 10
        : event.clientY + 18) + "px";
  });
}

function header() {
  return element(
    "header",
    {},
    element("h1", {}, data.title),
    answer(data.answer),
    element(
      "p",
      {class: "soft small source"},
      data.generated ? data.generated : null,
      data.generated && data.command ? " \u00b7 " : null,
      data.command ? element("code", {}, data.command) : null,
    ),
  );
}

report.replaceChildren(
  ...[
    header(),
    summary(),
    ...data.results.map(experiment),
    element(
      "footer",
      {},
      "Tutti. This page is complete in itself: its data is inside it as JSON, and it loads nothing.",
    ),
  ].filter(Boolean),
);
for (const draw of kFigures) draw();
followTips();
document.documentElement.dataset.drawn = "yes";
