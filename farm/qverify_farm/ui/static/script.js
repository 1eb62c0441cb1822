// Every page works without this script. It shows changes without a reload, and lets users drop files on fields.
"use strict";

const PAUSE_MS = 500; // between two updates
const SLOW_MS = 15000; // between updates without an event: times go on, and a reason to wait may change
const NEWS_MS = 5000; // between two announcements to screen readers

/** Updates the page's main part whenever the server reports an event, and announces its news. */
function follow(main) {
  const source = new EventSource(main.dataset.live);
  const announce = newAnnouncer(main.dataset.news);
  let timer = null;
  const update = async () => {
    timer = null;
    const reply = await fetch(location.href, { credentials: "same-origin" }).catch(() => null);
    showWhetherStale(reply);
    if (!reply || !reply.ok) return;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const newMain = page.getElementById("main");
    if (!newMain) return;
    const goesOn = Boolean(newMain.dataset.live);
    announce(newMain.dataset.news, !goesOn);
    if (isInUse(main)) return;
    replaceContent(main, newMain);
    document.title = page.title;
    if (goesOn) return;
    source.close();
    clearInterval(interval);
  };
  const scheduleUpdate = () => { timer ??= setTimeout(update, PAUSE_MS); };
  const interval = setInterval(() => { if (!document.hidden) scheduleUpdate(); }, SLOW_MS);
  for (const kind of ["message", "run", "job", "board"]) source.addEventListener(kind, scheduleUpdate);
  scheduleUpdate();
}

/** Returns a function that announces a text politely if it differs from the last one, at most once in NEWS_MS unless it is final. */
function newAnnouncer(firstText) {
  let lastText = firstText, nextText = null, timer = null;
  const say = () => {
    timer = null;
    if (nextText === null || nextText === lastText) return;
    document.getElementById("status").textContent = lastText = nextText;
    timer = setTimeout(say, NEWS_MS);
  };
  return (text, isFinal) => {
    nextText = text ?? null;
    if (isFinal) clearTimeout(timer);
    if (isFinal || timer === null) say();
  };
}

/** Shows that the page cannot be updated, or hides the message again. */
function showWhetherStale(reply) {
  const message = document.getElementById("stale");
  if (reply && reply.ok) message.textContent = "";
  else if (!message.textContent) message.textContent = reply && reply.status === 401 ? message.dataset.ended : message.dataset.away;
}

/** Returns whether the user types, chooses, reads a report, or selects text in the main part, which an update would disturb. */
function isInUse(main) {
  const focused = document.activeElement, selection = getSelection();
  if (focused && main.contains(focused) && focused.matches("input, select, textarea, iframe")) return true;
  return !selection.isCollapsed && main.contains(selection.anchorNode);
}

/** Replaces the content of the main part, and keeps the focus and the position of tables that are scrolled sideways. */
function replaceContent(main, newMain) {
  const focused = document.activeElement;
  const focusedKey = focused !== main && main.contains(focused) ? keyOf(focused) : null;
  const regions = () => [...main.querySelectorAll("[role=region]")];
  const positions = new Map(regions().map((region) => [keyOf(region), region.scrollLeft]));
  main.replaceChildren(...newMain.childNodes);
  for (const region of regions()) region.scrollLeft = positions.get(keyOf(region)) ?? 0;
  if (focusedKey === null) return;
  const stops = [...main.querySelectorAll("a[href], button, summary, [tabindex]")];
  (stops.find((stop) => keyOf(stop) === focusedKey) ?? main).focus({ preventScroll: true });
}

/** Returns what identifies an element that can have the focus in the old and in the new content. */
function keyOf(element) {
  return `${element.tagName} ${element.getAttribute("href") ?? element.getAttribute("aria-label") ?? element.textContent}`;
}

/** Lets users drop files on a file field. A field for a folder takes only what the browser itself drops there. */
function acceptDrops(field) {
  const input = field.querySelector("input[type=file]");
  if (input.webkitdirectory) return;
  const over = (on) => (event) => { event.preventDefault(); field.classList.toggle("over", on); };
  field.addEventListener("dragover", over(true));
  field.addEventListener("dragleave", over(false));
  field.addEventListener("drop", (event) => {
    over(false)(event);
    if (event.dataTransfer.files.length) input.files = event.dataTransfer.files;
  });
}

/** Gives the frame of a report the height of its page, so that the report stands in this page and has no scroll bar of its own. */
function fitReports() {
  addEventListener("message", (event) => {
    const height = event.data?.qverifyHeight;
    const frame = [...document.querySelectorAll("iframe.report")].find((one) => one.contentWindow === event.source);
    if (frame && Number.isFinite(height)) frame.style.height = `${Math.min(Math.max(Math.ceil(height), 300), 500000) + 4}px`;
  });
}

fitReports();
const main = document.getElementById("main");
if (main.dataset.live) follow(main);
document.querySelectorAll(".drop").forEach(acceptDrops);
