// Every matrix a row, time to the right, the colour how much of it is gone.

const HEAT = ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"];

function heatColor(share) {
  const place = Math.min(Math.max(share, 0), 1) * (HEAT.length - 1);
  const i = Math.min(Math.floor(place), HEAT.length - 2);
  const mix = [1, 3, 5].map((at) => {
    const [low, high] = [HEAT[i], HEAT[i + 1]].map((hex) => parseInt(hex.slice(at, at + 2), 16));
    return Math.round(low + (high - low) * (place - i));
  });
  return `rgb(${mix.join(" ")})`;
}

class HeatMap {
  constructor(root) {
    this.canvas = element("canvas");
    this.plot = element(
      "div",
      {
        class: "plot",
        tabindex: "0",
        role: "application",
        "aria-label": "Sparsity of every matrix over time. Arrow keys move from cell to cell.",
      },
      this.canvas,
    );
    const bar = element("div", { class: "scale" });
    bar.style.background = `linear-gradient(to right, ${HEAT.join(", ")})`;
    const orders = ["as in the model", "most lost first", "by kind"];
    const order = element("select", {}, ...orders.map((name) => element("option", {}, name)));
    order.addEventListener("change", () => this.sort(order.selectedIndex));
    root.append(
      element("div", { class: "bar" }, element("label", {}, "order", order), element("label", {}, "0% zero", bar, "100%")),
      this.plot,
    );
    this.readout = readout(root);
    numbers(root, () => this.table());
    this.plot.addEventListener("pointermove", (event) => this.pointAt(event));
    this.plot.addEventListener("pointerdown", (event) => this.pointAt(event));
    this.plot.addEventListener("keydown", (event) => this.press(event));
    this.order = 0;
  }

  show(layers) {
    this.layers = layers;
    this.cell = [0, 0];
    this.sort(this.order);
  }

  sort(order) {
    this.order = order;
    const last = (row) => row.sparsity[row.sparsity.length - 1];
    this.rows = [...this.layers.rows];
    if (order === 1) this.rows.sort((a, b) => last(b) - last(a));
    if (order === 2) this.rows.sort((a, b) => (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : a.block - b.block));
    this.draw();
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!this.layers || !width) return;
    const ratio = window.devicePixelRatio || 1;
    const high = this.rows.length > 100 ? 8 : this.rows.length > 40 ? 12 : 15;
    this.left = Math.min(190, width * 0.42);
    this.high = high;
    const { steps } = this.layers;
    const last = steps[steps.length - 1];
    this.x = scale(steps[0], last + Math.max(1, (last - steps[0]) / 50), this.left, width);
    this.edges = [...steps.map((step) => Math.round(this.x(step))), width];
    const height = high * this.rows.length + 20;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.textBaseline = "middle";
    pen.font = `${Math.min(12, high - 1)}px system-ui, sans-serif`;
    const quiet = getComputedStyle(this.plot).getPropertyValue("color");
    this.rows.forEach((row, y) => {
      pen.fillStyle = quiet;
      if (high > 8 || y % 2 === 0) pen.fillText(fitText(pen, row.label, this.left - 8), 0, y * high + high / 2);
      row.sparsity.forEach((share, x) => {
        pen.fillStyle = heatColor(share);
        pen.fillRect(this.edges[x], y * high, this.edges[x + 1] - this.edges[x], high - 1);
      });
    });
    this.drawSteps(pen, quiet, height);
    this.drawCell(pen);
  }

  drawSteps(pen, quiet, height) {
    const { steps } = this.layers;
    pen.fillStyle = quiet;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    const most = Math.max(1, Math.floor((this.edges[steps.length] - this.left) / 60));
    for (const tick of linearTicks(steps[0], steps[steps.length - 1], most)) {
      const at = this.x(tick);
      if (at < this.edges[steps.length] - 15) pen.fillText(asStep(tick), at, height - 8);
    }
    pen.textAlign = "left";
  }

  drawCell(pen) {
    if (document.activeElement !== this.plot && !this.pointed) return;
    const [x, y] = this.cell;
    pen.strokeStyle = "#ffffff";
    pen.lineWidth = 2;
    pen.strokeRect(this.edges[x], y * this.high, this.edges[x + 1] - this.edges[x], this.high - 1);
  }

  point(x, y) {
    this.cell = [
      Math.min(Math.max(x, 0), this.layers.steps.length - 1),
      Math.min(Math.max(y, 0), this.rows.length - 1),
    ];
    this.pointed = true;
    this.draw();
    const row = this.rows[this.cell[1]];
    const step = this.layers.steps[this.cell[0]];
    this.readout.textContent = `${row.label}, step ${asStep(step)}: ${asPercent(row.sparsity[this.cell[0]])} zero`;
  }

  pointAt(event) {
    const box = this.plot.getBoundingClientRect();
    const x = this.edges.findLastIndex((edge) => edge <= event.clientX - box.left);
    this.point(x, Math.floor((event.clientY - box.top) / this.high));
  }

  press(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    this.point(this.cell[0] + move[0], this.cell[1] + move[1]);
  }

  table() {
    const last = this.layers.steps.length - 1;
    const rows = this.rows.map((row) => [row.label, asPercent(row.sparsity[0]), asPercent(row.sparsity[last])]);
    return [["matrix", `step ${asStep(this.layers.steps[0])}`, `step ${asStep(this.layers.steps[last])}`], ...rows];
  }
}

function fitText(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let cut = text;
  while (cut.length > 3 && pen.measureText(`…${cut}`).width > width) cut = cut.slice(1);
  const block = text.split(" ")[0];
  return `${block} …${cut.slice(block.length + 1)}`;
}
