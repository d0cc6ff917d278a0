// Words, numbers and elements of the page; numbers are told as the library prints them.
const data = JSON.parse(document.getElementById("data").textContent);
const { labels, costs, selected } = data;
const n = data.n_on_front; // a choice that is not on the front stands behind these
const every = Array.from({ length: n }, (_, i) => i);
const byId = (id) => document.getElementById(id);

const printer = (options) => new Intl.NumberFormat("en-US", { roundingMode: "halfEven", ...options });
const tenths = printer({ minimumFractionDigits: 1, maximumFractionDigits: 1 });
const short = printer({ maximumSignificantDigits: 4 }), long = printer({ maximumFractionDigits: 0 });
const exactly = (x) => x.toPrecision(60); // all its digits, because Python rounds those and not the shortest form
const percent = (x) => (x === null || x === undefined ? "\u2013" : tenths.format(exactly(100 * x)) + "%");
const number = (x) => (Math.abs(x) < 1000 ? short : long).format(exactly(x));
const money = (x) => (number(x) + " " + costs.unit).trim();

// The recall is that of the rows that were accepted: those who read only this page must see it.
const wordText = (word) => (word === "recall" ? "recall when accepted" : word);

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}
const append = (parent, ...children) => { parent.append(...children); return parent; };
