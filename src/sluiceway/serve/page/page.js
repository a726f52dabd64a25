/* What comes from the server goes to the list and to the stream that is shown. One connection for both; it rests while
 * nobody looks, and takes up where it ended. */

import { Detail } from "./detail.js";
import { keyOf, StreamList } from "./list.js";
import { at, number } from "./words.js";

const AGAIN_MS = 1000, REST_MS = 30_000, SILENT_MS = 10_000;

let shown = null; // [flow, stream]
let revision = "";
let source = null;
let waiting, resting;
let ahead = 0; // of the server's clock
let status = null;
let heard = 0; // when the server last said something

const detail = new Detail();
const now = () => Date.now() + ahead;
const choose = (flow, stream) => (location.hash = `${encodeURIComponent(flow)}/${encodeURIComponent(stream)}`);
const list = new StreamList(choose, now);

function connect() {
  clearTimeout(waiting);
  source?.close();
  const asked = new URLSearchParams({ since: revision });
  if (shown) for (const [name, value] of [["flow", shown[0]], ["stream", shown[1]]]) asked.set(name, value);
  const opened = (source = new EventSource(`/events?${asked}`));
  const on = (name, act) =>
    opened.addEventListener(name, (event) => {
      heard = Date.now();
      act(JSON.parse(event.data));
    });
  on("streams", (told) => {
    revision = told.revision;
    list.take(told);
    if (shown && told.ended.some(([flow, stream]) => keyOf(flow, stream) === keyOf(...shown))) detail.end();
  });
  on("stream", (told) => detail.take(told));
  on("status", (told) => {
    status = told;
    ahead = told.now - Date.now();
    tell();
  });
  opened.onerror = () => {
    if (source !== opened) return;
    opened.close();
    status = null;
    tell();
    waiting = setTimeout(again, AGAIN_MS);
  };
}

/** The server may have another token than before: then the page asks for it. */
async function again() {
  try {
    if ((await fetch("/", { cache: "no-store" })).status === 401) return location.reload();
  } catch {
    // not there yet
  }
  connect();
}

function tell() {
  const silent = status && Date.now() - heard > SILENT_MS;
  const state = status && !silent ? status.state : "lost";
  const words = {
    live: "live",
    reading: `reading what the topic holds, ${number(status?.streams ?? 0)} streams so far`,
    lost: status && !silent ? "the broker does not answer; what is shown is what it said last" : "no connection to the server; trying again",
  };
  at("state").dataset.state = state;
  if (at("state-text").textContent !== words[state]) at("state-text").textContent = words[state];
  if (status) {
    at("topic").textContent = at("topic").title = status.url;
    if (state === "live" && status.streams === 0) at("count").textContent = "No stream has a snapshot yet.";
  }
  list.drawSoon();
  if (shown) detail.drawFacts(list.streams.get(keyOf(...shown)), now());
}

function go() {
  const before = shown && keyOf(...shown);
  try {
    const [flow, stream] = location.hash.slice(1).split("/").map(decodeURIComponent);
    shown = flow && stream ? [flow, stream] : null;
  } catch {
    shown = null;
  }
  at("main").dataset.shows = shown ? "stream" : "list";
  document.title = shown ? `${shown[1]} – Selections` : "Selections";
  const key = shown && keyOf(...shown);
  list.mark(key);
  if (key === before && source) return;
  detail.show(...(shown ?? [null, null]));
  if (shown && matchMedia("(max-width: 760px)").matches) at("title").focus();
  connect();
}

addEventListener("hashchange", go);
addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select, textarea, .timeline *");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    if (shown && matchMedia("(max-width: 760px)").matches) location.hash = "";
    at("search").focus();
  } else if (event.key === "Escape" && !typing && shown) {
    location.hash = "";
    at("list").focus();
  }
});
function rest() {
  clearTimeout(waiting);
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(resting);
  if (document.hidden) resting = setTimeout(rest, REST_MS);
  else if (!source) connect();
});
addEventListener("pagehide", rest); // a page that the browser keeps aside must not keep one of its few connections
addEventListener("pageshow", (event) => event.persisted && connect());
setInterval(tell, 1000);
go();
