"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { labels, costs, selected } = data;
  const n = selected.accepted.length;
  const every = Array.from({ length: n }, (_, i) => i);
  const byId = (id) => document.getElementById(id);

  // Counts to rates, by the divisions that Evaluation does, so that bounds choose what
  // ParetoFront.select chooses.
  const share = (part, whole) => (whole ? part / whole : 0);
  function figures(columns, i) {
    if (!columns || columns.accepted[i] === null || columns.accepted[i] === undefined) return null;
    const told = {
      accuracy: share(columns.right[i], columns.accepted[i]),
      coverage: share(columns.accepted[i], columns.rows),
      cost: share(columns.paid[i], columns.rows),
      // Nothing is known of a class without rows.
      missed: labels.map((_, k) => columns.class_rows[k]
        ? (columns.class_accepted[k][i] - columns.class_right[k][i]) / columns.class_rows[k] : null),
    };
    if (columns.worst_latency) {
      told.latency = share(columns.waited[i], columns.rows);
      told.worst_latency = columns.worst_latency[i];
    }
    return told;
  }
  const points = every.map((i) => figures(selected, i));

  // Words and numbers, as the library prints them.
  const printer = (options) => new Intl.NumberFormat("en-US", { roundingMode: "halfEven", ...options });
  const tenths = printer({ minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const short = printer({ maximumSignificantDigits: 4 }), long = printer({ maximumFractionDigits: 0 });
  const percent = (x) => (x === null || x === undefined ? "\u2013" : tenths.format(100 * x) + "%");
  const number = (x) => (Math.abs(x) < 1000 ? short : long).format(x);
  const money = (x) => (number(x) + " " + costs.unit).trim();
  const rounded = (x, digits, up) => {
    const scale = 10 ** digits;
    const near = Math.round(x * scale) / scale; // where x is a short decimal already
    if (near === x) return x;
    return (up ? Math.ceil(x * scale) : Math.floor(x * scale)) / scale;
  };

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }
  const append = (parent, ...children) => { parent.append(...children); return parent; };

  // Bounds: what they are on, which way, and where the slider can stand. Its loose end is no bound.
  const bounds = [
    bound("max_cost", "cost, at most", 1, (p) => p.cost, money),
    bound("min_coverage", "coverage, at least", -1, (p) => p.coverage, percent),
    bound("min_accuracy", "accuracy, at least", -1, (p) => p.accuracy, percent),
    ...labels.map((label, k) =>
      bound("max_missed_" + k, "missed " + label + ", at most", 1, (p) => p.missed[k], percent)),
  ];
  function bound(id, words, sign, of, print) {
    const values = points.map(of);
    const least = Math.min(...values), most = Math.max(...values);
    const stops = id === "max_cost" ? priceStops(least, most) : shareStops(least, most, sign);
    return { id, words, sign, of, print, stops, value: null };
  }
  function shareStops(least, most, sign) {
    // Tenths of a percent, from where one candidate at least is within them to where all are.
    const round = sign > 0 ? Math.ceil : Math.floor;
    const stops = [];
    for (let k = round(least * 1000); k <= round(most * 1000); k++) stops.push(k / 1000);
    return stops;
  }
  function priceStops(least, most) {
    const steps = 200, stops = [];
    const isLog = least > 0 && most / least > 30;
    for (let k = 0; k <= steps; k++) {
      const x = isLog ? least * (most / least) ** (k / steps) : least + (most - least) * k / steps;
      const digits = Math.max(0, 2 - Math.floor(Math.log10(x || 1)));
      stops.push(rounded(x, Math.min(digits, 12), true));
    }
    return [...new Set(stops)];
  }
  const loose = (b) => (b.sign > 0 ? b.stops.length - 1 : 0);

  const exceeds = (b, value, p) => value !== null && b.sign * (b.of(p) - value) > 0;
  const asked = () => bounds.map((b) => b.value);
  const within = (values) => every.filter((i) => !bounds.some((b, k) => exceeds(b, values[k], points[i])));
  function cheapest(candidates) {
    return candidates.reduce((best, i) => {
      if (best === null) return i;
      const a = points[i], b = points[best];
      if (a.cost !== b.cost) return a.cost < b.cost ? i : best;
      if (a.accuracy !== b.accuracy) return a.accuracy > b.accuracy ? i : best;
      return a.coverage > b.coverage ? i : best;
    }, null);
  }
  function closest(values) {
    // Shortfalls as shares, cost as a share of the full price; as SelectionError.closest is found.
    const distance = (p) => bounds.reduce((sum, b, k) => values[k] === null ? sum
      : sum + Math.max(0, b.sign * (b.of(p) - values[k])) / (k ? 1 : costs.total || 1), 0);
    return every.reduce((best, i) => (distance(points[i]) < distance(points[best]) ? i : best), 0);
  }
  function boundsFor(i) {
    // The shortest numbers that choose a candidate: it is the cheapest as covering and accurate.
    for (let digits = 2; digits <= 16; digits++) {
      const values = bounds.map((b, k) =>
        k === 1 || k === 2 ? rounded(b.of(points[i]), digits, false) : null);
      if (cheapest(within(values)) === i) return values;
    }
    return bounds.map((b, k) => (k === 1 || k === 2 ? b.of(points[i]) : null));
  }

  // The sliders.
  const holder = byId("sliders");
  let missedHolder = holder;
  if (labels.length > 3) {
    missedHolder = document.createElement("details");
    missedHolder.append(element("summary", "missed, by class"));
  }
  bounds.forEach((b, k) => {
    b.input = document.createElement("input");
    Object.assign(b.input, { type: "range", id: b.id, min: 0, max: b.stops.length - 1, step: 1 });
    b.output = document.createElement("output");
    b.output.htmlFor = b.id;
    const label = append(element("label"), element("span", b.words), b.output);
    label.htmlFor = b.id;
    (k > 2 ? missedHolder : holder).append(append(element("div", undefined, "slider"), label, b.input));
    b.input.addEventListener("input", () => {
      const at = Number(b.input.value);
      b.value = at === loose(b) ? null : b.stops[at];
      later();
    });
  });
  if (missedHolder !== holder) holder.append(missedHolder);
  function set(values) {
    bounds.forEach((b, k) => {
      b.value = values[k];
      b.input.value = b.value === null ? loose(b)
        : b.stops.reduce((best, stop, at) => Math.abs(stop - b.value) < Math.abs(b.stops[best] - b.value) ? at : best, 0);
    });
    show();
  }
  function showSliders() {
    for (const b of bounds) {
      const exact = b.value !== null && b.print === percent ? Number((100 * b.value).toPrecision(6)) : null;
      const fine = exact !== null && exact !== Number(exact.toFixed(1));
      const told = b.value === null ? "no bound" : fine ? exact + "%" : b.print(b.value);
      b.output.textContent = told;
      b.input.setAttribute("aria-valuetext", told);
    }
  }

  // The cascade, stage by stage.
  function stagesOf(i) {
    const design = data.designs[data.design_of[i]];
    const stages = Array.from({ length: Math.max(...design) + 1 }, () => []);
    const unused = [];
    design.forEach((stage, k) => (stage < 0 ? unused : stages[stage]).push(costs.sources[k]));
    return { stages, unused };
  }
  function threshold(row) {
    return "accepts from confidence " + (row.length === 1 ? number(row[0])
      : row.map((value, k) => number(value) + " as " + labels[k]).join(", "));
  }
  function showCascade(i) {
    const { stages, unused } = stagesOf(i);
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
        bought.append(append(element("li"), element("span", source.name), element("span", number(source.cost))));
      }
      for (const source of sources) {
        if (source.setup === null || paidSetups.has(source.setup)) continue;
        paidSetups.add(source.setup);
        price += costs.setups[source.setup];
        bought.append(append(element("li", undefined, "setup"),
          element("span", "setup " + source.setup), element("span", number(costs.setups[source.setup]))));
      }
      paid += price;
      prices.push(price);
      const head = append(element("h3"), element("span", "stage " + at), element("span", "for " + money(price)));
      const rule = threshold(data.thresholds[data.thresholds_of[i][at]]);
      list.append(append(element("li", undefined, "stage"), head, bought,
        element("p", rule), element("p", "a row that leaves here has paid " + money(paid))));
    });
    showPrices(prices);
    const end = append(element("li", undefined, "stage rejected"), append(element("h3"), element("span", "rejected")));
    end.append(element("strong", percent(1 - points[i].coverage) + " of the rows"),
      element("p", "confident at no stage; each has paid " + money(paid)));
    if (costs.review !== null) end.append(element("p", "its review costs " + money(costs.review)));
    list.append(end);
    byId("unused").textContent = unused.length
      ? "Never bought: " + unused.map((s) => s.name).join(", ") + ". That saves " + money(costs.total - paid) + " on every row." : "";
  }

  // The full price as a bar: what each stage takes of it, and what is never paid.
  function showPrices(prices) {
    const bar = byId("prices");
    bar.replaceChildren();
    if (!costs.total) return;
    const left = costs.total - prices.reduce((sum, price) => sum + price, 0);
    byId("full").textContent = "What each stage takes of the full price, " + money(costs.total) + ":";
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

  // What is chosen now, at a glance; the sentence below tells the same to those who listen.
  function showTiles(i, none) {
    const p = points[i], fresh = figures(data.fresh, i), whole = figures(data.all_sources.selected, 0);
    const onFresh = (of, print) => (fresh && of(fresh) !== null ? ["fresh: " + print(of(fresh))] : []);
    const tile = (name, of, print, ...more) => [name, print(of(p)), [...onFresh(of, print), ...more]];
    const beside = (of) => "all sources: " + percent(of(whole));
    const accuracy = (f) => f.accuracy;
    const tiles = [
      tile("cost", (f) => f.cost, money, "all sources: " + money(costs.total)),
      tile("coverage", (f) => f.coverage, percent, "rejected: " + percent(1 - p.coverage)),
      tile("accuracy", accuracy, percent, beside(accuracy)),
    ];
    const worst = labels.reduce((a, _, k) => (p.missed[k] > p.missed[a] ? k : a), 0);
    for (const k of labels.length > 3 ? [worst] : labels.keys()) {
      tiles.push(tile("missed " + labels[k], (f) => f.missed[k], percent, beside((f) => f.missed[k])));
    }
    byId("tiles").classList.toggle("none", none);
    byId("tiles").replaceChildren(...tiles.map(([name, value, more]) => append(element("div", undefined, "tile"),
      element("span", name, "name"), element("strong", value), ...more.map((line) => element("span", line, "more")))));
  }

  // The table.
  const whole = data.all_sources;
  const asManyAt = new Map(whole.as_many.of.map((accepted, at) => [accepted, at]));
  function showTable(i) {
    const groups = [
      ["this cascade", [["selected", points[i], "own"], data.fresh && ["fresh", figures(data.fresh, i), "own"]]],
      ["all sources, every row", [["selected", figures(whole.selected, 0)], data.fresh && ["fresh", figures(whole.fresh, 0)]]],
      ["all sources, as many rows", [["selected", figures(whole.as_many, asManyAt.get(selected.accepted[i]))]]],
    ].map(([name, columns]) => [name, columns.filter(Boolean)]);
    const rows = [
      ["accuracy", (f) => percent(f.accuracy)],
      ["coverage", (f) => percent(f.coverage)],
      ["cost" + (costs.unit ? " (" + costs.unit + ")" : ""), (f) => number(f.cost)],
      ...labels.map((label, k) => ["missed " + label, (f) => percent(f.missed[k])]),
    ];
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
  }

  // The lines that choose the same.
  function showLines(i, values) {
    const python = [], shell = [];
    const names = { 0: "max_cost", 1: "min_coverage", 2: "min_accuracy" };
    for (const k of [0, 1, 2]) {
      if (values[k] === null) continue;
      python.push(names[k] + "=" + values[k]);
      shell.push("--" + names[k].replace("_", "-") + " " + values[k]);
    }
    const missed = labels.map((label, k) => [label, data.label_reprs[k], values[k + 3]]).filter(([, , value]) => value !== null);
    if (missed.length) {
      python.push("max_missed={" + missed.map(([, repr, value]) => repr + ": " + value).join(", ") + "}");
      for (const [label, , value] of missed) shell.push("--max-missed " + quoted(label + "=" + value));
    }
    byId("python").textContent = [
      ...data.python,
      "search.choose(" + python.join(", ") + ")",
      "decisions = search.decide(X_new)",
      "report(search, \"report.html\", X_fresh, y_fresh)",
    ].join("\n");
    byId("shell").textContent = [
      data.shell,
      ["emsco select run/", ...shell, "--out model.emsco"].join(" "),
      "emsco decide model.emsco rows.csv",
      "emsco report run/ --out report.html",
    ].join("\n");
  }
  const quoted = (text) => (/^[\w=.,:@%+/-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");

  // The plot. Plotly reads markup in text, so names are escaped for it.
  const levels = [0, 0.5, 0.8, 0.9, 0.95, 0.99, 1];
  function shade(coverage) {
    // As far along the levels: the nearer to answering every row, the more it matters.
    let k = 0;
    while (k < levels.length - 2 && coverage >= levels[k + 1]) k++;
    return k + (coverage - levels[k]) / (levels[k + 1] - levels[k]);
  }
  const marked = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const colours = [[0, "#c8e020"], [0.2, "#5ec962"], [0.4, "#21918c"], [0.6, "#31688e"], [0.8, "#443983"], [1, "#440154"]];
  const designText = (i) => {
    const text = stagesOf(i).stages.map((stage) => stage.map((s) => s.name).join(" ")).join(" | ");
    return text.length > 80 ? text.slice(0, 79) + "\u2026" : text;
  };
  const hover = every.map((i) => {
    const p = points[i];
    return marked(designText(i)) + "<br>accuracy " + percent(p.accuracy) + ", coverage " + percent(p.coverage)
      + ", cost " + marked(money(p.cost));
  });
  const all = figures(whole.selected, 0);
  const plot = byId("plot");
  const shades = points.map((p) => shade(p.coverage));
  const prices = points.map((p) => p.cost).sort((a, b) => a - b);
  const axisType = prices[0] > 0 && prices[n >> 1] < prices[n - 1] / 6 ? "log" : "linear";
  const isNarrow = () => window.innerWidth <= 860;

  function traces(i, inside) {
    const inBounds = new Set(inside);
    const outside = every.filter((k) => !inBounds.has(k));
    const order = [...inside].sort((a, b) => points[a].coverage - points[b].coverage);
    const pick = (of, list) => list.map((k) => of[k]);
    const xy = (list) => ({
      x: list.map((k) => points[k].cost), y: list.map((k) => points[k].accuracy),
      text: pick(hover, list), customdata: list, hovertemplate: "%{text}<extra></extra>",
      mode: "markers", type: "scatter",
    });
    const narrow = isNarrow();
    const one = (name, p, marker) => ({
      x: [p.cost], y: [p.accuracy], name, mode: "markers", type: "scatter", showlegend: true, marker,
      hovertemplate: name + "<br>accuracy " + percent(p.accuracy) + ", coverage " + percent(p.coverage)
        + ", cost " + marked(money(p.cost)) + "<extra></extra>",
    });
    const size = n > 300 ? 5 : 7;
    const bar = {
      title: { text: narrow ? "coverage" : "coverage<br>\u00a0", side: "top" }, orientation: narrow ? "h" : "v",
      tickvals: levels.map((_, k) => k), ticktext: levels.map(String), thickness: 12, outlinewidth: 0,
      ...(narrow ? { y: -0.34, yanchor: "top", x: 0.5, len: 1 } : { len: 1 }),
    };
    const inner = xy(order);
    if (!order.length) Object.assign(inner, { x: [null], y: [null], text: [""] }); // so that the key stays
    const found = [
      { ...xy(outside), name: "outside the bounds", showlegend: false, marker: { size, color: "#c9ced6" } },
      { ...inner, name: "within the bounds", showlegend: false,
        marker: { size, color: order.length ? pick(shades, order) : [0], colorscale: colours, cmin: 0, cmax: levels.length - 1, showscale: true, colorbar: bar } },
      one("all sources, every row", all, { size: 11, symbol: "square-open", color: "#1c2430", line: { width: 2.5 } }),
    ];
    const asMany = figures(whole.as_many, asManyAt.get(selected.accepted[i]));
    if (asMany.coverage < 1) {
      found.push(one("all sources, as many rows", asMany, { size: 12, symbol: "diamond-open", color: "#1c2430", line: { width: 2.5 } }));
    }
    if (data.chosen !== null && data.chosen !== i) {
      found.push(one("chosen by the search", points[data.chosen], { size: 15, symbol: "star-open", color: "#1c2430", line: { width: 1.5 } }));
    }
    found.push(one("chosen", points[i], { size: 18, symbol: "star", color: "#d55e00", line: { width: 1.5, color: "#1c2430" } }));
    return found;
  }
  function layout() {
    const line = { type: "line", line: { color: "#1c2430", width: 1, dash: "dot" } };
    const shapes = [];
    const [maxCost, , minAccuracy] = asked();
    if (maxCost !== null) shapes.push({ ...line, x0: maxCost, x1: maxCost, yref: "paper", y0: 0, y1: 1 });
    if (minAccuracy !== null) shapes.push({ ...line, y0: minAccuracy, y1: minAccuracy, xref: "paper", x0: 0, x1: 1 });
    const narrow = isNarrow();
    const axis = { automargin: true, zeroline: false, gridcolor: "#edf0f4", linecolor: "#9aa5b4", showline: true, ticks: "outside", tickcolor: "#9aa5b4" };
    const unit = costs.unit ? " (" + marked(costs.unit) + ")" : "";
    return {
      margin: { l: narrow ? 54 : 74, r: narrow ? 10 : 20, t: narrow ? 62 : 36, b: narrow ? 124 : 54 },
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 12 : 14, color: "#1c2430" },
      xaxis: { ...axis, title: { text: "cost" + unit }, type: axisType, ...(axisType === "log" ? { dtick: "D2", tickformat: "~g" } : {}) },
      yaxis: { ...axis, title: { text: "accuracy", standoff: narrow ? 6 : 14 } },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemclick: false, itemdoubleclick: false },
      hoverlabel: { align: "left", bgcolor: "#fff", bordercolor: "#586374", font: { color: "#1c2430" } },
      hovermode: "closest", dragmode: narrow ? false : "zoom", shapes, uirevision: "kept",
      paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    };
  }
  let drawing = null, took = 0;
  function showPlot(i, inside) {
    // Thousands of points take their time: then they wait until the slider rests.
    clearTimeout(drawing);
    if (took < 60) draw(i, inside);
    else drawing = setTimeout(() => draw(i, inside), 150);
  }
  function draw(i, inside) {
    const begin = performance.now();
    const config = {
      responsive: true, displaylogo: false, displayModeBar: isNarrow() ? false : "hover",
      modeBarButtons: [["toImage", "resetScale2d"]], // named, so that none ever sends data away
    };
    window.Plotly.react(plot, traces(i, inside), layout(), config);
    plot.dataset.candidate = i;
    took = performance.now() - begin;
    if (!plot.dataset.ready) {
      plot.dataset.ready = "yes";
      plot.on("plotly_click", (event) => {
        const i = event.points[0].customdata;
        if (typeof i === "number") set(boundsFor(i));
      });
    }
  }

  function show() {
    const values = asked();
    const inside = within(values);
    const none = inside.length === 0;
    const i = none ? closest(values) : cheapest(inside);
    const p = points[i];
    const told = byId("told");
    const part = costs.total ? ", " + percent(p.cost / costs.total) + " of the full price" : "";
    showTiles(i, none);
    const failed = bounds.filter((b, k) => exceeds(b, values[k], p)).map((b) => b.words.split(",")[0]);
    told.textContent = (none ? "No candidate is within these bounds. The closest, which fails " + failed.join(" and ") + ", " : "The cheapest cascade within the bounds ")
      + "pays " + money(p.cost) + " a row" + part + ", accepts " + percent(p.coverage)
      + " of the rows and is right on " + percent(p.accuracy) + " of those."
      + (none ? "" : " " + inside.length.toLocaleString("en-US") + (inside.length === 1 ? " candidate is within them." : " candidates are within them."));
    told.classList.toggle("none", none);
    told.dataset.candidate = i;
    showSliders();
    showCascade(i);
    showTable(i);
    showLines(i, none ? boundsFor(i) : values);
    showPlot(i, inside);
  }
  let waiting = false;
  function later() {
    // Once a frame, however fast a slider moves.
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; show(); });
  }

  byId("start").addEventListener("click", () => set(boundsFor(data.start)));
  if (data.chosen === null) byId("start").textContent = "As at first";
  byId("free").addEventListener("click", () => set(bounds.map(() => null)));
  let wasNarrow = isNarrow();
  window.addEventListener("resize", () => {
    if (isNarrow() !== wasNarrow) { wasNarrow = isNarrow(); later(); }
  });
  set(boundsFor(data.start));
})();
