// The figures of candidates: counts to rates, with the divisions of Evaluation. The rate of no rows is null.
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
  if (columns.effective) {
    const rows = columns.effective[measure.name][k][i] / repeats;
    return rows > 0 && rows < FEW_ROWS ? intervalText(share(part(i, k), whole(i, k)) * rows, rows) + " of the stake" : "";
  }
  const [m, n] = [part(i, k) / repeats, whole(i, k) / repeats];
  if (!(n > 0 && n < FEW_ROWS)) return "";
  return Math.round(m) + " of " + Math.round(n) + " (" + intervalText(m, n) + ")";
}
const known = (part, whole) => (whole ? part / whole : null);
function figures(columns, i) {
  if (!columns || columns.accepted[i] === null || columns.accepted[i] === undefined) return null;
  const rows = columns.rows, rejected = rows - columns.accepted[i];
  // What is paid by row, where other counts are sums of stakes.
  const paidFor = columns.n_rows ?? rows, reviewed = columns.n_rows === undefined ? rejected : paidFor - columns.n_accepted[i];
  const by = (of) => labels.map((_, k) => of(columns.class_rows[k], columns.class_accepted[k][i], columns.class_right[k][i], k));
  const told = {};
  for (const measure of data.figures) {
    const part = counter(columns, measure.part), whole = counter(columns, measure.whole);
    told[measure.name] = !measure.by_class ? share(part(i, null), whole(i, null))
      : labels.map((_, k) => (part && whole ? known(part(i, k), whole(i, k)) : null));
  }
  told.review = costs.review === null ? 0 : share(costs.review * reviewed, paidFor);
  told.errors = 0;
  if (data.error_cost !== null) {
    const errs = costs.review === null ? 0 : 1 - costs.review_accuracy;
    const errors = typeof data.error_cost === "number"
      ? data.error_cost * (columns.accepted[i] - columns.right[i] + errs * rejected)
      : by((all, accepted, right, k) => data.error_cost[k] * (accepted - right + errs * (all - accepted))).reduce((a, b) => a + b, 0);
    told.errors = share(errors, paidFor);
  }
  // Without a price of their review, the loss of rejected rows is not known.
  told.loss = hasLoss && (costs.review !== null || !rejected) ? told.cost + told.review + told.errors : null;
  const sure = columns.effective ? columns.effective.coverage[0][i] : rows;
  told.coverage_interval = interval(columns, share(columns.accepted[i], rows) * sure, sure);
  told.few = WORDS.map((word) => labels.map((_, k) => few(columns, byWord[word], i, k)));
  if (columns.worst_latency) {
    told.latency = share(columns.waited[i], paidFor);
    told.worst_latency = columns.worst_latency[i];
  }
  return told;
}
const points = selected.accepted.map((_, i) => figures(selected, i));

const lossParts = (f) => (!hasLoss || f.loss === null ? "" : ["cost " + number(f.cost),
  isReviewed && "review " + number(f.review), hasErrors && "errors " + number(f.errors)].filter(Boolean).join(" + ") + " = loss " + money(f.loss));
const paid = (f) => lossParts(f) || "cost " + money(f.cost);

const whole = data.all_sources;
const asManyAt = new Map(whole.as_many.of.map((accepted, at) => [accepted, at]));
const besideAccuracy = (i) => "all sources" + (points[i].coverage < 1 ? " accepting as many rows" : "") + ": " + percent(asManyAs(i).accuracy);
const asManyAs = (i) => figures(whole.as_many, asManyAt.get(selected.accepted[i]));

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
