// The front as a drawing: a point for each candidate, coloured by coverage, marks for the choice and
// for all sources, bounds as dotted lines. Names are put in as text, never as markup.
const plot = byId("plot"), drawing = byId("drawing");
const LEVELS = [0, 0.5, 0.8, 0.9, 0.95, 0.99, 1]; // of coverage: finer close to 1, where differences matter more
const RAMPS = { // from low coverage to high: away from the colour of the paper
  light: ["#c8e020", "#5ec962", "#21918c", "#31688e", "#443983", "#440154"],
  dark: ["#7e64b8", "#4f83c4", "#2aa198", "#5ec962", "#c8e020", "#fff3a0"],
};
const all = figures(whole.selected, 0);

function svg(tag, attributes, text) {
  const made = document.createElementNS(drawing.namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Colours: a place among the levels, and what stands there on the ramp of the page's mode.
const darkness = window.matchMedia("screen and (prefers-color-scheme: dark)");
const ramp = () => (darkness.matches ? RAMPS.dark : RAMPS.light);
function levelOf(coverage) {
  let k = 0;
  while (k < LEVELS.length - 2 && coverage >= LEVELS[k + 1]) k++;
  return k + (coverage - LEVELS[k]) / (LEVELS[k + 1] - LEVELS[k]);
}
function colourOf(coverage) {
  const colours = ramp(), place = levelOf(coverage) / (LEVELS.length - 1) * (colours.length - 1);
  const k = Math.min(Math.floor(place), colours.length - 2), part = place - k;
  const channel = (colour, at) => parseInt(colour.slice(at, at + 2), 16);
  const mixed = [1, 3, 5].map((at) => channel(colours[k], at) * (1 - part) + channel(colours[k + 1], at) * part);
  return "rgb(" + mixed.map(Math.round).join(",") + ")";
}

// The axes span everything that a choice may mark, so that they stay while sliders move.
const beside = [all, ...whole.as_many.of.map((_, at) => figures(whole.as_many, at))];
const prices = every.map((i) => points[i].cost).sort((a, b) => a - b), dearest = Math.max(prices[n - 1], all.cost);
const isLog = prices[n >> 1] < dearest / 6;
// A logarithmic axis has no zero: costs below `near` lie evenly within half a decade to its left.
const paidFor = [...prices, all.cost].filter((price) => price > 0);
const near = isLog && prices[0] === 0 ? 10 ** Math.ceil(Math.log10(paidFor[Math.floor(0.05 * paidFor.length)])) : 0;
const costPlace = (cost) => (!isLog ? cost : cost < near ? Math.log10(near) + 0.5 * (cost / near - 1) : Math.log10(cost));
function spanOf(values) {
  const low = least(values), high = most(values), room = 0.05 * (high - low) || 0.05 * Math.abs(high) || 0.05;
  return [low - room, high + room];
}
const costSpan = spanOf([...points, ...beside].map((p) => costPlace(p.cost)));
const accuracySpan = spanOf([...points, ...beside].map((p) => p.accuracy));

function costTicks(fits) {
  if (!isLog) return evenTicks(Math.max(0, costSpan[0]), costSpan[1], fits);
  const end = 10 ** costSpan[1];
  return near ? [0, ...decadeTicks(near, end, (found) => fits([0, ...found]))] : decadeTicks(10 ** costSpan[0], end, fits);
}
const shareText = (x) => Number((100 * x).toPrecision(6)) + "%";

// The parts of the drawing, from the back to the front. Points of more coverage are drawn later.
const layers = {};
for (const name of ["axes", "outside", "inside", "bounds", "marks"]) layers[name] = drawing.appendChild(svg("g", { class: name }));
const radius = n > 300 ? 2.6 : 3.6;
const circles = every.map((i) => ["outside", "inside"].map(() => svg("circle", { r: radius, "data-candidate": i })));
for (const i of [...every].sort((a, b) => points[a].coverage - points[b].coverage)) {
  layers.outside.append(circles[i][0]);
  layers.inside.append(circles[i][1]);
}
let frame = null; // where values lie in pixels
let shown = null; // the candidate

function layOut() {
  const { width, height } = drawing.getBoundingClientRect();
  if (!width || !height) return;
  const style = getComputedStyle(drawing), pen = document.createElement("canvas").getContext("2d");
  pen.font = style.fontSize + " " + style.fontFamily;
  const wide = (text) => pen.measureText(text).width;
  const [top, bottom, right] = [28, height - 100, width - 28];
  const y = (accuracy) => bottom - (accuracy - accuracySpan[0]) / (accuracySpan[1] - accuracySpan[0]) * (bottom - top);
  const shareTicks = evenTicks(accuracySpan[0], Math.min(1, accuracySpan[1]),
    (found) => found.every((tick, at) => !at || y(found[at - 1]) - y(tick) >= 36));
  const left = Math.ceil(most([0, ...shareTicks.map((tick) => wide(shareText(tick)))])) + 14;
  const x = (cost) => left + (costPlace(cost) - costSpan[0]) / (costSpan[1] - costSpan[0]) * (right - left);
  const ends = (tick) => [-0.5, 0.5].map((side) => x(tick) + side * wide(number(tick)));
  const ticks = costTicks((found) => found.length < 13
    && found.every((tick, at) => !at || ends(tick)[0] - ends(found[at - 1])[1] >= 16));
  frame = { x, y, left, right, top, bottom, bar: [Math.max(left, wide("coverage") + 14), right] };
  frame.at = every.map((i) => [x(points[i].cost), y(points[i].accuracy)]);

  const parts = [];
  const line = (x1, y1, x2, y2, look) => parts.push(svg("line", { x1, y1, x2, y2, class: look }));
  const text = (x, y, told, look) => parts.push(svg("text", { x, y, class: look }, told));
  for (const tick of shareTicks) {
    line(left, y(tick), right, y(tick), "grid");
    parts.push(svg("text", { x: left - 8, y: y(tick), class: "tick y", "data-value": tick }, shareText(tick)));
  }
  for (const tick of ticks) {
    line(x(tick), top, x(tick), bottom + 5, "grid");
    parts.push(svg("text", { x: x(tick), y: bottom + 19, class: "tick x", "data-value": tick }, number(tick)));
  }
  line(left, top, left, bottom, "axis");
  line(left, bottom, right, bottom, "axis");
  text(0, 14, "accuracy of accepted rows", "title y");
  text((left + right) / 2, bottom + 42, "cost per row" + (costs.unit ? " (" + costs.unit + ")" : ""), "title x");
  const gradient = svg("linearGradient", { id: "ramp" });
  ramp().forEach((colour, at, { length }) => gradient.append(svg("stop", { offset: at / (length - 1), "stop-color": colour })));
  parts.push(gradient, svg("rect", { x: frame.bar[0], y: height - 36, width: frame.bar[1] - frame.bar[0], height: 12, fill: "url(#ramp)" }));
  text(0, height - 26, "coverage", "title bar");
  LEVELS.forEach((level) => text(barPlace(level), height - 8, shareText(level), "tick bar"));
  layers.axes.replaceChildren(...parts);
  every.forEach((i) => {
    for (const circle of circles[i]) {
      circle.setAttribute("cx", frame.at[i][0]);
      circle.setAttribute("cy", frame.at[i][1]);
    }
    circles[i][1].setAttribute("fill", colourOf(points[i].coverage));
  });
  if (shown !== null) mark();
}
const barPlace = (coverage) => frame.bar[0] + levelOf(coverage) / (LEVELS.length - 1) * (frame.bar[1] - frame.bar[0]);

// Marks: the choice, the choice of the search, and both forms of all sources.
const star = (r) => "M" + Array.from({ length: 10 }, (_, k) => {
  const turn = Math.PI * (k / 5 - 0.5), far = k % 2 ? 0.42 * r : r;
  return (far * Math.cos(turn)).toFixed(2) + " " + (far * Math.sin(turn)).toFixed(2);
}).join("L") + "Z";
const SHAPES = { chosen: star(11), "chosen by the search": star(9),
  "all sources, as many rows": "M-6-6H6V6H-6Z", "all sources, every row": "M0-7.5L7.5 0L0 7.5L-7.5 0Z" }; // as FrontDisplay has them
function marksOf(i) {
  const asMany = asManyAs(i);
  return [["all sources, every row", all],
    asMany.coverage < 1 && ["all sources, as many rows", asMany],
    data.chosen !== null && data.chosen !== i && ["chosen by the search", points[data.chosen]],
    ["chosen", points[i]]].filter(Boolean);
}
function mark() {
  const { x, y, left, right, top, bottom } = frame, marks = marksOf(shown);
  const shape = (name, place) => svg("path", { d: SHAPES[name], class: name === "chosen" ? "mark chosen" : "mark", "data-mark": name, ...place });
  layers.marks.replaceChildren(...marks.map(([name, p]) => shape(name, { transform: "translate(" + x(p.cost) + " " + y(p.accuracy) + ")" })));
  byId("legend").replaceChildren(...[...marks].reverse().map(([name]) => {
    const sign = svg("svg", { width: 24, height: 24, viewBox: "-12 -12 24 24", "aria-hidden": "true" });
    return append(element("li"), append(sign, shape(name, {})), name);
  }));
  const lines = [];
  const dotted = (name, line) => lines.push(svg("line", { class: "bound", "data-bound": name, ...line }));
  const [cost, accuracy, coverage] = ["cost", "accuracy", "coverage"].map((name) => bounds.find((b) => b.name === name).value);
  const within = (value, from, to) => value >= from && value <= to;
  if (cost !== null && within(x(cost), left, right)) dotted("cost", { x1: x(cost), x2: x(cost), y1: top, y2: bottom });
  if (accuracy !== null && within(y(accuracy), top, bottom)) dotted("accuracy", { x1: left, x2: right, y1: y(accuracy), y2: y(accuracy) });
  if (coverage !== null) dotted("coverage", { x1: barPlace(coverage), x2: barPlace(coverage), y1: bottom + 60, y2: bottom + 80 });
  layers.bounds.replaceChildren(...lines);
}
function showPlot(i, inside) {
  shown = i;
  const isInside = new Set(inside);
  every.forEach((k) => circles[k].forEach((circle, side) => {
    const look = isInside.has(k) === (side === 1) ? "" : "none";
    if (circle.style.display !== look) circle.style.display = look;
  }));
  if (frame) mark();
  plot.dataset.candidate = i;
}

new ResizeObserver(layOut).observe(drawing);
darkness.addEventListener("change", layOut);
