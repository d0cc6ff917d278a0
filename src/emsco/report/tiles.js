// The choice at a glance; for screen readers, the sentence below says the same.
function showTiles(i, none) {
  const p = points[i], fresh = figures(data.fresh, i), whole = figures(data.all_sources.selected, 0);
  const onFresh = (of, print) => (fresh && of(fresh) !== null ? ["fresh: " + print(of(fresh))] : []);
  const tile = (name, of, print, ...more) => append(element("div", undefined, "tile"), element("span", name, "name"),
    element("strong", print(of(p))), ...[...onFresh(of, print), ...more].map((line) => element("span", line, "more")));
  const asMany = asManyAs(i), beside = (of, print) => [
    ...(asMany.coverage < 1 ? ["all sources, as many rows: " + print(of(asMany))] : []),
    "all sources, every row: " + print(of(whole)),
  ];
  const parts = (f) => lossParts(f).replace(/ = .*/, "");
  const cost = !hasLoss || p.loss === null ? tile("cost", (f) => f.cost, money, "all sources: " + money(costs.total))
    : tile("loss", (f) => f.loss, (x) => (x === null ? "\u2013" : money(x)), parts(p), ...beside((f) => f.loss, (x) => (x === null ? "\u2013" : number(x))));
  const saving = tile("share of the full price", (f) => f.cost / costs.total, percent,
    (p.cost <= costs.total ? "saved: " : "more: ") + money(Math.abs(costs.total - p.cost)) + " of " + money(costs.total) + " per row");
  const tiles = [
    ...(costs.total ? [saving] : []),
    cost,
    tile("coverage", (f) => f.coverage, percent, ...[p.coverage_interval && "95% interval: " + p.coverage_interval].filter(Boolean), "rejected: " + percent(1 - p.coverage)),
    tile("accuracy", (f) => f.accuracy, percent, ...beside((f) => f.accuracy, percent)),
  ];
  for (const id of ["tiles", "class-tiles"]) byId(id).classList.toggle("none", none);
  byId("tiles").replaceChildren(...tiles);
  byId("class-tiles").replaceChildren(...(labels.length ? classTiles(p, fresh, asMany) : []));
}
function classTiles(p, fresh, asMany) {
  const tile = (name, lines) => {
    const table = append(element("table"), append(element("tr"), element("th", ""),
      element("th", "selected"), ...(fresh ? [element("th", "fresh")] : []), element("th", "all sources, as many rows")));
    for (const [word, k, head] of lines) {
      table.append(append(element("tr"), element("th", head), element("td", percent(p[word][k]), "own"),
        ...(fresh ? [element("td", percent(fresh[word][k]))] : []), element("td", percent(asMany[word][k]), "besides")));
    }
    return append(element("div", undefined, "tile class"), element("span", name, "name"), table);
  };
  if (labels.length <= MOST_TILES) return labels.map((label, k) => tile("class " + label, WORDS.map((word) => [word, k, wordText(word)])));
  const worst = (word) => (isHighBetter[word] ? "lowest " : "most ") + wordText(word);
  return [tile("worst by class", WORDS.map((word) => {
    const k = worstFirst(p, word)[0];
    return [word, k, worst(word) + ": " + labels[k]];
  }))];
}
