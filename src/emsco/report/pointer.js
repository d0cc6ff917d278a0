// What stands at the pointer: told while it is there, and chosen by a click; arrow keys choose the next point.
const hover = byId("hover");
const REACH = 14; // pixels from a point at which it is still meant
function pointAt(event) {
  const box = drawing.getBoundingClientRect(), [x, y] = [event.clientX - box.left, event.clientY - box.top];
  if (event.target.dataset.candidate !== undefined) return Number(event.target.dataset.candidate);
  const away = (i) => Math.hypot(frame.at[i][0] - x, frame.at[i][1] - y);
  const nearest = every.reduce((best, i) => (away(i) < away(best) ? i : best));
  return away(nearest) <= REACH ? nearest : null;
}
const shortened = (text, most) => (text.length > most ? text.slice(0, most - 1) + "\u2026" : text);
const designText = (i) => shortened(stagesOf(i).stages.map((stage) => stage.map((s) => s.name).join(" ")).join(" | "), 80);
const figureLines = (p, i) => ["accuracy " + percent(p.accuracy) + ", coverage " + percent(p.coverage),
  ...(i === undefined ? [] : [besideAccuracy(i)]), paid(p),
  ...worstFirst(p).slice(0, MOST_NAMED).map((k) => shortened(labels[k], 30) + ": " + WORDS.map((word) => wordText(word) + " " + percent(p[word][k])).join(", "))];
function tell(event) {
  const name = event.target.dataset.mark, i = name === undefined ? pointAt(event) : null;
  const named = name && marksOf(shown).find(([own]) => own === name);
  drawing.style.cursor = i === null ? "" : "pointer";
  hover.hidden = i === null && !named;
  if (hover.hidden) return;
  const own = named ? { chosen: shown, "chosen by the search": data.chosen }[name] : i;
  const lines = [...(named ? [name] : []), ...(own === undefined ? [] : [designText(own)]), ...figureLines(named ? named[1] : points[i], own)];
  hover.replaceChildren(...lines.map((line) => element("div", line)));
  const box = plot.getBoundingClientRect(), [x, y] = [event.clientX - box.left, event.clientY - box.top];
  hover.style.left = Math.max(0, Math.min(x + 16, box.width - hover.offsetWidth)) + "px";
  hover.style.top = (y > box.height / 2 ? y - hover.offsetHeight - 14 : y + 18) + "px";
}
drawing.addEventListener("pointermove", tell);
drawing.addEventListener("pointerleave", () => { hover.hidden = true; });
drawing.addEventListener("click", (event) => {
  const i = pointAt(event);
  if (i !== null) pick(i);
});
const STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -n, End: n };
plot.addEventListener("keydown", (event) => {
  if (!(event.key in STEPS) || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  pick(Math.min(n - 1, Math.max(0, shown + STEPS[event.key])));
});
