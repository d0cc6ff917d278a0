// The cascade, stage by stage, with its prices.
function stagesOf(i) {
  const design = data.designs[data.design_of[i]];
  const stages = Array.from({ length: Math.max(...design) + 1 }, () => []);
  const unused = [];
  design.forEach((stage, k) => (stage < 0 ? unused : stages[stage]).push(costs.sources[k]));
  return { stages, unused };
}
function threshold(row) {
  return "accepts from " + data.deciding + " " + (row.length === 1 ? number(row[0])
    : row.map((value, k) => number(value) + " as " + labels[k]).join(", "));
}
// What is bought, its price, and below both what it is, where that is told.
function priced(name, price, description, look) {
  return append(element("li", undefined, look), element("span", name), element("span", number(price), "price"),
    ...(description ? [element("span", description, "what")] : []));
}
function showCascade(i) {
  const { stages, unused } = stagesOf(i);
  const learner = data.learners[data.learner_of[i]];
  byId("learner").textContent = learner ? ", by " + learner : "";
  const list = byId("cascade");
  list.replaceChildren();
  const paidSetups = new Set();
  const prices = [];
  let paid = 0;
  stages.forEach((sources, at) => {
    let price = 0;
    const bought = document.createElement("ul");
    for (const source of sources) {
      price += source.cost;
      bought.append(priced(source.name, source.cost, source.description));
    }
    for (const source of sources) {
      if (source.setup === null || paidSetups.has(source.setup)) continue;
      paidSetups.add(source.setup);
      price += costs.setups[source.setup];
      bought.append(priced("setup " + source.setup, costs.setups[source.setup], costs.descriptions[source.setup], "setup"));
    }
    paid += price;
    prices.push(price);
    const head = append(element("h3"), element("span", "stage " + at), element("span", "for " + money(price)));
    const rule = threshold(data.thresholds[data.thresholds_of[i][at]]);
    list.append(append(element("li", undefined, "stage"), head, bought,
      element("p", rule), element("p", "a row that leaves here has cost " + money(paid))));
  });
  showPrices(prices);
  const end = append(element("li", undefined, "stage rejected"), append(element("h3"), element("span", "rejected")));
  end.append(element("strong", percent(1 - points[i].coverage) + " of the " + data.of),
    element("p", "no stage is confident enough; each has cost " + money(paid)));
  if (costs.review !== null) end.append(element("p", "the review of a row costs " + money(costs.review)));
  if (points[i].rejected.some((part) => part > 0)) end.append(element("p", "that is " + named(worstFirst(points[i], "rejected"), points[i].rejected)));
  list.append(end);
  byId("unused").textContent = unused.length
    ? "Never bought: " + unused.map((s) => s.name + (s.description ? " (" + s.description + ")" : "")).join(", ") + ". That saves " + money(costs.total - paid) + " on every row." : "";
}

// The full price as a bar: the share of each stage, and what is never paid.
function showPrices(prices) {
  const bar = byId("prices");
  bar.replaceChildren();
  if (!costs.total) return;
  const left = costs.total - prices.reduce((sum, price) => sum + price, 0);
  byId("full").textContent = "The share of each stage in the full price of " + money(costs.total) + ":";
  [...prices, left].forEach((price, at) => {
    const part = price / costs.total, isPaid = at < prices.length;
    if (part < 1e-9) return;
    const names = isPaid ? ["stage " + at, String(at), ""] : ["never paid", "", ""];
    const fits = isPaid ? [0.18, 0.04] : [0.26, 0.26]; // on a phone too
    const segment = element("span", names[part > fits[0] ? 0 : part > fits[1] ? 1 : 2], isPaid ? "paid" : "");
    segment.style.flexGrow = part;
    bar.append(segment);
  });
}
