// SPDX-License-Identifier: Apache-2.0
#include "lab/report_template.h"

namespace tutti::lab {

// Colours are variables, so that light, dark and print differ in one place. --series-0..7 are for charts: fifo is
// always the grey of the first, what the charts compare with it has the others.
const std::string_view kReportStyle = R"css(
:root {
  --ground: #fcfcfa; --raised: #fff; --ink: #1b2027; --soft: #5a636e; --rule: #dcdfe3; --tint: #f3f4f5;
  --good: #1d7148; --bad: #b02318; --bad-tint: #fcefed; --accent: #2a5d9c;
  --compute: #d5d9de; --io: #2a6fb0;
  --series-0: #7b838d; --series-1: #2a6fb0; --series-2: #c4561b; --series-3: #1a8576; --series-4: #7a5aa6;
  --series-5: #a97f00; --series-6: #b0446c; --series-7: #65792a;
  --sans: "Inter", "Source Sans 3", "Segoe UI", "Helvetica Neue", Roboto, "DejaVu Sans", Arial, sans-serif;
  --serif: "Charter", "Bitstream Charter", "Source Serif 4", "Iowan Old Style", Georgia, "DejaVu Serif", serif;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, monospace;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #15181c; --raised: #1b1f24; --ink: #e4e7ea; --soft: #9aa4af; --rule: #333a42; --tint: #20252b;
    --good: #62c08e; --bad: #f0837a; --bad-tint: #3a2220; --accent: #86b6ec;
    --compute: #3a424b; --io: #4d94d6;
    --series-0: #98a2ad; --series-1: #5aa2e4; --series-2: #ea8a4f; --series-3: #4cbfae; --series-4: #b193de;
    --series-5: #d6b13f; --series-6: #e27ea3; --series-7: #a2bb58;
  }
}
* { box-sizing: border-box; }
html { background: var(--ground); color: var(--ink); font: 15px/1.5 var(--sans); -webkit-text-size-adjust: 100%; }
body { margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 72px; }
h1, h2 { font-family: var(--serif); font-weight: 600; line-height: 1.2; letter-spacing: -0.005em; text-wrap: balance; }
h1 { font-size: 32px; margin: 0 0 8px; }
h2 { font-size: 23px; margin: 0; }
h3 { font-size: 14px; font-weight: 600; margin: 28px 0 8px; }
p { margin: 6px 0; max-width: 46em; }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
code { font: 0.9em var(--mono); overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.small { font-size: 13px; }
section { margin-top: 44px; padding-top: 26px; border-top: 1px solid var(--rule); }
header section, section:first-of-type { border-top-color: var(--ink); }
.verdict { font-family: var(--serif); font-size: 19px; margin: 4px 0 10px; }
.verdict b { font-weight: 600; }
.failing { border-left: 3px solid var(--bad); background: var(--bad-tint); padding: 10px 16px; margin: 14px 0; }
.failing ul { margin: 4px 0 0; padding-left: 18px; }
.failing p { margin: 0; font-weight: 600; color: var(--bad); }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: 1px 14px; margin: 10px 0 0; font-size: 13px; }
dl.facts dt { color: var(--soft); }
dl.facts dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }

.wide { overflow-x: auto; margin: 12px 0; -webkit-overflow-scrolling: touch; }
.source { max-width: none; }
table { border-collapse: collapse; font-size: 13px; line-height: 1.35;
  font-variant-numeric: tabular-nums lining-nums; width: 100%; }
table.rows { width: auto; min-width: min(100%, 520px); }
th { text-align: left; font-weight: 600; color: var(--soft); vertical-align: bottom;
  border-bottom: 1px solid var(--ink); }
th, td { padding: 5px 14px 5px 0; }
th:last-child, td:last-child { padding-right: 4px; }
td { border-bottom: 1px solid var(--rule); vertical-align: top; }
tbody tr:last-child td { border-bottom-color: var(--ink); }
.figure { text-align: right; white-space: nowrap; }
.ours { font-weight: 600; }
tr.group td { padding-top: 16px; font-weight: 600; border-bottom-color: var(--ink); }
tr.fails td { background: var(--bad-tint); }
tr.fails td:first-child { box-shadow: inset 3px 0 0 var(--bad); padding-left: 10px; }
td.what { min-width: 15em; }
.name { line-height: 1.3; }
.name code { display: block; color: var(--soft); font-size: 11.5px; }
td.what code { display: block; color: var(--soft); font-size: 11.5px; overflow-wrap: normal; }
.holds, .fails-mark { white-space: nowrap; font-weight: 600; }
.holds { color: var(--good); }
.fails-mark { color: var(--bad); }
button { font: 500 13px var(--sans); color: var(--ink); background: var(--raised); border: 1px solid var(--rule);
  border-radius: 4px;
  padding: 3px 10px; min-width: 30px; min-height: 28px; cursor: pointer; }
button:hover { border-color: var(--soft); }
button:focus-visible, .plot:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }

.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 440px), 1fr)); gap: 28px 36px;
  margin-top: 20px; }
.charts.single { grid-template-columns: minmax(0, 760px); }
figure { margin: 0; min-width: 0; break-inside: avoid; }
figcaption { font-weight: 600; font-size: 14px; }
figcaption .soft { font-weight: 400; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: 12.5px; margin: 4px 0; color: var(--soft); }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
.plot { width: 100%; }
svg { display: block; width: 100%; height: auto; overflow: visible; font-family: var(--sans); }
svg.key { width: 24px; height: 12px; flex: none; }
svg text { fill: var(--soft); font-size: 11.5px; font-variant-numeric: tabular-nums; }
svg .rate { fill: var(--ink); font-size: 10.5px; }
svg .job { fill: var(--ink); font-size: 12px; }
svg .grid { stroke: var(--rule); stroke-width: 1; shape-rendering: crispEdges; }
svg .axis { stroke: var(--soft); stroke-width: 1; shape-rendering: crispEdges; }
svg .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
svg .reference { stroke-width: 1.3; }
svg .compute { fill: var(--compute); }
svg .waiting { fill: var(--ground); stroke: var(--soft); stroke-width: 1; }
svg .io { fill: var(--io); }
svg .ours-bar { fill: var(--accent); }
svg .ours-bar.bad { fill: var(--bad); }
svg .goal-zone { fill: var(--good); opacity: 0.16; }
svg .goal-edge { stroke: var(--good); stroke-width: 1.5; }
svg .paper-mark { fill: var(--ground); stroke: var(--ink); stroke-width: 1.5; }
svg .bound-mark { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 2 2; }

.scales { display: grid; grid-template-columns: minmax(13em, 5fr) minmax(12em, 5fr) max-content; gap: 6px 18px;
  align-items: center; font-size: 13px; }
.scales .value { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scales .value .soft { font-size: 12px; }
.scales svg { height: 22px; }

.timeline { margin-top: 24px; break-inside: avoid; }
.timeline .bar { display: flex; flex-wrap: wrap; align-items: center; gap: 6px; margin: 6px 0; }
.timeline .bar .soft { margin-left: 6px; font-size: 12.5px; font-variant-numeric: tabular-nums; }
.timeline .plot { touch-action: pan-y; cursor: grab; user-select: none; -webkit-user-select: none; }
.timeline .plot.moving { cursor: grabbing; }
#tip { position: fixed; z-index: 2; pointer-events: none; background: var(--ink); color: var(--ground);
  border-radius: 4px;
  padding: 4px 9px; font-size: 12.5px; line-height: 1.4; max-width: 320px; white-space: pre-line;
  font-variant-numeric: tabular-nums; }
.broken { border-left: 3px solid var(--bad); background: var(--bad-tint); padding: 10px 16px; color: var(--bad);
  font-weight: 600; }
footer { margin-top: 48px; padding-top: 14px; border-top: 1px solid var(--rule); font-size: 13px; color: var(--soft); }

@media (max-width: 640px) {
  main { padding: 24px 16px 48px; }
  h1 { font-size: 26px; }
  h2 { font-size: 21px; overflow-wrap: anywhere; }
  td.what { min-width: 9em; }
  .name { line-height: 1.3; }
.name code { display: block; color: var(--soft); font-size: 11.5px; }
td.what code { overflow-wrap: anywhere; }
  .claims .word { display: none; }
  .claims th, .claims td { padding-right: 8px; }
  .scales { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .scales > :nth-child(3n + 1) { margin-top: 10px; }
  .scales > .value { text-align: left; }
}
@media screen { .hidden-row { display: none; } }
@media print {
  @page { margin: 16mm 14mm; }
  html { font-size: 10pt; background: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  button, #tip { display: none; }
  .charts { grid-template-columns: 1fr 1fr; gap: 16px 24px; }
  .charts.single { grid-template-columns: 75%; }
  .wide { overflow: visible; }
  table { font-size: 8pt; }
  th, td { padding-right: 8px; }
  td.what { min-width: 0; }
  .name { line-height: 1.3; }
.name code { display: block; color: var(--soft); font-size: 11.5px; }
td.what code { font-size: 7pt; overflow-wrap: anywhere; }
  thead { display: table-header-group; }
  tr, .scales > * { break-inside: avoid; }
  h2, h3, figcaption { break-after: avoid; }
  section { margin-top: 24px; padding-top: 14px; }
  a { color: inherit; }
}
)css";

}  // namespace tutti::lab
