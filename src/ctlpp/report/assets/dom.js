// Elements, numbers, colours, and the packages of the runs. Text reaches the page through textContent alone.

const byId = (id) => document.getElementById(id);

function fill(element, children) {
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
    else if (name === "css") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  return fill(element, children);
}

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return fill(element, children);
}

function show(id, ...children) {
  byId(id).replaceChildren();
  return fill(byId(id), children);
}

// A select with options [value, text]; `change` gets the chosen value.
function picker(id, label, options, chosen, change) {
  const list = el("select", { id, on: { change: () => change(list.value) } });
  for (const [value, text] of options) list.append(el("option", { value }, text));
  list.value = String(chosen);
  return el("label", {}, label, list);
}

// Buttons of which one is pressed.
function segments(label, options, chosen, change) {
  return el("div", { class: "segments", role: "group", "aria-label": label },
    options.map(([value, text]) =>
      el("button", { type: "button", "data-value": value, "aria-pressed": String(value === chosen), on: { click: () => change(value) } }, text)));
}

const none = "n/a";
const known = (value) => typeof value === "number" && Number.isFinite(value);
const fixed = (value, digits = 2) => (known(value) ? (Number(value.toFixed(digits)) || 0).toFixed(digits).replace("-", "−") : none); // never −0.00
const signed = (value, digits = 2) => (known(value) && Number(value.toFixed(digits)) > 0 ? "+" : "") + fixed(value, digits);
const spread = (mean, std) => (known(mean) ? fixed(mean) + (known(std) ? ` ± ${fixed(std)}` : "") : none);
const range = (pair, text = fixed) => (pair && known(pair[0]) ? `[${text(pair[0])}, ${text(pair[1])}]` : none);
const thousands = (value) => (known(value) ? value.toLocaleString("en") : none);
const plural = (count, noun) => `${thousands(count)} ${noun}${count === 1 ? "" : "s"}`;
const unique = (values) => [...new Set(values)];
const average = (values) => { const own = values.filter(known); return own.length ? own.reduce((a, b) => a + b, 0) / own.length : null; };

// The standard deviation of a sample.
function deviation(values) {
  const mean = average(values);
  return values.length > 1 ? Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1)) : null;
}

const GROUPS = ["#0072B2", "#D55E00", "#56B4E9", "#E69F00", "#009E73", "#CC79A7"]; // Okabe and Ito
const groupColour = (index) => GROUPS[index % GROUPS.length];
const STOPS = ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"]
  .map((text) => [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16)));

// The colour of a number from 0 to 1, as [red, green, blue].
function heat(value) {
  const place = Math.min(Math.max(value, 0), 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(place), STOPS.length - 2);
  return STOPS[low].map((part, i) => Math.round(part + (place - low) * (STOPS[low + 1][i] - part)));
}

const rgb = (parts) => `rgb(${parts.join(",")})`;
const heatScale = () => svg("svg", { width: 90, height: 10, "aria-hidden": "true" }, STOPS.map((colour, at) => svg("rect", { x: 9 * at, width: 9.5, height: 10, fill: rgb(colour) })));

// The brightness of a colour, as contrasts are computed from it.
function luminance(parts) {
  const [red, green, blue] = parts.map((part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// Black or white, whichever can be read on a colour: the contrast is at least 4.58 : 1.
const inkOn = (parts) => (luminance(parts) > 0.179 ? "#000000" : "#ffffff");
const partsOf = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

// A table cell with its number as text and as colour.
function heatCell(value, text, attributes = {}) {
  if (!known(value)) return el("td", { ...attributes, class: `${attributes.class ?? ""} ${attributes.empty ?? "empty"}` }, attributes.empty ? "" : none);
  return el("td", { ...attributes, css: { background: rgb(heat(value)), color: inkOn(heat(value)) } }, text);
}

const data = JSON.parse(byId("data").textContent);
const titleOf = (model) => (Object.hasOwn(data.titles, model) ? data.titles[model] : model || "unknown model");
const unpacked = new Map();

// Facts and arrays of a run: deflated bytes behind base64; see package.py.
function packageOf(run) {
  if (!unpacked.has(run)) unpacked.set(run, unpack(byId(`run-${run}`).textContent));
  return unpacked.get(run);
}

async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const facts = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const arrays = {};
  for (const [name, [start, length]] of Object.entries(facts.arrays)) arrays[name] = bytes.subarray(4 + size + start, 4 + size + start + length);
  return { facts, arrays };
}

// Give the reader a file.
function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const button = (text, click, attributes = {}) => el("button", { type: "button", class: "plain", ...attributes, on: { click } }, text);

// A region that scrolls sideways by itself.
const scrolling = (label, ...children) => el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);

function tell(event, text) {
  const tip = byId("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 8))}px`;
  tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
}
