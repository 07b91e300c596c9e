// Views chosen in place (steps by drawing over a curve, the look of curves, layers), and a page that follows its run.
// Each view has an address of its own. Without this script, forms and links lead to the same addresses.
let shownAddress = location.pathname + location.search, newestView = 0;

function showSteps(first, last, figure) {
  const address = new URL(location.href);
  ["from", "to"].forEach((name) => address.searchParams.delete(name));
  address.searchParams.set("steps", `${Math.max(0, Math.floor(first))}:${Math.ceil(last)}`);
  showView(address, figure);
}

function showView(address, figure) {
  history.replaceState({ scrolled: scrollY }, "");
  history.pushState(null, "", address);
  return renewView({ figure });
}

// Takes in the page at the present address. What the reader looks at stays where it is in the window, or the page is
// scrolled as it was.
async function renewView({ figure, scrolled }) {
  const view = ++newestView;
  shownAddress = location.pathname + location.search;
  document.body.setAttribute("aria-busy", "true");
  try {
    await renew({ isWanted: () => view === newestView, isForced: true, figure, scrolled });
  } catch {
    location.reload();
  }
  if (view === newestView) document.body.removeAttribute("aria-busy");
}

addEventListener("popstate", (event) => {
  const scrolled = event.state ? event.state.scrolled : scrollY;
  if (location.pathname + location.search !== shownAddress) renewView({ scrolled });
});

// The row of a picture of layers leads to its tensor, as does the link below the picture.
function rowAt(event) {
  const pictures = event.target.closest(".pictures");
  if (!pictures) return event.target.closest("[data-address]");
  const rows = pictures.parentElement.querySelectorAll(".rows li"), box = pictures.getBoundingClientRect();
  const row = rows[Math.min(rows.length - 1, Math.floor(((event.clientY - box.top) / box.height) * rows.length))];
  return row && row.dataset.address ? row : null;
}

document.addEventListener("click", (event) => {
  const row = event.button === 0 && rowAt(event);
  if (row) { if (event.ctrlKey || event.metaKey) open(row.dataset.address); else location.assign(row.dataset.address); return; }
  const link = event.target.closest(".steps a, .layer-choice a");
  if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  showView(link.href, link.closest("section"));
});
document.addEventListener("change", (event) => {
  if (event.target.matches(".steps select")) event.target.form.requestSubmit();
});

// What has a title keeps its place: the figure or section that was used, or the first one that is seen.
const MARKS = "figure, h2";
const titleOf = (mark) => (mark.querySelector("figcaption b") || mark).textContent;
function placeOf(figure) {
  const seen = (one) => one.getBoundingClientRect().bottom > 0;
  const mark = figure ? (figure.matches(MARKS) ? figure : figure.querySelector(MARKS)) : [...document.querySelectorAll(MARKS)].find(seen);
  return mark ? { title: titleOf(mark), top: mark.getBoundingClientRect().top } : null;
}

function keepPlace(before) {
  const mark = before && [...document.querySelectorAll(MARKS)].find((one) => titleOf(one) === before.title);
  if (mark && scrollY > 0) scrollBy(0, mark.getBoundingClientRect().top - before.top);
}

function attachChoice(chart) {
  let from = null, shade = null;
  const x = (step) => xOf(chart, step), figure = chart.svg.closest("figure");
  const end = () => { if (shade) shade.remove(); from = shade = null; };
  chart.svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = chart.at(event);
    chart.svg.setPointerCapture(event.pointerId);
  });
  chart.svg.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const to = chart.at(event);
    if (!shade) {
      shade = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      shade.setAttribute("class", "chosen");
      shade.setAttribute("y", chart.frame.top);
      shade.setAttribute("height", chart.frame.height);
      chart.svg.append(shade);
    }
    shade.setAttribute("x", String(x(Math.min(from, to))));
    shade.setAttribute("width", String(Math.abs(x(to) - x(from))));
  });
  chart.svg.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const low = Math.min(from, chart.at(event)), high = Math.max(from, chart.at(event));
    const isDrawn = x(high) - x(low) > 6;
    end();
    if (isDrawn) showSteps(low, high, figure);
  });
  chart.svg.addEventListener("pointercancel", end);
  chart.svg.addEventListener("keydown", (event) => {
    const width = (chart.last - chart.first) / 4, middle = (chart.first + chart.last) / 2;
    if (event.key === "+") showSteps(middle - width, middle + width, figure);
    if (event.key === "-") showSteps(middle - 4 * width, middle + 4 * width, figure);
  });
}

function remembered() {
  const figures = [...document.querySelectorAll("figure")];
  return {
    open: [...document.querySelectorAll("details")].map((one) => one.open),
    places: [...document.querySelectorAll("input[type=range]")].map((one) => one.value),
    picks: [...document.querySelectorAll("input[type=radio]")].map((one) => one.checked),
    focused: figures.findIndex((one) => one.contains(document.activeElement)),
    link: document.activeElement && document.activeElement.getAttribute("href"),
    field: document.activeElement && document.activeElement.name,
  };
}

function restore(before) {
  const put = (found, values, name) => { if (found.length === values.length) found.forEach((one, place) => { one[name] = values[place]; }); };
  put([...document.querySelectorAll("details")], before.open, "open");
  put([...document.querySelectorAll("input[type=radio]")], before.picks, "checked");
  const sliders = [...document.querySelectorAll("input[type=range]")];
  put(sliders, before.places, "value");
  sliders.forEach((one) => one.dispatchEvent(new Event("input")));
  const figure = document.querySelectorAll("figure")[before.focused];
  if (figure) (figure.querySelector("svg[data-steps]") || figure.querySelector("input:checked"))?.focus({ preventScroll: true });
  else if (before.field && document.querySelector(`form [name="${before.field}"]`)) {
    document.querySelector(`form [name="${before.field}"]`).focus({ preventScroll: true });
  } else if (before.link) {
    const link = [...document.querySelectorAll("a[href]")].find((one) => one.getAttribute("href") === before.link);
    if (link) link.focus({ preventScroll: true });
  }
}

async function renew({ isWanted = () => true, isForced = false, figure, scrolled } = {}) {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!isWanted()) return;
  // A form in which somebody types is not taken away; the next change renews it.
  if (!isForced && document.activeElement && document.activeElement.matches("header input, main form input")) return;
  const before = remembered(), place = placeOf(figure);
  for (const name of ["header", "main"]) {
    const part = page.querySelector(name);
    if (part) document.querySelector(name).replaceWith(document.adoptNode(part));
  }
  attachAll();
  restore(before);
  if (scrolled === undefined) keepPlace(place); else scrollTo(0, scrolled);
}

function attachAll() {
  attach();
  charts.forEach(attachChoice);
  document.querySelectorAll(".drawing[data-steps]").forEach((svg) => attachChoice(attachDrawing(svg)));
}

function follow(status) {
  const say = (words) => { if (status.textContent !== words) status.textContent = words; };
  const stream = new EventSource(status.dataset.events);
  let isBusy = false, isLate = false;
  const change = async () => {
    if (isBusy || isHeld) { isLate = true; return; }
    isBusy = true;
    try {
      await renew();
      say(`Up to date at ${new Date().toLocaleTimeString()}`);
    } catch (error) {
      say(`Not up to date: ${error.message}`);
    }
    isBusy = false;
    if (isLate && !isHeld) { isLate = false; change(); }
  };
  stream.addEventListener("open", () => say("Follows the run"));
  stream.addEventListener("changed", change);
  stream.addEventListener("trouble", (event) => say(`Not up to date: ${event.data}`));
  stream.addEventListener("error", () => say("Not connected; trying again"));
  addEventListener("pagehide", () => stream.close());
  return () => {
    isHeld = !isHeld;
    if (isHeld) say("Held; p follows again");
    else if (isLate) { isLate = false; change(); } else say("Follows the run");
  };
}

// Keys, each also a link or a field of the page. They can be switched off: speech input may send letters.
const OFF = "trackside-keys-off";
const SECTIONS = { f: "findings", w: "changes", i: "incidents", t: "training", s: "speed", m: "machine", l: "layers",
  d: "distributions", r: "rules" };
const KEYS = [
  ["/", "search, or choose steps"], ["[ and ]", "finding before, finding after"], ["0", "all steps"], ["x", "by steps or by time"],
  ["g, then f w i t s m l d r", "go to findings, what changed, how it began, training, speed, machine, layers, distributions, rules"],
  ["g, then a", "all runs"], ["c", "copy the address of this view"], ["p", "hold or follow a run that trains"],
  ["← → + -", "on a curve: move the cursor, show fewer or more steps"], ["?", "these keys"],
];
let isAfterG = false, isHeld = false, finding = -1;

function goTo(element) {
  if (!element) return;
  element.tabIndex = -1;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "start" });
}

function toFinding(by) {
  const cards = [...document.querySelectorAll(".card")];
  if (!cards.length) return;
  finding = (finding + by + cards.length + (finding < 0 && by < 0 ? 1 : 0)) % cards.length;
  goTo(cards[finding].querySelector("h3"));
}

function made(name, text, parts = []) {
  const element = document.createElement(name);
  element.textContent = text;
  element.append(...parts);
  return element;
}

function helpDialog() {
  const rows = KEYS.map(([key, words]) => made("tr", "", [made("th", key), made("td", words)]));
  rows.forEach((row) => { row.firstChild.scope = "row"; });
  const toggle = made("button", ""), close = made("button", "Close");
  const dialog = made("dialog", "", [made("h2", "Keys"), made("table", "", rows), toggle, " ", close]);
  dialog.setAttribute("aria-label", "Keys");
  const name = () => { toggle.textContent = localStorage.getItem(OFF) ? "Switch keys on" : "Switch keys off"; };
  toggle.addEventListener("click", () => {
    if (localStorage.getItem(OFF)) localStorage.removeItem(OFF); else localStorage.setItem(OFF, "yes");
    name();
  });
  close.addEventListener("click", () => dialog.close());
  name();
  document.body.append(dialog);
  return dialog;
}

const help = helpDialog();
const helpButton = made("button", "Keys");
helpButton.addEventListener("click", () => help.showModal());
document.querySelector("footer").append(" ", helpButton);

document.addEventListener("keydown", (event) => {
  if (localStorage.getItem(OFF) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=radio]):not([type=checkbox]), textarea, select, dialog")) return;
  const key = event.key, wasAfterG = isAfterG;
  isAfterG = key === "g" && !wasAfterG;
  if (wasAfterG) {
    if (key === "a") location.assign("/");
    else if (SECTIONS[key]) goTo(document.getElementById(SECTIONS[key]));
    return;
  }
  const field = document.querySelector("header input:not([type=hidden])");
  if (key === "/" && field) { event.preventDefault(); field.focus(); }
  if (key === "]") toFinding(1);
  if (key === "[") toFinding(-1);
  if (key === "0" && new URL(location.href).searchParams.has("steps")) {
    const address = new URL(location.href);
    address.searchParams.delete("steps");
    showView(address);
  }
  if (key === "x") document.querySelector("a.axis-choice")?.click();
  if (key === "c" && navigator.clipboard) navigator.clipboard.writeText(location.href);
  if (key === "p" && live) hold();
  if (key === "?") help.showModal();
});

// A field that is empty, or chooses all, stays out of the address. The browser's Back finds it as it was.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches(".steps, .layer-choice form")) {
    event.preventDefault();
    const address = new URL(form.action, location.href), given = [...new FormData(form)].filter(([, value]) => value);
    address.search = new URLSearchParams(given);
    showView(address, form.closest("section"));
    return;
  }
  const idle = [...event.target.elements].filter((one) => one.name && one.value === "" && !one.disabled);
  idle.forEach((one) => { one.disabled = true; });
  addEventListener("pagehide", () => idle.forEach((one) => { one.disabled = false; }), { once: true });
});

attachAll();
const live = document.querySelector(".live");
const hold = live ? follow(live) : null;
