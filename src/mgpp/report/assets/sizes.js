// How large the weights are at one look: grey before the event, solid what it left.

class Sizes {
  constructor(root) {
    this.slider = element("input", { type: "range", min: "0", step: "1", "aria-label": "Step of the look" });
    this.plot = element("div", { class: "plot" });
    root.append(this.plot, this.slider);
    this.readout = readout(root);
    numbers(root, () => this.table());
    this.slider.addEventListener("input", () => this.draw());
  }

  show(looks, bySize) {
    this.looks = looks;
    this.bySize = bySize;
    this.slider.max = String(looks.length - 1);
    this.slider.value = this.slider.max;
    // One frame for all looks, or moving the slider would move the axes.
    this.low = Math.min(...looks.map((look) => look.log2));
    this.high = Math.max(...looks.map((look) => look.log2 + look.after.length / look.per_octave));
    this.draw();
  }

  get look() {
    return this.looks[Number(this.slider.value)];
  }

  draw() {
    if (!this.looks || !this.plot.clientWidth) return;
    const { look } = this;
    const { picture, area } = frame(this.plot, "How large the weights are");
    const most = Math.max(...look.before, ...look.after, 10);
    const x = scale(2 ** this.low, 2 ** this.high, area.left, area.right, true);
    const y = scale(0.7, most * 1.5, area.bottom, area.top, true); // or the spike would flatten all the rest
    const ticks = logTicks(2 ** this.low, 2 ** this.high);
    drawAxes(picture, area, {
      x,
      y,
      xTicks: area.right - area.left < 300 ? ticks.filter((tick, i) => i % 2 === 0) : ticks,
      yTicks: logTicks(1, most).filter((tick) => /^10*$/.test(String(tick))),
      xText: asTick,
      yText: asStep,
      xLabel: "|θ|",
    });
    for (const kind of ["before", "after"]) {
      look[kind].forEach((count, i) => {
        if (!count) return;
        const [left, right] = [i, i + 1].map((edge) => x(2 ** (look.log2 + edge / look.per_octave)));
        const bar = { class: kind, x: left, y: y(count), width: Math.max(0.5, right - left - 0.5), height: area.bottom - y(count) };
        picture.append(shape("rect", bar));
      });
    }
    if (this.bySize) this.mark(picture, area, x, look.cut, "cut", 12);
    this.mark(picture, area, x, look.half_width, "half-width", 26);
    this.plot.replaceChildren(picture);
    this.slider.setAttribute("aria-valuetext", `step ${asStep(look.step)}`);
    const gone = look.cut ? `, cut ${asNumber(look.cut)}` : "";
    this.readout.textContent = `step ${asStep(look.step)} (look ${Number(this.slider.value) + 1} of ${this.looks.length})${gone}`;
  }

  mark(picture, area, x, value, text, down) {
    const at = value ? x(value) : NaN;
    if (!(at >= area.left && at <= area.right)) return;
    picture.append(shape("line", { class: "mark", x1: at, x2: at, y1: area.top, y2: area.bottom }));
    const flip = at > (area.left + area.right) / 2;
    const place = { x: at + (flip ? -5 : 5), y: area.top + down, "text-anchor": flip ? "end" : "start" };
    picture.append(shape("text", place, text));
  }

  table() {
    const { look } = this;
    const rows = look.after.map((count, i) => {
      const from = 2 ** (look.log2 + i / look.per_octave);
      return [asNumber(from), asStep(look.before[i]), asStep(count)];
    });
    return [["|θ| from", "before the event", "after it"], ...rows];
  }
}
