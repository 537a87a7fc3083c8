const SVG = "http://www.w3.org/2000/svg";
const SHARES = ["accuracy", "homophily", "shares_moved"];
const HOUR = 36e5;
const DAY = 24 * HOUR;
const plots = [...document.querySelectorAll("[data-plot]")];
const tip = document.getElementById("tip");
const times = STEPS.map((step) => Date.parse(step.time));
const distinct = new Set(times).size > 1;
let even = !distinct;
let places = [];
let span = [0, 1];
let chosen = null;
let hovered = null;

const percent = (value) => (value === null ? "cannot be estimated" : `${(100 * value).toFixed(1)} %`);
const bounds = (step) => (step.low === null ? "" : ` (${percent(step.low)} to ${percent(step.high)})`);
const day = (step) => step.time.slice(0, 16).replace("T", " ");

const element = (name, attributes, parent) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
};

const whole = () => {
  const [first, last] = [places[0] ?? 0, places.at(-1) ?? 1];
  const margin = (last - first || 1) * 0.03;
  return [first - margin, last + margin];
};

const spread = () => {
  places = even ? STEPS.map((_, place) => place) : times;
  span = whole();
  const button = document.getElementById("scale");
  button.setAttribute("aria-pressed", String(even));
  button.disabled = !distinct;
};

const dateLabel = (time) => {
  const days = (span[1] - span[0]) / DAY;
  const parts =
    days > 1500 ? { year: "numeric" }
    : days > 120 ? { year: "numeric", month: "short" }
    : days > 3 ? { month: "short", day: "numeric" }
    : { hour: "2-digit", minute: "2-digit" };
  return new Date(time).toLocaleString("en-GB", { ...parts, timeZone: "UTC" });
};

const label = (place) => {
  if (!even) return dateLabel(place);
  const step = STEPS[place];
  return step ? `${step.number}` : "";
};

// Steps of 1, 2, 2.5 or 5 times a power of ten.
const rounded = (raw) => {
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw);
};

const rows = (low, high, count) => {
  const step = rounded((high - low) / count);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + 1e-9; at += 1) found.push(at * step);
  return found;
};

// Months are not of one length: those at which a year can be divided, or several years.
const months = (count) => {
  const wide = (span[1] - span[0]) / DAY / 30 / count;
  const step = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((each) => each >= wide) ?? 1200;
  const begin = new Date(span[0]);
  const since = (begin.getUTCFullYear() - 2000) * 12 + begin.getUTCMonth();
  const first = Math.ceil(since / step) * step;
  return Array.from({ length: count + 2 }, (_, n) => Date.UTC(2000, first + n * step));
};

const columns = (width) => {
  const count = Math.max(2, Math.floor(width / 95));
  const wide = (span[1] - span[0]) / count;
  if (even) {
    const step = Math.max(1, Math.round(rounded(wide)));
    return STEPS.map((_, place) => place).filter((place) => place % step === 0);
  }
  if (wide > 28 * DAY) return months(count);
  const steps = [1 / 60, 1 / 12, 0.25, 1, 3, 6, 12, 24, 48, 168, 336, 672];
  const step = (steps.find((each) => each * HOUR >= wide) ?? 672) * HOUR;
  const first = Math.ceil(span[0] / step) * step;
  return Array.from({ length: count + 1 }, (_, n) => first + n * step);
};

const values = (name) => {
  const parts = name === "accuracy" ? ["accuracy", "low", "high", "source_accuracy", "measured"] : [name];
  const found = STEPS.flatMap((step) => parts.map((part) => step[part])).filter((v) => v !== null);
  if (name === "accuracy" && LEVEL !== null) found.push(LEVEL);
  if ((SOURCE[name] ?? null) !== null && found.length) found.push(SOURCE[name]);
  return found;
};

const domains = {};
const domain = (name) => (domains[name] ??= range(name));

const range = (name) => {
  const found = values(name);
  if (!found.length) return [0, 1];
  const [low, high] = [Math.min(...found), Math.max(...found)];
  const margin = 0.08 * (high - low) || 0.05 * (Math.abs(high) || 1);
  const top = SHARES.includes(name) ? Math.min(1, high + margin) : high + margin;
  return [Math.max(0, low - margin), top];
};

const line = (frame, part, svg, attributes) => {
  let path = "";
  let open = false;
  STEPS.forEach((step, place) => {
    if (step[part] === null) {
      open = open && Boolean(step.problem);
      return;
    }
    path += `${open ? "L" : "M"}${frame.x(places[place]).toFixed(1)} ${frame.y(step[part]).toFixed(1)}`;
    open = true;
  });
  element("path", { d: path, fill: "none", "stroke-width": 2, "stroke-linejoin": "round", ...attributes }, svg);
};

const band = (frame, svg) => {
  let run = [];
  const close = () => {
    const point = (place, part) => `${frame.x(places[place]).toFixed(1)} ${frame.y(STEPS[place][part]).toFixed(1)}`;
    const upper = run.map((place) => point(place, "high"));
    const lower = [...run].reverse().map((place) => point(place, "low"));
    if (run.length > 1) {
      element("path", { d: `M${[...upper, ...lower].join("L")}Z`, fill: COLOURS.use, "fill-opacity": 0.18, class: "band" }, svg);
    } else if (run.length) {
      element("path", { d: `M${upper[0]}L${lower[0]}`, stroke: COLOURS.use, "stroke-opacity": 0.4, "stroke-width": 4 }, svg);
    }
    run = [];
  };
  STEPS.forEach((step, place) => {
    if (step.low !== null) run.push(place);
    else if (!step.problem) close();
  });
  close();
};

const marks = (frame, svg) => {
  STEPS.forEach((step, place) => {
    const x = frame.x(places[place]);
    if (step.problem) {
      const y = frame.bottom - 8;
      element("path", { d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`, stroke: "var(--bad)", "stroke-width": 2, class: "gone" }, svg);
      return;
    }
    if (step.measured !== null) {
      const y = frame.y(step.measured);
      element("rect", { x: x - 4, y: y - 4, width: 8, height: 8, fill: "var(--card)", stroke: COLOURS.measured, "stroke-width": 2 }, svg);
    }
    if (step.accuracy !== null) {
      const fill = step.chosen === "source" ? "var(--card)" : COLOURS.use;
      element("circle", { cx: x, cy: frame.y(step.accuracy), r: STEPS.length > 150 ? 2.5 : 4, fill, stroke: COLOURS.use, "stroke-width": 2 }, svg);
    }
    if (step.alarms.length) {
      element("path", { d: `M${x - 6} ${frame.top - 12}h12l-6 10z`, fill: COLOURS.alarm, class: "bell" }, svg);
    }
  });
};

const frameOf = (plot, name) => {
  const { clientWidth: width, clientHeight: height } = plot;
  const main = name === "accuracy";
  const [left, right, top, bottom] = [46, width - 8, main ? 20 : 8, height - 22];
  const [low, high] = domain(name);
  const x = (place) => left + ((place - span[0]) / (span[1] - span[0])) * (right - left);
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
  const place = (at) => span[0] + ((at - left) / (right - left)) * (span[1] - span[0]);
  return { width, height, left, right, top, bottom, low, high, x, y, place };
};

const axes = (frame, name, svg) => {
  for (const value of rows(frame.low, frame.high, name === "accuracy" ? 5 : 4)) {
    const y = frame.y(value);
    element("path", { d: `M${frame.left} ${y}H${frame.right}`, class: "axis" }, svg);
    const text = SHARES.includes(name) ? `${Math.round(100 * value)} %` : `${Number(value.toPrecision(3))}`;
    element("text", { x: frame.left - 6, y: y + 4, "text-anchor": "end" }, svg).textContent = text;
  }
  for (const place of columns(frame.width)) {
    const x = frame.x(place);
    if (x < frame.left || x > frame.right) continue;
    element("text", { x, y: frame.height - 4, "text-anchor": "middle" }, svg).textContent = label(place);
  }
};

const drawOne = (plot) => {
  const name = plot.dataset.plot;
  const frame = frameOf(plot, name);
  if (frame.width < 60) return;
  plot.replaceChildren();
  const svg = element("svg", { viewBox: `0 0 ${frame.width} ${frame.height}`, width: frame.width, height: frame.height }, plot);
  axes(frame, name, svg);
  const cut = element("clipPath", { id: `cut-${name}` }, element("defs", {}, svg));
  element("rect", { x: frame.left - 2, y: 0, width: frame.right - frame.left + 6, height: frame.height }, cut);
  const inside = element("g", { "clip-path": `url(#cut-${name})` }, svg);
  if (name === "accuracy") {
    band(frame, inside);
    if (LEVEL !== null) {
      element("path", { d: `M${frame.left} ${frame.y(LEVEL)}H${frame.right}`, stroke: COLOURS.alarm, "stroke-width": 1.5, "stroke-dasharray": "2 3" }, inside);
      const text = element("text", { x: frame.left + 4, y: frame.y(LEVEL) - 4 }, inside);
      text.textContent = `level ${percent(LEVEL)}`;
    }
    line(frame, "source_accuracy", inside, { stroke: COLOURS.source, "stroke-dasharray": "6 4" });
    line(frame, "accuracy", inside, { stroke: COLOURS.use });
    marks(frame, inside);
  } else {
    if ((SOURCE[name] ?? null) !== null) {
      element("path", { d: `M${frame.left} ${frame.y(SOURCE[name])}H${frame.right}`, stroke: COLOURS.source, "stroke-width": 2, "stroke-dasharray": "6 4" }, inside);
    }
    line(frame, name, inside, { stroke: COLOURS.use });
    STEPS.forEach((step, place) => {
      if (step[name] !== null && STEPS.length <= 150) {
        element("circle", { cx: frame.x(places[place]), cy: frame.y(step[name]), r: 2.5, fill: COLOURS.use }, inside);
      }
    });
  }
  point(plot);
};

// The chosen and the hovered graph, as lines across every drawing.
const point = (plot) => {
  const inside = plot.querySelector("g");
  const frame = frameOf(plot, plot.dataset.plot);
  inside?.querySelectorAll(".rule").forEach((old) => old.remove());
  for (const [place, style] of [[chosen, "var(--ink)"], [hovered, "var(--quiet)"]]) {
    if (place === null || !inside) continue;
    const x = frame.x(places[place]);
    element("path", { d: `M${x} ${frame.top}V${frame.bottom}`, stroke: style, class: "rule" }, inside);
  }
};

const draw = () => plots.forEach(drawOne);

const nearest = (place) => {
  let best = null;
  places.forEach((own, number) => {
    if (own < span[0] || own > span[1]) return;
    if (best === null || Math.abs(own - place) < Math.abs(places[best] - place)) best = number;
  });
  return best;
};

const summary = (step, name) => {
  if (step.problem) return `${step.name}\n${day(step)}\ncould not be used`;
  const value = name === "accuracy"
    ? `${percent(step.accuracy)}${bounds(step)}\n${step.chosen === "source" ? "source model kept" : `taken: ${step.chosen}`}`
    : SHARES.includes(name) ? percent(step[name]) : step[name] === null ? "not known" : step[name].toFixed(2);
  const bells = step.alarms.map((alarm) => `\nAlarm: ${alarm.kind}`).join("");
  return `${step.name || `graph ${step.number}`}\n${day(step)}\n${value}${name === "accuracy" ? bells : ""}`;
};

const pixel = (event, plot) => event.clientX - plot.getBoundingClientRect().left;

const hover = (event, plot) => {
  const frame = frameOf(plot, plot.dataset.plot);
  const found = nearest(frame.place(pixel(event, plot)));
  if (found !== hovered) {
    hovered = found;
    plots.forEach(point);
  }
  tip.hidden = found === null;
  if (found === null) return;
  tip.textContent = summary(STEPS[found], plot.dataset.plot);
  const box = plot.getBoundingClientRect();
  const left = Math.min(box.left + frame.x(places[found]) + 12, document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(8, left) + window.scrollX}px`;
  tip.style.top = `${box.top + window.scrollY - tip.offsetHeight - 4}px`;
};

const leave = () => {
  tip.hidden = true;
  hovered = null;
  plots.forEach(point);
};

const fact = (list, name, value) => {
  const row = document.createElement("div");
  const [term, text] = [document.createElement("dt"), document.createElement("dd")];
  term.textContent = name;
  text.textContent = value;
  row.append(term, text);
  list.append(row);
};

const show = (place) => {
  chosen = place;
  plots.forEach(point);
  const step = STEPS[place];
  document.getElementById("card").hidden = false;
  document.getElementById("card-title").textContent = `${step.number}. ${step.name} (${day(step)})`;
  const list = document.getElementById("card-facts");
  list.replaceChildren();
  if (!step.problem) {
    fact(list, "expected accuracy", `${percent(step.accuracy)}${bounds(step)}`);
    fact(list, "source model", percent(step.source_accuracy));
    if (step.measured !== null) fact(list, "by labels", percent(step.measured));
    fact(list, "taken", step.chosen);
    fact(list, "labels changed", percent(step.changed));
    fact(list, "nodes, edges", `${step.nodes.toLocaleString("en")}, ${step.edges.toLocaleString("en")}`);
    if (step.repeats) fact(list, "same content as", `graph ${step.repeats}`);
  }
  const bells = document.getElementById("card-alarms");
  bells.replaceChildren();
  for (const alarm of step.alarms) {
    const text = document.createElement("p");
    text.className = "status alarm";
    text.textContent = alarm.message;
    bells.append(text);
  }
  document.getElementById("card-reason").textContent = step.problem || step.reason;
  const link = document.getElementById("card-link");
  link.hidden = !step.report;
  link.firstElementChild.setAttribute("href", step.report);
};

const zoom = (first, last) => {
  const [low, high] = whole();
  const least = (high - low) / 500;
  const width = Math.min(Math.max(last - first, least), high - low);
  const begin = Math.min(Math.max(first, low), high - width);
  span = [begin, begin + width];
  draw();
};

const about = (factor) => {
  const middle = chosen === null ? (span[0] + span[1]) / 2 : places[chosen];
  const width = (span[1] - span[0]) * factor;
  zoom(middle - width / 2, middle + width / 2);
};

const move = (by) => {
  if (STEPS.length) show(Math.min(Math.max((chosen ?? (by > 0 ? -1 : STEPS.length)) + by, 0), STEPS.length - 1));
  if (chosen !== null && (places[chosen] < span[0] || places[chosen] > span[1])) about(1);
};

plots.forEach((plot) => {
  let began = null;
  plot.addEventListener("pointerdown", (event) => { began = pixel(event, plot); });
  plot.addEventListener("pointermove", (event) => {
    hover(event, plot);
    if (began === null || event.pointerType === "touch") return;
    const frame = frameOf(plot, plot.dataset.plot);
    const [a, b] = [began, pixel(event, plot)].sort((one, other) => one - other);
    const svg = plot.firstElementChild;
    svg.querySelector(".chosen")?.remove();
    element("rect", { x: a, y: frame.top, width: b - a, height: frame.bottom - frame.top, fill: "currentColor", "fill-opacity": 0.12, class: "chosen" }, svg);
  });
  plot.addEventListener("pointerup", (event) => {
    if (began === null) return;
    const frame = frameOf(plot, plot.dataset.plot);
    const [a, b] = [began, pixel(event, plot)].sort((one, other) => one - other);
    began = null;
    if (b - a > 12) {
      zoom(frame.place(a), frame.place(b));
    } else {
      const found = nearest(frame.place(b));
      if (found !== null) show(found);
    }
  });
  plot.addEventListener("pointercancel", () => { began = null; });
  plot.addEventListener("pointerleave", () => { began = null; leave(); });
  plot.addEventListener("dblclick", () => zoom(...whole()));
});
document.querySelector("[data-plot=accuracy]").addEventListener("keydown", (event) => {
  const acts = {
    ArrowLeft: () => move(-1),
    ArrowRight: () => move(1),
    "+": () => about(0.5),
    "-": () => about(2),
    0: () => zoom(...whole()),
    Enter: () => chosen !== null && STEPS[chosen].report && document.querySelector("#card-link a").click(),
  };
  if (!(event.key in acts) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  acts[event.key]();
});
for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => about(Number(button.dataset.zoom)));
}
for (const button of document.querySelectorAll("[data-pan]")) {
  button.addEventListener("click", () => {
    const by = ((span[1] - span[0]) / 2) * Number(button.dataset.pan);
    zoom(span[0] + by, span[1] + by);
  });
}
document.getElementById("all").addEventListener("click", () => zoom(...whole()));
document.getElementById("scale").addEventListener("click", () => {
  even = !even;
  spread();
  draw();
});
spread();
draw();
new ResizeObserver(draw).observe(document.getElementById("main"));
