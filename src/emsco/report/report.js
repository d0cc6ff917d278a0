"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { labels, costs, selected } = data;
  const n = selected.accepted.length;
  const every = Array.from({ length: n }, (_, i) => i);
  const byId = (id) => document.getElementById(id);

  // Counts to rates, with the divisions of Evaluation. The rate of no rows is null.
  const WORDS = data.figures.filter((m) => m.by_class).map((m) => m.name);
  const isHighBetter = Object.fromEntries(data.figures.map((m) => [m.name, m.sign < 0]));
  const { share, counter, wilson } = emscoChoice;
  const byWord = Object.fromEntries(data.figures.map((m) => [m.name, m]));
  const isReviewed = costs.review > 0, hasErrors = data.error_cost !== null, hasLoss = isReviewed || hasErrors;
  // The 95% interval of a share, and the counts of a share of few rows, as emsco.core.interval has
  // them; not of rows that are weighted.
  const FEW_ROWS = 100, Z = 1.959964;
  function interval(columns, part, whole) {
    const repeats = columns.repeats;
    if (!repeats || part === 0 || part === whole) return "";
    return intervalText(part / repeats, whole / repeats);
  }
  function intervalText(part, whole) {
    const digits = whole < FEW_ROWS ? 0 : 1;
    const [low, high] = [-1, 1].map((sign) => (100 * wilson(part, whole, Z, sign)).toFixed(digits));
    return low + " to " + high + "%";
  }
  function few(columns, measure, i, k) {
    const part = counter(columns, measure.part), whole = counter(columns, measure.whole), repeats = columns.repeats;
    if (!repeats || !part || !whole) return "";
    const [m, n] = [part(i, k) / repeats, whole(i, k) / repeats];
    if (!(n > 0 && n < FEW_ROWS)) return "";
    return Math.round(m) + " of " + Math.round(n) + " (" + intervalText(m, n) + ")";
  }
  const known = (part, whole) => (whole ? part / whole : null);
  function figures(columns, i) {
    if (!columns || columns.accepted[i] === null || columns.accepted[i] === undefined) return null;
    const rows = columns.rows, rejected = rows - columns.accepted[i];
    const by = (of) => labels.map((_, k) => of(columns.class_rows[k], columns.class_accepted[k][i], columns.class_right[k][i], k));
    const told = {};
    for (const measure of data.figures) {
      const part = counter(columns, measure.part), whole = counter(columns, measure.whole);
      told[measure.name] = !measure.by_class ? share(part(i, null), whole(i, null))
        : labels.map((_, k) => (part && whole ? known(part(i, k), whole(i, k)) : null));
    }
    told.review = costs.review === null ? 0 : share(costs.review * rejected, rows);
    told.errors = 0;
    if (data.error_cost !== null) {
      const errs = costs.review === null ? 0 : 1 - costs.review_accuracy;
      const errors = typeof data.error_cost === "number"
        ? data.error_cost * (columns.accepted[i] - columns.right[i] + errs * rejected)
        : by((all, accepted, right, k) => data.error_cost[k] * (accepted - right + errs * (all - accepted))).reduce((a, b) => a + b, 0);
      told.errors = share(errors, rows);
    }
    // Without a price of their review, the loss of rejected rows is not known.
    told.loss = hasLoss && (costs.review !== null || !rejected) ? told.cost + told.review + told.errors : null;
    told.coverage_interval = interval(columns, columns.accepted[i], rows);
    told.few = WORDS.map((word) => labels.map((_, k) => few(columns, byWord[word], i, k)));
    if (columns.worst_latency) {
      told.latency = share(columns.waited[i], rows);
      told.worst_latency = columns.worst_latency[i];
    }
    return told;
  }
  const points = every.map((i) => figures(selected, i));

  // Words and numbers, as the library prints them.
  const printer = (options) => new Intl.NumberFormat("en-US", { roundingMode: "halfEven", ...options });
  const tenths = printer({ minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const short = printer({ maximumSignificantDigits: 4 }), long = printer({ maximumFractionDigits: 0 });
  const exactly = (x) => x.toPrecision(60); // all its digits, because Python rounds those and not the shortest form
  const percent = (x) => (x === null || x === undefined ? "\u2013" : tenths.format(exactly(100 * x)) + "%");
  const number = (x) => (Math.abs(x) < 1000 ? short : long).format(exactly(x));
  const money = (x) => (number(x) + " " + costs.unit).trim();
  const lossParts = (f) => (!hasLoss || f.loss === null ? "" : ["cost " + number(f.cost),
    isReviewed && "review " + number(f.review), hasErrors && "errors " + number(f.errors)].filter(Boolean).join(" + ") + " = loss " + money(f.loss));
  const paid = (f) => lossParts(f) || "cost " + money(f.cost);
  const roundedUp = (x, digits) => {
    const scale = 10 ** digits, near = Math.round(x * scale) / scale; // already a short decimal
    return near === x ? x : Math.ceil(x * scale) / scale;
  };

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }
  const append = (parent, ...children) => { parent.append(...children); return parent; };

  // Bounds: their figure, their direction and the stops of their slider. Its loose end means no bound.
  const chooser = emscoChoice.choosing(data.sliders, selected, labels, data.repeats, costs.total, number);
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

  // The cascade, stage by stage.
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
        element("p", rule), element("p", "a row that leaves here has cost " + money(paid))));
    });
    showPrices(prices);
    const end = append(element("li", undefined, "stage rejected"), append(element("h3"), element("span", "rejected")));
    end.append(element("strong", percent(1 - points[i].coverage) + " of the rows"),
      element("p", "no stage is confident enough; each has cost " + money(paid)));
    if (costs.review !== null) end.append(element("p", "the review of a row costs " + money(costs.review)));
    if (points[i].rejected.some((part) => part > 0)) end.append(element("p", "that is " + named(worstFirst(points[i], "rejected"), points[i].rejected)));
    list.append(end);
    byId("unused").textContent = unused.length
      ? "Never bought: " + unused.map((s) => s.name).join(", ") + ". That saves " + money(costs.total - paid) + " on every row." : "";
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

  // Classes, the worst first: in one figure or overall.
  const MOST_TILES = 3, MOST_NAMED = 4, MOST_SHOWN = 8;
  function worstFirst(p, word) {
    const bad = (k) => {
      const value = word ? p[word][k] : p.rejected[k] === null ? null : p.rejected[k] + p.missed[k];
      return value === null ? -2 : isHighBetter[word] ? -value : value;
    };
    return [...labels.keys()].sort((a, b) => bad(b) - bad(a) || a - b);
  }
  function named(inOrder, values) {
    const order = inOrder.filter((k) => values[k] !== null); // without classes that have no rows
    const some = order.filter((k) => values[k] > 0), told = some.slice(0, MOST_NAMED);
    if (!some.length) return "none of any class";
    const parts = told.map((k) => percent(values[k]) + " of class " + labels[k]);
    const rest = order.length - told.length, much = some.length > told.length ? "at most as much" : "none";
    if (rest) parts.push(much + " of " + (rest > 1 ? rest + " others" : "class " + labels[order[order.length - 1]]));
    return parts.join(", ");
  }

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
    const tiles = [
      cost,
      tile("coverage", (f) => f.coverage, percent, ...[p.coverage_interval && "95% interval: " + p.coverage_interval].filter(Boolean), "rejected: " + percent(1 - p.coverage)),
      tile("accuracy", (f) => f.accuracy, percent, ...beside((f) => f.accuracy, percent)),
    ];
    if (labels.length) tiles.push(...classTiles(p, fresh, asMany));
    byId("tiles").classList.toggle("none", none);
    byId("tiles").classList.toggle("two", fresh !== null && labels.length === 2);
    byId("tiles").classList.toggle("three", fresh !== null && labels.length === 3);
    byId("tiles").replaceChildren(...tiles);
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
    if (labels.length <= MOST_TILES) return labels.map((label, k) => tile("class " + label, WORDS.map((word) => [word, k, word])));
    const worst = (word) => (isHighBetter[word] ? "lowest " : "most ") + word;
    return [tile("worst by class", WORDS.map((word) => {
      const k = worstFirst(p, word)[0];
      return [word, k, worst(word) + ": " + labels[k]];
    }))];
  }

  // The tables: of all rows, then by class.
  const whole = data.all_sources;
  const asManyAt = new Map(whole.as_many.of.map((accepted, at) => [accepted, at]));
  const asManyAs = (i) => figures(whole.as_many, asManyAt.get(selected.accepted[i]));
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
      const rows = Math.round(selected.class_rows[k] / data.repeats).toLocaleString("en-US") + " rows";
      const more = rows + (data.fresh ? ", fresh " + data.fresh.class_rows[k].toLocaleString("en-US") : "");
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
        cell.dataset.word = word; // shown beside it on a phone, where columns are different figures
        return cell;
      }));
    });
    const head = append(document.createElement("thead"), heads(["class", ...WORDS], "wide-head"), heads(["", ...columns.map(([name]) => name)], "narrow-head"));
    head.style.setProperty("--columns", columns.length);
    const body = append(document.createElement("tbody"), ...lines);
    body.style.setProperty("--columns", columns.length);
    return [head, body];
  }

  // The lines that make the same choice. choose() without bounds would use the search's own: by="cost".
  function showLines(state) {
    if (state === null) tellLines(data.choice.python, data.choice.shell);
    else tellLines(...linesOf(state));
  }
  function linesOf({ values, caution }) {
    const python = [], shell = [], given = new Map();
    bounds.forEach((b, at) => {
      if (values[at] === null) return;
      const flag = "--" + b.parameter.replaceAll("_", "-") + " ";
      if (b.k === null) python.push(b.parameter + "=" + values[at]);
      else given.set(b.parameter, [...(given.get(b.parameter) || []), data.label_reprs[b.k] + ": " + values[at]]);
      shell.push(flag + (b.k === null ? values[at] : quoted(labels[b.k] + "=" + values[at])));
    });
    for (const [parameter, shares] of given) python.push(parameter + "={" + shares.join(", ") + "}");
    if (!python.length) python.push('by="cost"');
    else if (caution !== "auto") {
      python.push("caution=" + caution);
      shell.push("--caution " + caution);
    }
    return [python.join(", "), shell.join(" ")];
  }
  function tellLines(python, shell) {
    byId("python").textContent = [
      ...data.python,
      "search.choose(" + python + ")",
      "decisions = search.decide(X_new)",
      "report(search, \"report.html\", X_fresh, y_fresh)",
    ].join("\n");
    byId("shell").textContent = [
      data.shell,
      ["emsco select run/", shell, "--out model.emsco"].filter(Boolean).join(" "),
      "emsco decide model.emsco rows.csv",
      "emsco report run/ --out report.html",
    ].join("\n");
  }
  const quoted = (text) => (/^[\w=.,:@%+/-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");

  // The plot. Plotly reads markup in text, so names are escaped for it.
  const levels = [0, 0.5, 0.8, 0.9, 0.95, 0.99, 1];
  function shade(coverage) {
    // The position among the levels, which are finer close to 1, where differences matter more.
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
  const shortened = (text) => marked(text.length > 30 ? text.slice(0, 29) + "\u2026" : text);
  const classHover = (p) => worstFirst(p).slice(0, MOST_NAMED).map((k) => "<br>" + shortened(labels[k]) + ": "
    + WORDS.map((word) => word + " " + percent(p[word][k])).join(", ")).join("");
  const hover = every.map((i) => {
    const p = points[i];
    return marked(designText(i)) + "<br>accuracy " + percent(p.accuracy) + ", coverage " + percent(p.coverage)
      + ", " + marked(paid(p)) + classHover(p);
  });
  const all = figures(whole.selected, 0);
  const plot = byId("plot");
  const shades = points.map((p) => shade(p.coverage));
  const prices = points.map((p) => p.cost).sort((a, b) => a - b);
  const dearest = Math.max(prices[n - 1], all.cost);
  const axisType = prices[n >> 1] < dearest / 6 ? "log" : "linear";
  // A logarithmic axis has no zero: costs below `near` lie evenly within half a decade to its left.
  const paidFor = [...prices, all.cost].filter((price) => price > 0);
  const near = axisType === "log" && prices[0] === 0
    ? 10 ** Math.ceil(Math.log10(paidFor[Math.floor(0.05 * paidFor.length)])) : 0;
  const at = (cost) => (cost < near ? near * 10 ** (0.5 * (cost / near - 1)) : cost);
  function ticks() {
    if (axisType === "linear") return {};
    if (!near) return { dtick: "D2", tickformat: "~g" };
    const decades = [];
    for (let tick = near; tick <= dearest; tick *= 10) decades.push(tick);
    const each = decades.length > 3 ? [1] : [1, 2, 5];
    const shown = decades.flatMap((tick) => each.map((k) => k * tick)).filter((tick) => tick <= dearest);
    return { tickvals: [0, ...shown].map(at), ticktext: [0, ...shown].map((tick) => String(Number(tick.toPrecision(6)))) };
  }
  const isNarrow = () => window.innerWidth <= 860;

  function traces(i, inside) {
    const inBounds = new Set(inside);
    const outside = every.filter((k) => !inBounds.has(k));
    const order = [...inside].sort((a, b) => points[a].coverage - points[b].coverage);
    const pick = (of, list) => list.map((k) => of[k]);
    const xy = (list) => ({
      x: list.map((k) => at(points[k].cost)), y: list.map((k) => points[k].accuracy),
      text: pick(hover, list), customdata: list, hovertemplate: "%{text}<extra></extra>",
      mode: "markers", type: "scatter",
    });
    const narrow = isNarrow();
    const one = (name, p, marker) => ({
      x: [at(p.cost)], y: [p.accuracy], name, mode: "markers", type: "scatter", showlegend: true, marker,
      hovertemplate: name + "<br>accuracy " + percent(p.accuracy) + ", coverage " + percent(p.coverage)
        + ", " + marked(paid(p)) + classHover(p) + "<extra></extra>",
    });
    const size = n > 300 ? 5 : 7;
    const bar = {
      title: { text: narrow ? "coverage" : "coverage<br>\u00a0", side: "top" }, orientation: narrow ? "h" : "v",
      tickvals: levels.map((_, k) => k), ticktext: levels.map(String), thickness: 12, outlinewidth: 0,
      ...(narrow ? { y: -0.34, yanchor: "top", x: 0.5, len: 1 } : { len: 1 }),
    };
    const inner = xy(order);
    if (!order.length) Object.assign(inner, { x: [null], y: [null], text: [""] }); // so that the colour bar stays
    const found = [
      { ...xy(outside), name: "outside the bounds", showlegend: false, marker: { size, color: "#c9ced6" } },
      { ...inner, name: "within the bounds", showlegend: false,
        marker: { size, color: order.length ? pick(shades, order) : [0], colorscale: colours, cmin: 0, cmax: levels.length - 1, showscale: true, colorbar: bar } },
      one("all sources, every row", all, { size: 11, symbol: "square-open", color: "#1c2430", line: { width: 2.5 } }),
    ];
    const asMany = asManyAs(i);
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
    const [maxCost, minAccuracy] = ["cost", "accuracy"].map((name) => bounds.find((b) => b.name === name).value);
    if (maxCost !== null) shapes.push({ ...line, x0: at(maxCost), x1: at(maxCost), yref: "paper", y0: 0, y1: 1 });
    if (minAccuracy !== null) shapes.push({ ...line, y0: minAccuracy, y1: minAccuracy, xref: "paper", x0: 0, x1: 1 });
    const narrow = isNarrow();
    const axis = { automargin: true, zeroline: false, gridcolor: "#edf0f4", linecolor: "#9aa5b4", showline: true, ticks: "outside", tickcolor: "#9aa5b4" };
    const unit = costs.unit ? " (" + marked(costs.unit) + ")" : "";
    return {
      margin: { l: narrow ? 54 : 74, r: narrow ? 10 : 20, t: narrow ? 62 : 36, b: narrow ? 124 : 54 },
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 12 : 14, color: "#1c2430" },
      xaxis: { ...axis, title: { text: "cost" + unit }, type: axisType, ...ticks() },
      yaxis: { ...axis, title: { text: "accuracy", standoff: narrow ? 6 : 14 } },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemclick: false, itemdoubleclick: false },
      hoverlabel: { align: "left", bgcolor: "#fff", bordercolor: "#586374", font: { color: "#1c2430" } },
      hovermode: "closest", dragmode: narrow ? false : "zoom", shapes, uirevision: "kept",
      paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    };
  }
  let drawing = null, took = 0;
  function showPlot(i, inside) {
    // Drawing thousands of points takes long: then wait until the slider rests.
    clearTimeout(drawing);
    if (took < 60) draw(i, inside);
    else drawing = setTimeout(() => draw(i, inside), 150);
  }
  function draw(i, inside) {
    const begin = performance.now();
    const config = {
      responsive: true, displaylogo: false, displayModeBar: isNarrow() ? false : "hover",
      modeBarButtons: [["toImage", "resetScale2d"]], // listed, so that no button can send data away
    };
    window.Plotly.react(plot, traces(i, inside), layout(), config);
    plot.dataset.candidate = i;
    took = performance.now() - begin;
    if (!plot.dataset.ready) {
      plot.dataset.ready = "yes";
      plot.on("plotly_click", (event) => {
        const i = event.points[0].customdata;
        if (typeof i === "number") pick(i);
      });
    }
  }

  function show() {
    const values = asked(), z = standardErrors();
    const isPicked = picked !== null, inside = isPicked ? every : chooser.within(values, z);
    const none = inside.length === 0, why = none ? chooser.whyNot(values, z) : null;
    const i = isPicked ? picked : none ? why.closest : chooser.cheapest(inside);
    const isSearchs = isPicked && i === data.start;
    const p = points[i];
    const part = costs.total ? " (" + percent(p.cost / costs.total) + " of the full price)" : "";
    const told = byId("told");
    showTiles(i, none);
    const subject = none ? "No candidate is within these bounds. The closest, which breaks the bound on " + why.failed.join(" and ") + ", "
      : !isPicked ? "The cheapest cascade within the bounds "
        : !isSearchs ? "The cascade that you picked "
          : data.chosen === null ? "The candidate nearest to what the search chose " : "The cascade that the search chose ";
    const parts = lossParts(p);
    told.textContent = subject + "costs " + money(p.cost) + " per row" + part + ", accepts " + percent(p.coverage)
      + " of the rows" + (p.coverage_interval ? " (95% interval: " + p.coverage_interval + ")" : "")
      + " and is right on " + percent(p.accuracy) + " of those" + (parts ? "; per row: " + parts : "") + "."
      + (labels.length ? " It rejects " + named(worstFirst(p, "rejected"), p.rejected) + "; it misses " + named(worstFirst(p, "missed"), p.missed) + "." : "")
      + (none ? " " + why.atBest + without(why.counted) : isPicked ? ""
        : " " + inside.length.toLocaleString("en-US") + (inside.length === 1 ? " candidate is within them." : " candidates are within them."));
    told.classList.toggle("none", none);
    told.dataset.candidate = i;
    // At the start it is the search's own rule, which may be other than bounds.
    const isRuled = i === data.chosen && (isSearchs || isAtFirst(values));
    byId("rule").textContent = data.rule && isRuled ? data.rule : isPicked ? "" : chooser.rule(values, z);
    for (const flow of document.querySelectorAll("#flow")) flow.hidden = i !== data.chosen;
    showSliders();
    showCascade(i);
    showTable(i);
    showLines(isSearchs && data.choice ? null : isPicked ? boundsFor(i, preferred) : none ? boundsFor(i, caution) : { values, caution });
    showPlot(i, inside);
  }
  function without(i) {
    if (i === undefined) return "";
    return i === null ? " Without the margin (caution 0), none is within them either."
      : " Without the margin (caution 0), one that costs " + money(points[i].cost) + " per row would be chosen.";
  }
  const choose = (state) => (state === null ? pick(data.start) : set(state.values, state.caution));
  const isAtFirst = (values) => first !== null && caution === first.caution && values.every((value, at) => value === first.values[at]);
  function atFirst() {
    // The bounds given to the search, if the page has them; otherwise nobody set any.
    if (!data.asked) return null;
    const z = data.asked.caution === "auto" ? automatic : data.asked.caution;
    const values = bounds.map((b) => (data.asked[b.parameter] === undefined ? null
      : b.k === null ? data.asked[b.parameter] : data.asked[b.parameter][b.k]));
    return chooser.cheapest(chooser.within(values, z)) === data.start ? { values, caution: data.asked.caution } : null;
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
  let wasNarrow = isNarrow();
  window.addEventListener("resize", () => {
    if (isNarrow() !== wasNarrow) { wasNarrow = isNarrow(); later(); }
  });
  preferred = first ? first.caution : "auto";
  choose(first);
})();
