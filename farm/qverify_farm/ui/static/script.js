// Every page works without this script. It shows changes without a reload, and lets users drop files on fields.
"use strict";

const PAUSE_MS = 500; // between two updates

/** Updates the page's main part whenever the server reports an event. */
function follow(main) {
  const source = new EventSource(main.dataset.live);
  let timer = null;
  const update = async () => {
    timer = null;
    const focusedElement = document.activeElement;
    if (focusedElement && focusedElement !== main && main.contains(focusedElement) && focusedElement.matches("input, select, textarea, iframe")) return;
    const reply = await fetch(location.href, { credentials: "same-origin" }).catch(() => null);
    if (!reply || !reply.ok) return;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const newMain = page.getElementById("main");
    if (!newMain) return;
    const focusedLink = focusedElement && main.contains(focusedElement) ? focusedElement.getAttribute("href") : null;
    main.replaceChildren(...newMain.childNodes);
    document.title = page.title;
    if (focusedLink) main.querySelector(`a[href="${CSS.escape(focusedLink)}"]`)?.focus();
    const verdict = main.querySelector("h1 .verdict");
    if (verdict) document.getElementById("status").textContent = verdict.textContent;
    if (!newMain.dataset.live) source.close();
  };
  const scheduleUpdate = () => { timer ??= setTimeout(update, PAUSE_MS); };
  for (const kind of ["message", "run", "job", "board"]) source.addEventListener(kind, scheduleUpdate);
  scheduleUpdate();
}

/** Lets users drop files on a file field. */
function acceptDrops(field) {
  const input = field.querySelector("input[type=file]");
  const over = (on) => (event) => { event.preventDefault(); field.classList.toggle("over", on); };
  field.addEventListener("dragover", over(true));
  field.addEventListener("dragleave", over(false));
  field.addEventListener("drop", (event) => {
    over(false)(event);
    if (event.dataTransfer.files.length) input.files = event.dataTransfer.files;
  });
}

const main = document.getElementById("main");
if (main.dataset.live) follow(main);
document.querySelectorAll(".drop").forEach(acceptDrops);
