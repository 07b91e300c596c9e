// Steps chosen by drawing over a curve, and a page that follows its run. Without this script, forms do the former.
function showSteps(first, last) {
  const address = new URL(location.href);
  ["from", "to"].forEach((name) => address.searchParams.delete(name));
  address.searchParams.set("steps", `${Math.max(0, Math.floor(first))}:${Math.ceil(last)}`);
  location.assign(address);
}

function attachChoice(chart) {
  let from = null, shade = null;
  const x = (step) => LEFT + ((step - chart.first) / (chart.last - chart.first)) * (WIDTH - LEFT - RIGHT);
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
      shade.setAttribute("y", "10");
      shade.setAttribute("height", "146");
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
    if (isDrawn) showSteps(low, high);
  });
  chart.svg.addEventListener("pointercancel", end);
  chart.svg.addEventListener("keydown", (event) => {
    const width = (chart.last - chart.first) / 4, middle = (chart.first + chart.last) / 2;
    if (event.key === "+") showSteps(middle - width, middle + width);
    if (event.key === "-") showSteps(middle - 4 * width, middle + 4 * width);
  });
}

function remembered() {
  const figures = [...document.querySelectorAll("figure")];
  return {
    open: [...document.querySelectorAll("details")].map((one) => one.open),
    picks: [...document.querySelectorAll("input[type=radio]")].map((one) => one.checked),
    focused: figures.findIndex((one) => one.contains(document.activeElement)),
    link: document.activeElement && document.activeElement.getAttribute("href"),
  };
}

function restore(before) {
  const put = (found, values, name) => { if (found.length === values.length) found.forEach((one, place) => { one[name] = values[place]; }); };
  put([...document.querySelectorAll("details")], before.open, "open");
  put([...document.querySelectorAll("input[type=radio]")], before.picks, "checked");
  const figure = document.querySelectorAll("figure")[before.focused];
  if (figure) (figure.querySelector(".chart") || figure.querySelector("input:checked")).focus({ preventScroll: true });
  else if (before.link) {
    const link = [...document.querySelectorAll("a[href]")].find((one) => one.getAttribute("href") === before.link);
    if (link) link.focus({ preventScroll: true });
  }
}

async function renew() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  // A form in which somebody types is not taken away; the next change renews it.
  if (document.activeElement && document.activeElement.matches("header input")) return;
  const before = remembered();
  for (const name of ["header", "main"]) {
    const part = page.querySelector(name);
    if (part) document.querySelector(name).replaceWith(document.adoptNode(part));
  }
  attach();
  charts.forEach(attachChoice);
  restore(before);
}

function follow(status) {
  const say = (words) => { if (status.textContent !== words) status.textContent = words; };
  const stream = new EventSource(status.dataset.events);
  let isBusy = false, isLate = false;
  const change = async () => {
    if (isBusy) { isLate = true; return; }
    isBusy = true;
    try {
      await renew();
      say(`Up to date at ${new Date().toLocaleTimeString()}`);
    } catch (error) {
      say(`Not up to date: ${error.message}`);
    }
    isBusy = false;
    if (isLate) { isLate = false; change(); }
  };
  stream.addEventListener("open", () => say("Follows the run"));
  stream.addEventListener("changed", change);
  stream.addEventListener("trouble", (event) => say(`Not up to date: ${event.data}`));
  stream.addEventListener("error", () => say("Not connected; trying again"));
  addEventListener("pagehide", () => stream.close());
}

charts.forEach(attachChoice);
const live = document.querySelector(".live");
if (live) follow(live);
