/* A backtest's report: tables, curves and the timeline from what is in the page's own data. Before it come uPlot and
 * timeline.js. */
"use strict";

(() => {
  const { content, timing, timelines, left_out: leftOut } = JSON.parse(document.getElementById("data").textContent);
  const { variants } = content;
  const CHOSEN_AT_FIRST = 8, COLOURS = 8, DASHES = [[], [9, 4], [2, 3]];
  const find = (selector) => document.querySelector(selector);
  const number = (value, digits = 0) =>
    value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const percent = (value) => `${number(100 * value, 2)} %`;
  const share = (value) => number(value, 3);
  const brief = (value) => (value < 1000 ? String(Number(value.toPrecision(3))) : number(value));
  const MEASURES = {
    error: ["error", percent], balanced_accuracy: ["balanced accuracy", share], kappa: ["kappa", share],
    kappa_temporal: ["kappa temporal", share], kappa_m: ["kappa M", share], auc: ["AUC", share],
  };
  const COLUMNS = {
    ...MEASURES, n_selected: ["selected at the end", brief], ever_selected: ["selected ever", brief],
    stability: ["stability", share], churn_per_1000: ["churn per 1,000", brief], half_life: ["half-life", brief],
    state_bytes: ["state bytes", brief], cpu_us: ["\u00b5s an instance", brief], features_used: ["features used", brief],
    cost: ["cost", brief],
  };
  const LOWER_FIRST = new Set(["error", "n_selected", "ever_selected", "churn_per_1000", "state_bytes", "cpu_us", "features_used", "cost"]);
  const WAYS = {
    window: `over the last ${number(content.window_of_measures)}`, cumulative: "over all so far",
    fading: `fading by ${content.fading}`,
  };

  const element = (tag, more = {}, ...inside) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const drawn = (tag, attributes, ...inside) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...inside);
    return made;
  };
  const fill = (table, heads, rows) => {
    const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
    const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell ?? "\u2013"))));
    table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
    return body;
  };
  const options = (select, found) =>
    select.replaceChildren(...found.map(([value, text]) => element("option", { value, textContent: text })));

  const valueOf = (variant, name) =>
    ({ ...variant.measures, ...variant.selections, ...variant.costs, ...timing.variants?.[variant.number] })[name] ?? null;
  const judged = variants.some((variant) => variant.measures.error !== null);

  // -- variants: a colour and a dash each, ticked where their curves are drawn

  const order = ranked(judged ? "error" : "stability", false);
  const place = new Map(order.map((variant, rank) => [variant.number, rank]));
  const dashOf = (variant) => DASHES[Math.floor(place.get(variant.number) / COLOURS) % DASHES.length];
  const swatch = (variant) => {
    const line = drawn("line", {
      x1: 0, x2: 24, y1: 4, y2: 4, stroke: "currentColor", "stroke-width": 3, "stroke-dasharray": dashOf(variant).join(" "),
    });
    const made = drawn("svg", { class: "swatch", "aria-hidden": "true" }, line);
    made.style.color = `var(--c${place.get(variant.number) % COLOURS})`;
    return made;
  };
  const swatches = new Map(variants.map((variant) => [variant.number, swatch(variant)]));
  const chosen = new Set(order.slice(0, CHOSEN_AT_FIRST).map((variant) => variant.number));

  function ranked(name, backwards) {
    const sign = (LOWER_FIRST.has(name) ? 1 : -1) * (backwards ? -1 : 1);
    const values = new Map(variants.map((variant) => [variant, valueOf(variant, name)]));
    return [...variants].sort((one, other) => {
      const [a, b] = [values.get(one), values.get(other)];
      return a === null || b === null ? (a === null) - (b === null) : sign * (a - b) || one.number - other.number;
    });
  }

  const ticks = new Map(variants.map((variant) => {
    const tick = element("input", { type: "checkbox", checked: chosen.has(variant.number) });
    tick.addEventListener("change", () => {
      if (tick.checked) chosen.add(variant.number); else chosen.delete(variant.number);
      drawCurves();
    });
    return [variant.number, element("label", {}, ...(judged ? [tick, swatches.get(variant.number)] : []), variant.label)];
  }));

  function fillVariants(by, backwards) {
    const names = Object.keys(COLUMNS).filter((name) => variants.some((variant) => valueOf(variant, name) !== null));
    const table = find("#variants table"), sorted = ranked(by, backwards);
    const rows = fill(table, ["variant", ...names.map((name) => COLUMNS[name][0])], sorted.map((variant) => [
      ticks.get(variant.number),
      ...names.map((name) => (valueOf(variant, name) === null ? null : COLUMNS[name][1](valueOf(variant, name)))),
    ]));
    rows.forEach((row, rank) => row.classList.toggle("best", sorted[rank].number === content.best));
    names.forEach((name, column) => {
      const head = table.querySelectorAll("th")[column + 1], again = name === by && !backwards;
      const button = element("button", { type: "button" }, head.textContent);
      button.addEventListener("click", () => {
        fillVariants(name, again);
        find(`#variants th:nth-child(${column + 2}) button`).focus();
      });
      head.replaceChildren(button);
      if (name === by) head.ariaSort = LOWER_FIRST.has(name) === !backwards ? "ascending" : "descending";
    });
  }

  // -- curves

  let chart = null;
  const measure = find("#measure"), way = find("#way"), curveStream = find("#curve-stream");

  const curvesOf = (variant) => (curveStream.value ? variant.curves_of_streams[curveStream.value] : variant.curves);

  /** Where and what a curve shows; without its first place, a share of one instance. */
  const pointsOf = (curves) => {
    const first = curves.at.length > 100 ? 1 : 0, values = curves[way.value][measure.value];
    return [curves.at.slice(first), values ? values.slice(first) : curves.at.slice(first).fill(null)];
  };

  function beginCurves() {
    options(way, Object.entries(WAYS));
    const streams = [...new Set(variants.flatMap((variant) => Object.keys(variant.curves_of_streams)))];
    options(curveStream, [["", "all streams"], ...streams.map((name) => [name, name])]);
    curveStream.parentNode.hidden = !streams.length;
    listMeasures();
    measure.addEventListener("change", drawCurves);
    for (const select of [way, curveStream]) select.addEventListener("change", () => { listMeasures(); drawCurves(); });
    new ResizeObserver(() => chart && chart.setSize({ width: find("#chart").clientWidth, height: chart.height }))
      .observe(find("#chart"));
    find("#chart").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!chart || !step) return;
      const last = chart.data[0].length - 1, at = Math.min(Math.max((chart.cursor.idx ?? -step) + step, 0), last);
      chart.setCursor({ left: chart.valToPos(chart.data[0][at], "x"), top: 10 });
      event.preventDefault();
    });
  }

  function listMeasures() {
    const before = measure.value;
    const there = Object.keys(MEASURES).filter((name) =>
      variants.some((variant) => curvesOf(variant)?.[way.value][name]?.some((value) => value !== null)));
    options(measure, there.map((name) => [name, MEASURES[name][0]]));
    if (there.includes(before)) measure.value = before;
  }

  function drawCurves() {
    chart?.destroy();
    chart = null;
    if (!judged) return;
    const shown = order.filter((variant) => chosen.has(variant.number) && curvesOf(variant));
    const [title, written] = MEASURES[measure.value], host = find("#chart");
    const tables = shown.map((variant) => pointsOf(curvesOf(variant)));
    const data = tables.length > 1 ? uPlot.join(tables) : tables[0] ?? [[]];
    const { color } = getComputedStyle(document.body), line = getComputedStyle(find("nav")).borderTopColor;
    const axis = { stroke: color, font: "12px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    chart = new uPlot({
      width: host.clientWidth,
      height: Math.max(Math.min(host.clientWidth * 0.4, 380), 240),
      scales: { x: { time: false } },
      axes: [
        { ...axis, label: "instances judged", labelFont: axis.font, values: (_, places) => places.map((at) => number(at)) },
        { ...axis, size: 62, label: title, labelFont: axis.font, values: (_, values) => values.map((value) => tickText(value, written)) },
      ],
      cursor: { points: { size: 6 } },
      legend: { markers: { width: 3 } },
      series: [
        { label: "instances", value: (_, at) => (at === null ? "\u2013" : number(at)) },
        ...shown.map((variant) => ({
          label: variant.label, stroke: getComputedStyle(swatches.get(variant.number)).color, width: 2, dash: dashOf(variant),
          points: { show: false }, spanGaps: true, value: (_, value) => (value === null ? "\u2013" : written(value)),
        })),
      ],
    }, data, host);
    host.setAttribute("aria-label", `Curves of ${title}, ${WAYS[way.value]}, of ${shown.length} variants`);
    host.setAttribute("role", "group");
  }

  const tickText = (value, written) =>
    written === percent ? `${Number((100 * value).toFixed(3))} %` : String(Number(value.toFixed(6)));

  // -- the timeline

  const numbersOf = (packed) => {
    const text = atob(packed.data), bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
    return new { u2: Uint16Array, u4: Uint32Array, f4: Float32Array }[packed.type](bytes.buffer);
  };

  function beginTimeline() {
    const variant = find("#timeline-variant"), stream = find("#timeline-stream");
    if (!timelines.length) return;
    globalThis.timeline = new SelectionTimeline(find("#picture"));
    const there = new Set(timelines.map((line) => line.variant));
    options(variant, order.filter((own) => there.has(own.number)).map((own) => [own.number, own.label]));
    const listStreams = () => {
      const before = stream.value, found = timelines.filter((line) => line.variant === Number(variant.value));
      options(stream, found.map((line) => [line.stream, line.stream]));
      if (found.some((line) => line.stream === before)) stream.value = before;
      stream.parentNode.hidden = new Set(timelines.map((line) => line.stream)).size < 2;
    };
    const show = () => {
      const line = timelines.find((own) => own.variant === Number(variant.value) && own.stream === stream.value);
      timeline.load({ ...line, features: numbersOf(line.features), weights: numbersOf(line.weights) });
    };
    variant.addEventListener("change", () => { listStreams(); show(); });
    stream.addEventListener("change", show);
    listStreams();
    show();
    find("#left-out").textContent = leftOut
      ? `${number(leftOut)} more timelines would make this page too large; they are in the backtest's folder.` : "";
  }

  // -- steadiness, differences, known features

  /** A value and what it may lie between, on a line from `from` to `to`. */
  function whisker(value, low, high, from, to, mark) {
    const width = 170, at = (one) => 8 + ((Math.min(Math.max(one, from), to) - from) / (to - from || 1)) * (width - 16);
    const made = drawn("svg", { class: "plot", width, height: 20, "aria-hidden": "true" });
    made.append(drawn("line", { x1: at(mark), x2: at(mark), y1: 0, y2: 20, stroke: "var(--soft)", "stroke-dasharray": "2 2" }));
    if (low !== null && low !== undefined)
      made.append(drawn("line", { x1: at(low), x2: at(high), y1: 10, y2: 10, stroke: "var(--c0)", "stroke-width": 2 }));
    made.append(drawn("circle", { cx: at(value), cy: 10, r: 4, fill: "var(--c0)" }));
    return made;
  }

  function fillStability() {
    const rows = ranked("stability", false).filter((variant) => (variant.selections.stability ?? null) !== null);
    const spread = (variant) => {
      const found = Object.values(variant.streams).map((stream) => stream.selections).filter((own) => own && own.stability !== null);
      if (found.length === 1) return found[0].stability_interval ?? [null, null];
      const all = found.map((own) => own.stability);
      return [Math.min(...all), Math.max(...all)];
    };
    const several = content.streams > 1;
    find("#stability-note").textContent = rows.length
      ? `1 = always the same features, 0 = as by chance (Nogueira, Sechidis, Brown 2018). The line is ${several
        ? "from the least to the most steady stream."
        : "its interval of 95 %, over snapshots that lie far apart: these are not independent, so it is too narrow all the same."}`
      : "Too few snapshots, or always the same of all features: there is no measure of stability.";
    fill(find("#stability table"), ["variant", "stability", "from 0 to 1", "churn per 1,000", "half-life", "selected ever"],
      rows.map((variant) => {
        const { stability, churn_per_1000: churn, half_life: half, ever_selected: ever } = variant.selections;
        const [low, high] = spread(variant);
        return [variant.label, share(stability), whisker(stability, low, high, Math.min(0, low ?? 0), 1, 0),
          churn === null ? null : brief(churn), half === null ? "longer than the window" : brief(half), brief(ever)];
      }));
    find("#stability .wide").hidden = !rows.length;
    find("#alike").hidden = variants.length < 2 || variants.length > 40;
    if (find("#alike").hidden) return;
    const body = fill(find("#alike table"), ["", ...order.map((variant, rank) => String(rank + 1))],
      order.map((variant, rank) => [`${rank + 1}. ${variant.label}`, ...order.map((other) => number(content.jaccard[variant.number][other.number], 2))]));
    body.forEach((row, at) => order.forEach((other, column) => {
      const alike = content.jaccard[order[at].number][other.number];
      row.children[column + 1].style.background = `color-mix(in srgb, var(--c0) ${Math.round(45 * alike)}%, transparent)`;
    }));
  }

  function fillDifferences() {
    const rows = content.differences;
    find("#differences").hidden = !rows.length;
    if (!rows.length) return;
    const best = variants[content.best].label, points = (value) => number(100 * value, 2);
    find("#differences-note").textContent =
      `How many more of its predictions were wrong than those of the best one, ${best}, in points of per cent, on the same ` +
      "instances. The interval of 95 % is of a paired block bootstrap; p allows for the number of variants (Holm)" +
      (rows.some((row) => row.wilcoxon !== null) ? "; Wilcoxon's test looks at streams." : ".");
    const to = Math.max(...rows.map((row) => row.high), 0), from = Math.min(...rows.map((row) => row.low), 0);
    const wilcoxon = rows.some((row) => row.wilcoxon !== null);
    const sorted = [...rows].sort((one, other) => one.error - other.error);
    fill(find("#differences table"),
      ["variant", "points", "from", "to", "", "p (Holm)", ...(wilcoxon ? ["p (Wilcoxon)"] : []), "could be chance"],
      sorted.map((row) => [
        variants[row.variant].label, points(row.error), points(row.low), points(row.high),
        whisker(row.error, row.low, row.high, from, to, 0), share(row.holm),
        ...(wilcoxon ? [row.wilcoxon === null ? null : share(row.wilcoxon)] : []), row.could_be_chance ? "yes" : "no",
      ]));
  }

  function fillKnown() {
    const rows = order.filter((variant) => variant.known);
    find("#known").hidden = !rows.length;
    if (!rows.length) return;
    const delays = (variant) => {
      const found = Object.values(variant.streams).map((stream) => stream.known?.delays).filter(Boolean);
      return found.length === 1 ? found[0].map((delay) => (delay === null ? "never" : number(delay))).join(", ") : null;
    };
    fill(find("#known table"), ["variant", "precision", "recall", "versions until found"], rows.map((variant) => [
      variant.label, variant.known.precision === null ? null : share(variant.known.precision),
      variant.known.recall === null ? null : share(variant.known.recall), delays(variant),
    ]));
  }

  // -- what was replayed

  function fillAbout() {
    find("#sentence").textContent = `${content.sentence}.`;
    const dead = Object.values(content.dead_letters).reduce((sum, count) => sum + count, 0);
    const facts = [
      `${number(content.records)} records`, `${number(content.instances)} instances`, `${number(content.labelled)} labels`,
      ...(dead ? [`${number(dead)} dead letters`] : []),
      ...(content.streams ? [`${number(content.streams)} ${content.streams === 1 ? "stream" : "streams"}`] : []),
      ...(content.features ? [`${number(content.features)} features`] : []),
    ];
    find("#facts").textContent = facts.join(" \u00b7 ");
    const { source } = content;
    const rows = [
      ["topic", source.topic], ["from", source.from.map((at) => number(at)).join(", ")],
      ["to, exclusive", source.to.map((at) => number(at)).join(", ")],
      ["labels withheld for", content.label_delay ?? "no time"],
      ...(content.streams_chosen.length ? [["streams chosen", content.streams_chosen.join(", ")]] : []),
      ["made with", Object.entries(content.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
      ...Object.entries(content.dead_letters).map(([name, count]) => [`dead letters: ${name}`, number(count)]),
    ];
    find("#about table").replaceChildren(element("tbody", {}, ...rows.map(([name, value]) =>
      element("tr", {}, element("td", {}, name), element("td", {}, value)))));
    find("#settings").textContent = JSON.stringify(content.settings, null, 2);
  }

  fillAbout();
  fillVariants(judged ? "error" : "stability", false);
  find("#curves").hidden = !judged;
  find("#timeline").hidden = !timelines.length;
  if (judged) beginCurves();
  drawCurves();
  beginTimeline();
  fillStability();
  fillDifferences();
  fillKnown();
  find("nav").replaceChildren(...[...document.querySelectorAll("main > section:not([hidden])")].map((section) =>
    element("a", { href: `#${section.id}` }, section.querySelector("h2").textContent)));
  for (const query of ["(prefers-color-scheme: dark)", "print"])
    matchMedia(query).addEventListener("change", drawCurves);
})();
