"use strict";
document.addEventListener("DOMContentLoaded", () => {
  for (const section of document.querySelectorAll(".pair")) {
    const table = section.querySelector("table.tensors");
    if (!table) continue; // its tensors are not on the page
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    const words = section.querySelector(".filter"), differing = section.querySelector(".differing"), found = section.querySelector(".found");
    const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.replace(/^[✓✗?] /, "");
    const show = () => {
      const wanted = words.value.trim().toLowerCase();
      let shown = 0;
      for (const row of body.rows) {
        const named = [1, 2, 3].map((column) => value(row, column)).join(" ").toLowerCase().includes(wanted);
        row.hidden = !named || (differing.checked && !row.classList.contains("differs"));
        shown += row.hidden ? 0 : 1;
      }
      found.textContent = shown === body.rows.length ? "" : `${shown} of ${body.rows.length} shown`;
    };
    const sort = (column) => {
      const down = heads[column].getAttribute("aria-sort") === "ascending";
      heads.forEach((head) => head.removeAttribute("aria-sort"));
      heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
      const numbers = { inf: Infinity, "-inf": -Infinity, nan: "nan" };
      const key = (row) => { const v = value(row, column); return v in numbers ? numbers[v] : v === "" || isNaN(v) ? v : Number(v); };
      const order = (a, b) => (a === b ? 0 : a === "" ? 1 : b === "" ? -1 : typeof a === typeof b ? (a < b ? -1 : 1) : typeof a === "number" ? -1 : 1);
      const rows = [...body.rows].sort((a, b) => order(key(a), key(b)) * (down && key(a) !== "" && key(b) !== "" ? -1 : 1));
      body.append(...rows);
    };
    words.addEventListener("input", show);
    differing.addEventListener("change", show);
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => sort(column)));
  }
  for (const tools of document.querySelectorAll(".tools")) tools.hidden = false;
  for (const curve of document.querySelectorAll("svg.curve")) { // one stop of the tab key, arrow keys within
    const points = [...curve.querySelectorAll("a")];
    points.forEach((point, at) => point.setAttribute("tabindex", at ? "-1" : "0"));
    curve.addEventListener("keydown", (event) => {
      const at = points.indexOf(event.target.closest("a")), last = points.length - 1;
      const to = { ArrowRight: Math.min(at + 1, last), ArrowLeft: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      points[at].setAttribute("tabindex", "-1");
      points[to].setAttribute("tabindex", "0");
      points[to].focus();
    });
  }
  const rowOf = (name) => { // of #tensor=NAME, by which other pages link to a tensor or node
    const rows = [...document.querySelectorAll("table.tensors tbody tr")];
    const texts = (row) => [1, 2, 3].map((column) => row.cells[column]?.dataset.value ?? row.cells[column]?.textContent.trim() ?? "");
    return rows.find((row) => texts(row).includes(name)) ?? rows.find((row) => texts(row)[0].startsWith(name));
  };
  const open = () => {
    const hash = decodeURIComponent(location.hash.slice(1));
    const target = hash.startsWith("tensor=") ? rowOf(hash.slice(7)) : hash && document.getElementById(hash);
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.localName === "details") at.open = true;
    if (target.localName === "tr") {
      target.hidden = false;
      const details = target.querySelector("details");
      if (details) details.open = true;
      target.scrollIntoView({ block: "center" });
    } else target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  document.addEventListener("click", (event) => { // the same link once more
    const link = event.target.closest && event.target.closest("a");
    const to = link && link.getAttribute("href");
    if (to && to === location.hash) setTimeout(open);
  });
  open();
  if (parent !== window) { // the page of a service has this page in a frame, which takes its height
    const tell = () => parent.postMessage({ qverifyHeight: document.documentElement.offsetHeight }, "*");
    new ResizeObserver(tell).observe(document.documentElement);
    tell();
  }
});
