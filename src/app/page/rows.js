// The table of filters. It holds any number of rows, and has elements only for those in view.
import { KINDS, otherOf, STATES } from "./advice.js";
import { make, stateMark, bar } from "./draw.js";
import { bytes, count, duration, exact, percent } from "./figures.js";
import { quoted, shownKey, shownText } from "./key.js";

const ROW_HEIGHT = 52;  // as in page.css
const SPARE = 6;  // rows above and below those in view

// What the heads mean, for those whose word is short.
const MEANINGS = { share: "Items, of those that it has room for", rate: "How often it wrongly says yes, now", asked: "The rate that was asked for", about: "Its kind, its database, its deadline and its mirror" };

// An overfilled filter has more items than it counts: those that it took for known ones by mistake. One that forgets has room for
// more than it has to remember.
function share(filter) {
  if (filter.state === "overfilled") return Math.max(filter.items, filter.items_estimated ?? 0) / filter.capacity;
  return filter.kind === "window" ? filter.fill : filter.items / filter.capacity;
}
const COLUMNS = [
  { id: "state", title: "State", value: (filter) => STATES[filter.state].rank * 1e6 - Math.min(1e5, filter.false_positive_rate_asked === null ? 0 : filter.false_positive_rate_now / filter.false_positive_rate_asked) },
  { id: "key", title: "Key", value: (filter) => filter.shown },
  { id: "about", title: "Kind", value: (filter) => KINDS[filter.kind] },
  { id: "share", title: "Used", value: share, number: true },
  { id: "rate", title: "Rate", value: (filter) => filter.false_positive_rate_now, number: true },
  { id: "asked", title: "Asked", value: (filter) => filter.false_positive_rate_asked ?? 0, number: true },
  { id: "bytes", title: "Memory", value: (filter) => filter.memory_bytes, number: true },
  { id: "layers", title: "Layers", value: (filter) => filter.layer_count, number: true },
];
// Kind, database, deadline and mirror, as far as there are some.
function aboutOf(filter) {
  const mirror = filter.mirror;
  return [KINDS[filter.kind], filter.database === 0 ? "" : `database ${filter.database}`,
    filter.deadline_time_seconds === null ? "" : `expires in ${duration(Math.max(0, filter.deadline_time_seconds - Date.now() / 1000))}`,
    mirror ? `${mirror.state === "broken" ? "broken mirror" : "mirror"} ${mirror.role === "source" ? "to" : "of"} ${shownText(otherOf(filter))}` : ""].filter(Boolean).join(", ");
}
const compareText = (one, other) => (one < other ? -1 : one > other ? 1 : 0);

export class Rows {
  #all = [];
  #shown = [];
  #sort = { column: COLUMNS[0], down: false };
  #active = 0;
  #drawnFrom = 0;
  #elements = [];
  #frame = 0;
  #opened = "";

  // `open` is called with the filter of a row that is chosen.
  constructor(scroller, head, body, open) {
    this.scroller = scroller;
    this.body = body;
    this.open = open;
    this.search = "";
    this.only = "";
    head.append(...COLUMNS.map((column) => this.#headOf(column)));
    this.heads = [...head.children];
    this.above = make("tr", { class: "gap", "aria-hidden": "true" });
    this.below = this.above.cloneNode();
    body.append(this.above, this.below);
    scroller.addEventListener("scroll", () => this.#drawSoon(), { passive: true });
    scroller.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#drawSoon()).observe(scroller);
    this.#markSort();
  }

  get shownCount() { return this.#shown.length; }
  get listedCount() { return this.#all.length; }

  set(filters) {
    for (const filter of filters) {
      filter.shown = shownText(filter);
      filter.lower = `${filter.key}\n${filter.shown}`.toLowerCase();
    }
    this.#all = filters;
    this.arrange();
  }

  opened(id) {
    this.#opened = id;
    this.#draw();
  }

  // After a change of the search, the choice or the order.
  arrange() {
    const text = this.search.toLowerCase();
    this.#shown = this.#all.filter((filter) => (!this.only || filter.state === this.only) && (!text || filter.lower.includes(text)));
    const { value } = this.#sort.column, sign = this.#sort.down ? -1 : 1;
    const keyed = this.#shown.map((filter) => [value(filter), filter]);
    keyed.sort((one, other) => sign * compareText(one[0], other[0]) || compareText(one[1].shown, other[1].shown) || one[1].database - other[1].database);
    this.#shown = keyed.map((pair) => pair[1]);
    this.#active = Math.min(this.#active, Math.max(0, this.#shown.length - 1));
    this.body.parentElement.setAttribute("aria-rowcount", this.#shown.length + 1);
    this.#draw();
  }

  #headOf(column) {
    const button = make("button", { type: "button", title: MEANINGS[column.id] ?? null }, column.title);
    button.addEventListener("click", () => {
      const same = this.#sort.column === column;
      this.#sort = { column, down: same ? !this.#sort.down : Boolean(column.number) };
      this.#markSort();
      this.scroller.scrollTop = 0;
      this.#active = 0;
      this.arrange();
    });
    return make("th", { scope: "col", role: "columnheader", class: `c-${column.id}${column.number ? " number" : ""}` }, button);
  }

  #markSort() {
    COLUMNS.forEach((column, i) => {
      const sorted = this.#sort.column === column;
      const head = this.heads[i];
      if (sorted) head.setAttribute("aria-sort", this.#sort.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      head.firstChild.textContent = column.title + (sorted ? (this.#sort.down ? " \u2193" : " \u2191") : "");
    });
  }

  #drawSoon() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => { this.#frame = 0; this.#draw(); });
  }

  #draw() {
    const had = this.body.contains(document.activeElement);
    const wanted = Math.ceil(this.scroller.clientHeight / ROW_HEIGHT) + 2 * SPARE;
    // There may be fewer rows than before, and the position of the scroller follows only once they are drawn.
    const last = Math.max(0, this.#shown.length - wanted);
    const from = Math.min(last, Math.max(0, Math.floor(this.scroller.scrollTop / ROW_HEIGHT) - SPARE));
    const to = Math.min(this.#shown.length, from + wanted);
    while (this.#elements.length < to - from) this.#elements.push(this.#element());
    this.#drawnFrom = from;
    this.above.style.height = `${from * ROW_HEIGHT}px`;
    this.below.style.height = `${(this.#shown.length - to) * ROW_HEIGHT}px`;
    this.#elements.forEach((row, i) => {
      if (from + i < to) this.#fill(row, from + i);
      else if (row.isConnected) row.remove();
    });
    if (had && this.#active >= from && this.#active < to) this.#elements[this.#active - from].key.focus({ preventScroll: true });
  }

  #element() {
    const key = make("button", { class: "key", type: "button" });
    const cells = COLUMNS.map((column) => make(column.id === "key" ? "th" : "td", { class: `c-${column.id}${column.number ? " number" : ""}`, ...(column.id === "key" ? { scope: "row", role: "rowheader" } : { role: "cell" }) }));
    const row = make("tr", { class: "row", role: "row" }, ...cells);
    cells[1].append(key);
    row.addEventListener("click", () => { this.#active = row.index; this.open(this.#shown[row.index]); });
    return Object.assign(row, { key, of: null });
  }

  #fill(row, index) {
    const filter = this.#shown[index];
    row.index = index;
    row.setAttribute("aria-rowindex", index + 2);
    row.classList.toggle("open", filter.id === this.#opened);
    row.key.tabIndex = index === this.#active ? 0 : -1;
    if (!row.isConnected) this.below.before(row);
    if (row.of === filter) return;
    row.of = filter;
    const tone = STATES[filter.state].tone;
    const [state, , about, room, rate, asked, memory, layers] = row.children;
    state.replaceChildren(stateMark(STATES[filter.state].word, tone));
    row.key.replaceChildren(shownKey(filter, true));
    row.key.title = quoted(filter);
    about.textContent = aboutOf(filter);
    about.title = about.textContent;
    room.replaceChildren(percent(share(filter)), bar(share(filter), "bar", tone === "good" ? "" : tone));
    room.title = filter.kind === "window" ? `${exact(filter.items)} items` : `${exact(filter.items)} of ${exact(filter.capacity)} items`;
    rate.textContent = percent(filter.false_positive_rate_now);
    asked.textContent = filter.false_positive_rate_asked === null ? "none" : percent(filter.false_positive_rate_asked);
    memory.textContent = bytes(filter.memory_bytes);
    layers.textContent = count(filter.layer_count);
  }

  #key(event) {
    if (event.target.closest("thead")) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || this.#shown.length === 0) return;
    event.preventDefault();
    const begins = event.target === this.scroller;  // the first key enters the rows
    this.#active = begins && event.key === "ArrowDown" ? this.#active : Math.min(this.#shown.length - 1, Math.max(0, this.#active + steps[event.key]));
    const top = this.#active * ROW_HEIGHT;
    const room = this.scroller.clientHeight - 2 * ROW_HEIGHT;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
    this.#draw();
    this.#elements[this.#active - this.#drawnFrom].key.focus({ preventScroll: true });
  }
}
