"use strict";
for (const section of document.querySelectorAll("section.pair")) {
  const body = section.querySelector("tbody"), heads = [...section.querySelectorAll("thead th")];
  const words = section.querySelector(".filter"), differing = section.querySelector(".differing");
  const value = (row, column) => row.children[column].dataset.value;
  const show = () => {
    const wanted = words.value.trim().toLowerCase();
    for (const row of body.rows) {
      const named = `${value(row, 1)} ${value(row, 2)} ${value(row, 4)}`.toLowerCase().includes(wanted);
      row.hidden = !named || (differing.checked && row.dataset.differs === "0");
    }
  };
  const sort = (column) => {
    const down = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => { const v = value(row, column); return v === "" || isNaN(v) ? v : Number(v); };
    const order = (a, b) => (a === b ? 0 : a === "" ? 1 : b === "" ? -1 : typeof a === typeof b ? (a < b ? -1 : 1) : typeof a === "number" ? -1 : 1);
    const rows = [...body.rows].sort((a, b) => order(key(a), key(b)) * (down && key(a) !== "" && key(b) !== "" ? -1 : 1));
    body.append(...rows);
  };
  section.querySelector(".tools").hidden = false;
  words.addEventListener("input", show);
  differing.addEventListener("change", show);
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => sort(column)));
}
const open = () => {
  const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = row && row.querySelector("details");
  for (let at = row && row.closest("details.folded"); at; at = null) at.open = true;
  if (details) { row.hidden = false; details.open = true; row.scrollIntoView({ block: "center" }); }
};
addEventListener("hashchange", open);
open();
