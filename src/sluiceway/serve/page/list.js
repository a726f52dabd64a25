/* The list of streams. Only the rows that can be seen are elements, so it may be as long as it likes. */

import { at, duration, element, number, percent } from "./words.js";

const ROW = 56, BEYOND = 6;
const ORDERS = {
  name: () => 0,
  error: (one, other) => (other.error_rate ?? -1) - (one.error_rate ?? -1),
  changes: (one, other) => other.entered + other.left - one.entered - one.left,
  newest: (one, other) => (other.came ?? 0) - (one.came ?? 0),
  oldest: (one, other) => (one.came ?? 0) - (other.came ?? 0),
};
const compare = new Intl.Collator("en", { numeric: true }).compare;

export const keyOf = (flow, stream) => JSON.stringify([flow, stream]);

export class StreamList {
  constructor(onChoose, now) {
    this.onChoose = onChoose;
    this.now = now; // the server's clock
    this.streams = new Map();
    this.flows = new Map();
    this.shown = [];
    this.elements = new Map();
    this.chosen = null;
    this.at = null;
    this.sorted = 0;
    this.list = at("list");
    this.rows = at("rows");
    this.searching = at("search");
    this.ordering = at("order");
    this.list.addEventListener("scroll", () => this.draw());
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("focus", () => this.point(this.at ?? this.chosen ?? this.shown[0]?.key, true));
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.choose(row.dataset.key);
    });
    for (const control of [this.searching, this.ordering])
      control.addEventListener("input", () => {
        this.sort();
        this.list.scrollTop = 0;
      });
    this.searching.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "Enter") return;
      event.preventDefault();
      this.at = this.shown[0]?.key ?? null;
      this.list.focus();
    });
    new ResizeObserver(() => this.draw()).observe(this.list);
  }

  take({ anew, streams, ended }) {
    if (anew) {
      this.streams.clear();
      this.flows.clear();
    }
    let listed = anew || ended.length > 0;
    for (const each of streams) {
      each.key = keyOf(each.flow, each.stream);
      const known = this.streams.get(each.key);
      if (known) Object.assign(known, each);
      else {
        listed = true;
        each.words = `${each.flow}/${each.stream}`.toLowerCase();
        this.streams.set(each.key, each);
        this.flows.set(each.flow, (this.flows.get(each.flow) ?? 0) + 1);
      }
    }
    for (const [flow, stream] of ended) {
      if (this.streams.delete(keyOf(flow, stream))) this.flows.set(flow, this.flows.get(flow) - 1);
      if (!this.flows.get(flow)) this.flows.delete(flow);
    }
    if (listed) this.sort();
    else if (this.ordering.value !== "name") this.sortSoon();
    else this.drawSoon();
  }

  /** An order that changes as one looks is no order: once in two seconds. */
  sortSoon() {
    this.drawSoon();
    this.waiting ??= setTimeout(() => this.sort(), Math.max(0, this.sorted + 2000 - Date.now()));
  }

  sort() {
    clearTimeout(this.waiting);
    this.waiting = undefined;
    this.sorted = Date.now();
    const words = this.searching.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const first = ORDERS[this.ordering.value];
    this.shown = [...this.streams.values()]
      .filter((each) => words.every((word) => each.words.includes(word)))
      .sort((one, other) => first(one, other) || compare(one.flow, other.flow) || compare(one.stream, other.stream));
    const all = this.streams.size, some = this.shown.length;
    at("count").textContent = some === all ? `${number(all)} ${all === 1 ? "stream" : "streams"}` : `${number(some)} of ${number(all)} streams`;
    this.rows.style.height = `${some * ROW}px`;
    this.drawSoon();
  }

  drawSoon() {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = undefined;
    const from = Math.max(0, Math.floor(this.list.scrollTop / ROW) - BEYOND);
    const until = Math.min(this.shown.length, Math.ceil((this.list.scrollTop + this.list.clientHeight) / ROW) + BEYOND);
    const wanted = new Set(this.shown.slice(from, until).map((each) => each.key));
    for (const [key, row] of this.elements)
      if (!wanted.has(key)) {
        row.remove();
        this.elements.delete(key);
      }
    for (let place = from; place < until; place++) this.drawRow(this.shown[place], place);
  }

  drawRow(stream, place) {
    let row = this.elements.get(stream.key);
    if (!row) {
      row = element("div", "row");
      row.dataset.key = stream.key;
      row.setAttribute("role", "option");
      row.append(...["name", "error", "about", "changed"].map((name) => element("span", name)));
      this.elements.set(stream.key, row);
      this.rows.append(row);
    }
    row.id = `row-${place}`;
    row.style.transform = `translateY(${place * ROW}px)`;
    row.setAttribute("aria-posinset", place + 1);
    row.setAttribute("aria-setsize", this.shown.length);
    row.setAttribute("aria-selected", stream.key === this.chosen);
    row.classList.toggle("at", stream.key === this.at);
    if (stream.key === this.at) this.list.setAttribute("aria-activedescendant", row.id);
    const [name, error, about, changed] = row.children;
    if (name.textContent !== stream.stream) name.replaceChildren(...bothEnds(stream.stream));
    write(error, stream.error_rate === null ? "" : `error ${percent(stream.error_lately ?? stream.error_rate)}`);
    const flow = this.flows.size > 1 ? `${stream.flow} · ` : "";
    write(about, `${flow}${number(stream.n_selected)} selected · version ${number(stream.version)}`);
    const changes = stream.entered || stream.left ? `+${number(stream.entered)} −${number(stream.left)}` : "";
    const age = stream.came === null ? "" : duration(Math.floor((this.now() - stream.came) / 1000) * 1000, 0);
    write(changed, [changes, age].filter(Boolean).join(" · "));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.list.clientHeight / ROW) - 1), last = this.shown.length - 1;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      const now = this.shown.findIndex((each) => each.key === this.at);
      const next = this.shown[Math.min(Math.max(now + steps[event.key], 0), last)];
      if (next) this.point(next.key, true);
    } else if (event.key === "Enter" || event.key === " ") {
      if (this.at !== null) this.choose(this.at);
    } else return;
    event.preventDefault();
  }

  point(key, visible) {
    this.at = key ?? null;
    const place = this.shown.findIndex((each) => each.key === this.at);
    if (visible && place >= 0) {
      const top = place * ROW, { scrollTop, clientHeight } = this.list;
      if (top < scrollTop) this.list.scrollTop = top;
      else if (top + ROW > scrollTop + clientHeight) this.list.scrollTop = top + ROW - clientHeight;
    }
    this.draw();
  }

  choose(key) {
    this.point(key, false);
    this.onChoose(...JSON.parse(key));
  }

  /** The one that is shown beside the list. */
  mark(key) {
    this.chosen = key;
    this.drawSoon();
  }
}

/** Names that begin alike often differ at their ends: what does not fit is left out before the last letters. */
function bothEnds(name) {
  const letters = Array.from(name), tail = letters.length > 20 ? letters.splice(-9) : [];
  return [element("span", "head", letters.join("")), element("span", "tail", tail.join(""))];
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
