// Ticks: the most round values whose labels leave room between them.
function evenTicks(low, high, fits) {
  for (let power = Math.floor(Math.log10((high - low) / 30)); ; power++) {
    for (const k of [1, 2, 5]) {
      const step = k * 10 ** power, found = [];
      for (let at = Math.ceil(low / step); at * step <= high; at++) found.push(Number((at * step).toPrecision(12)));
      if (fits(found)) return found;
    }
  }
}
function decadeTicks(low, high, fits) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const decades = Array.from({ length: last - first + 1 }, (_, at) => first + at);
  const found = (each, skip) => decades.filter((power) => power % skip === 0)
    .flatMap((power) => each.map((k) => Number((k * 10 ** power).toPrecision(12))))
    .filter((tick) => tick >= low * (1 - 1e-9) && tick <= high);
  const tried = [found([1, 2, 5], 1), ...decades.map((_, at) => found([1], at + 1))];
  return tried.find((ticks) => ticks.length > 1 && fits(ticks)) || evenTicks(low, high, fits);
}
