// The sliders and the caution: which bounds are asked for.
const roundedUp = (x, digits) => {
  const scale = 10 ** digits, near = Math.round(x * scale) / scale; // already a short decimal
  return near === x ? x : Math.ceil(x * scale) / scale;
};

// Bounds: their figure, their direction and the stops of their slider. Its loose end means no bound.
const chooser = emscoChoice.choosing(data.sliders, selected, labels, data.repeats, costs.total, number, n);
const bounds = chooser.bounds.map((b) => {
  const id = b.k === null ? b.parameter : b.parameter + "_" + b.k;
  return { ...b, id, print: b.unit === "money" ? money : percent, stops: [], value: null };
});
const stopsOf = (b) => (b.unit === "money" ? priceStops(b.at(0)) : shareStops(b));
const least = (values) => values.reduce((a, x) => Math.min(a, x)), most = (values) => values.reduce((a, x) => Math.max(a, x));
function shareStops(b) {
  // Tenths of a percent, from where at least one candidate is within the bound to where all are.
  // 0 and 1 are used as counted, so they may be met even if values close to them are not.
  const round = b.sign > 0 ? Math.ceil : Math.floor, held = b.at(standardErrors()), counted = b.at(0);
  const stops = [];
  const within = (x) => Math.min(1000, Math.max(0, round(x * 1000))); // a margin can lead out of 0 to 1
  for (let k = within(least(held)); k <= within(most(held)); k++) stops.push(k / 1000);
  const tight = b.sign > 0 ? 0 : 1, isMet = (b.sign > 0 ? least(counted) : most(counted)) === tight;
  const others = stops.filter((stop) => stop !== tight || stops.length === 1);
  if (!isMet || others.includes(tight)) return others;
  return b.sign > 0 ? [tight, ...others] : [...others, tight];
}
function priceStops(prices) {
  const low = least(prices), high = most(prices), steps = 200, stops = [];
  const isLog = low > 0 && high / low > 30;
  for (let k = 0; k <= steps; k++) {
    const x = isLog ? low * (high / low) ** (k / steps) : low + (high - low) * k / steps;
    const digits = Math.max(0, 2 - Math.floor(Math.log10(x || 1)));
    stops.push(roundedUp(x, Math.min(digits, 12)));
  }
  return [...new Set(stops)];
}
const loose = (b) => (b.sign > 0 ? b.stops.length - 1 : 0);
const asked = () => bounds.map((b) => b.value);

// Caution: the margin in standard errors with which shares of rows must meet their bounds.
const automatic = data.luck === null ? 1 : Math.max(1, data.luck);
let caution = "auto", preferred = "auto"; // in use, and as set by the reader
const standardErrors = () => (caution === "auto" ? automatic : caution);
const cautionFor = (z, wanted) => (z === (wanted === "auto" ? automatic : wanted) ? wanted : z);
function boundsFor(i, wanted) {
  const found = chooser.boundsFor(i, wanted === "auto" ? automatic : wanted);
  return { values: found.wanted, caution: cautionFor(found.z, wanted) };
}
byId("caution").append(...[
  ["auto", "auto: " + chooser.standardErrors(automatic)], ["0", "0: as counted"], ["number", "a number"],
].map(([value, text]) => Object.assign(element("option", text), { value })));
byId("luck").textContent = data.luck === null ? "The luck in a choice is unknown, so auto is 1."
  : "Repeated searches showed that luck is worth " + chooser.standardErrors(data.luck) + (data.luck < 1 ? "; auto is at least 1." : ".");
function readCaution() {
  const picked = byId("caution").value, typed = byId("caution_number");
  const number = typed.valueAsNumber, isNumber = number >= 0 && number < 99;
  if (picked === "number") typed.setAttribute("aria-invalid", String(!isNumber));
  if (picked !== "number" || isNumber) caution = preferred = picked === "auto" ? "auto" : picked === "0" ? 0 : number;
}
byId("caution").addEventListener("change", () => {
  if (byId("caution").value === "number") byId("caution_number").value = twoDecimals(standardErrors());
  readCaution();
  set(asked(), caution);
});
byId("caution_number").addEventListener("input", () => { readCaution(); picked = null; placeSliders(); later(); });
const twoDecimals = (x) => Math.round(100 * x) / 100;

// The sliders; those of classes are in groups that can be opened.
const holders = {};
bounds.forEach((b) => {
  b.input = document.createElement("input");
  Object.assign(b.input, { type: "range", id: b.id, min: 0, step: 1 });
  b.output = document.createElement("output");
  b.output.htmlFor = b.id;
  const way = b.sign > 0 ? "at most" : "at least";
  const label = append(element("label"), element("span", b.name + ", " + way), b.output);
  label.htmlFor = b.id;
  holderOf(b).append(append(element("div", undefined, "slider"), label, b.input));
  b.input.addEventListener("input", () => {
    const at = Number(b.input.value);
    b.value = at === loose(b) ? null : b.stops[at];
    picked = null;
    later();
  });
});
function holderOf(b) {
  if (b.k === null) return byId("sliders");
  if (!holders[b.word]) {
    const summary = append(element("summary", b.word + ", by class"), element("span", "", "count"));
    holders[b.word] = append(document.createElement("details"), summary);
    holders[b.word].open = labels.length <= 3 && b.within_class;
    byId("sliders").append(holders[b.word]);
  }
  return holders[b.word];
}
function placeSliders() {
  for (const b of bounds) {
    b.stops = stopsOf(b);
    b.input.max = b.stops.length - 1;
    b.input.value = b.value === null ? loose(b)
      : b.stops.reduce((best, stop, at) => Math.abs(stop - b.value) < Math.abs(b.stops[best] - b.value) ? at : best, 0);
  }
}
let picked = null; // the candidate, where it is not chosen by bounds
function pick(i) {
  set(bounds.map(() => null), preferred, i);
}
function set(values, wanted, i = null) {
  picked = i;
  caution = wanted;
  bounds.forEach((b, at) => { b.value = values[at]; });
  placeSliders();
  show();
}
function showSliders() {
  for (const b of bounds) {
    const exact = b.value !== null && b.print === percent ? Number((100 * b.value).toPrecision(6)) : null;
    const fine = exact !== null && exact !== Number(exact.toFixed(1));
    const told = b.value === null ? "no bound" : fine ? exact + "%" : b.print(b.value);
    b.output.textContent = told;
    b.input.setAttribute("aria-valuetext", told);
    b.input.dataset.bound = b.value === null ? "" : b.value;
  }
  for (const [word, holder] of Object.entries(holders)) {
    const count = bounds.filter((b) => b.word === word && b.k !== null && b.value !== null).length;
    holder.querySelector(".count").textContent = count ? count + (count === 1 ? " bound" : " bounds") : "";
  }
  const select = byId("caution"), typed = byId("caution_number");
  const isTyped = select.value === "number" && (typed.valueAsNumber === caution || document.activeElement === typed);
  if (!isTyped) select.value = caution === "auto" ? "auto" : caution === 0 ? "0" : "number";
  if (!isTyped && select.value === "number") typed.value = caution;
  typed.hidden = select.value !== "number";
}
