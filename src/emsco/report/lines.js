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
    shell === null ? "# emsco select chooses by bounds, and none choose this cascade"
      : ["emsco select run/", shell, "--out model.emsco"].filter(Boolean).join(" "),
    "emsco decide model.emsco rows.csv",
    "emsco report run/ --fresh fresh.csv --label y --out report.html",
  ].join("\n");
}
const quoted = (text) => (/^[\w=.,:@%+/-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");
