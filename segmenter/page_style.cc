// The looks of the HTML page: quiet colours, one accent, light and dark.
#include "segmenter/dump_html.h"

namespace seam {

const char kPageStyle[] = R"css(
:root {
  color-scheme: light;
  --paper: #fbfbfa; --panel: #ffffff; --ink: #1c1f24; --dim: #6b7280; --line: #e4e4e0;
  --soft: #f3f3f0; --edge: #9ca3af; --accent: #2f5fd0; --accent-soft: #e8eefc;
  --good: #15803d; --good-soft: #dcfce7; --bad: #b45309; --bad-soft: #fef3c7; --shadow: #0000000f;
  --pointwise: #0f8a62; --horizontal: #0d9488; --reduction: #2f5fd0; --library: #c2570c; --alias: #8a8f98;
  --transpose: #0e7490; --template: #a16207; --communication: #8b3fb8; --none: #8a8f98;
  --code-keyword: #7c3aed; --code-comment: #7b8794; --code-number: #b45309;
}
:root[data-theme=dark] {
  color-scheme: dark;
  --paper: #15171b; --panel: #1b1e23; --ink: #e6e7ea; --dim: #969ca8; --line: #2e3239;
  --soft: #23272d; --edge: #646b78; --accent: #86a8ff; --accent-soft: #25304d;
  --good: #4ade80; --good-soft: #173524; --bad: #fbbf24; --bad-soft: #3d3014; --shadow: #00000066;
  --pointwise: #3fbf93; --horizontal: #2dd4bf; --reduction: #86a8ff; --library: #f39a5b; --alias: #9aa0aa;
  --transpose: #4fc3d9; --template: #e0b64a; --communication: #c694ec; --none: #9aa0aa;
  --code-keyword: #b9a1ff; --code-comment: #7f8793; --code-number: #e5ae5a;
}
* { box-sizing: border-box; }
html, body { height: 100%; margin: 0; }
body {
  display: grid; grid-template: auto minmax(0, 1fr) auto / minmax(0, 1fr) 440px;
  grid-template-areas: "top top" "graph side" "steps side";
  background: var(--paper); color: var(--ink);
  font: 14px/1.5 ui-sans-serif, system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
code, pre, .mono {
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: 12px;
}
button, input { font: inherit; color: inherit; }
button {
  background: var(--panel); border: 1px solid var(--line); border-radius: 7px; padding: 3px 10px;
  cursor: pointer;
}
button:hover { border-color: var(--edge); }
button:disabled { opacity: .4; cursor: default; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
header {
  grid-area: top; display: flex; align-items: center; gap: 16px; padding: 10px 18px;
  background: var(--panel); border-bottom: 1px solid var(--line);
}
h1 { font-size: 16px; font-weight: 650; margin: 0; overflow: hidden; text-overflow: ellipsis; }
header .facts { color: var(--dim); white-space: nowrap; overflow: hidden; text-overflow: ellipsis; flex: 1; }
.find { position: relative; width: 300px; flex: none; }
.find input {
  width: 100%; padding: 5px 12px; border: 1px solid var(--line); border-radius: 8px;
  background: var(--soft);
}
#hits {
  position: absolute; z-index: 5; top: 38px; right: 0; width: 460px; max-height: 60vh;
  overflow: auto; background: var(--panel); border: 1px solid var(--line); border-radius: 10px;
  box-shadow: 0 8px 30px var(--shadow); padding: 6px;
}
#hits:empty { display: none; }
#hits button {
  display: flex; gap: 10px; width: 100%; border: 0; text-align: left; background: none;
  align-items: baseline;
}
#hits button:hover, #hits button.current { background: var(--accent-soft); }
#hits .where { color: var(--dim); flex: none; min-width: 38px; font-size: 12px; }
#hits .what { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
#hits p { margin: 6px 10px; color: var(--dim); }
#graph { grid-area: graph; width: 100%; height: 100%; cursor: grab; touch-action: none; display: block; }
#graph.moving { cursor: grabbing; }
.tools { grid-area: graph; justify-self: start; align-self: end; margin: 14px; display: flex; gap: 6px; z-index: 1; }
.tools button { min-width: 34px; background: var(--panel); }
aside {
  grid-area: side; overflow: auto; background: var(--panel); border-left: 1px solid var(--line);
  padding: 18px 20px 40px;
}
aside h2 { font-size: 17px; margin: 0 0 2px; display: flex; align-items: center; gap: 10px; flex-wrap: wrap; }
aside h3 { font-size: 12px; margin: 22px 0 6px; color: var(--dim); font-weight: 600; letter-spacing: .02em; }
aside p { margin: 8px 0; }
p code { background: var(--soft); border-radius: 4px; padding: 0 3px; }
.back { float: right; }
.dimmed { color: var(--dim); }
.badge {
  font-size: 12px; font-weight: 600; padding: 1px 9px; border-radius: 99px; color: var(--panel);
  background: var(--c, var(--dim));
}
.badge.reason { background: var(--bad-soft); color: var(--bad); }
.badge.good { background: var(--good-soft); color: var(--good); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; margin: 10px 0; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
ul.rows { list-style: none; margin: 0; padding: 0; }
ul.rows li { content-visibility: auto; contain-intrinsic-size: auto 28px; }
.row {
  display: flex; gap: 10px; width: 100%; padding: 4px 8px; margin: 0 -8px; border: 0; background: none;
  text-align: left; border-radius: 6px; align-items: baseline;
}
button.row:hover { background: var(--soft); }
.row .grow { flex: 1; min-width: 0; overflow-wrap: anywhere; }
.row .end { color: var(--dim); white-space: nowrap; font-size: 12.5px; }
.exprs { counter-reset: none; background: var(--soft); border-radius: 8px; padding: 8px 0; overflow-x: auto; }
.exprs div { display: flex; gap: 12px; padding: 1px 12px; white-space: pre; }
.exprs .n { color: var(--dim); min-width: 24px; text-align: right; user-select: none; }
.exprs .copy { color: var(--dim); }
.exprs .hit { background: var(--accent-soft); }
details { margin: 8px 0; border: 1px solid var(--line); border-radius: 8px; }
summary { padding: 6px 12px; cursor: pointer; }
details pre {
  margin: 0; padding: 10px 12px; border-top: 1px solid var(--line); overflow: auto; max-height: 55vh;
  background: var(--soft); border-radius: 0 0 8px 8px; line-height: 1.45; tab-size: 2;
}
.kw { color: var(--code-keyword); } .cm { color: var(--code-comment); } .nu { color: var(--code-number); }
a { color: var(--accent); cursor: pointer; text-decoration: none; }
a:hover { text-decoration: underline; }
footer {
  grid-area: steps; display: flex; align-items: center; gap: 8px; padding: 8px 18px; min-width: 0;
  background: var(--panel); border-top: 1px solid var(--line);
}
footer input[type=range] { width: 180px; flex: none; accent-color: var(--accent); }
footer .said { color: var(--dim); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; min-width: 0; }
footer .said b { color: var(--ink); font-weight: 600; }

#graph text { fill: var(--ink); font-size: 12px; }
#graph .code {
  font: 11.5px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  white-space: pre;
}
#graph .quiet { fill: var(--dim); }
.node { cursor: pointer; }
.node > rect.box { fill: var(--panel); stroke: var(--line); stroke-width: 1.2; }
.node > rect.bar { fill: var(--c); }
.node.group > rect.box { stroke: color-mix(in srgb, var(--c) 45%, var(--line)); }
.node:hover > rect.box { stroke: var(--c, var(--edge)); }
.node .title { font-weight: 650; }
.node .kind { fill: var(--c) !important; font-weight: 600; font-size: 11px !important; }
.node.pill > rect.box { fill: var(--soft); stroke: var(--edge); }
.node.far .title { font-size: 26px !important; }
.node.selected > rect.box { stroke: var(--accent); stroke-width: 2.6; }
.node.merged > rect.box { stroke: var(--good); stroke-width: 2.6; }
.node.refused > rect.box { stroke: var(--bad); stroke-width: 2.6; }
.far .box, .far path.line { vector-effect: non-scaling-stroke; }
.far path.line { marker-end: none; stroke-width: 1; }
.far .group > rect.box { fill: color-mix(in srgb, var(--c) 14%, var(--panel)); }
.dim { opacity: .38; }
.mark { fill: none; }
.mark.merged { fill: var(--good-soft); } .mark.refused { fill: var(--bad-soft); }
.mark.found { fill: var(--accent-soft); }
.edge path.line { fill: none; stroke: var(--edge); stroke-width: 1.3; }
.edge path.hit { fill: none; stroke: transparent; stroke-width: 14; }
.edge.order path.line { stroke-dasharray: 5 4; }
.edge.border { cursor: pointer; }
.edge.border:hover path.line, .edge.selected path.line { stroke: var(--accent); stroke-width: 2.2; }
.edge rect { fill: var(--paper); }
.edge.border:hover rect, .edge.selected rect { fill: var(--accent-soft); }
#arrow path { fill: var(--edge); }

@media (max-width: 900px) {
  body { grid-template: auto minmax(0, 1fr) auto minmax(0, 45vh) / minmax(0, 1fr);
    grid-template-areas: "top" "graph" "steps" "side"; }
  aside { border-left: 0; border-top: 1px solid var(--line); }
  header .facts, footer input[type=range] { display: none; }
  .find { width: 45%; margin-left: auto; }
}
)css";

}  // namespace seam
