// What the HTML page does. It draws what is in view alone, and less of it from afar, so that
// thousands of groups stay usable; all text enters the document as text, never as markup.
#include "segmenter/dump_html.h"

namespace seam {

// Two literals, since a compiler need not take longer ones than 65,536 characters.
const char kPageScript[] = R"js('use strict';
const D = JSON.parse(document.getElementById('data').textContent);

// --- Elements ---

function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k === 'onclick' || k === 'oninput') e[k] = v;
    else if (v !== undefined && v !== false) e.setAttribute(k, v === true ? '' : v);
  }
  e.append(...children.filter(c => c !== undefined && c !== null));
  return e;
}
function sv(tag, attributes, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}
// Text in which what stands between backticks is code.
const rich = text => text.split('`').map((part, i) => i % 2 ? el('code', {}, part) : part);
const count = (n, what) => n + ' ' + what + (n === 1 ? '' : 's');
const time = us => us < 1000 ? us.toPrecision(3) + ' \u00b5s' : (us / 1000).toPrecision(3) + ' ms';

D.values = Object.fromEntries(D.values.map(v => [v.name, v]));
D.beginnings = new Map(D.beginnings);
const group_of = new Map(D.groups.map(g => [g.id, g]));
const node_of = new Map(D.nodes.map((n, i) => [n.group, i]).filter(([g]) => g !== undefined));
const pill_of = new Map();
D.nodes.forEach((n, i) => { if (n.value !== undefined) pill_of.set(n.value, i); });
const border_key = (a, b) => Math.min(a, b) + '-' + Math.max(a, b);
const border_of = new Map(D.borders.map(b => [border_key(b.from, b.to), b]));
const borders_at = new Map(D.groups.map(g => [g.id, []]));
for (const b of D.borders) { borders_at.get(b.from).push(b); borders_at.get(b.to).push(b); }

// --- The page ---

const symbols = Object.entries(D.symbols).map(([k, v]) => k + ' = ' + v).join(', ');
const facts = count(D.kernels, 'kernel') + ', ' + D.traffic + ' of device memory traffic' + (symbols ? ' at ' + symbols : '');
const find = el('input', {id: 'find', type: 'search', placeholder: 'Find a value or an operation ( / )',
                          'aria-label': 'Find', autocomplete: 'off'});
const hits = el('div', {id: 'hits'});
const theme = el('button', {id: 'theme', title: 'Light or dark', onclick: () => set_theme(
    document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark')}, '\u25d0');
const world = sv('g', {id: 'world'}), edge_layer = sv('g', {}), node_layer = sv('g', {});
world.append(edge_layer, node_layer);
const canvas = sv('svg', {id: 'graph', 'aria-label': 'The groups and what passes between them'},
    sv('defs', {}, sv('marker', {id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 9,
       markerHeight: 9, markerUnits: 'userSpaceOnUse', orient: 'auto'}, sv('path', {d: 'M0,0.8 L7.4,4 L0,7.2 z'}))), world);
const side = el('aside', {id: 'side'});
const slider = el('input', {id: 'step', type: 'range', min: 0, max: D.merges.length, value: D.merges.length,
                            'aria-label': 'Merge', oninput: () => go_to_step(+slider.value)});
const said = el('span', {class: 'said', id: 'said'});
const step_button = (id, text, title, by) => el('button', {id, title, onclick: () => go_to_step(by())}, text);
const steps = el('footer', {},
    step_button('first', '|\u25c0', 'Before the first merge', () => 0),
    step_button('previous', '\u25c0', 'The merge before  ( , )', () => stepping ? step - 1 : step),
    step_button('next', '\u25b6', 'The next merge  ( . )', () => stepping ? step + 1 : 1),
    el('button', {id: 'last', title: 'The result', onclick: select_nothing}, '\u25b6|'), slider, said);
document.body.append(
    el('header', {}, el('h1', {}, D.name), el('span', {class: 'facts'}, facts),
       el('div', {class: 'find'}, find, hits), theme),
    canvas,
    el('div', {class: 'tools'},
       el('button', {title: 'All of it  ( 0 )', id: 'fit', onclick: () => fit()}, 'Fit'),
       el('button', {title: 'Closer  ( + )', onclick: () => zoom(1.3)}, '+'),
       el('button', {title: 'Farther  ( - )', onclick: () => zoom(1 / 1.3)}, '\u2212')),
    side);
if (D.merges.length) document.body.append(steps);

function set_theme(name) { document.documentElement.dataset.theme = name; }
set_theme(window.matchMedia && matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');

// --- What is in view ---

let view = {x: 0, y: 0, k: 1}, selected = null, found = null, queued = false;
const drawn_nodes = new Map(), drawn_edges = new Map();
for (const e of D.edges) {
  const xs = e.route.filter((_, i) => i % 2 === 0), ys = e.route.filter((_, i) => i % 2 === 1);
  e.box = [Math.min(...xs, e.x - e.w / 2), Math.min(...ys), Math.max(...xs, e.x + e.w / 2), Math.max(...ys)];
  const a = D.nodes[e.from].group, b = D.nodes[e.to].group;
  e.border = a !== undefined && b !== undefined ? border_key(a, b) : null;
}

function draw_soon() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => { queued = false; draw(); });
}

function draw() {
  canvas.classList.toggle('far', view.k < 0.42);
  world.setAttribute('transform', `translate(${view.x} ${view.y}) scale(${view.k})`);
  const w = canvas.clientWidth / view.k, h = canvas.clientHeight / view.k;
  const left = -view.x / view.k, top = -view.y / view.k;
  const level = view.k >= 0.42 ? 2 : view.k >= 0.12 ? 1 : 0;
  const show = (drawn, layer, items, box, make) => {
    for (let i = 0; i < items.length; ++i) {
      const [x0, y0, x1, y1] = box(items[i]);
      const visible = x1 >= left && x0 <= left + w && y1 >= top && y0 <= top + h;
      const old = drawn.get(i);
      if (old && visible && old.level === level) continue;
      if (old) { old.element.remove(); drawn.delete(i); }
      if (!visible) continue;
      const element = make(items[i], i, level);
      layer.append(element);
      drawn.set(i, {element, level});
    }
  };
  show(drawn_edges, edge_layer, D.edges, e => e.box, make_edge);
  show(drawn_nodes, node_layer, D.nodes, n => [n.x, n.y, n.x + n.w, n.y + n.h], make_node);
}

function redraw() {
  for (const drawn of [drawn_nodes, drawn_edges]) {
    for (const {element} of drawn.values()) element.remove();
    drawn.clear();
  }
  draw_soon();
}

function make_node(n, i, level) {
  if (n.group === undefined) return make_pill(n, level);
  const g = group_of.get(n.group), state = step_state(g.id);
  const e = sv('g', {class: 'node group' + (level < 2 ? ' far' : '') + state.cls, id: 'g' + g.id, tabindex: 0,
                     role: 'button', 'aria-label': 'Group ' + g.id + ', ' + g.scheduler,
                     style: `--c: var(--${g.scheduler})`, transform: `translate(${n.x} ${n.y})`});
  if (selected && selected.groups.includes(g.id)) e.classList.add('selected');
  e.append(sv('rect', {class: 'box', width: n.w, height: n.h, rx: 8}));
  e.append(sv('rect', {class: 'bar', x: 0, y: 8, width: level < 2 ? 10 : 4, height: Math.max(0, n.h - 16), rx: 2}));
  e.onclick = () => { if (!moved) select_group(g.id); };
  e.onkeydown = event => { if (event.key === 'Enter') select_group(g.id); };
  if (level === 0) return e;
  if (level === 1) {
    e.append(sv('text', {class: 'title', x: 20, y: 32}, 'g' + g.id));
    return e;
  }
  e.append(sv('text', {class: 'title', x: 14, y: 20}, 'g' + g.id),
           sv('text', {class: 'kind', x: 14 + ('g' + g.id).length * 8 + 8, y: 20}, g.scheduler),
           sv('text', {class: 'quiet', x: n.w - 12, y: 20, 'text-anchor': 'end'}, g.traffic));
  n.lines.forEach((line, l) => {
    const x = g.exprs[l], whole = l + 1 < n.lines.length || n.lines.length === g.exprs.length;
    const y = 30 + 16 * l;
    const mark = whole && (state.marks.get(x.id) || (found === x.id && selected && selected.groups[0] === g.id && 'found'));
    if (mark) e.append(sv('rect', {class: 'mark ' + mark, x: 6, y: y, width: n.w - 10, height: 16, rx: 3}));
    const colour = whole && state.colours.get(x.id);
    if (colour) e.append(sv('rect', {x: 6, y: y + 3, width: 4, height: 10, rx: 2, fill: colour}));
    e.append(sv('text', {class: 'code' + (whole && x.copy ? ' quiet' : ''), x: 14, y: y + 12}, line));
  });
  return e;
}

function make_pill(n, level) {
  const e = sv('g', {class: 'node pill' + (level < 2 ? ' far' : '') + (step < D.merges.length && stepping ? ' dim' : ''),
                     'data-value': n.value, tabindex: 0, role: 'button', transform: `translate(${n.x} ${n.y})`,
                     'aria-label': (n.result ? 'Output ' : 'Input ') + n.value});
  if (selected && selected.value === n.value) e.classList.add('selected');
  e.append(sv('rect', {class: 'box', width: n.w, height: n.h, rx: n.h / 2}));
  if (level === 1) e.append(sv('text', {class: 'title', x: n.w / 2, y: 30, 'text-anchor': 'middle'}, n.value));
  if (level === 2) {
    e.append(sv('text', {class: 'code', x: n.w / 2, y: 19, 'text-anchor': 'middle'}, n.lines[0]),
             sv('text', {class: 'quiet', x: n.w / 2, y: 34, 'text-anchor': 'middle'}, D.values[n.value].bytes));
  }
  e.onclick = () => { if (!moved) select_value(n.value); };
  e.onkeydown = event => { if (event.key === 'Enter') select_value(n.value); };
  return e;
}

function make_edge(e, i, level) {
  const p = e.route;
  let d = `M${p[0]},${p[1]}`;
  for (let k = 2; k < p.length; k += 2) {
    const middle = (p[k - 1] + p[k + 1]) / 2;
    d += ` C${p[k - 2]},${middle} ${p[k]},${middle} ${p[k]},${k + 2 === p.length ? p[k + 1] - 1.5 : p[k + 1]}`;
  }
  const chosen = selected && (e.border ? selected.border === e.border
                                       : D.nodes[e.from].value !== undefined && D.nodes[e.from].value === selected.value);
  const g = sv('g', {class: 'edge' + (e.border ? ' border' : '') + (e.order ? ' order' : '') + (chosen ? ' selected' : ''),
                     'data-border': e.border || ''});
  g.append(sv('path', {class: 'line', d, 'marker-end': 'url(#arrow)'}));
  if (e.border) g.append(sv('path', {class: 'hit', d}));
  if (level === 2 && e.labels.length) {
    g.append(sv('rect', {x: e.x - e.w / 2, y: e.y - e.h / 2, width: e.w, height: e.h, rx: 4}));
    e.labels.forEach((line, l) => g.append(
        sv('text', {class: 'code', x: e.x, y: e.y - e.h / 2 + 14 + 16 * l, 'text-anchor': 'middle'}, line)));
  }
  if (e.border) g.onclick = () => { if (!moved) select_border(...e.border.split('-').map(Number)); };
  return g;
}

// --- Moving about ---

let moved = false;
function limit(k) { return Math.min(3, Math.max(0.002, k)); }
function zoom(factor, cx = canvas.clientWidth / 2, cy = canvas.clientHeight / 2) {
  const k = limit(view.k * factor);
  view = {k, x: cx - (cx - view.x) * k / view.k, y: cy - (cy - view.y) * k / view.k};
  draw_soon();
}
function fit() {
  const w = canvas.clientWidth, h = canvas.clientHeight;
  const k = limit(Math.min(1.15, (w - 60) / D.width, (h - 60) / D.height));
  view = {k, x: (w - D.width * k) / 2, y: (h - D.height * k) / 2};
  draw_soon();
}
function show_node(i, closer) {
  const n = D.nodes[i], k = closer ? Math.max(view.k, 0.75) : view.k;
  const x = n.x * view.k + view.x, y = n.y * view.k + view.y;
  const inside = x >= 0 && y >= 0 && x + n.w * view.k <= canvas.clientWidth && y + n.h * view.k <= canvas.clientHeight;
  if (inside && k === view.k) return;
  view = {k, x: canvas.clientWidth / 2 - (n.x + n.w / 2) * k, y: canvas.clientHeight / 2 - (n.y + Math.min(n.h / 2, 200)) * k};
  draw_soon();
}
canvas.addEventListener('pointerdown', event => {
  const start = {x: event.clientX, y: event.clientY, view: {...view}};
  moved = false;
  const move = e => {
    const dx = e.clientX - start.x, dy = e.clientY - start.y;
    if (Math.abs(dx) + Math.abs(dy) > 4) { moved = true; canvas.classList.add('moving'); }
    if (moved) { view.x = start.view.x + dx; view.y = start.view.y + dy; draw_soon(); }
  };
  const up = () => {
    canvas.classList.remove('moving');
    window.removeEventListener('pointermove', move);
    window.removeEventListener('pointerup', up);
    window.removeEventListener('pointercancel', up);
  };
  window.addEventListener('pointermove', move);
  window.addEventListener('pointerup', up);
  window.addEventListener('pointercancel', up);
});
canvas.addEventListener('wheel', event => {
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
}, {passive: false});
canvas.addEventListener('click', event => { if (!moved && event.target === canvas) select_nothing(); });
new ResizeObserver(draw_soon).observe(canvas);
)js"
                           R"js(
// --- The panel ---

function choose(what, content, hash) {
  selected = what;
  if (stepping && !(what && what.step)) stop_stepping();
  side.replaceChildren(...content.filter(c => c));
  side.scrollTop = 0;
  redraw();
  try { history.replaceState(null, '', hash ? '#' + hash : location.pathname + location.search); } catch (e) {}
}
const back = () => el('button', {class: 'back', title: 'Everything  ( Esc )', id: 'back', onclick: select_nothing}, 'All groups');
const link = (text, onclick) => el('a', {onclick, tabindex: 0, class: 'mono'}, text);
const group_link = id => link('g' + id, () => select_group(id, true));
const section = (title, ...content) => content.length ? [el('h3', {}, title), ...content] : [];
function rows(items) { return el('ul', {class: 'rows'}, ...items.map(item => el('li', {}, item))); }
function badge(scheduler) { return el('span', {class: 'badge', style: `--c: var(--${scheduler})`}, scheduler); }
function facts_of(pairs) {
  const list = el('dl', {});
  for (const [name, value] of pairs) if (value !== undefined) list.append(el('dt', {}, name), el('dd', {}, value));
  return list;
}
function value_row(name, ...end) {
  const v = D.values[name];
  return el('button', {class: 'row', onclick: () => select_value(name)},
            el('span', {class: 'grow mono'}, name + ': ' + v.type), el('span', {class: 'end'}, [v.bytes, ...end].join(', ')));
}
function border_row(b, self) {
  const names = self === undefined ? 'g' + b.from + ' | g' + b.to : 'g' + (b.from === self ? b.to : b.from);
  return el('button', {class: 'row', 'data-border': border_key(b.from, b.to), onclick: () => select_border(b.from, b.to)},
            el('span', {class: 'mono'}, names), el('span', {class: 'grow dimmed'}, b.reason || 'not tried'));
}

function select_nothing() {
  found = null;
  const has_time = D.groups.some(g => g.measured_us !== undefined || g.estimated_us !== undefined);
  choose(null, [
    el('h2', {}, D.name),
    el('p', {class: 'dimmed'}, facts + '.' + (D.device ? ' Schedules for ' + D.device + '.' : '')),
    ...section('Groups', rows(D.groups.map(g => el('button', {class: 'row', 'data-group': g.id, onclick: () => select_group(g.id, true)},
        el('span', {class: 'mono'}, 'g' + g.id), el('span', {class: 'grow'}, badge(g.scheduler), ' ', count(g.exprs.length, 'expression')),
        el('span', {class: 'end'}, g.traffic + (has_time && g.measured_us !== undefined ? ', ' + time(g.measured_us) : '')))))),
    ...(D.borders.length ? section('Borders', rows(D.borders.map(b => border_row(b)))) : []),
    el('p', {class: 'dimmed'}, 'Click a box for all about a group, a curve for why its ends did not merge.' +
        (D.merges.length ? ' Below, the merges one by one.' : '')),
  ]);
}

// Comments, numbers and words of CUDA C++ or of the kernel IR.
const TOKEN = /(\/\/[^\n]*|#[^\n]*)|\b(\d[\w.]*)|\b(if|else|for|while|return|const|unsigned|int|float|double|bool|void|struct|static|inline|auto|template|typename|extern|in|unrolled|load|store|to|from|__\w+__)\b/g;
function highlighted(text) {
  const pre = el('pre', {});
  let at = 0;
  for (const m of text.matchAll(TOKEN)) {
    pre.append(text.slice(at, m.index), el('span', {class: m[1] ? 'cm' : m[2] ? 'nu' : 'kw'}, m[0]));
    at = m.index + m[0].length;
  }
  pre.append(text.slice(at));
  return pre;
}
function source(title, text) {
  if (!text) return null;
  const d = el('details', {}, el('summary', {}, title));
  d.addEventListener('toggle', () => {
    if (!d.open || d.children.length > 1) return;
    const pre = highlighted(text), head = text.slice(0, Math.max(0, text.indexOf('__global__'))).split('\n').length - 1;
    d.append(pre);
    pre.scrollTop = head * parseFloat(getComputedStyle(pre).lineHeight);  // Past the helper functions.
  });
  return d;
}
function kernel(k) {
  const known = [['Threads a CTA', k.threads], ['Registers a thread', k.registers],
                 ['Shared memory', k.smem === undefined ? undefined : k.smem + ' B'],
                 ['Spills', k.spills === undefined ? undefined : k.spills === 0 ? 'none' : k.spills + ' B']];
  return [el('div', {class: 'mono'}, k.name), facts_of(known), source('CUDA C++', k.cuda), source('Kernel IR', k.ir)].filter(x => x);
}

function select_group(id, closer, expr) {
  const g = group_of.get(id), copies = g.exprs.filter(x => x.copy).length;
  found = expr === undefined ? null : expr;
  const exprs = el('div', {class: 'exprs mono'}, ...g.exprs.map(x => el('div',
      {class: (x.copy ? 'copy' : '') + (x.id === expr ? ' hit' : ''), title: x.copy ? 'computed again here; its home is another group' : undefined},
      el('span', {class: 'n'}, x.line ? String(x.line) : ''), x.text)));
  choose({groups: [id]}, [
    back(), el('h2', {}, 'g' + id, badge(g.scheduler)),
    facts_of([['Expressions', String(g.exprs.length)], ['Of them copies', copies ? String(copies) : undefined],
              ['Traffic', g.traffic],
              ['Estimated time', g.estimated_us === undefined ? undefined : time(g.estimated_us)],
              ['Measured time', g.measured_us === undefined ? undefined : time(g.measured_us)]]),
    ...(g.schedules || []).flatMap((s, i) => section(i ? '' : 'Schedule' + (D.device ? ' for ' + D.device : ''), el('p', {class: 'mono'}, s))),
    ...section('Expressions', exprs),
    ...(g.inputs.length ? section('Reads', rows(g.inputs.map(v => value_row(v, D.values[v].home === undefined ? 'input' : 'from g' + D.values[v].home)))) : []),
    ...(g.outputs.length ? section('Writes', rows(g.outputs.map(o => value_row(o.value,
        'to ' + ([...o.readers.map(r => 'g' + r), ...(D.values[o.value].output ? ['the caller'] : [])].join(', ') || 'nobody'))))) : []),
    ...(borders_at.get(id).length ? section('Borders', rows(borders_at.get(id).map(b => border_row(b, id)))) : []),
    ...(g.kernels && g.kernels.length ? section('Kernels', ...g.kernels.flatMap(kernel)) : []),
    ...(g.guards && g.guards.length ? section('Right for sizes with', ...g.guards.map(t => el('div', {class: 'mono'}, t))) : []),
  ], 'g' + id);
  show_node(node_of.get(id), closer);
  const hit = exprs.querySelector('.hit');
  if (hit) hit.scrollIntoView({block: 'center'});
}

function select_border(a, b) {
  const border = border_of.get(border_key(a, b));
  const passing = D.groups.find(g => g.id === border.from).outputs.filter(o => o.readers.includes(border.to));
  const tried = D.merges.map((m, i) => [m, i]).filter(([m]) => !m.ok && m.members.length === 2 &&
      border_key(home_of(m.members[0].expr), home_of(m.members[1].expr)) === border_key(a, b));
  choose({groups: [border.from, border.to], border: border_key(a, b)}, [
    back(), el('h2', {}, group_link(border.from), '|', group_link(border.to),
               el('span', {class: 'badge reason'}, border.reason || 'not tried')),
    el('p', {id: 'why'}, ...rich(border.text)),
    ...(border.about && border.about.length ? section('About', rows(border.about.map(v => value_row(v, 'in g' + D.values[v].home)))) : []),
    ...(passing.length ? section('Passes from g' + border.from + ' to g' + border.to, rows(passing.map(o => value_row(o.value)))) : []),
    ...(tried.length ? section('Attempts', rows(tried.map(([m, i]) => el('button', {class: 'row', onclick: () => go_to_step(i + 1)},
        el('span', {class: 'grow'}, 'Merge ' + (i + 1) + ', pass ' + m.pass), el('span', {class: 'end'}, 'gain ' + m.gain))))) : []),
  ], 'g' + border.from + '-g' + border.to);
}

function select_value(name) {
  const v = D.values[name], readers = D.groups.filter(g => g.inputs.includes(name));
  choose({groups: v.home === undefined ? [] : [v.home], value: name}, [
    back(), el('h2', {class: 'mono'}, name),
    facts_of([['Type', v.type], ['Bytes', v.bytes], ['Narrower', v.narrowed],
              ['Computed in', v.home === undefined ? undefined : group_link(v.home)],
              ['Is', v.input ? 'an input of the graph' : v.output ? 'an output of the graph' : undefined]]),
    ...(readers.length ? section('Read from memory by', rows(readers.map(g => el('button', {class: 'row', onclick: () => select_group(g.id, true)},
        el('span', {class: 'mono'}, 'g' + g.id), el('span', {class: 'grow'}, badge(g.scheduler)))))) : []),
  ], 'v-' + name);
  if (v.home === undefined && pill_of.has(name)) show_node(pill_of.get(name), false);
}

// --- Step by step ---

let step = D.merges.length, stepping = false, beginning = new Map(), homes = new Map();
for (const g of D.groups) {
  for (const x of g.exprs) {
    if (x.copy) continue;
    homes.set(x.id, g.id);
    beginning.set(x.id, D.beginnings.has(x.id) ? D.beginnings.get(x.id) : x.id);
  }
}
const home_of = expr => homes.get(expr);
const COLOURS = ['#4f7fd9', '#d98a3d', '#4fa36c', '#b565c4', '#c95f5f', '#4aa5b5', '#a59a3c', '#8a7ad0', '#c4668f', '#7d8a97'];
let part = new Map();  // The lowest expression of the group that each is in, at this step.
const exprs_by_id = new Map();
for (const g of D.groups) for (const x of g.exprs) if (!x.copy) exprs_by_id.set(x.id, x);

// The expressions of the groups after so many merges, by the lowest of each, as the merges name them.
function parts_after(n) {
  const parts = new Map();
  for (const [x, first] of beginning) parts.has(first) ? parts.get(first).push(x) : parts.set(first, [x]);
  for (const m of D.merges.slice(0, n)) if (m.ok) apply(parts, m);
  return parts;
}
function apply(parts, m) {
  const lists = m.members.map(member => parts.get(member.expr) || []);
  for (const member of m.members) parts.delete(member.expr);
  if (m.made) {
    for (const made of m.made) parts.set(made[0], [...made]);
    return;
  }
  const all = lists.reduce((a, b) => a.length >= b.length ? a : b);  // The longest takes the others in.
  for (const list of lists) if (list !== all) for (const x of list) all.push(x);
  parts.set(Math.min(...m.members.map(member => member.expr)), all);
}
let marked = new Map(), touched = new Set();

// What a group looks like at this step: its class, marks and colours by expression.
function step_state(id) {
  if (!stepping) return {cls: '', marks: new Map(), colours: new Map()};
  const g = group_of.get(id), marks = new Map(), colours = new Map(), parts = new Map();
  for (const x of g.exprs) {
    if (x.copy) continue;
    if (marked.has(x.id)) marks.set(x.id, marked.get(x.id));
    const p = part.get(x.id);
    if (!parts.has(p)) parts.set(p, COLOURS[parts.size % COLOURS.length]);
    colours.set(x.id, parts.get(p));
  }
  const m = step > 0 ? D.merges[step - 1] : null;
  return {cls: m ? touched.has(id) ? m.ok ? ' merged' : ' refused' : ' dim' : '', marks, colours};
}

function go_to_step(n) {
  step = Math.min(D.merges.length, Math.max(0, n));
  stepping = true;
  const m = step > 0 ? D.merges[step - 1] : null;
  const parts = parts_after(Math.max(0, step - 1));
  const members = m ? m.members.map(member => [...(parts.get(member.expr) || [])]) : [];
  const outcome = m && m.ok ? m.made ? 'cut anew' : 'merged' : 'refused';
  marked = new Map(members.flat().map(x => [x, m.ok ? 'merged' : 'refused']));
  touched = new Set([...marked.keys()].map(home_of));
  if (m && m.ok) apply(parts, m);
  part = new Map();
  for (const [first, list] of parts) for (const x of list) part.set(x, first);
  const listed = list => el('div', {class: 'exprs mono'}, ...[...list].sort((a, b) => a - b).map(x => el('div', {},
      el('span', {class: 'n'}, 'g' + home_of(x)), exprs_by_id.get(x).text)));
  const names = m ? m.members.map(x => x.name + (x.size > 1 ? ' +' + (x.size - 1) : '')).join('  with  ') : '';
  slider.value = step;
  said.replaceChildren(el('b', {}, step + ' of ' + D.merges.length), m ? `  ${outcome}, ${m.pass}: ${names}` : '  every expression by itself, with its copies');
  choose({groups: [], step: true}, [
    back(), el('h2', {}, m ? 'Merge ' + step : 'Before the first merge',
               m && el('span', {class: 'badge ' + (m.ok ? 'good' : 'reason')}, m.ok ? outcome : m.reason)),
    facts_of([['Pass', m ? m.pass : undefined], ['Would save', m && !m.ok ? m.gain : undefined],
              ['Saves', m && m.ok ? m.gain : undefined], ['Groups now', String(parts.size)]]),
    m && !m.ok ? el('p', {id: 'why'}, ...rich(m.why)) : null,
    ...members.flatMap((list, i) => section(i ? 'with' : 'Group', listed(list))),
    ...(m && m.made || []).flatMap((list, i) => section(i ? 'and' : 'became', listed(list))),
  ], 'step-' + step);
  const first = [...touched][0];
  if (first !== undefined) show_node(node_of.get(first), false);
  update_buttons();
}
function stop_stepping() {
  stepping = false;
  step = D.merges.length;
  slider.value = step;
  said.replaceChildren(el('b', {}, count(D.merges.filter(m => m.ok).length, 'merge')), ' made, ' + D.merges.filter(m => !m.ok).length + ' refused');
  update_buttons();
}
function update_buttons() {
  steps.querySelector('#previous').disabled = stepping && step === 0;
  steps.querySelector('#next').disabled = stepping && step === D.merges.length;
}

// --- Search ---

const index = [];
for (const g of D.groups) {
  index.push({key: 'g' + g.id + ' ' + g.scheduler, where: 'g' + g.id, what: g.scheduler + ', ' + count(g.exprs.length, 'expression'), go: () => select_group(g.id, true)});
  for (const x of g.exprs) index.push({key: x.text, where: 'g' + g.id, what: x.text, copy: x.copy, go: () => select_group(g.id, true, x.id)});
}
for (const [name, v] of Object.entries(D.values))
  if (v.input) index.push({key: name + ': ' + v.type, where: 'input', what: name + ': ' + v.type, go: () => select_value(name)});
for (const entry of index) entry.lower = entry.key.toLowerCase();
function search() {
  const text = find.value.trim().toLowerCase();
  hits.replaceChildren();
  if (!text) return;
  const rank = entry => {
    const at = entry.lower.indexOf(text);
    const whole = at >= 0 && !/\w/.test(entry.lower[at + text.length] || ' ') ? 0 : 2;
    return at < 0 ? -1 : (at === 0 ? 0 : 4) + whole + (entry.copy ? 1 : 0);
  };
  const matches = index.map(entry => [rank(entry), entry]).filter(([r]) => r >= 0).sort((a, b) => a[0] - b[0]);
  for (const [, entry] of matches.slice(0, 50)) {
    hits.append(el('button', {onclick: () => { hits.replaceChildren(); find.blur(); entry.go(); }},
                   el('span', {class: 'where mono'}, entry.where), el('span', {class: 'what mono'}, entry.what)));
  }
  if (hits.firstChild) hits.firstChild.classList.add('current');
  if (matches.length > 50) hits.append(el('p', {}, (matches.length - 50) + ' more'));
  if (!matches.length) hits.append(el('p', {}, 'Nothing of that name'));
}
find.oninput = search;
find.onkeydown = event => {
  if (event.key === 'Enter' && hits.querySelector('.current')) hits.querySelector('.current').click();
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    const all = [...hits.querySelectorAll('button')], at = all.findIndex(b => b.classList.contains('current'));
    const next = all[(at + (event.key === 'ArrowDown' ? 1 : all.length - 1)) % all.length];
    if (next) { all[at].classList.remove('current'); next.classList.add('current'); next.scrollIntoView({block: 'nearest'}); }
    event.preventDefault();
  }
  if (event.key === 'Escape') { find.value = ''; hits.replaceChildren(); find.blur(); }
  event.stopPropagation();
};
document.addEventListener('pointerdown', event => { if (!hits.contains(event.target) && event.target !== find) hits.replaceChildren(); });
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '/') { find.focus(); find.select(); event.preventDefault(); }
  if (event.key === 'Escape') select_nothing();
  if (event.key === '.' && D.merges.length) go_to_step(stepping ? step + 1 : 1);
  if (event.key === ',' && D.merges.length) go_to_step(step - 1);
  if (event.key === '0') fit();
  if (event.key === '+') zoom(1.3);
  if (event.key === '-') zoom(1 / 1.3);
});

// --- Start ---

const hash = decodeURIComponent(location.hash.slice(1));
fit();
// All of a long graph would be a thread: begin at its beginning.
if (view.k < 0.1 && D.nodes.length) {
  const first = D.nodes.reduce((a, b) => b.y < a.y ? b : a);
  view = {k: 0.6, x: canvas.clientWidth / 2 - (first.x + first.w / 2) * 0.6, y: 40 - first.y * 0.6};
}
stop_stepping();
select_nothing();
const at = hash.match(/^g(\d+)(?:-g(\d+))?$/);
if (at && at[2] !== undefined && border_of.has(border_key(+at[1], +at[2]))) select_border(+at[1], +at[2]);
else if (at && group_of.has(+at[1])) select_group(+at[1], true);
else if (hash.startsWith('v-') && D.values[hash.slice(2)]) select_value(hash.slice(2));
else if (/^step-\d+$/.test(hash) && D.merges.length) go_to_step(+hash.slice(5));
)js";

}  // namespace seam
