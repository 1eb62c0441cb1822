(() => { // the one graph: dagre lays it out in pieces, columns put the pieces side by side, Panzoom moves it
const WIDE = 216, HIGH = 54, GAP = 30, COLUMN_GAP = 76, MAX_SPAN = 60, MAX_BENDS = 4000, MAX_FAR_SHOWN = 40, MAX_PINS = 12, FAR_AWAY = 0.42, NEAR = 0.9;
const SIGNS = { // of the kinds of operators
  linear: "M1 1h12v12h-12zM5 1v12M9 1v12M1 5h12M1 9h12", sum: "M7 1v12M1 7h12M1 1h12v12h-12z", function: "M1 13C9 13 5 1 13 1", reduce: "M1 1h12l-6 12z",
  norm: "M12 1h-10l6 6l-6 6h10", move: "M1 4h11l-3 -3M13 10h-11l3 3", other: "M7 1l6 6l-6 6l-6 -6z", input: "M1 7h9l-4 -4M10 7l-4 4M13 1v12",
};
const KINDS = { linear: "convolution, product", sum: "element by element", function: "function, quantization", reduce: "pool, reduction", norm: "normalization", move: "movement", other: "other", input: "input of the network" };
const STATES = { a: "agrees", d: "differs", f: "fails", u: "unknown" }, OF_VERDICT = { P: "agrees", F: "fails", I: "differs", "-": "unknown" };
const BINS = [[40, "e1", "40 dB and more"], [20, "e2", "20 to 40 dB"], [10, "e3", "10 to 20 dB"], [-Infinity, "e4", "below 10 dB"]];
const escaped = (value) => String(value).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const make = (tag, attributes = {}, ...inside) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value === true) made.setAttribute(name, ""); else if (value !== false && value !== undefined) made.setAttribute(name, value);
  made.append(...inside);
  return made;
};
const worst = (states) => [..."fdua"].find((one) => states.includes(one)) ?? "u";

/** Returns the boxes, in an order in which each stands after what it reads: the units and, before its first reader, each input of the network. */
function boxesOf(data) {
  const boxes = [], at = new Map();
  data.nodes.forEach(([name, op, kind, states, verdicts, error, rows, reads, covers, final], unit) => {
    for (const read of reads) if (typeof read === "string" && !at.has(read)) { at.set(read, boxes.length); boxes.push({ name: read, op: "input", kind: "input", states: "a", verdicts: "", error: null, rows: [], reads: [], readers: [], unit: -1 }); }
    at.set(unit, boxes.length);
    boxes.push({ name, op, kind, states, verdicts, error, rows, covers, final, unit, reads: reads.map((read) => at.get(read)).filter((i) => i !== undefined), readers: [] });
  });
  boxes.forEach((box, i) => box.reads.forEach((read) => boxes[read].readers.push(i)));
  nameShortly(boxes);
  return { boxes, ofUnit: (unit) => at.get(unit) };
}

/** Sets the names to show. Of long names, the words that most names share, such as QuantizeLinear and Output, are left out. */
function nameShortly(boxes) {
  const words = (name) => name.split(/(?=[_/.:])/), times = new Map();
  for (const box of boxes) for (const word of new Set(words(box.name))) times.set(word, (times.get(word) ?? 0) + 1);
  const shared = (word) => boxes.length > 4 && times.get(word) > boxes.length * 0.5;
  for (const box of boxes) {
    const name = box.name.length > 23 ? words(box.name).filter((word) => !shared(word)).join("") || box.name : box.name;
    box.shown = name.length > 23 ? `${name.slice(0, 8)}…${name.slice(-14)}` : name;
  }
}

/** Returns the edges; those that pass so many layers that they would cover the others are far. */
function edgesOf(boxes) {
  const layer = [], edges = [];
  boxes.forEach((box, b) => {
    layer[b] = Math.max(0, ...box.reads.map((a) => layer[a] + 1));
    for (const a of box.reads) edges.push({ a, b, far: false });
  });
  const span = (edge) => layer[edge.b] - layer[edge.a];
  let bends = edges.reduce((sum, edge) => sum + span(edge), 0);
  for (const edge of [...edges].sort((one, other) => span(other) - span(one))) {
    if (span(edge) <= MAX_SPAN && bends <= MAX_BENDS + edges.length) break;
    edge.far = true;
    bends -= span(edge);
  }
  return edges;
}

/** Returns the pieces between boxes that every near edge passes through: first box, end, edges within. Equal pieces are laid out once. */
function piecesOf(boxes, edges) {
  const over = new Int32Array(boxes.length + 2), near = edges.filter((edge) => !edge.far);
  for (const { a, b } of near) if (b - a > 1) { over[a + 1] += 1; over[b] -= 1; }
  const cuts = [];
  for (let i = 0, open = 0; i < boxes.length; i += 1) { open += over[i]; if (!open) cuts.push(i); }
  const pieces = cuts.map((from, k) => ({ from, to: cuts[k + 1] ?? boxes.length, edges: [] }));
  let k = 0;
  for (const edge of [...near].sort((one, other) => one.a - other.a)) { while (edge.a >= pieces[k].to) k += 1; pieces[k].edges.push(edge); }
  const known = new Map();
  for (const piece of pieces) {
    const within = piece.edges.map(({ a, b }) => [a - piece.from, b - piece.from]), key = `${piece.to - piece.from}:${within.join(";")}`;
    if (!known.has(key)) known.set(key, layOut(piece.to - piece.from, within));
    piece.laid = known.get(key);
  }
  return pieces;
}

/** Returns the places of a piece's boxes and of its edges' bends, relative to its first box; the box after its last one is straight below. */
function layOut(count, edges) {
  if (count === 1) return { at: [[0, 0]], paths: edges.map(() => [[0, HIGH / 2], [0, HIGH / 2 + GAP]]), left: -WIDE / 2, right: WIDE / 2, high: HIGH + GAP };
  const graph = new dagre.graphlib.Graph({ multigraph: true }), within = [...Array(count + 1).keys()];
  graph.setGraph({ nodesep: 22, ranksep: GAP, edgesep: 10 });
  within.forEach((i) => graph.setNode(String(i), { width: WIDE, height: HIGH }));
  edges.forEach(([a, b], n) => graph.setEdge(String(a), String(b), { weight: b === a + 1 ? 2 : 1 }, String(n)));
  const [reading, read] = [new Set(edges.map(([, b]) => b)), new Set(edges.map(([a]) => a))];
  within.slice(1, -1).forEach((i) => { // what nothing reads stays above the end, what reads nothing below the begin
    if (!reading.has(i)) graph.setEdge("0", String(i), { weight: 0 }, "b");
    if (!read.has(i)) graph.setEdge(String(i), String(count), { weight: 0 }, "e");
  });
  dagre.layout(graph);
  const top = graph.node("0"), high = graph.node(String(count)).y - top.y, slant = (graph.node(String(count)).x - top.x) / (high || 1);
  const moved = ({ x, y }) => [x - top.x - slant * (y - top.y), y - top.y];
  const at = within.slice(0, -1).map((i) => moved(graph.node(String(i)))), paths = edges.map(([a, b], n) => graph.edge(String(a), String(b), String(n)).points.map(moved));
  const xs = [...at.flatMap(([x]) => [x - WIDE / 2, x + WIDE / 2]), ...paths.flat().map(([x]) => x)];
  return { at, paths, left: Math.min(...xs), right: Math.max(...xs), high };
}

/** Returns the columns of pieces, of at most a height unless a piece is higher. */
function columnsOf(pieces, most) {
  const columns = [];
  for (const piece of pieces) {
    let last = columns.at(-1);
    if (!last || (last.high + piece.laid.high > most && last.high)) columns.push((last = { pieces: [], high: 0, left: -WIDE / 2, right: WIDE / 2 }));
    last.pieces.push(piece);
    last.high += piece.laid.high;
    last.left = Math.min(last.left, piece.laid.left);
    last.right = Math.max(last.right, piece.laid.right);
  }
  return columns;
}

/** Returns the columns that show the most in a view: a single one if it is readable as a whole. */
function bestColumns(pieces, wide, high) {
  const total = pieces.reduce((sum, piece) => sum + piece.laid.high, 0);
  let best = null;
  for (let number = 1; number <= 60; number += 1) {
    const columns = columnsOf(pieces, total / number), across = columns.reduce((sum, one) => sum + one.right - one.left + COLUMN_GAP, 0);
    const scale = Math.min(wide / across, high / (Math.max(...columns.map((one) => one.high)) + 2 * HIGH));
    if (!best || (scale > best.scale * 1.05 && best.scale < 0.8)) best = { columns, scale };
  }
  return best.columns;
}

const curve = (points) => {
  const [first, ...rest] = points.map(([x, y]) => `${Math.round(x)} ${Math.round(y)}`), middle = (i) => `${Math.round((points[i][0] + points[i + 1][0]) / 2)} ${Math.round((points[i][1] + points[i + 1][1]) / 2)}`;
  return `M${first}` + (rest.length < 2 ? `L${rest[0]}` : rest.slice(0, -1).map((point, i) => `Q${point} ${i === rest.length - 2 ? rest.at(-1) : middle(i + 1)}`).join(""));
};

/** Sets x and y of the boxes and the path of each edge; returns the size of the whole and the joints of its columns. */
function place(boxes, edges, wide, high) {
  const columns = bestColumns(piecesOf(boxes, edges), wide, high), joints = [];
  let left = COLUMN_GAP / 2;
  columns.forEach((column, number) => {
    const x = left - column.left;
    let y = HIGH;
    for (const piece of column.pieces) {
      piece.laid.at.forEach(([dx, dy], i) => Object.assign(boxes[piece.from + i], { x: x + dx, y: y + dy, column: number }));
      piece.edges.forEach((edge, i) => { edge.path = curve(piece.laid.paths[i].map(([dx, dy]) => [x + dx, y + dy])); });
      y += piece.laid.high;
    }
    Object.assign(column, { x, end: y - HIGH / 2 });
    left += column.right - column.left + COLUMN_GAP;
  });
  columns.slice(1).forEach((column, i) => {
    const before = columns[i], between = column.x + column.left - COLUMN_GAP / 2;
    joints.push(`<path class="wire turn" d="M${before.x} ${before.end}V${before.end + 14}H${between}V${HIGH / 2 - 18}H${column.x}V${HIGH / 2}"/><rect class="port" x="${before.x - WIDE / 2}" y="${before.end}" width="${WIDE}" height="3"/><rect class="port" x="${column.x - WIDE / 2}" y="${HIGH / 2 - 8}" width="${WIDE}" height="3"/>`);
  });
  for (const edge of edges.filter((one) => one.far)) {
    const a = boxes[edge.a], b = boxes[edge.b], bend = Math.max(60, Math.abs(b.x - a.x) / 2);
    edge.path = `M${a.x + WIDE / 2} ${a.y}C${a.x + WIDE / 2 + bend} ${a.y} ${b.x - WIDE / 2 - bend} ${b.y} ${b.x - WIDE / 2} ${b.y}`;
  }
  return { wide: left, high: Math.max(...columns.map((one) => one.end)) + HIGH, joints: joints.join("") };
}

/** Returns what a box has within once it is near enough to be read. */
const boxText = (box, data) => {
  const states = box.unit < 0 ? "" : box.states.length > 4 ? worst(box.states) : box.states;
  const chips = [...states].map((one, i) => {
    const x = WIDE / 2 - 10 - 19 * (states.length - i);
    return `<rect class="chip ${STATES[one]}" x="${x}" y="5" width="16" height="16" rx="3"/><text x="${x + 8}" y="17">${data.signs[STATES[one]]}</text>`;
  });
  return `<rect class="band" x="${-WIDE / 2}" y="${-HIGH / 2}" width="7" height="${HIGH}" rx="3"/>`
    + `<path class="sign" transform="translate(${-WIDE / 2 + 14} ${-HIGH / 2 + 8})" d="${SIGNS[box.kind] ?? SIGNS.other}"/><text class="name" x="${-WIDE / 2 + 34}" y="-8">${escaped(box.shown)}</text><text class="of" x="${-WIDE / 2 + 14}" y="17"></text>${chips.join("")}`;
};
const CARD = `<rect class="card" x="${-WIDE / 2}" y="${-HIGH / 2}" width="${WIDE}" height="${HIGH}" rx="6"/>`;

/** Returns the dashed frames of regions, one in each column; where a foreign box would be inside, one for each of the region's boxes. */
function regionFrames(data, boxes, ofUnit) {
  const frames = [];
  for (const [words, units] of data.regions) {
    const own = new Set(units.map(ofUnit)), columns = Map.groupBy ? Map.groupBy([...own], (i) => boxes[i].column) : new Map([...own].map((i) => [i, [i]]));
    for (const members of columns.values()) {
      const edge = (list) => { const xs = list.map((i) => boxes[i].x), ys = list.map((i) => boxes[i].y); return [Math.min(...xs) - WIDE / 2, Math.min(...ys) - HIGH / 2, Math.max(...xs) + WIDE / 2, Math.max(...ys) + HIGH / 2]; };
      const [left, top, right, bottom] = edge(members), foreign = boxes.some((box, i) => !own.has(i) && box.x + WIDE / 2 > left && box.x - WIDE / 2 < right && box.y + HIGH / 2 > top && box.y - HIGH / 2 < bottom);
      for (const [x, y, to, down] of foreign ? members.map((i) => edge([i])) : [[left, top, right, bottom]]) frames.push(`<rect class="region" x="${x - 9}" y="${y - 9}" width="${to - x + 18}" height="${down - y + 18}" rx="10"><title>recomputed as one ${escaped(words)}</title></rect>`);
    }
  }
  return frames.join("");
}

function draw(network) {
  const section = network.closest("section");
  section.hidden = false;
  for (const item of document.querySelectorAll("nav li.scripted")) item.hidden = false;
  const data = JSON.parse(network.querySelector("template").content.textContent), { boxes, ofUnit } = boxesOf(data), edges = edgesOf(boxes);
  const by = make("select", { "aria-label": "Colour" });
  for (const [value, words] of [["state", "where the sides agree"], ["verdict", "verdict"], ["error", "error (lowest SQNR)"]]) by.append(make("option", { value }, words));
  const search = make("input", { type: "search", placeholder: "name, operator, ONNX node" }), found = make("span", { role: "status", class: "under" });
  const button = (words, label, act) => { const one = make("button", { type: "button", "aria-label": label, title: label }, words); one.addEventListener("click", act); return one; };
  const wrongs = (() => { const of = (letter) => boxes.map((box, i) => (box.unit >= 0 && box.states.includes(letter) ? i : -1)).filter((i) => i >= 0); const fails = of("f"); return fails.length ? fails : of("d"); })();
  const view = make("div", { class: "network-view", tabindex: "0", role: "application", "aria-label": `The network: ${data.nodes.length} nodes, ${wrongs.length} wrong. Arrow keys go to inputs and readers, Enter opens, slash searches.` });
  const side = make("div", { class: "network-side", tabindex: "0", role: "region", "aria-label": "The chosen node" }), map = make("canvas", { "aria-hidden": "true" }), key = make("ul", { class: "network-key" });
  const zoomed = (factor) => zoomTo(panzoom.getScale() * factor);
  const wrongWords = make("span", { class: "under" });
  const tools = make("div", { class: "network-tools" },
    make("label", {}, "Colour", by), make("label", {}, "Search", search), found,
    make("span", { class: "group" }, button("+", "Zoom in", () => zoomed(1.4)), button("−", "Zoom out", () => zoomed(1 / 1.4)), button("All", "Show all", () => fit())),
    make("span", { class: "group" }, button("◀ wrong", "Previous wrong node", () => step(-1)), button("wrong ▶", "Next wrong node", () => step(1))), wrongWords);
  network.querySelector(".network-place").append(tools, make("div", { class: "network-both" }, view, side), key);
  const seen = { wide: view.clientWidth || 800, high: view.clientHeight || 560 }, size = place(boxes, edges, seen.wide, seen.high); // of the view, measured once and when it changes
  const wires = edges.map((edge) => `<path class="wire${edge.far ? " far" : ""}" d="${edge.path}"/>`).join("");
  const nodes = boxes.map((box, i) => `<g class="net" data-box="${i}" transform="translate(${Math.round(box.x)} ${Math.round(box.y)})"><title>${escaped(box.name)}: ${escaped(box.op)}</title>${CARD}</g>`).join("");
  const pinned = wrongs.slice(0, MAX_PINS).map((i) => `<g class="pin" data-box="${i}"><path d="M0 0l-7 -10a9 9 0 1 1 14 0z"/><text y="-12">${data.signs[STATES[worst(boxes[i].states)]]}</text></g>`).join("");
  view.innerHTML = `<svg aria-hidden="true" focusable="false"><g class="all">${size.joints}${regionFrames(data, boxes, ofUnit)}<g>${wires}</g><g>${nodes}</g>${pinned}</g></svg>`;
  view.append(map);
  const all = view.querySelector(".all"), drawn = [...all.querySelectorAll(".net")], lines = [...all.querySelectorAll(".wire:not(.turn)")], pins = [...all.querySelectorAll(".pin")];
  drawn.forEach((one, i) => { one.classList.toggle("final", Boolean(boxes[i].final)); one.classList.toggle("given", boxes[i].unit < 0); });
  if (lines.length && edges.filter((edge) => edge.far).length <= MAX_FAR_SHOWN) edges.forEach((edge, i) => { if (edge.far) lines[i].style.visibility = "visible"; });
  const whole = () => Math.min(seen.wide / size.wide, seen.high / size.high);
  const begin = ofUnit(data.first), startScale = whole() >= 0.75 ? Math.min(whole(), 1) : NEAR, [startAtX, startAtY] = whole() >= 0.75 ? [size.wide / 2, size.high / 2] : [boxes[begin].x, boxes[begin].y];
  const panzoom = Panzoom(all, { startScale, startX: seen.wide / startScale / 2 - startAtX, startY: seen.high / startScale / 2 - startAtY, canvas: true, cursor: "grab", minScale: Math.min(whole(), 1) * 0.8, maxScale: 3, overflow: "hidden", handleStartEvent: (event) => event.stopPropagation() });
  let chosen = -1, hits = [], hit = -1;

  const shown = () => { const { x, y } = panzoom.getPan(), scale = panzoom.getScale(); return { x: -x, y: -y, wide: seen.wide / scale, high: seen.high / scale, scale }; };
  const look = (x, y, scale) => { panzoom.zoom(scale, { silent: true }); panzoom.pan(seen.wide / scale / 2 - x, seen.high / scale / 2 - y, { force: true }); };
  const zoomTo = (scale) => { const at = shown(); look(at.x + at.wide / 2, at.y + at.high / 2, Math.min(3, Math.max(scale, Math.min(whole(), 1) * 0.8))); };
  const fit = () => look(size.wide / 2, size.high / 2, Math.min(whole(), 1));

  const COLOURS = ["agrees", "differs", "fails", "unknown", "e0", "e1", "e2", "e3", "e4"], probes = COLOURS.map((name) => make("i", { class: name, hidden: true }));
  view.append(...probes);
  const mapScale = Math.min((seen.wide < 600 ? 130 : 210) / size.wide, (seen.wide < 600 ? 110 : 150) / size.high);
  const paintMap = () => {
    const ratio = devicePixelRatio || 1, style = getComputedStyle(view), context = map.getContext("2d"), colour = (name) => style.getPropertyValue(name).trim();
    const colours = Object.fromEntries(COLOURS.map((name, n) => [name, getComputedStyle(probes[n]).getPropertyValue("--side").trim()]));
    [map.width, map.height] = [size.wide * mapScale * ratio, size.high * mapScale * ratio].map((length) => Math.max(8, Math.round(length)));
    [map.style.width, map.style.height] = [map.width, map.height].map((length) => `${length / ratio}px`);
    context.scale(ratio * mapScale, ratio * mapScale);
    const least = 2.5 / mapScale, order = boxes.map((box, i) => i).sort((a, b) => "audf".indexOf(worst(boxes[a].states)) - "audf".indexOf(worst(boxes[b].states)));
    for (const i of order) {
      const state = worst(boxes[i].states), by = state === "f" ? 2 * least : least, w = Math.max(WIDE, by), h = Math.max(HIGH, by);
      context.fillStyle = colours[classOf(boxes[i])];
      context.fillRect(boxes[i].x - w / 2, boxes[i].y - h / 2, w, h);
    }
    const at = shown();
    context.strokeStyle = colour("--mark");
    context.lineWidth = 2 / mapScale;
    context.strokeRect(at.x, at.y, at.wide, at.high);
  };
  const line = (box) => {
    if (by.value !== "error" || box.unit < 0) {
      const text = box.covers > 1 ? `${box.op} · ${box.covers} nodes` : box.op; // of the ONNX
      return text.length > 21 ? `${text.slice(0, 20)}…` : text;
    }
    return box.error === null ? (worst(box.states) === "a" ? "equal" : "no number") : `${box.error} dB`;
  };
  const write = () => { // what is in view, and a little around it
    const at = shown(), [dx, dy] = [at.wide / 2, at.high / 2];
    boxes.forEach((box, i) => {
      if (box.written || box.x < at.x - dx || box.x > at.x + at.wide + dx || box.y < at.y - dy || box.y > at.y + at.high + dy) return;
      box.written = true;
      drawn[i].insertAdjacentHTML("beforeend", boxText(box, data));
      drawn[i].querySelector(".of").textContent = line(box);
    });
  };
  let painting = 0;
  const moved = () => {
    const scale = panzoom.getScale();
    view.classList.toggle("far-away", scale < FAR_AWAY);
    map.hidden = scale <= whole() * 1.02;
    if (scale >= FAR_AWAY) write();
    pins.forEach((pin) => { const box = boxes[pin.dataset.box]; pin.setAttribute("transform", `translate(${box.x} ${box.y - HIGH / 2}) scale(${1.3 / scale})`); });
    painting ||= requestAnimationFrame(() => { painting = 0; paintMap(); });
  };
  all.addEventListener("panzoomchange", moved);

  const classOf = (box) => {
    if (box.unit < 0) return "agrees";
    if (by.value === "state") return STATES[worst(box.states)];
    if (by.value === "verdict") return OF_VERDICT[[..."FIP"].find((one) => box.verdicts.includes(one)) ?? "-"];
    return box.error === null ? (worst(box.states) === "a" ? "e0" : "unknown") : BINS.find(([from]) => box.error >= from)[1];
  };
  const paint = () => {
    drawn.forEach((one, i) => {
      one.classList.remove(...COLOURS);
      one.classList.add(classOf(boxes[i]));
      if (boxes[i].written) one.querySelector(".of").textContent = line(boxes[i]);
    });
    const entries = by.value === "state" ? Object.values(STATES).map((state) => [state, `${data.signs[state]} ${data.words[state]}`]) : by.value === "verdict" ? [["agrees", "PASSED"], ["fails", "FAILED"], ["differs", "INCONCLUSIVE"], ["unknown", "not compared"]] : [["e0", "equal"], ...BINS.map(([, name, words]) => [name, words]), ["unknown", "no number"]];
    const used = new Set(boxes.map((box) => box.kind));
    key.replaceChildren();
    const entry = (svgInside, words) => { const one = make("li"); one.innerHTML = `<svg viewBox="0 0 18 18" aria-hidden="true">${svgInside}</svg>`; one.append(words); return one; };
    key.append(...entries.map(([name, words]) => entry(`<rect class="${name}" x="1" y="1" width="16" height="16" rx="3" style="fill:var(--side)"/>`, words)));
    key.append(...Object.entries(KINDS).filter(([kind]) => used.has(kind)).map(([kind, words]) => entry(`<path d="${SIGNS[kind]}" transform="translate(2 2)" fill="none" stroke="currentColor" stroke-width="1.5"/>`, words)));
    if (data.pairs.length > 1) key.append(make("li", {}, `signs in a box: ${data.pairs.map((pair) => pair.join(" ~ ")).join(", ")}`));
    if (data.regions.length) key.append(make("li", {}, "dashed frame: nodes that were recomputed as one"));
    moved();
  };

  const link = (i) => button(boxes[i].name, `go to ${boxes[i].name}`, () => { choose(i); view.focus({ preventScroll: true }); });
  const describe = (box) => {
    const parts = [make("h3", {}, make("code", {}, box.name)), make("p", { class: "under" }, `${box.op}, ${KINDS[box.kind]}${box.final ? "; an output of the network" : ""}`)];
    if (box.unit < 0) parts.push(make("p", {}, "All sides received the same."));
    const rows = box.rows.map((id) => (id ? document.getElementById(id) : null));
    if (box.unit >= 0) {
      const table = make("table", {}, make("caption", {}, "each pair of sides"), make("thead", {}, make("tr", {}, ...["pair", "result", "max |a-b|", "SQNR"].map((head) => make("th", { scope: "col" }, head)))));
      const body = make("tbody");
      data.pairs.forEach((pair, n) => {
        const state = STATES[box.states[n]], [verdict, ...cells] = rows[n] ? [1, 6, 8].map((column) => rows[n].cells[column].textContent) : ["", "", ""];
        const name = make("th", { scope: "row" }, rows[n] ? make("a", { href: `#${rows[n].id}` }, pair.join(" ~ ")) : pair.join(" ~ "));
        body.append(make("tr", {}, name, make("td", {}, `${data.signs[state]} ${data.words[state]}`, ...(verdict ? [make("br"), make("span", { class: `verdict ${verdict.split(" ").at(-1).toLowerCase()}` }, verdict)] : [])), ...cells.map((cell) => make("td", {}, cell))));
      });
      table.append(body);
      parts.push(make("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "each pair of sides" }, table));
    }
    for (const [words, list] of [["reads", box.reads], ["read by", box.readers]]) if (list.length) parts.push(make("p", { class: "row" }, make("span", { class: "under" }, words), ...[...new Set(list)].map(link)));
    const covers = box.unit >= 0 && document.querySelector(`#g${data.low + box.unit} figcaption dl`);
    if (covers) { const copy = covers.cloneNode(true); [...copy.querySelectorAll("dt")].filter((one) => one.textContent !== "stands for").forEach((one) => { one.nextElementSibling.remove(); one.remove(); }); if (copy.children.length) parts.push(copy); }
    const byDifference = rows.filter(Boolean).sort((a, b) => b.classList.contains("differs") - a.classList.contains("differs")), drawings = new Set(byDifference.map((row) => row.querySelector("dd a[href^='#d']")?.getAttribute("href").slice(1)).filter(Boolean));
    for (const id of drawings) {
      const from = document.getElementById(id), copy = from?.querySelector(".drawings")?.cloneNode(true);
      if (copy) { copy.querySelectorAll("[id]").forEach((one) => one.removeAttribute("id")); copy.querySelectorAll("[aria-label]").forEach((one) => one.setAttribute("aria-label", `${one.getAttribute("aria-label")}, beside the graph`)); parts.push(make("p", { class: "under" }, from.querySelector("summary").textContent), copy); }
    }
    if (!drawings.size) { // a page made from a JSON report has the histogram of each row only
      const bars = byDifference.map((row) => row.querySelector("th figure")).find(Boolean)?.cloneNode(true);
      if (bars) { bars.querySelector("svg").setAttribute("aria-label", `${bars.querySelector("svg").getAttribute("aria-label")}, beside the graph`); parts.push(bars); }
    }
    return parts;
  };
  const choose = (i, still = false) => {
    const before = boxes[chosen];
    drawn[chosen]?.classList.remove("chosen");
    chosen = i;
    drawn[i].classList.add("chosen");
    drawn[i].parentNode.append(drawn[i]);
    edges.forEach((edge, n) => { if (edge.a === i || edge.b === i) lines[n].classList.add("near"); else if (before) lines[n].classList.remove("near"); });
    side.replaceChildren(...describe(boxes[i]));
    if (side.scrollTop) side.scrollTop = 0;
    const number = wrongs.indexOf(i);
    wrongWords.textContent = wrongs.length ? `${number < 0 ? "" : `${number + 1} of `}${wrongs.length} ${boxes[wrongs[0]].states.includes("f") ? "that fail" : "that differ"}` : "none differs";
    if (!still) { const at = shown(); look(boxes[i].x, boxes[i].y, Math.max(at.scale, at.scale < FAR_AWAY ? NEAR : 0)); }
    found.textContent = document.activeElement === view || document.activeElement === search ? `${boxes[i].name}, ${boxes[i].op}: ${boxes[i].unit < 0 ? "input" : data.words[STATES[worst(boxes[i].states)]]}` : "";
  };
  const step = (by) => { if (wrongs.length) { const at = wrongs.indexOf(chosen), to = at >= 0 ? at + by : by > 0 ? wrongs.findIndex((i) => i > chosen) : wrongs.findLastIndex((i) => i < chosen); choose(wrongs[(to + wrongs.length) % wrongs.length]); } };

  const texts = boxes.map((box) => `${box.name} ${box.op}`.toLowerCase()), covered = () => { boxes.forEach((box, i) => { if (box.unit >= 0) texts[i] += ` ${document.querySelector(`#g${data.low + box.unit}`)?.textContent.toLowerCase() ?? ""}`; }); covered.done = true; };
  const names = boxes.map((box) => `${box.name} ${box.op}`.toLowerCase());
  const seek = () => {
    const words = search.value.trim().toLowerCase();
    if (words && !covered.done) covered();
    const named = (list) => (words ? list.map((text, i) => (text.includes(words) ? i : -1)).filter((i) => i >= 0) : []);
    hits = named(names);
    if (!hits.length) hits = named(texts);
    hit = -1;
    const all = new Set(hits);
    drawn.forEach((one) => { const is = all.has(Number(one.dataset.box)); one.classList.toggle("dim", Boolean(words) && !is); one.classList.toggle("hit", is); });
    found.textContent = words ? `${hits.length} found${hits.length ? ", Enter goes to the next" : ""}` : "";
  };
  search.addEventListener("input", seek);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && hits.length) { event.preventDefault(); hit = (hit + (event.shiftKey ? hits.length - 1 : 1)) % hits.length; choose(hits[hit]); found.textContent = `${hit + 1} of ${hits.length}: ${boxes[hits[hit]].name}`; }
    if (event.key === "Escape") { event.preventDefault(); search.value = ""; seek(); view.focus({ preventScroll: true }); }
  });
  const beside = (sign) => {
    const from = boxes[chosen], near = boxes.map((box, i) => [i, (box.x - from.x) * sign, Math.abs(box.y - from.y)]).filter(([, x]) => x > 8);
    return near.sort((a, b) => a[1] + 3 * a[2] - b[1] - 3 * b[2])[0]?.[0];
  };
  const first = (list) => [...list].sort((a, b) => "fdua".indexOf(worst(boxes[a].states)) - "fdua".indexOf(worst(boxes[b].states)) || a - b)[0];
  const openRow = () => { const id = boxes[chosen].rows.find((row, n) => row && boxes[chosen].verdicts[n] === "F") || boxes[chosen].rows.find(Boolean); if (id) { const same = location.hash === `#${id}`; location.hash = id; if (same) document.getElementById(id).scrollIntoView({ block: "center" }); } };
  view.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowUp: () => first(boxes[chosen].reads), ArrowDown: () => first(boxes[chosen].readers), ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), Home: () => 0, End: () => boxes.length - 1 }[event.key];
    const act = { "+": () => zoomed(1.4), "=": () => zoomed(1.4), "-": () => zoomed(1 / 1.4), 0: fit, "/": () => { search.focus(); search.select(); }, Enter: openRow, Escape: () => { search.value = ""; seek(); choose(ofUnit(data.first)); } }[event.key];
    if (!to && !act) return;
    event.preventDefault();
    if (to) { const next = to(); if (next !== undefined) choose(next); } else act();
  });
  side.addEventListener("keydown", (event) => { if (event.key === "Escape") view.focus({ preventScroll: true }); });
  view.addEventListener("wheel", (event) => { if (event.ctrlKey || event.metaKey || document.activeElement === view) { event.preventDefault(); panzoom.zoomToPoint(panzoom.getScale() * (event.deltaY < 0 ? 1.2 : 1 / 1.2), event); } }, { passive: false });
  let down = null;
  view.addEventListener("pointerdown", (event) => { down = [event.clientX, event.clientY]; }, true);
  view.addEventListener("click", (event) => {
    view.focus({ preventScroll: true });
    const box = event.target.closest(".net");
    if (box && down && Math.hypot(event.clientX - down[0], event.clientY - down[1]) < 6) choose(Number(box.dataset.box), panzoom.getScale() >= FAR_AWAY);
  });
  view.addEventListener("dblclick", (event) => { if (event.target.closest(".net")) openRow(); });
  const go = (event) => { event.preventDefault(); event.stopPropagation(); const edge = map.getBoundingClientRect(); look((event.clientX - edge.left) / mapScale, (event.clientY - edge.top) / mapScale, panzoom.getScale()); };
  map.addEventListener("pointerdown", (event) => { map.setPointerCapture(event.pointerId); go(event); });
  map.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
  by.addEventListener("change", paint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint());
  paint();
  choose(begin, true);
  document.addEventListener("DOMContentLoaded", () => choose(chosen, true)); // the tables and drawings below are there
  new ResizeObserver(([entry]) => { Object.assign(seen, { wide: entry.contentRect.width || 800, high: entry.contentRect.height || 560 }); moved(); }).observe(view);
}
const network = document.querySelector(".network");
if (network) draw(network);
})();
