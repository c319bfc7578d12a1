// Which charts the page has, and what each of them shows.

const data = JSON.parse(document.getElementById("data").textContent);
const { runs } = data;
// Several ramps would hide each other.
const ramps = runs.map((run) => run.ramp).filter(Boolean);
const oneRamp = new Set(ramps.map(String)).size === 1 ? ramps[0] : null;

function place(name) {
  return document.querySelector(`[data-chart="${name}"]`);
}

function seriesOf(key, options = {}) {
  return runs.flatMap((run, number) => {
    if (!run.series[key]) return [];
    const [x, y] = run.series[key];
    const name = options.name ? options.name(run) : run.name;
    const pattern = dash(number, options.look?.band ? 3 : 1);
    return [{ name, group: name, color: color(number), dash: pattern, x, y, ...options.look }];
  });
}

const CHARTS = {
  sparsity: () => ({
    label: "Sparsity",
    percent: true,
    low: 0,
    series: [
      ...seriesOf("sparsity"),
      ...seriesOf("target", { name: (run) => `${run.name}, asked`, look: { band: true } }),
    ],
  }),
  cut: () => ({
    label: "The cut",
    log: true,
    series: [
      ...seriesOf("cut"),
      ...seriesOf("half_width", { name: (run) => `${run.name}, half-width`, look: { dash: "1 4", thin: true, hollow: true } }),
    ],
  }),
  loss: () => ({
    label: "Loss",
    series: [
      ...seriesOf("loss", { name: (run) => `${run.name}, training` }),
      ...seriesOf("eval_loss", { name: (run) => `${run.name}, evaluation`, look: { dash: "1 4", hollow: true } }),
    ],
  }),
  came_back: () => ({ label: "Weights that came back", percent: true, low: 0, series: seriesOf("came_back") }),
  in_spike: () => ({
    label: "Weights in the spike",
    percent: true,
    low: 0,
    series: [
      ...seriesOf("in_spike"),
      ...seriesOf("pruned_before", { name: (run) => `${run.name}, pruned before`, look: { band: true } }),
    ],
  }),
};

for (const box of document.querySelectorAll("[data-metric]")) {
  const key = box.dataset.metric;
  CHARTS[box.dataset.chart] = () => ({ label: key.replace("eval_", ""), series: seriesOf(key) });
}

const layerSeries = (run, by) => {
  const groups = [...new Set(run.layers.rows.map((row) => row[by]))];
  return run.layers.rows.map((row) => {
    const number = groups.indexOf(row[by]);
    const group = by === "block" ? `block ${row.block}` : row.kind;
    const look = { color: color(number), dash: dash(Math.floor(number / COLORS)), thin: true };
    return { name: row.label, group, x: run.layers.steps, y: row.sparsity, ...look };
  });
};

function drawDetails() {
  const pruned = runs.filter((run) => run.layers);
  if (!pruned.length) return;
  const by = document.getElementById("by");
  const which = document.getElementById("which");
  const chosen = () => (which ? pruned[Number(which.value)] : pruned[0]);
  const [run] = pruned;
  const lines = new LineChart(place("layers"), {
    label: "Sparsity by matrix",
    percent: true,
    low: 0,
    single: true,
    ramp: run.ramp,
    series: layerSeries(run, "kind"),
  });
  const heat = new HeatMap(place("heat"));
  const sizes = place("sizes") ? new Sizes(place("sizes")) : null;
  const show = () => {
    const now = chosen();
    lines.hidden.clear();
    lines.ramp = now.ramp;
    lines.setSeries(layerSeries(now, by.value));
    heat.show(now.layers);
    if (sizes && now.looks.length) sizes.show(now.looks, now.by_size);
  };
  by.addEventListener("change", show);
  which?.addEventListener("change", show);
  show();
  return () => {
    heat.draw();
    sizes?.draw();
  };
}

function setTheme(button) {
  const order = ["", "light", "dark"];
  const names = { "": "as the system", light: "light", dark: "dark" };
  const root = document.documentElement;
  button.addEventListener("click", () => {
    const now = order[(order.indexOf(root.dataset.theme ?? "") + 1) % order.length];
    if (now) root.dataset.theme = now;
    else delete root.dataset.theme;
    button.textContent = `Colours: ${names[now]}`;
    redraw();
  });
}

view.whole = [0, Math.max(1, ...runs.map((run) => run.last))];
[view.from, view.to] = view.whole;
for (const [name, make] of Object.entries(CHARTS)) {
  const root = place(name);
  const made = make();
  if (root && made.series.length) new LineChart(root, { ramp: oneRamp, ...made });
}
const drawOthers = drawDetails() ?? (() => {});

function redraw() {
  for (const chart of view.charts) chart.draw();
  drawOthers();
}

setTheme(document.getElementById("theme"));
let waiting = null;
window.addEventListener("resize", () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(redraw);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.documentElement.dataset.ready = "yes";
