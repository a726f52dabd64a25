/* One stream: what it selects now, and how it came to. */

import { Charts } from "./charts.js";
import { at, duration, element, measure, moment, number, percent } from "./words.js";

const KEEP = 5000, ROWS = 50;

export class Detail {
  constructor() {
    this.timeline = null;
    this.charts = new Charts(at("charts"), KEEP);
    this.body = at("selected").tBodies[0];
    this.all = false;
    at("more").addEventListener("click", () => {
      this.all = !this.all;
      this.drawSelected();
    });
  }

  /** Another stream, or none. */
  show(flow, stream) {
    this.snapshot = null;
    this.came = this.ahead = null;
    this.lately = null;
    this.all = false;
    at("stream").hidden = flow === null;
    at("nothing").hidden = flow !== null;
    at("title").textContent = stream ?? "";
    at("operator").textContent = flow === null ? "" : `flow ${flow}`;
    at("ended").hidden = true;
    at("changes").textContent = "waiting for a snapshot";
    at("facts").replaceChildren();
    this.body.replaceChildren();
    at("more").hidden = true;
    this.restart();
  }

  restart() {
    this.timeline?.destroy();
    this.timeline = at("stream").hidden ? null : new SelectionTimeline(at("timeline"), { keep: KEEP });
    this.charts.clear();
  }

  take({ anew, points, snapshot }) {
    const known = this.snapshot;
    if (anew && known) { // connected again
      const goesOn = snapshot.generation === known.generation && snapshot.version >= known.version;
      if (goesOn) points = points.filter(([version]) => version > known.version);
      else this.restart();
    }
    at("ended").hidden = true;
    for (const [version, ts, generation, metrics, names, weights, came] of points) {
      const selected = names.map((feature, place) => ({ feature, weight: weights[place] }));
      this.timeline.append({ version, ts, generation, selected });
      this.charts.append(version, metrics);
      this.came = came;
      this.ahead = came !== null && ts > 0 ? came - ts : null;
    }
    this.snapshot = snapshot;
    this.drawSelected();
  }

  end() {
    at("ended").hidden = false;
    this.snapshot = null;
    at("facts").replaceChildren();
    at("changes").textContent = "";
    this.body.replaceChildren();
    at("more").hidden = true;
    this.restart();
  }

  /** What changes with the clock; `summary` is the stream's in the list. */
  drawFacts(summary, now) {
    const { snapshot } = this;
    if (!snapshot) return;
    const { mistakes, error_rate, ...others } = snapshot.metrics;
    const facts = {
      "error so far": error_rate === undefined ? null : percent(error_rate),
      "error lately": summary?.error_lately === null || summary === undefined ? null : percent(summary.error_lately),
      selected: number(snapshot.n_selected),
      version: number(snapshot.version),
      "instances seen": number(snapshot.seen),
      "newest snapshot": this.came === null ? "before this server began" : `${duration(now - this.came)} ago`,
      "newest data": snapshot.ts ? moment(snapshot.ts) : null,
      "lag, data to snapshot": this.ahead === null ? null : duration(this.ahead),
      generation: snapshot.generation ? number(snapshot.generation) : null,
      ...Object.fromEntries(Object.entries(others).map(([name, value]) => [name.replaceAll("_", " "), measure(value)])),
    };
    const told = Object.entries(facts).filter(([, value]) => value !== null);
    const host = at("facts");
    while (host.children.length > told.length) host.lastChild.remove();
    told.forEach(([name, value], place) => {
      let fact = host.children[place];
      if (!fact) {
        fact = element("div");
        fact.append(element("dt"), element("dd"));
        host.append(fact);
      }
      if (fact.firstChild.textContent !== name) fact.firstChild.textContent = name;
      if (fact.lastChild.textContent !== value) fact.lastChild.textContent = value;
    });
  }

  drawSelected() {
    const { snapshot } = this;
    if (!snapshot) return;
    const { flow, operator, params, selected, entered, left, reason } = snapshot;
    const settings = Object.entries(params).map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`);
    at("operator").textContent = `flow ${flow} · ${operator}${settings.length ? ` (${settings.join(", ")})` : ""}`;
    const why = { interval: "made at its interval", change: "made for a change", final: "the final one" }[reason] ?? reason;
    at("changes").textContent = `${number(entered.length)} entered, ${number(left.length)} left with the newest snapshot, ${why}.`;
    const fresh = new Set(entered), largest = Math.max(...selected.map((entry) => Math.abs(entry.weight)), 0) || 1;
    const shown = this.all ? selected : selected.slice(0, ROWS);
    const rows = shown.map((entry) => this.row(entry, fresh.has(entry.feature), largest));
    this.body.replaceChildren(...rows, ...left.slice(0, this.all ? Infinity : ROWS).map(gone));
    if (!selected.length) this.body.prepend(note("Nothing is selected."));
    const beyond = snapshot.n_selected - selected.length, hidden = selected.length - shown.length + Math.max(0, left.length - ROWS) * !this.all;
    const more = at("more");
    more.hidden = selected.length <= ROWS && left.length <= ROWS;
    more.textContent = this.all ? "Show less" : `Show ${number(hidden)} more`;
    if (beyond > 0) this.body.append(note(`and ${number(beyond)} more that the snapshot does not list`));
  }

  row({ feature, weight, since, class: of }, isFresh, largest) {
    const row = element("tr"), name = element("td", "feature", feature), bar = element("td", "bar");
    if (of !== undefined && of !== null) name.append(element("span", "tag", `${of}`));
    if (isFresh) name.append(element("span", "tag entered", "entered"));
    const filled = element("div", weight < 0 ? "negative" : "");
    filled.style.width = `${(100 * Math.abs(weight)) / largest}%`;
    bar.append(filled);
    row.append(name, element("td", "number", measure(weight)), bar, element("td", "number", number(since)));
    return row;
  }
}

function note(text) {
  const row = element("tr"), cell = element("td", "left", text);
  cell.colSpan = 4;
  row.append(cell);
  return row;
}

function gone(feature) {
  const row = element("tr", "left"), name = element("td", "feature", feature), rest = element("td");
  name.append(element("span", "tag gone", "left"));
  rest.colSpan = 3;
  row.append(name, rest);
  return row;
}
