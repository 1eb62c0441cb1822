// Without this script every page works: it only shows news without a reload, and makes fields take dropped files.
"use strict";

const PAUSE_MS = 500; // between two looks

function follow(main) {
  const source = new EventSource(main.dataset.live);
  let waits = null;
  const look = async () => {
    waits = null;
    const inside = document.activeElement;
    if (inside && inside !== main && main.contains(inside) && inside.matches("input, select, textarea, iframe")) return;
    const reply = await fetch(location.href, { credentials: "same-origin" }).catch(() => null);
    if (!reply || !reply.ok) return;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const fresh = page.getElementById("main");
    if (!fresh) return;
    const focused = inside && main.contains(inside) ? inside.getAttribute("href") : null;
    main.replaceChildren(...fresh.childNodes);
    document.title = page.title;
    if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    const verdict = main.querySelector("h1 .verdict");
    if (verdict) document.getElementById("status").textContent = verdict.textContent;
    if (!fresh.dataset.live) source.close();
  };
  const news = () => { waits ??= setTimeout(look, PAUSE_MS); };
  for (const kind of ["message", "run", "job", "board"]) source.addEventListener(kind, news);
  news();
}

function take(field) {
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
document.querySelectorAll(".drop").forEach(take);
