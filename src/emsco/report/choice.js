// The choice among candidates, with the operations of emsco.core.caution and emsco.core.selection
// in the same order, so that bounds choose the same candidate as ParetoFront.select.
const emscoChoice = (function () {
  const share = (part, whole) => (whole > 0 ? part / whole : 0);

  function lessMargin(part, whole, z) {
    const p = (part + 1) / (whole + 2);
    const error = whole > 0 ? Math.sqrt(p * (1 - p) / Math.max(whole, 1e-300)) : 0;
    return share(part, whole) - z * error;
  }

  function wilson(part, whole, z, sign) {
    const s = share(part, whole);
    if (!z) return s;
    if (!(whole > 0)) return sign > 0 ? 1 : 0;
    const centre = s + z * z / (2 * whole);
    const half = z * Math.sqrt(s * (1 - s) / whole + z * z / (4 * (whole * whole)));
    const divisor = 1 + z * z / whole;
    return sign > 0 ? Math.min((centre + half) / divisor, 1) : Math.max((centre - half) / divisor, 0);
  }

  // What a measure counts of candidate `i`: the first of some columns less the others, of class `k`
  // or, where that is null, of all rows. null where the columns lack one of them.
  function counter(columns, names) {
    if (!names.every((name) => name in columns)) return null;
    const of = (name, i, k) => {
      const own = k === null ? columns[name] : columns[name][k];
      return Array.isArray(own) ? own[i] : own;
    };
    return (i, k) => names.slice(1).reduce((left, name) => left - of(name, i, k), of(names[0], i, k));
  }

  // The figures that can have bounds, for each candidate. `sign` is 1 if more is worse.
  function boundable(measures, selected, labels, repeats, n) {
    const every = Array.from({ length: n }, (_, i) => i);
    return measures.flatMap((measure) => {
      const part = counter(selected, measure.part), whole = counter(selected, measure.whole);
      if (part === null || whole === null) return [];
      const hasMargin = measure.margin !== "counted";
      const compute = (i, k, z) => {
        const once = z ? repeats : 1; // without a margin, counts are used unchanged
        // Of stakes, a margin is that of as many equal rows as would show the share as precisely.
        const rows = z && selected.effective ? selected.effective[measure.name][k === null ? 0 : k][i] : null;
        const counts = rows === null ? [part(i, k) / once, whole(i, k) / once]
          : [share(part(i, k), whole(i, k)) * rows / once, rows / once];
        if (!hasMargin) return share(...counts);
        return measure.margin === "Wilson" ? wilson(...counts, z, measure.sign) : lessMargin(...counts, z);
      };
      return (measure.by_class ? [...labels.keys()] : [null]).map((k) => {
        const known = new Map();
        const at = (z) => known.get(z) || known.set(z, every.map((i) => compute(i, k, z))).get(z);
        return { ...measure, word: measure.name, name: measure.name + (k === null ? "" : " " + labels[k]), k, at, hasMargin };
      });
    });
  }

  // The choices on one front, given a value or null for each bound, and the margin z. The front is
  // the first `n` of the columns.
  function choosing(measures, selected, labels, repeats, total, print, n) {
    const bounds = boundable(measures, selected, labels, repeats, n);
    const every = Array.from({ length: n }, (_, i) => i);
    const place = (name) => bounds.findIndex((b) => b.name === name);
    const [cost, coverage, accuracy] = ["cost", "coverage", "accuracy"].map((name) => bounds[place(name)].at(0));

    // With a margin, no number of rows would be enough for a bound of 0 or 1.
    const margin = (b, value, z) => (b.hasMargin && value !== 0 && value !== 1 ? z : 0);
    const values = (b, value, z) => b.at(margin(b, value, z));
    const asked = (wanted) => bounds.map((b, at) => [b, wanted[at]]).filter(([, value]) => value !== null);
    const shortfalls = (wanted, z) => asked(wanted).map(([b, value]) =>
      values(b, value, z).map((own) => Math.max(0, b.sign * (own - value))));
    const meeting = (short) => every.filter((i) => short.every((by) => by[i] === 0));
    const within = (wanted, z) => meeting(shortfalls(wanted, z));

    // Ties: the higher accuracy, then the higher coverage, then the first.
    const cheapest = (candidates) => candidates.reduce((best, i) => {
      if (best === null) return i;
      if (cost[i] !== cost[best]) return cost[i] < cost[best] ? i : best;
      if (accuracy[i] !== accuracy[best]) return accuracy[i] > accuracy[best] ? i : best;
      return coverage[i] > coverage[best] ? i : best;
    }, null);

    const names = (wanted) => asked(wanted).map(([b, value]) => b.name + (b.sign > 0 ? " <= " : " >= ") + print(value));
    const holdsMargin = (wanted, z) => asked(wanted).some(([b, value]) => margin(b, value, z) > 0);
    const standardErrors = (z) => twoDigits.format(z) + " standard error" + (z !== 1 ? "s" : "");
    const twoDigits = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2, roundingMode: "halfEven" });

    function rule(wanted, z) {
      const told = names(wanted);
      return "Rule: the cheapest of " + every.length.toLocaleString("en-US") + " candidates"
        + (told.length ? " with " + told.join(" and ") : "")
        + (holdsMargin(wanted, z) ? "; shares of rows must meet their bounds with a margin of " + standardErrors(z) : "") + ".";
    }

    // If no candidate is within the bounds: the closest one, the bounds it breaks, the best value of
    // each bound if the others stay, and the choice without the margin.
    function whyNot(wanted, z) {
      const short = shortfalls(wanted, z), of = asked(wanted);
      const distance = every.map((i) => short.reduce(
        (sum, by, at) => sum + by[i] / (of[at][0].unit === "money" ? total || 1 : 1), 0));
      const closest = every.reduce((best, i) => (distance[i] < distance[best] ? i : best), 0);
      const best = of.map(([b, value], at) => {
        const left = meeting(short.filter((_, other) => other !== at)).map((i) => values(b, value, z)[i]);
        if (!left.length) return b.name + ": no candidate meets the other bounds";
        const end = left.reduce((x, y) => (b.sign > 0 ? Math.min(x, y) : Math.max(x, y)));
        return b.name + " " + print(end) + (margin(b, value, z) > 0 ? " with the margin" : "");
      });
      return {
        closest,
        failed: of.filter((_, at) => short[at][closest]).map(([b]) => b.name),
        atBest: "At best" + (of.length > 1 ? ", with the other bounds as given" : "") + ": " + best.join("; ") + ".",
        counted: holdsMargin(wanted, z) ? cheapest(within(wanted, 0)) : undefined,
      };
    }

    // The shortest numbers that choose a candidate. As counted, it is the cheapest with its coverage
    // and accuracy. With a margin it may not be, because a candidate that accepts more rows has a
    // smaller margin; then one more bound on a class may help. As counted, the two are always enough.
    function boundsFor(i, z) {
      const inRange = (x) => Math.min(1, Math.max(0, x)); // a wide margin can lead below 0
      const rounded = (x, digits, up) => {
        const scale = 10 ** digits, near = Math.round(x * scale) / scale; // already a short decimal
        return inRange(near === x ? x : (up ? Math.ceil(x * scale) : Math.floor(x * scale)) / scale);
      };
      const wantedBy = (places, margin, print) => bounds.map((b, at) => (places.includes(at) ? print(b.at(margin)[i], b.sign > 0) : null));
      const both = [place("coverage"), place("accuracy")];
      const further = bounds.flatMap((b, at) => (b.by_class ? [[...both, at]] : []));
      for (const margin of z ? [z, 0] : [0]) {
        for (const places of [both, ...(margin ? further : [])]) {
          for (let digits = 2; digits <= 16; digits++) {
            const wanted = wantedBy(places, margin, (x, up) => rounded(x, digits, up));
            if (cheapest(within(wanted, margin)) === i) return { wanted, z: margin };
          }
        }
      }
      return { wanted: wantedBy(both, 0, (x) => x), z: 0 };
    }

    return { bounds, within, cheapest, rule, whyNot, boundsFor, standardErrors };
  }

  return { choosing, counter, share, wilson };
})();
