// Elements, numbers and axes: what every chart is made of. Text always goes in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  return fill(made, attributes, children);
}

function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  return fill(made, attributes, children);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const COLORS = 8;
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "12 3", "4 2", "1 2", "10 2 2 2"];

function color(number) {
  return `var(--c${number % COLORS})`;
}

function dash(number, times = 1) {
  return DASHES[number % DASHES.length].replace(/\d+/g, (length) => times * length);
}

function asPercent(value) {
  const percent = 100 * value;
  return `${percent.toFixed(Math.abs(percent) < 1 && percent !== 0 ? 3 : 1)}%`;
}

function asNumber(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e6 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

// Round numbers, as they stand on axes.
function asTick(value) {
  const round = Number(value.toPrecision(3));
  return round !== 0 && Math.abs(round) < 1e-3 ? round.toExponential() : String(round);
}

function asStep(value) {
  return Math.round(value).toLocaleString("en");
}

// Round numbers between low and high, about `count` of them.
function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + 1e-300; i += 1) ticks.push(i * step || 0);
  return ticks;
}

// Powers of ten; of a short stretch also their doubles and fives.
function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const factors = decades > 2 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of factors) ticks.push(factor * 10 ** power);
  }
  return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

// From [low, high] to pixels [start, end].
function scale(low, high, start, end, log = false) {
  const at = log ? Math.log10 : (value) => value;
  const span = at(high) - at(low) || 1;
  const place = (value) => start + ((at(value) - at(low)) / span) * (end - start);
  place.invert = (pixel) => {
    const value = at(low) + ((pixel - start) / (end - start)) * span;
    return log ? 10 ** value : value;
  };
  return place;
}

// The place in a sorted list whose value is nearest.
function nearest(sorted, value) {
  let low = 0;
  let high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle;
    else high = middle;
  }
  return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
}

// Room for the numbers on the left and below.
const MARGIN = { left: 52, right: 12, top: 8, bottom: 34 };

function frame(root, label) {
  const width = Math.max(240, root.clientWidth);
  const height = width < 420 ? 210 : 260;
  const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  const area = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  return { picture, area, width, height };
}

function drawAxes(picture, area, { x, y, xTicks, yTicks, xText, yText, xLabel }) {
  for (const tick of yTicks) {
    const at = y(tick);
    picture.append(shape("line", { class: "gridline", x1: area.left, x2: area.right, y1: at, y2: at }));
    picture.append(shape("text", { x: area.left - 6, y: at + 4, "text-anchor": "end" }, yText(tick)));
  }
  for (const tick of xTicks) {
    picture.append(shape("text", { x: x(tick), y: area.bottom + 15, "text-anchor": "middle" }, xText(tick)));
  }
  picture.append(
    shape("text", { x: (area.left + area.right) / 2, y: area.bottom + 29, "text-anchor": "middle" }, xLabel),
  );
}

// The words beside a chart's buttons, and a way to tell a reader of screens what is under the cursor.
function readout(root) {
  const made = element("p", { class: "readout", "aria-live": "polite" });
  root.append(made);
  return made;
}

// A table of what a chart shows, made when it is opened.
function numbers(root, rows) {
  const inside = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers" });
  const made = element("details", {}, element("summary", {}, "Numbers"), inside);
  made.addEventListener("toggle", () => {
    if (!made.open) return;
    const [head, ...lines] = rows();
    const top = element("tr", {}, ...head.map((cell) => element("th", { scope: "col" }, cell)));
    const body = lines.map((line) => element("tr", {}, ...line.map((cell) => element("td", {}, cell))));
    inside.replaceChildren(element("table", {}, element("thead", {}, top), element("tbody", {}, ...body)));
  });
  root.append(made);
}
