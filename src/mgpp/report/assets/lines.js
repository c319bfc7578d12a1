// Curves over the steps of a run. All of them share one view of the steps: zooming one zooms all.

const view = { from: 0, to: 1, whole: [0, 1], charts: [] };

function setView(from, to) {
  const [first, last] = view.whole;
  const width = Math.max(to - from, (last - first) / 1000, 1);
  view.from = Math.max(first, Math.min(from, last - width));
  view.to = Math.min(last, view.from + width);
  for (const chart of view.charts) chart.draw();
}

function zoom(factor, around = (view.from + view.to) / 2) {
  setView(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

function classOf(one) {
  return one.band ? "series band" : one.thin ? "series thin" : "series";
}

// A line through one point, or through one place, has no length: it would not be seen.
function drawDot(one, x, y) {
  const look = { class: one.band ? "dot band" : "dot", r: one.thin ? 3 : 4 };
  const dot = shape("circle", { ...look, cx: x, cy: y, "data-name": one.name });
  dot.style.stroke = one.color;
  dot.style.fill = one.hollow ? "none" : one.color;
  return dot;
}

// What stands in a key: a piece of the line.
function drawSample(one) {
  if (one.x.length === 1) return drawDot(one, 11, 5);
  const line = shape("line", { class: classOf(one), x1: 0, x2: 22, y1: 5, y2: 5, "stroke-dasharray": one.dash });
  line.style.stroke = one.color;
  return line;
}

class LineChart {
  // series: [{ name, group, color, dash, thin, band, hollow, x, y }]; a click on a group's key hides or shows all of that
  // group. A band lies wide under all lines; a hollow series is a ring where it has only one point.
  constructor(root, { label, series, log = false, percent = false, low = null, ramp = null, single = false }) {
    Object.assign(this, { root, label, series, log, percent, low, ramp, single });
    this.hidden = new Set();
    this.text = percent ? asPercent : asNumber;
    this.keys = element("div", { class: "bar", role: "group", "aria-label": `${label}: what is shown` });
    this.plot = element("div", {
      class: "plot",
      tabindex: "0",
      role: "application",
      "aria-label": `${label}. Arrow keys read values, plus and minus zoom, 0 shows all.`,
    });
    root.append(this.keys, this.plot);
    this.readout = readout(root);
    root.append(this.zoomBar());
    numbers(root, () => this.rows());
    this.listen();
    view.charts.push(this);
    this.setSeries(series);
  }

  setSeries(series) {
    this.series = series;
    this.drawKeys();
    this.draw();
  }

  get shown() {
    return this.series.filter((one) => !this.hidden.has(one.group));
  }

  drawKeys() {
    const groups = new Map(this.series.map((one) => [one.group, one]));
    const keys = [...groups].map(([group, one]) => {
      const sample = shape("svg", { viewBox: "0 0 22 10", "aria-hidden": "true" }, drawSample(one));
      const pressed = String(!this.hidden.has(group));
      const key = element("button", { class: "key", type: "button", "aria-pressed": pressed }, sample, group);
      key.addEventListener("click", () => this.toggle(group, key));
      return key;
    });
    this.keys.replaceChildren(...keys);
  }

  toggle(group, key) {
    if (!this.hidden.delete(group)) this.hidden.add(group);
    key.setAttribute("aria-pressed", String(!this.hidden.has(group)));
    this.draw();
  }

  zoomBar() {
    const button = (text, label, act) => {
      const made = element("button", { type: "button", "aria-label": label, title: label }, text);
      made.addEventListener("click", act);
      return made;
    };
    return element(
      "div",
      { class: "bar" },
      button("+", "Zoom in", () => zoom(0.5)),
      button("−", "Zoom out", () => zoom(2)),
      button("All steps", "Show all steps", () => setView(...view.whole)),
    );
  }

  // Lowest and highest of what is in view, with a little air.
  bounds() {
    let low = Infinity;
    let high = -Infinity;
    for (const one of this.shown) {
      one.x.forEach((step, i) => {
        const value = one.y[i];
        if (step < view.from || step > view.to || (this.log && value <= 0)) return;
        low = Math.min(low, value);
        high = Math.max(high, value);
      });
    }
    if (low > high) return this.log ? [0.1, 1] : [0, 1];
    if (this.log) return [low / 1.3, high * 1.3];
    if (this.low !== null) low = Math.min(low, this.low);
    const air = (high - low) * 0.06 || Math.abs(high) * 0.1 || 0.01;
    return [this.low === null ? low - air : low, high + air];
  }

  draw() {
    if (!this.plot.isConnected || !this.plot.clientWidth) return;
    const { picture, area } = frame(this.plot, this.label);
    const [low, high] = this.bounds();
    this.x = scale(view.from, view.to, area.left, area.right);
    this.y = scale(low, high, area.bottom, area.top, this.log);
    this.area = area;
    drawAxes(picture, area, {
      x: this.x,
      y: this.y,
      xTicks: linearTicks(view.from, view.to, area.right - area.left > 400 ? 6 : 4),
      yTicks: this.log ? logTicks(low, high) : linearTicks(low, high, 5),
      xText: asStep,
      yText: this.percent ? (tick) => `${asTick(100 * tick)}%` : asTick,
      xLabel: "step",
    });
    const upwards = [...this.shown.filter((one) => one.band), ...this.shown.filter((one) => !one.band)];
    picture.append(...this.drawRamp(), ...upwards.flatMap((one) => this.drawSeries(one)));
    this.overlay = shape("g");
    picture.append(this.overlay);
    this.plot.replaceChildren(picture);
  }

  drawRamp() {
    if (!this.ramp) return [];
    const [from, to] = this.ramp.map((step) => this.x(Math.min(Math.max(step, view.from), view.to)));
    const { top, bottom } = this.area;
    return [shape("rect", { class: "ramp", x: from, y: top, width: Math.max(0, to - from), height: bottom - top })];
  }

  drawSeries(one) {
    const points = [];
    one.x.forEach((step, i) => {
      // One point beyond each edge, so that a line enters and leaves.
      const near = (one.x[i + 1] ?? step) >= view.from && (one.x[i - 1] ?? step) <= view.to;
      if (near && !(this.log && one.y[i] <= 0)) points.push(`${this.x(step).toFixed(1)},${this.y(one.y[i]).toFixed(1)}`);
    });
    const { left, right, top, bottom } = this.area;
    if (new Set(points).size === 1) {
      const [x, y] = points[0].split(",").map(Number);
      return x >= left && x <= right ? drawDot(one, x, y) : [];
    }
    const line = shape("polyline", {
      class: classOf(one),
      points: points.join(" "),
      "stroke-dasharray": one.dash,
      "data-name": one.name,
    });
    line.style.stroke = one.color;
    const window = shape("svg", { x: left, y: top, width: right - left, height: bottom - top });
    window.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
    window.append(line);
    return window;
  }

  listen() {
    let from = null;
    this.plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "touch") from = this.stepAt(event);
    });
    this.plot.addEventListener("pointermove", (event) => {
      if (from === null) this.point(this.stepAt(event), event);
      else this.select(from, this.stepAt(event));
    });
    this.plot.addEventListener("pointerleave", () => {
      from = null;
      this.overlay?.replaceChildren();
    });
    this.plot.addEventListener("pointerup", (event) => {
      const to = this.stepAt(event);
      if (from !== null && Math.abs(this.x(to) - this.x(from)) > 8) setView(Math.min(from, to), Math.max(from, to));
      else this.point(to, event);
      from = null;
    });
    this.plot.addEventListener("dblclick", () => setView(...view.whole));
    this.plot.addEventListener("keydown", (event) => this.press(event));
  }

  stepAt(event) {
    const box = this.plot.getBoundingClientRect();
    const step = this.x.invert(event.clientX - box.left);
    return Math.min(Math.max(step, view.from), view.to);
  }

  press(event) {
    const acts = {
      "+": () => zoom(0.5, this.at),
      "=": () => zoom(0.5, this.at),
      "-": () => zoom(2, this.at),
      0: () => setView(...view.whole),
      ArrowLeft: () => this.move(-1),
      ArrowRight: () => this.move(1),
      Home: () => this.point(view.from),
      End: () => this.point(view.to),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  move(by) {
    const steps = [...new Set(this.shown.flatMap((one) => one.x))].sort((a, b) => a - b);
    if (!steps.length) return;
    const place = nearest(steps, this.at ?? view.from);
    this.point(steps[Math.min(Math.max(place + by, 0), steps.length - 1)]);
  }

  select(from, to) {
    const { top, bottom } = this.area;
    const [left, right] = [this.x(Math.min(from, to)), this.x(Math.max(from, to))];
    const box = { class: "selection", x: left, y: top, width: right - left, height: bottom - top };
    this.overlay.replaceChildren(shape("rect", box));
  }

  // Read the values at a step; of many thin lines only the one that is nearest to the pointer.
  point(step, event = null) {
    const read = this.shown
      .filter((one) => one.x.length)
      .map((one) => {
        const i = nearest(one.x, step);
        return { one, step: one.x[i], value: one.y[i] };
      });
    if (!read.length) return;
    const height = event ? event.clientY - this.plot.getBoundingClientRect().top : this.area.top;
    const distance = ({ value }) => Math.abs(this.y(value) - height);
    const told = this.single ? [read.reduce((a, b) => (distance(a) <= distance(b) ? a : b))] : read;
    this.at = told.reduce((a, b) => (Math.abs(a.step - step) <= Math.abs(b.step - step) ? a : b)).step;
    const at = this.x(this.at);
    const marks = told
      .filter(({ step: own }) => own >= view.from && own <= view.to)
      .map(({ one, step: own, value }) => {
        const dot = shape("circle", { cx: this.x(own), cy: this.y(value), r: 4 });
        dot.style.fill = one.color;
        return dot;
      });
    const { top, bottom } = this.area;
    this.overlay.replaceChildren(shape("line", { class: "cursor", x1: at, x2: at, y1: top, y2: bottom }), ...marks);
    const values = told.map(({ one, value }) => `${one.name} ${this.text(value)}`);
    this.readout.textContent = `step ${asStep(this.at)}: ${values.join(", ")}`;
  }

  rows() {
    const steps = [...new Set(this.series.flatMap((one) => one.x))].sort((a, b) => a - b);
    const known = this.series.map((one) => new Map(one.x.map((step, i) => [step, this.text(one.y[i])])));
    return [
      ["step", ...this.series.map((one) => one.name)],
      ...steps.map((step) => [asStep(step), ...known.map((values) => values.get(step) ?? "")]),
    ];
  }
}
