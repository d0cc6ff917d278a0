// The tables: figures of all rows, then by class, beside those of all sources.
function showTable(i) {
  const groups = [
    ["this cascade", [["selected", points[i], "own"], data.fresh && ["fresh", figures(data.fresh, i), "own"]]],
    ["all sources, as many rows", [["selected", asManyAs(i)]]],
    ["all sources, every row", [["selected", figures(whole.selected, 0)], data.fresh && ["fresh", figures(whole.fresh, 0)]]],
  ].map(([name, columns]) => [name, columns.filter(Boolean)]);
  const unit = costs.unit ? " (" + costs.unit + ")" : "";
  const rows = [
    ["accuracy", (f) => percent(f.accuracy)],
    ["coverage", (f) => percent(f.coverage)],
    ["its 95% interval", (f) => f.coverage_interval || "\u2013"],
    ["cost" + unit, (f) => number(f.cost)],
  ];
  const orDash = (f, x) => (f.loss === null ? "\u2013" : number(x)); // not known without the price of a review
  if (isReviewed) rows.push(["+ review" + unit, (f) => orDash(f, f.review)]);
  if (hasErrors) rows.push(["+ errors" + unit, (f) => orDash(f, f.errors)]);
  if (hasLoss) rows.push(["= loss" + unit, (f) => orDash(f, f.loss)]);
  if (points[i].worst_latency !== undefined) {
    rows.push(["latency", (f) => number(f.latency)], ["worst latency", (f) => number(f.worst_latency)]);
  }
  const first = element("tr"), second = element("tr");
  first.append(element("th"));
  second.append(element("th"));
  for (const [name, columns] of groups) {
    const th = element("th", name, "edge");
    th.colSpan = columns.length;
    th.style.setProperty("--span", columns.length);
    th.scope = "colgroup";
    first.append(th);
    columns.forEach(([head], at) => {
      const cell = element("th", head, at ? "" : "edge");
      cell.scope = "col";
      second.append(cell);
    });
  }
  const body = document.createElement("tbody");
  for (const [name, print] of rows) {
    const line = element("tr"), head = element("th", name);
    head.scope = "row";
    line.append(head);
    for (const [, columns] of groups) {
      columns.forEach(([, f, own], at) => {
        const told = f === null ? "\u2013" : print(f);
        const looks = [own, at ? "" : "edge", told.length > 8 ? "long" : ""];
        line.append(element("td", told, looks.filter(Boolean).join(" ")));
      });
    }
    body.append(line);
  }
  byId("figures").style.setProperty("--columns", groups.reduce((sum, [, columns]) => sum + columns.length, 0));
  byId("figures").replaceChildren(append(document.createElement("thead"), first, second), body);
  byId("boosted").textContent = boosted(i);
  showClasses(i);
}
// What a strong learner makes of the same rows, where it is not the one in use.
function boosted(i) {
  if (whole.boosted === null) return "";
  const at = asManyAt.get(selected.accepted[i]);
  return "With boosted trees, all sources at once are right on " + percent(whole.boosted.every) + " of all rows"
    + (points[i].coverage < 1 && points[i].coverage > 0 ? ", and on " + percent(whole.boosted.as_many[at]) + " of as many" : "") + ".";
}
function showClasses(i) {
  // Of many classes, the worst come first; the others can be opened.
  const isMany = labels.length > MOST_TILES;
  const order = isMany ? worstFirst(points[i]) : [...labels.keys()];
  const shown = labels.length > MOST_SHOWN + 1 ? order.slice(0, MOST_SHOWN) : order;
  byId("by-class").hidden = !labels.length;
  byId("class-order").textContent = isMany ? ", worst first" : "";
  byId("classes").replaceChildren(...classRows(i, shown));
  byId("others").hidden = shown.length === order.length;
  byId("others").querySelector("summary").textContent = "The other " + (order.length - shown.length) + " classes";
  byId("other-classes").replaceChildren(...classRows(i, order.slice(shown.length)));
}
function classRows(i, order) {
  const asMany = asManyAs(i);
  const columns = [["selected", points[i]], data.fresh && ["fresh", figures(data.fresh, i)], asMany.coverage < 1 && ["as many rows", asMany],
    ["all sources", figures(whole.selected, 0)]].filter(Boolean);
  const heads = (names, look) => append(element("tr", undefined, look), ...names.map((name) => Object.assign(element("th", name), { scope: "col" })));
  const lines = order.map((k) => {
    const counted = (columns) => (columns.n_class_rows || columns.class_rows)[k];
    const rows = Math.round(counted(selected) / data.repeats).toLocaleString("en-US") + " rows";
    const more = rows + (data.fresh ? ", fresh " + counted(data.fresh).toLocaleString("en-US") : "");
    const name = append(element("th", labels[k]), element("span", more, "more"));
    name.scope = "row";
    return append(element("tr"), name, ...WORDS.map((word) => {
      const cell = append(element("td"), ...columns.map(([name, f], at) => {
        const value = percent(f && f[word][k]);
        const counts = f && (name === "selected" || name === "fresh") ? f.few[WORDS.indexOf(word)][k] : "";
        const shown = at ? append(element("span", undefined, "more"), element("span", name + " ", "besides"), value) : element("strong", value);
        if (counts) shown.append(element("span", counts, "counts"));
        return shown;
      }));
      cell.dataset.word = wordText(word); // shown beside it on a phone, where columns are different figures
      return cell;
    }));
  });
  const head = append(document.createElement("thead"), heads(["class", ...WORDS.map(wordText)], "wide-head"), heads(["", ...columns.map(([name]) => name)], "narrow-head"));
  head.style.setProperty("--columns", columns.length);
  const body = append(document.createElement("tbody"), ...lines);
  body.style.setProperty("--columns", columns.length);
  return [head, body];
}
