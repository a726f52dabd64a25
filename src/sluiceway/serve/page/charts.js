/* Metrics over versions: one small picture for each. */

import { element, measure, number, percent } from "./words.js";

const HIGH = 100, SIDE = 4, TOP = 6, BOTTOM = 18;
const SHARES = new Set(["error_rate", "error lately"]);
const svg = (tag, attributes = {}) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

export class Charts {
  constructor(host, keep) {
    this.host = host;
    this.keep = keep;
    this.clear();
    new ResizeObserver(() => this.drawSoon()).observe(host);
  }

  clear() {
    this.series = new Map();
    this.figures = new Map();
    this.before = null;
    this.place = 0;
    this.host.replaceChildren();
  }

  append(version, metrics) {
    const { before } = this;
    this.place += before && version > before.version ? version - before.version : version;
    for (const [name, value] of Object.entries(metrics)) this.push(name, version, value);
    if (before && metrics.mistakes >= before.mistakes && version > before.version)
      this.push("error lately", version, (metrics.mistakes - before.mistakes) / (version - before.version));
    this.before = { version, mistakes: metrics.mistakes };
    this.drawSoon();
  }

  drawSoon() {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  push(name, version, value) {
    let points = this.series.get(name);
    if (!points) this.series.set(name, (points = []));
    points.push({ at: this.place, version, value });
    if (points.length > 1.25 * this.keep) points.splice(0, points.length - this.keep);
  }

  draw() {
    this.frame = undefined;
    const first = ["error lately", "error_rate"].filter((name) => this.series.has(name));
    const names = [...first, ...[...this.series.keys()].filter((name) => !first.includes(name))];
    let made = false;
    for (const name of names) {
      let figure = this.figures.get(name);
      if (!figure) {
        figure = element("figure");
        const caption = element("figcaption");
        caption.append(element("span", "", name.replaceAll("_", " ")), element("span"));
        figure.append(caption, svg("svg", { height: HIGH, role: "img" }), element("p"));
        this.figures.set(name, figure);
        made = true;
      }
    }
    if (made) this.host.replaceChildren(...names.map((name) => this.figures.get(name)));
    for (const name of names) this.fill(this.figures.get(name), name);
  }

  fill(figure, name) {
    const said = SHARES.has(name) ? percent : measure;
    const points = this.series.get(name).filter((point) => point.value !== null);
    const newest = points[points.length - 1];
    figure.querySelector("figcaption span:last-child").textContent = newest ? said(newest.value) : "–";
    const picture = figure.querySelector("svg"), wide = picture.clientWidth || 300;
    if (!newest) return picture.replaceChildren();
    const values = points.map((point) => point.value);
    const low = values.reduce((one, other) => Math.min(one, other)), high = values.reduce((one, other) => Math.max(one, other));
    const from = points[0].at, until = newest.at, base = HIGH - BOTTOM;
    const x = (point) => SIDE + ((wide - 2 * SIDE) * (point.at - from)) / (until - from || 1);
    const y = (point) => base - 4 - (base - 4 - TOP) * (high > low ? (point.value - low) / (high - low) : 0.5);
    const label = (text, attributes) => {
      const made = svg("text", { y: HIGH - 4, ...attributes });
      made.textContent = text;
      return made;
    };
    const line = points.map((point, place) => `${place ? "L" : "M"}${x(point).toFixed(1)} ${y(point).toFixed(1)}`).join("");
    picture.replaceChildren(
      svg("line", { class: "grid", x1: 0, x2: wide, y1: base + 0.5, y2: base + 0.5 }),
      svg("path", { class: "line", d: line }),
      svg("circle", { class: "dot-now", cx: x(newest), cy: y(newest), r: 3 }),
      label(`version ${number(points[0].version)}`, { x: SIDE }),
      label(number(newest.version), { x: wide - SIDE, "text-anchor": "end" })
    );
    const between = high > low ? `from ${said(low)} to ${said(high)}` : `always ${said(low)}`;
    figure.querySelector("p").textContent = between;
    picture.setAttribute("aria-label", `${name.replaceAll("_", " ")}: ${said(newest.value)} at version ${number(newest.version)}, ${between}`);
  }
}
