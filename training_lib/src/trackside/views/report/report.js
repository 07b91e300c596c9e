"use strict";
// Readouts and one cursor for all charts. The page says all that matters without this script.
// The places of the axes within the pictures, in the units of their view boxes.
const CHART = { left: 72, right: 12, width: 960, top: 10, height: 146 }, DRAWING = { left: 60, right: 14, width: 640, top: 26, height: 174 };
let charts = [];
const words = (value) => (value === null ? "not finite" : String(value));

// The place of a step on the axis of a chart, and the step at a place; in wall time, time runs evenly between two knots.
function between(value, knots, from, to) {
  let at = 1;
  while (at < knots.length - 1 && knots[at][from] < value) at++;
  const [a, b] = [knots[at - 1], knots[at]], width = b[from] - a[from];
  return a[to] + (width > 0 ? (value - a[from]) / width : 0) * (b[to] - a[to]);
}

function xOf(chart, step) {
  const share = chart.clock ? between(step, chart.clock, 0, 1) : (step - chart.first) / (chart.last - chart.first);
  const { left, right, width } = chart.frame;
  return left + Math.min(1, Math.max(0, share)) * (width - left - right);
}

// Many moves of a pointer may come in a frame, and most charts are out of sight: each frame draws the last move in the
// charts that are seen or have the focus; the others take it in when they are scrolled into view.
let wanted = null, isAsked = false;
function show(step) {
  wanted = step;
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    charts.filter((chart) => chart.isSeen || chart.svg === document.activeElement).forEach(draw);
  });
}

function draw(chart) {
  if (wanted === null || chart.drawn === wanted) return;
  chart.drawn = wanted;
  const x = xOf(chart, wanted);
  chart.cursor.setAttribute("x1", x);
  chart.cursor.setAttribute("x2", x);
  chart.cursor.setAttribute("visibility", "visible");
  const words = told(nearest(chart.points, wanted));
  if (chart.readout.textContent !== words) chart.readout.textContent = words;
}

const sight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const chart = charts.find((one) => one.svg === target);
    if (!chart) continue;
    chart.isSeen = isIntersecting;
    if (isIntersecting) draw(chart);
  }
}, { rootMargin: "200px" });

function nearest(points, step) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][1] < step) low = middle + 1; else high = middle;
  }
  const before = points[low - 1];
  return before && step - before[1] < points[low][0] - step ? before : points[low];
}

function told([first, last, low, mean, high, count, broken]) {
  const where = first === last ? `step ${first}` : `steps ${first} to ${last}, ${count} numbers`;
  const what = low === high ? words(mean) : `mean ${words(mean)}, from ${words(low)} to ${words(high)}`;
  return `${where}: ${what}${broken && mean !== null ? ", some not finite" : ""}`;
}

function framed(svg, frame) {
  const [first, last] = svg.dataset.steps.split(",").map(Number);
  const chart = { svg, frame, first, last: Math.max(last, first + 1),
    clock: svg.dataset.clock ? JSON.parse(svg.dataset.clock) : null };
  chart.at = (event) => {
    const box = svg.getBoundingClientRect(), { left, right, width } = frame;
    const x = ((event.clientX - box.left) / box.width) * width;
    const share = Math.min(1, Math.max(0, (x - left) / (width - left - right)));
    return chart.clock ? between(share, chart.clock, 1, 0) : chart.first + share * (chart.last - chart.first);
  };
  svg.tabIndex = 0;
  return chart;
}

const attachDrawing = (svg) => framed(svg, DRAWING);

function attachChart(svg) {
  const chart = Object.assign(framed(svg, CHART), { points: JSON.parse(svg.dataset.points), isSeen: false, drawn: null,
    cursor: svg.querySelector(".cursor"), readout: svg.parentElement.querySelector(".readout") });
  svg.addEventListener("pointermove", (event) => show(chart.at(event)));
  let place = 0;
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    place = Math.min(chart.points.length - 1, Math.max(0, place + move));
    show((chart.points[place][0] + chart.points[place][1]) / 2);
  });
  return chart;
}

function attachMap(pictures) {
  const edges = JSON.parse(pictures.dataset.edges), values = JSON.parse(pictures.dataset.values);
  const places = pictures.dataset.columns ? JSON.parse(pictures.dataset.columns) : [...Array(edges.length - 1).keys()];
  const names = pictures.parentElement.querySelectorAll(".rows li");
  const readout = pictures.closest("figure").querySelector(".readout");
  pictures.addEventListener("pointermove", (event) => {
    const box = pictures.getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left) / box.width) * places.length);
    const column = places[Math.min(places.length - 1, Math.max(0, place))];
    const row = Math.min(values.length - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * values.length)));
    const last = edges[column + 1] - 1, value = values[row][column];
    const steps = edges[column] === last ? `step ${last}` : `steps ${edges[column]} to ${last}`;
    readout.textContent = `${names[row].textContent}, ${steps}: ${value === null ? "not recorded" : value}`;
    if (charts.length) show((edges[column] + last) / 2);
  });
}

// Sliders of a model: they are hidden without this script, and the tables beside them say the same of some places.
const share = (part, whole) => (whole ? (part / whole).toFixed(3) : "none");

function attachCut(box) {
  const cuts = JSON.parse(box.dataset.cuts), positive = Number(box.dataset.positive), all = Number(box.dataset.samples);
  const input = box.querySelector("input"), output = box.querySelector("output");
  const tell = () => {
    const [taken, right] = cuts[input.value - 1], wrong = taken - right, missed = positive - right;
    const cut = (input.value / (cuts.length + 1)).toFixed(2);
    input.setAttribute("aria-valuetext", cut);
    output.textContent = `${cut}: ${right} of class 1 found, ${missed} missed; ${wrong} of class 0 taken for it, `
      + `${all - positive - wrong} not. Precision ${share(right, taken)}, recall ${share(right, positive)}, `
      + `F1 ${share(2 * right, taken + positive)}, accuracy ${share(all - wrong - missed, all)}.`;
  };
  input.addEventListener("input", tell);
  box.hidden = false;
  tell();
}

function attachSteps(box) {
  const steps = JSON.parse(box.dataset.steps), matrices = JSON.parse(box.dataset.matrices);
  const input = box.querySelector("input"), rows = [...box.querySelectorAll("tbody tr")];
  input.addEventListener("input", () => {
    const step = steps[input.value].toLocaleString("en"), matrix = matrices[input.value];
    input.setAttribute("aria-valuetext", step);
    box.querySelector("output").textContent = step;
    rows.forEach((row, i) => {
      const whole = Math.max(1, matrix[i].reduce((sum, count) => sum + count, 0));
      row.querySelectorAll("td").forEach((cell, j) => {
        const part = matrix[i][j] / whole, small = document.createElement("small");
        small.textContent = ` ${Math.round(100 * part)}%`;
        cell.replaceChildren(matrix[i][j].toLocaleString("en"), small);
        cell.className = `share-${Math.round(5 * part)}`;
      });
    });
  });
  box.querySelector("label").hidden = false;
}

// Called once here; a page that replaces its content calls it again.
function attach() {
  sight.disconnect();
  charts = [...document.querySelectorAll(".chart")].map(attachChart);
  charts.forEach((chart) => sight.observe(chart.svg));
  document.querySelectorAll(".pictures").forEach(attachMap);
  document.querySelectorAll(".slider").forEach(attachCut);
  document.querySelectorAll(".stepped").forEach(attachSteps);
}

attach();
