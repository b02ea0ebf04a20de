// Makes elements. Texts become text nodes only, so no key can be read as HTML.

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(attribute, "");
    else if (value !== false && value !== null) element.setAttribute(attribute, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Without a secure context a browser has no clipboard for a script, but copies what is selected.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = make("textarea", { readonly: true, class: "copied" });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("the browser refused");
}

export function copyButton(text, what) {
  const button = make("button", { type: "button", class: "copy", "aria-label": `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await copy(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
}

// A line that can be sent as it is, with its button.
export const copied = (line) => [make("code", {}, line), " ", copyButton(line, line)];

function drawn(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  element.append(...children);
  return element;
}

// Each state has a shape of its own.
const SHAPES = {
  good: ["circle", { cx: 7, cy: 7, r: 5.5 }],
  warn: ["path", { d: "M7 1 13.5 13H.5Z" }],
  bad: ["path", { d: "M4.2.5h5.6l3.7 3.7v5.6l-3.7 3.7H4.2L.5 9.8V4.2Z" }],
};

export function stateMark(word, tone) {
  const [shape, attributes] = SHAPES[tone];
  const picture = drawn("svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" },
    drawn(shape, { ...attributes, fill: "currentColor" }));
  return make("span", { class: `state ${tone}` }, picture, word);
}

// A bar that is filled to a share of 0 to 1. The text beside it says the same.
export function bar(share, kind, tone = "") {
  return drawn("svg", { class: `${kind} ${tone}`, viewBox: "0 0 100 8", width: 100, height: 8, preserveAspectRatio: "none", "aria-hidden": "true" },
    drawn("rect", { class: "track", width: 100, height: 8, fill: "#ccc" }),
    drawn("rect", { class: "part", width: 100 * Math.min(1, Math.max(0, share)), height: 8, fill: "#2457a6" }));
}

export function spark(values) {
  const top = Math.max(...values, 1e-9);
  const step = 100 / Math.max(1, values.length - 1);
  const points = values.map((value, i) => `${(i * step).toFixed(1)},${(27 - 25 * value / top).toFixed(1)}`).join(" ");
  return drawn("svg", { class: "spark", viewBox: "0 0 100 28", width: 100, height: 28, preserveAspectRatio: "none", "aria-hidden": "true" },
    drawn("polyline", { class: "curve", points, fill: "none", stroke: "currentColor" }));
}

export function table(caption, head, rows, kind = "plain") {
  return make("div", { class: "wide" }, make("table", { class: kind },
    caption ? make("caption", {}, caption) : null,
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, i) => make(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : {}, cell)))))));
}

const WIDTH = 380, HEIGHT = 220, LEFT = 52, RIGHT = 12, TOP = 14, BOTTOM = 36;

// A step of 1, 2 or 5 times a power of ten, so that about four steps make `range`.
function stepOf(range) {
  const raw = range / 4, unit = 10 ** Math.floor(Math.log10(raw));
  return unit * [1, 2, 5, 10].find((factor) => factor * unit >= raw);
}

// { title, said, points: [[x, y]], xRange, xText, xTitle, yText, yMax?, yLeast?, line?: { y, text }, today?: { x, y, text, above }, head }
// `said` tells a reader without the picture what is in it; the figures are in a table behind it.
export function chart(about) {
  const [xMin, xMax] = about.xRange;
  const highest = Math.max(...about.points.map((point) => point[1]), about.line?.y ?? 0, about.today?.y ?? 0, about.yLeast ?? 1e-12);
  const yStep = stepOf(about.yMax ?? highest * 1.08);
  const yMax = about.yMax ?? Math.ceil(highest * 1.08 / yStep) * yStep;
  const x = (value) => LEFT + (WIDTH - LEFT - RIGHT) * (Math.min(xMax, Math.max(xMin, value)) - xMin) / (xMax - xMin);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / yMax);
  const floor = HEIGHT - BOTTOM;
  const parts = [drawn("title", {}, about.title), drawn("desc", {}, about.said)];
  for (let value = 0; value <= yMax * 1.001; value += yStep)
    parts.push(drawn("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), stroke: "#999" }),
      drawn("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, about.yText(value)));
  const xSteps = 3;
  for (let i = 0; i <= xSteps; ++i) {
    const value = xMin + (xMax - xMin) * i / xSteps;
    parts.push(drawn("text", { x: x(value), y: floor + 16, "text-anchor": i === xSteps ? "end" : i === 0 ? "start" : "middle" }, about.xText(value)));
  }
  parts.push(drawn("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, about.xTitle));
  const line = about.points.map((point) => `${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`);
  if (line.length > 1) {
    const last = about.points[about.points.length - 1][0];
    parts.push(drawn("path", { class: "area", d: `M${line.join("L")}L${x(last).toFixed(1)} ${floor}L${x(about.points[0][0]).toFixed(1)} ${floor}Z`, "fill-opacity": ".15" }));
    parts.push(drawn("path", { class: "curve", d: `M${line.join("L")}`, fill: "none", stroke: "currentColor" }));
  } else if (line.length === 1) {
    parts.push(drawn("circle", { class: "today", cx: x(about.points[0][0]), cy: y(about.points[0][1]), r: 4 }));
  }
  if (about.line)
    parts.push(drawn("line", { class: "asked", x1: LEFT, x2: WIDTH - RIGHT, y1: y(about.line.y), y2: y(about.line.y), stroke: "currentColor" }),
      drawn("text", { class: "asked-text", x: LEFT + 4, y: y(about.line.y) - 5 }, about.line.text));
  if (about.today) {
    const at = x(about.today.x), right = at > WIDTH * 0.6;
    parts.push(drawn("circle", { class: about.today.above ? "today above" : "today", cx: at, cy: y(about.today.y), r: 6 }),
      drawn("text", { class: "today-text", x: at + (right ? -11 : 11), y: Math.max(TOP + 8, y(about.today.y) - (about.line ? 16 : 8)), "text-anchor": right ? "end" : "start" }, about.today.text));
  }
  const picture = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": `${about.title}. ${about.said}` }, ...parts);
  const rows = about.points.map((point) => [about.xText(point[0]), about.yText(point[1])]);
  const figures = make("details", {}, make("summary", {}, "The figures as a table"),
    make("div", { class: "figures", tabindex: "0", role: "region", "aria-label": `Figures: ${about.title}` }, table("", about.head, rows)));
  return make("figure", {}, make("figcaption", {}, about.title), picture, figures);
}
