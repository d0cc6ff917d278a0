// What is chosen, told in words, and everything that shows it.
function show() {
  const values = asked(), z = standardErrors();
  const isPicked = picked !== null, inside = isPicked ? every : chooser.within(values, z);
  const none = inside.length === 0, why = none ? chooser.whyNot(values, z) : null;
  const i = isPicked ? picked : none ? why.closest : chooser.cheapest(inside);
  const isSearchs = isPicked && i === data.chosen;
  const p = points[i];
  const part = costs.total ? " (" + percent(p.cost / costs.total) + " of the full price)" : "";
  const told = byId("told");
  showTiles(i, none);
  const subject = none ? "No candidate is within these bounds. The closest, which breaks the bound on " + why.failed.join(" and ") + ", "
    : !isPicked ? "The cheapest cascade within the bounds "
      : isSearchs ? "The cascade that the search chose "
        : data.chosen === null ? "This cascade " : "The cascade that you picked ";
  const parts = lossParts(p);
  told.textContent = subject + "costs " + money(p.cost) + " per row" + part + ", accepts " + percent(p.coverage)
    + " of the " + data.of + (p.coverage_interval ? " (95% interval: " + p.coverage_interval + ")" : "")
    + " and is right on " + percent(p.accuracy) + " of those (" + besideAccuracy(i) + ")" + (parts ? "; per row: " + parts : "") + "."
    + (labels.length ? " It rejects " + named(worstFirst(p, "rejected"), p.rejected) + "; it misses " + named(worstFirst(p, "missed"), p.missed) + "." : "")
    + (none ? " " + why.atBest + without(why.counted) : isPicked ? ""
      : " " + inside.length.toLocaleString("en-US") + (inside.length === 1 ? " candidate is within them." : " candidates are within them."));
  told.classList.toggle("none", none);
  told.dataset.candidate = i;
  // At the start it is the search's own rule, which may be other than bounds.
  const isRuled = i === data.chosen && (isSearchs || isAtFirst(values));
  byId("rule").textContent = data.rule && isRuled ? data.rule + instead() : isPicked ? "" : chooser.rule(values, z);
  for (const flow of document.querySelectorAll("#flow")) flow.hidden = i !== data.chosen;
  showSliders();
  showCascade(i);
  showTable(i);
  showLines(isSearchs && data.choice ? null : isPicked ? boundsFor(i, preferred) : none ? boundsFor(i, caution) : { values, caution });
  showPlot(i, inside);
}
// Sliders choose by another rule than the search did, where that was not by bounds.
function instead() {
  if (first !== null) return "";
  return " This choice follows " + (data.is_default ? "the default rule" : "this rule")
    + "; once you move a slider, the cheapest candidate within the bounds is chosen instead.";
}
function without(i) {
  if (i === undefined) return "";
  return i === null ? " Without the margin (caution 0), none is within them either."
    : " Without the margin (caution 0), one that costs " + money(points[i].cost) + " per row would be chosen.";
}
const choose = (state) => (state === null ? pick(data.chosen ?? 0) : set(state.values, state.caution));
const isAtFirst = (values) => first !== null && caution === first.caution && values.every((value, at) => value === first.values[at]);
function atFirst() {
  // The bounds given to the search, if the page has them; otherwise nobody set any.
  if (!data.asked) return null;
  const z = data.asked.caution === "auto" ? automatic : data.asked.caution;
  const values = bounds.map((b) => (data.asked[b.parameter] === undefined ? null
    : b.k === null ? data.asked[b.parameter] : data.asked[b.parameter][b.k]));
  return chooser.cheapest(chooser.within(values, z)) === data.chosen ? { values, caution: data.asked.caution } : null;
}
const first = atFirst();
let waiting = false;
function later() {
  // At most once per frame, however fast a slider moves.
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; show(); });
}

byId("start").addEventListener("click", () => choose(first));
if (data.chosen === null) byId("start").textContent = "Reset";
byId("free").addEventListener("click", () => set(bounds.map(() => null), preferred));
preferred = first ? first.caution : "auto";
choose(first);
