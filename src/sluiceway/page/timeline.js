/* The timeline of selected features: features down, versions across, shaded by weight. A classic script of its own, with
 * timeline.css beside it, both linked to or written into a page; it needs nothing else and no network.
 *
 *     const timeline = new SelectionTimeline(document.getElementById("here"), { keep: 5000 });
 *     timeline.append(snapshot);        // one more, as it stands on a topic of selections; drawn at the next frame
 *     timeline.load({ versions, ts, names, indptr, features, weights });        // instead, many at once
 *     timeline.search("word"); timeline.order("entry" | "weight" | "held"); timeline.clear(); timeline.destroy();
 *
 * `load` takes arrays: snapshot i has the features (numbers of names) and weights from indptr[i] to indptr[i + 1].
 * `keep` bounds what a page that stays open holds: the oldest snapshots beyond it are forgotten; without it all are kept.
 * A snapshot whose version stands there already is left out, so that a page may read a topic again. The element gets its
 * height from what there is to show, its colours from `color-scheme`. Keys, when the picture has the focus: arrows go
 * from cell to cell, Shift and an arrow moves the picture, + and - zoom, 0 shows all, / searches.
 */
"use strict";

globalThis.SelectionTimeline = (() => {
  const AXIS = 26, ROW = 18, HEIGHT_MOST = 520, HEIGHT_LEAST = 90, LABELLED = 11, SHADES = 255, TABLE = 100;
  const ORDERS = { entry: "first entry", weight: "weight now", held: "time held" };
  const number = (value) => value.toLocaleString("en");
  const counted = (count, what) => `${number(count)} ${what}${count === 1 ? "" : "s"}`;

  /** A typed array that grows. */
  class Column {
    constructor(type) { this.values = new type(64); this.length = 0; }
    reserve(room) {
      if (room <= this.values.length) return;
      const larger = new this.values.constructor(Math.max(room, 2 * this.values.length));
      larger.set(this.values.subarray(0, this.length));
      this.values = larger;
    }
    push(value) {
      this.reserve(this.length + 1);
      this.values[this.length++] = value;
    }
    extend(values) {
      this.reserve(this.length + values.length);
      this.values.set(values, this.length);
      this.length += values.length;
    }
    last() { return this.values[this.length - 1]; }
  }

  /** Snapshots in order: which features each has, with what weight. */
  class Snapshots {
    constructor() {
      this.names = [];
      this.numbers = new Map();
      this.at = new Column(Float64Array); // where it stands across: versions, also of a new generation, never go back
      this.versions = new Column(Float64Array);
      this.times = new Column(Float64Array);
      this.begin = new Column(Int32Array);
      this.begin.push(0);
      this.features = new Column(Int32Array);
      this.weights = new Column(Float32Array);
    }

    get length() { return this.versions.length; }

    add(version, time, entries) {
      this.stand(version, time);
      for (const entry of entries) {
        this.features.push(this.numberOf(entry.feature));
        this.weights.push(entry.weight);
      }
      this.begin.push(this.features.length);
    }

    stand(version, time) {
      const before = this.length ? this.versions.last() : 0;
      const step = this.length && version <= before ? Math.max(version, 1) : version - before;
      this.at.push((this.length ? this.at.last() : 0) + step);
      this.versions.push(version);
      this.times.push(time || 0);
    }

    numberOf(name) {
      let found = this.numbers.get(name);
      if (found === undefined) {
        found = this.names.push(name) - 1;
        this.numbers.set(name, found);
      }
      return found;
    }

    load({ versions, ts = [], names, indptr, features, weights }) {
      for (const name of names) this.numberOf(name);
      versions.forEach((version, i) => this.stand(version, ts[i]));
      this.begin = new Column(Int32Array);
      this.begin.extend(indptr);
      this.features.extend(features);
      this.weights.extend(weights);
    }

    /** A copy of the newest, with the features that these have. */
    newest(count) {
      const kept = new Snapshots();
      for (let i = this.length - count; i < this.length; i++) {
        const entries = [];
        for (let cell = this.begin.values[i]; cell < this.begin.values[i + 1]; cell++)
          entries.push({ feature: this.names[this.features.values[cell]], weight: this.weights.values[cell] });
        kept.add(this.versions.values[i], this.times.values[i], entries);
      }
      return kept;
    }

    /** Up to where a snapshot holds: the next one, or as far again as it lies from the one before. */
    until(i) {
      const at = this.at.values;
      if (i + 1 < this.length) return at[i + 1];
      return at[i] + (i > 0 ? at[i] - at[i - 1] : Math.max(at[i], 1));
    }

    /** The snapshot that holds at a place; -1 before the first. */
    holding(place) {
      let low = 0, high = this.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.at.values[middle] <= place) low = middle + 1; else high = middle;
      }
      return low - 1;
    }

    /** Of every feature: how long it was selected, its weight at the end, and the largest it had. */
    summary() {
      const count = this.names.length;
      const held = new Float64Array(count), now = new Float32Array(count), most = new Float32Array(count);
      const first = new Int32Array(count).fill(-1);
      const { features, weights, begin } = this;
      for (let i = 0; i < this.length; i++) {
        const width = this.until(i) - this.at.values[i], newest = i === this.length - 1;
        for (let cell = begin.values[i]; cell < begin.values[i + 1]; cell++) {
          const feature = features.values[cell], weight = weights.values[cell], size = Math.abs(weight);
          held[feature] += width;
          if (size > most[feature]) most[feature] = size;
          if (newest) now[feature] = weight;
          if (first[feature] < 0) first[feature] = i;
        }
      }
      return { held, now, most, first };
    }

    weightOf(feature, i) {
      for (let cell = this.begin.values[i]; cell < this.begin.values[i + 1]; cell++)
        if (this.features.values[cell] === feature) return this.weights.values[cell];
      return null;
    }

    hasNegative() { return this.weights.values.subarray(0, this.weights.length).some((weight) => weight < 0); }

    /** The weight that gets the full colour: of a hundred, one is larger. */
    largest() {
      const count = this.weights.length, step = Math.max(1, Math.floor(count / 20000));
      const sizes = [];
      for (let cell = 0; cell < count; cell += step) sizes.push(Math.abs(this.weights.values[cell]));
      sizes.sort((one, other) => one - other);
      return sizes[Math.floor(sizes.length * 0.99)] || sizes[sizes.length - 1] || 1;
    }
  }

  const element = (tag, className, more = {}) => Object.assign(document.createElement(tag), { className, ...more });

  class SelectionTimeline {
    constructor(host, { keep = Infinity } = {}) {
      this.keep = keep;
      this.snapshots = new Snapshots();
      this.text = "";
      this.by = "entry";
      this.view = null; // what is shown: all, or from x0 to x1 across and y0 to y1 down
      this.cursor = null;
      this._make(host);
      this._listen();
      this._changed();
    }

    append(snapshot) {
      const { snapshots, view } = this;
      const { version, ts, selected } = snapshot, generation = snapshot.generation ?? 0;
      if (snapshots.length && generation === (this.generation ?? 0) && version <= snapshots.versions.last()) return;
      this.generation = generation;
      const end = this._right();
      snapshots.add(version, ts, selected);
      if (snapshots.length > 1.25 * this.keep) {
        this.snapshots = snapshots.newest(this.keep);
        this.view = this.cursor = null;
      } else if (view && view.x1 >= end) { // at the newest: stay there
        const further = this._right() - view.x1;
        view.x0 += further;
        view.x1 += further;
      }
      this._changed();
    }

    load(columns) {
      this.clear();
      this.snapshots.load(columns);
      this._changed();
    }

    clear() {
      this.snapshots = new Snapshots();
      this.view = this.cursor = this.generation = null;
      this._changed();
    }

    search(text) {
      this.text = this.searching.value = text;
      this.view = this.cursor = null;
      this._changed();
    }

    order(by) {
      this.by = this.ordering.value = by;
      this.cursor = null;
      this._changed();
    }

    destroy() {
      this.ending.abort();
      this.watching.disconnect();
      cancelAnimationFrame(this.frame);
      this.root.remove();
    }

    _make(host) {
      this.root = element("div", "timeline");
      const bar = element("div", "timeline-bar");
      const label = (text, control) => {
        const wrapped = element("label", "", { textContent: text });
        wrapped.append(control);
        return wrapped;
      };
      this.searching = element("input", "", { type: "search", placeholder: "name", spellcheck: false });
      this.ordering = element("select", "");
      for (const [value, text] of Object.entries(ORDERS)) this.ordering.append(element("option", "", { value, text }));
      const button = (text, title, act) => {
        const made = element("button", "", { type: "button", textContent: text, title, ariaLabel: title });
        made.addEventListener("click", act);
        return made;
      };
      this.all = button("all", "Show all", () => this._look(null));
      const zooms = element("span", "timeline-zooms");
      zooms.append(
        button("+", "Zoom in", () => this._zoom(0.5)), button("\u2212", "Zoom out", () => this._zoom(2)), this.all
      );
      this.count = element("span", "timeline-count", { role: "status" });
      bar.append(label("search ", this.searching), label("order by ", this.ordering), zooms, this.count);

      this.plot = element("div", "timeline-plot");
      this.canvas = element("canvas", "", { tabIndex: 0 });
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute("aria-roledescription", "timeline");
      this.box = element("div", "timeline-box", { hidden: true });
      this.cross = element("div", "timeline-cross", { hidden: true });
      this.tip = element("div", "timeline-tip", { hidden: true });
      this.tip.setAttribute("aria-live", "polite");
      this.plot.append(this.canvas, this.cross, this.box, this.tip);

      this.legend = element("div", "timeline-legend");
      this.swatches = {};
      for (const [name, text] of [["negative", "negative weight"], ["paper", "not selected"], ["positive", "positive weight"]]) {
        const item = element("span", "", { textContent: text });
        item.prepend((this.swatches[name] = element("i", `timeline-${name}`)));
        this.legend.append(item);
      }
      this.legend.append(element("span", "timeline-hint", {
        textContent: "drag to zoom, double-click for all, Shift-drag to move; keys: arrows, + \u2212 0, /",
      }));
      this.details = element("details", "timeline-table");
      this.details.append(element("summary", "", { textContent: "as a table" }));
      this.root.append(bar, this.plot, this.legend, this.details);
      host.append(this.root);
    }

    _listen() {
      this.ending = new AbortController();
      const { signal } = this.ending;
      const on = (target, name, act, more = {}) => target.addEventListener(name, act, { signal, ...more });
      on(this.searching, "input", () => this.search(this.searching.value));
      on(this.ordering, "change", () => this.order(this.ordering.value));
      on(this.details, "toggle", () => this._fillTable());
      on(this.canvas, "keydown", (event) => this._key(event));
      on(this.canvas, "blur", () => this._point(null));
      on(this.canvas, "pointerdown", (event) => this._down(event));
      on(this.canvas, "pointermove", (event) => this._move(event));
      on(this.canvas, "pointerup", (event) => this._up(event));
      on(this.canvas, "pointercancel", (event) => this._up(event));
      on(this.canvas, "pointerleave", () => this.pointers.size || this._point(null));
      on(this.canvas, "dblclick", () => this._look(null));
      on(this.canvas, "wheel", (event) => this._wheel(event), { passive: false });
      this.pointers = new Map();
      for (const query of ["(prefers-color-scheme: dark)", "print"]) on(matchMedia(query), "change", () => this.draw());
      this.watching = new ResizeObserver(() => this._later());
      this.watching.observe(this.plot);
    }

    /** The data, their order or what is searched for are others. */
    _changed() {
      this.stale = true;
      this._later();
    }

    _later() {
      this.frame ??= requestAnimationFrame(() => this.draw());
    }

    /** Which row each feature has: none (-1) if its name is not what is searched for. */
    _arrange() {
      if (!this.stale) return;
      this.stale = false;
      const { snapshots } = this, { names } = snapshots;
      const wanted = this.text.trim().toLowerCase();
      this.about = snapshots.summary();
      this.scale = snapshots.largest();
      const { held, now, most, first } = this.about;
      const rows = [];
      for (let feature = 0; feature < names.length; feature++)
        if (!wanted || names[feature].toLowerCase().includes(wanted)) rows.push(feature);
      const larger = {
        entry: (a, b) => (first[a] >>> 0) - (first[b] >>> 0), // -1, which is never, becomes the largest
        weight: (a, b) => Math.abs(now[b]) - Math.abs(now[a]) || most[b] - most[a],
        held: (a, b) => held[b] - held[a],
      }[this.by];
      rows.sort((a, b) => larger(a, b) || a - b);
      this.rows = Int32Array.from(rows);
      this.rowOf = new Int32Array(names.length).fill(-1);
      this.rows.forEach((feature, row) => { this.rowOf[feature] = row; });
      const shown = `${wanted ? `${number(rows.length)} of ` : ""}${counted(names.length, "feature")}`;
      this.count.textContent = `${shown}, ${counted(snapshots.length, "snapshot")}`;
      this._fillTable();
    }

    _left() { return this.snapshots.length ? this.snapshots.at.values[0] : 0; }
    _right() { return this.snapshots.length ? this.snapshots.until(this.snapshots.length - 1) : 1; }
    _all() { return { x0: this._left(), x1: this._right(), y0: 0, y1: Math.max(this.rows.length, 1) }; }
    _shown() { return this.view ?? this._all(); }

    /** Show a part; all of it for null, or where the part is no smaller. */
    _look(view) {
      this._arrange();
      const all = this._all();
      if (view) {
        const fit = (low, high, from, to, least) => {
          const size = Math.min(Math.max(high - low, least), to - from);
          const start = Math.min(Math.max((low + high - size) / 2, from), to - size);
          return [start, start + size];
        };
        const narrowest = (all.x1 - all.x0) / Math.max(this.snapshots.length, 1);
        const [x0, x1] = fit(view.x0, view.x1, all.x0, all.x1, 2 * narrowest);
        const [y0, y1] = fit(view.y0, view.y1, all.y0, all.y1, 3);
        view = x0 <= all.x0 && x1 >= all.x1 && y0 <= 0 && y1 >= all.y1 ? null : { x0, x1, y0, y1 };
      }
      this.view = view;
      this._later();
    }

    _zoom(factor, x, y) {
      const { x0, x1, y0, y1 } = this._shown();
      x ??= (x0 + x1) / 2;
      y ??= (y0 + y1) / 2;
      this._look({
        x0: x - (x - x0) * factor, x1: x + (x1 - x) * factor, y0: y - (y - y0) * factor, y1: y + (y1 - y) * factor,
      });
    }

    _pan(across, down) {
      const all = this._all(), { x0, x1, y0, y1 } = this._shown();
      const x = Math.min(Math.max(across, all.x0 - x0), all.x1 - x1), y = Math.min(Math.max(down, -y0), all.y1 - y1);
      this._look({ x0: x0 + x, x1: x1 + x, y0: y0 + y, y1: y1 + y });
    }

    /** Draw now; whatever changes draws at the next frame by itself. */
    draw() {
      cancelAnimationFrame(this.frame);
      this.frame = null;
      this._arrange();
      const { canvas } = this, ratio = devicePixelRatio || 1;
      const wide = this.plot.clientWidth;
      if (!wide) return;
      const rows = Math.max(this.rows.length, 1);
      const high = Math.min(Math.max(rows * ROW, HEIGHT_LEAST), HEIGHT_MOST) + AXIS;
      this.gutter = Math.round(Math.min(Math.max(wide * 0.18, 84), 190));
      this.width = wide - this.gutter;
      this.height = high - AXIS;
      canvas.style.height = `${high}px`;
      if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
        canvas.width = Math.round(wide * ratio);
        canvas.height = Math.round(high * ratio);
      }
      const pen = canvas.getContext("2d");
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, canvas.width, canvas.height);
      const left = Math.round(this.gutter * ratio);
      const image = this._paint(canvas.width - left, Math.round(this.height * ratio), ratio);
      pen.putImageData(image, left, 0);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      const style = getComputedStyle(this.root);
      pen.fillStyle = style.color;
      pen.font = `12px ${style.fontFamily}`;
      this._names(pen);
      this._ticks(pen);
      const shown = this.snapshots.length ? "" : "no snapshots yet";
      pen.fillText(shown, this.gutter + 12, this.height / 2);
      canvas.setAttribute("aria-label", `Selected features: ${this.count.textContent}, ordered by ${ORDERS[this.by]}`);
      this.all.disabled = !this.view;
      this.swatches.negative.parentNode.hidden = !this.snapshots.hasNegative();
      this._showCursor();
    }

    /** A pixel has the colour of the largest weight in it, so that nothing is lost where many features share one. */
    _paint(width, height, ratio) {
      const { snapshots, rowOf } = this, { x0, x1, y0, y1 } = this._shown();
      const image = new ImageData(Math.max(width, 1), Math.max(height, 1));
      const peak = new Int16Array(image.width * image.height);
      const across = width / (x1 - x0), down = height / (y1 - y0);
      const gap = down >= 6 * ratio ? Math.round(ratio) : 0;
      const features = snapshots.features.values, weights = snapshots.weights.values, begin = snapshots.begin.values;
      const full = 1 / this.scale;
      for (let i = Math.max(snapshots.holding(x0), 0); i < snapshots.length && snapshots.at.values[i] < x1; i++) {
        const from = Math.max(Math.floor((snapshots.at.values[i] - x0) * across), 0);
        const to = Math.min(Math.max(Math.floor((snapshots.until(i) - x0) * across), from + 1), width);
        for (let cell = begin[i]; cell < begin[i + 1]; cell++) {
          const row = rowOf[features[cell]];
          if (row < y0 - 1 || row >= y1 || row < 0) continue;
          const weight = weights[cell], size = Math.abs(weight) * full;
          const shade = 1 + Math.floor((SHADES - 1) * Math.sqrt(size < 1 ? size : 1));
          const top = Math.floor((row - y0) * down), bottom = Math.max(Math.floor((row + 1 - y0) * down) - gap, top + 1);
          for (let y = top < 0 ? 0 : top; y < bottom && y < height; y++) {
            for (let at = y * width + from, end = y * width + to; at < end; at++) {
              const there = peak[at];
              if (shade > (there < 0 ? -there : there)) peak[at] = weight < 0 ? -shade : shade;
            }
          }
        }
      }
      const colours = this._colours(), pixels = new Uint32Array(image.data.buffer);
      for (let at = 0; at < peak.length; at++) pixels[at] = colours[peak[at] + SHADES];
      return image;
    }

    /** By shade, as a pixel has them; read from the legend, which has those of the page's colour scheme. */
    _colours() {
      const [negative, paper, positive] = ["negative", "paper", "positive"].map((name) => {
        const spelt = getComputedStyle(this.swatches[name]).backgroundColor;
        return spelt.match(/[\d.]+/g).slice(0, 3).map(Number);
      });
      const colours = new Uint32Array(2 * SHADES + 1), bytes = new Uint8Array(colours.buffer);
      for (let shade = -SHADES; shade <= SHADES; shade++) {
        const strength = shade === 0 ? 0 : 0.18 + (0.82 * Math.abs(shade)) / SHADES;
        const colour = shade < 0 ? negative : positive;
        for (let part = 0; part < 3; part++)
          bytes[4 * (shade + SHADES) + part] = Math.round(paper[part] + strength * (colour[part] - paper[part]));
        bytes[4 * (shade + SHADES) + 3] = 255;
      }
      return colours;
    }

    /** Names where the rows have room for them, else how many rows there are. */
    _names(pen) {
      const { y0, y1 } = this._shown(), down = this.height / (y1 - y0), room = this.gutter - 12;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      if (down >= LABELLED) {
        for (let row = Math.max(Math.floor(y0), 0); row < y1 && row < this.rows.length; row++) {
          const middle = (row + 0.5 - y0) * down;
          if (middle > 4 && middle < this.height - 4)
            pen.fillText(shortened(pen, this.snapshots.names[this.rows[row]], room), this.gutter - 6, middle);
        }
        return;
      }
      const step = Math.max(nice(30 / down), 1);
      for (let count = Math.max(Math.ceil(y0 / step), 1) * step; count <= y1; count += step) {
        const middle = (count - 0.5 - y0) * down;
        if (middle > 4 && middle < this.height - 4) pen.fillText(number(count), this.gutter - 6, middle);
      }
    }

    _ticks(pen) {
      const { snapshots } = this, { x0, x1 } = this._shown(), across = this.width / (x1 - x0);
      if (!snapshots.length) return;
      pen.textBaseline = "top";
      const step = Math.max(nice(84 / across), 1);
      for (let place = Math.ceil(x0 / step) * step; place <= x1; place += step) {
        const i = Math.max(snapshots.holding(place), 0), x = this.gutter + (place - x0) * across;
        const text = number(place - snapshots.at.values[i] + snapshots.versions.values[i]);
        const half = pen.measureText(text).width / 2;
        pen.fillRect(Math.round(x), this.height, 1, 4);
        pen.textAlign = "center";
        pen.fillText(text, Math.min(x, this.gutter + this.width - half), this.height + 8);
      }
      pen.textAlign = "right";
      pen.fillText("version", this.gutter - 6, this.height + 8);
    }

    /** What lies under a place: the row and the snapshot with the largest weight among those that share a pixel. */
    _cellAt(x, y) {
      const { snapshots } = this, { x0, x1, y0, y1 } = this._shown();
      const pixelWide = (x1 - x0) / this.width, pixelHigh = (y1 - y0) / this.height;
      const place = x0 + (x - this.gutter) * pixelWide, down = y0 + y * pixelHigh;
      const first = snapshots.holding(place), last = Math.max(snapshots.holding(place + pixelWide * 0.999), first);
      const top = Math.floor(down), bottom = Math.max(Math.floor(down + pixelHigh * 0.999), top);
      if (first < 0 || top < 0 || top >= this.rows.length) return null;
      let best = { row: top, snapshot: first }, most = -1;
      const there = new Set();
      for (let i = first; i <= last; i++) {
        for (let cell = snapshots.begin.values[i]; cell < snapshots.begin.values[i + 1]; cell++) {
          const row = this.rowOf[snapshots.features.values[cell]], size = Math.abs(snapshots.weights.values[cell]);
          if (row < top || row > bottom) continue;
          there.add(row);
          if (size > most) [best, most] = [{ row, snapshot: i }, size];
        }
      }
      return { ...best, others: Math.max(there.size - 1, 0) };
    }

    _point(cell) {
      this.cursor = cell;
      this._showCursor();
    }

    _showCursor() {
      const { cursor, snapshots } = this;
      this.tip.hidden = this.cross.hidden = !cursor || !this.rows.length || cursor.row >= this.rows.length;
      if (this.tip.hidden) return;
      const { x0, x1, y0, y1 } = this._shown(), across = this.width / (x1 - x0), down = this.height / (y1 - y0);
      const feature = this.rows[cursor.row], i = cursor.snapshot;
      const weight = snapshots.weightOf(feature, i), { held, first } = this.about;
      const time = snapshots.times.values[i] ? ` \u00b7 ${new Date(snapshots.times.values[i]).toISOString().slice(0, 19)}Z` : "";
      const share = Math.round((100 * held[feature]) / (this._right() - this._left()));
      const entered = first[feature] < 0 ? "never selected" : `first at version ${number(snapshots.versions.values[first[feature]])}`;
      this.tip.replaceChildren(
        element("b", "", { textContent: snapshots.names[feature] }),
        element("span", "", { textContent: `version ${number(snapshots.versions.values[i])}${time}` }),
        element("span", "", { textContent: weight === null ? "not selected" : `weight ${weight.toPrecision(4)}` }),
        element("span", "", { textContent: `${entered}, held ${share} % of the time` })
      );
      if (cursor.others) this.tip.append(element("span", "", { textContent: `and ${number(cursor.others)} more here` }));
      const x = this.gutter + Math.max((snapshots.at.values[i] - x0) * across, 0), y = Math.max((cursor.row - y0) * down, 0);
      Object.assign(this.cross.style, {
        left: `${this.gutter}px`, width: `${this.width}px`, top: `${y}px`, height: `${Math.max(down, 1)}px`,
      });
      const { offsetWidth: wide, offsetHeight: high } = this.tip;
      const right = x + 14 + wide <= this.gutter + this.width ? x + 14 : Math.max(x - wide - 14, 0);
      const below = y + Math.max(down, 1) + 8;
      this.tip.style.left = `${right}px`;
      this.tip.style.top = `${below + high <= this.height + AXIS ? below : Math.max(y - high - 8, 0)}px`;
    }

    _key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const { x0, x1, y0, y1 } = this._shown();
      const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      if (event.key in steps) {
        const [across, down] = steps[event.key];
        if (event.shiftKey) this._pan((across * (x1 - x0)) / 8, (down * (y1 - y0)) / 8);
        else this._step(across, down);
      } else if (event.key === "+" || event.key === "=") this._zoom(0.5, ...this._middle());
      else if (event.key === "-") this._zoom(2, ...this._middle());
      else if (event.key === "0") this._look(null);
      else if (event.key === "Escape") this._point(null);
      else if (event.key === "/") this.searching.focus();
      else return;
      event.preventDefault();
    }

    _middle() {
      const { cursor } = this;
      return cursor ? [this.snapshots.at.values[cursor.snapshot], cursor.row + 0.5] : [];
    }

    /** From cell to cell by keys; the picture follows. */
    _step(across, down) {
      const { snapshots } = this;
      if (!snapshots.length || !this.rows.length) return;
      const { x0, x1, y0, y1 } = this._shown();
      const within = (value, count) => Math.min(Math.max(value, 0), count - 1);
      const from = this.cursor ?? { snapshot: snapshots.holding(x1 - 1e-9) - across, row: Math.ceil(y0) - down };
      const snapshot = within(from.snapshot + across, snapshots.length), row = within(from.row + down, this.rows.length);
      const at = snapshots.at.values[snapshot];
      const x = at < x0 ? at - x0 : at >= x1 ? snapshots.until(snapshot) - x1 : 0;
      const y = row < y0 ? row - y0 : row + 1 > y1 ? row + 1 - y1 : 0;
      this.cursor = { row, snapshot, others: 0 };
      if (x || y) this._pan(x, y);
      this._showCursor();
    }

    _place(event) {
      const box = this.canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    }

    /** Where in the picture, in versions and rows. */
    _where({ x, y }) {
      const { x0, x1, y0, y1 } = this._shown();
      return [x0 + ((x - this.gutter) * (x1 - x0)) / this.width, y0 + (y * (y1 - y0)) / this.height];
    }

    _down(event) {
      if (event.button > 0) return;
      this.canvas.setPointerCapture(event.pointerId);
      const place = this._place(event);
      this.pointers.set(event.pointerId, { from: place, to: place });
      this.dragged = event.shiftKey || event.pointerType === "touch" ? "move" : "box";
    }

    _move(event) {
      const place = this._place(event), pointer = this.pointers.get(event.pointerId);
      if (!pointer) {
        const inside = place.x >= this.gutter && place.y < this.height;
        return this._point(inside ? this._cellAt(place.x, place.y) : null);
      }
      const before = pointer.to;
      pointer.to = place;
      if (this.pointers.size === 2) return this._pinch(pointer, before);
      if (this.dragged === "move") {
        const [x, y] = this._where(before), [toX, toY] = this._where(place);
        return this._pan(x - toX, y - toY);
      }
      const { left, top, width, height } = this._boxOf(pointer);
      this._point(null);
      this.box.hidden = false;
      Object.assign(this.box.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    }

    /** Two fingers: what was between them stays between them. */
    _pinch(moved, before) {
      const [other] = [...this.pointers.values()].filter((pointer) => pointer !== moved);
      const apart = (one) => Math.hypot(one.x - other.to.x, one.y - other.to.y) || 1;
      const middle = { x: (moved.to.x + other.to.x) / 2, y: (moved.to.y + other.to.y) / 2 };
      this._zoom(apart(before) / apart(moved.to), ...this._where(middle));
    }

    /** A box that is flat zooms across alone. */
    _boxOf({ from, to }) {
      const within = (value, low, high) => Math.min(Math.max(value, low), high);
      const left = within(Math.min(from.x, to.x), this.gutter, this.gutter + this.width);
      const right = within(Math.max(from.x, to.x), this.gutter, this.gutter + this.width);
      const flat = Math.abs(from.y - to.y) < 8;
      const top = flat ? 0 : within(Math.min(from.y, to.y), 0, this.height);
      const bottom = flat ? this.height : within(Math.max(from.y, to.y), 0, this.height);
      return { left, top, width: right - left, height: bottom - top };
    }

    _up(event) {
      const pointer = this.pointers.get(event.pointerId);
      this.pointers.delete(event.pointerId);
      this.box.hidden = true;
      if (!pointer || this.dragged !== "box" || event.type === "pointercancel") return;
      const { left, top, width, height } = this._boxOf(pointer);
      if (width < 5) return;
      const [x0, y0] = this._where({ x: left, y: top }), [x1, y1] = this._where({ x: left + width, y: top + height });
      this._look({ x0, x1, y0, y1 });
    }

    /** With Ctrl, which is what pinching a touchpad says, it zooms; without, the page scrolls as ever. */
    _wheel(event) {
      if (event.ctrlKey || event.metaKey) this._zoom(Math.exp(event.deltaY / 200), ...this._where(this._place(event)));
      else if (this.view && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
        const { x0, x1 } = this._shown();
        this._pan(((event.deltaX || event.deltaY) * (x1 - x0)) / this.width, 0);
      } else return;
      event.preventDefault();
    }

    /** The first rows in words, for those who do not see the picture. */
    _fillTable() {
      if (!this.details.open || !this.rows) return;
      const { snapshots, about } = this, span = this._right() - this._left();
      const table = element("table", "");
      const line = (tag, cells) => {
        const row = element("tr", "");
        row.append(...cells.map((text) => element(tag, "", { textContent: text })));
        return row;
      };
      table.append(line("th", ["feature", "weight now", "first entered at version", "held"]));
      for (const feature of this.rows.subarray(0, TABLE)) {
        const now = snapshots.length ? snapshots.weightOf(feature, snapshots.length - 1) : null;
        const first = about.first[feature];
        table.append(line("td", [
          snapshots.names[feature], now === null ? "\u2013" : now.toPrecision(4),
          first < 0 ? "\u2013" : number(snapshots.versions.values[first]), `${Math.round((100 * about.held[feature]) / span)} %`,
        ]));
      }
      const more = this.rows.length - TABLE;
      const rest = element("p", "", { textContent: more > 0 ? `and ${number(more)} more: search, or order them otherwise` : "" });
      this.details.replaceChildren(this.details.firstChild, table, rest);
    }
  }

  /** The next larger of 1, 2, 5, 10, 20, ... */
  function nice(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least);
  }

  function shortened(pen, name, room) {
    if (pen.measureText(name).width <= room) return name;
    let low = 0, high = name.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (pen.measureText(`${name.slice(0, middle)}\u2026`).width <= room) low = middle; else high = middle - 1;
    }
    return `${name.slice(0, low)}\u2026`;
  }

  return SelectionTimeline;
})();
