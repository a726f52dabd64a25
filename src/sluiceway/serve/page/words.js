/* Numbers, times and elements. Names from the topic become text, never markup. */

export const number = (value) => value.toLocaleString("en");

/** A number of four digits that count. */
export function measure(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return number(value);
  const size = Math.abs(value);
  return size >= 1e-4 && size < 1e7 ? value.toLocaleString("en", { maximumSignificantDigits: 4 }) : value.toExponential(2);
}

export const percent = (share) =>
  share === null || share === undefined ? "–" : `${(100 * share).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} %`;

/** 3 s, 5 min, 2 h, 4 d. */
export function duration(milliseconds, digits = 1) {
  const seconds = Math.max(0, milliseconds / 1000);
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]])
    if (seconds >= size) return `${number(Math.floor(seconds / size))} ${unit}`;
  return `${seconds < 10 ? seconds.toFixed(digits) : Math.floor(seconds)} s`;
}

export function moment(milliseconds) {
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? `${milliseconds} ms` : `${date.toISOString().slice(0, 19).replace("T", " ")} Z`;
}

export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

export const at = (id) => document.getElementById(id);
