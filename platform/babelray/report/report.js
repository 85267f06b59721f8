// Numbers to the right; a heading is a button that sorts its table, the empty cells always last.
// An interval sorts by its lower end.
const NUMBER = /^(?:<\s*)?([+-]?[\d,]*\.?\d+)(?:\s*%)?(?:\s*±.*|–[+-]?[\d,.]+)?(?:\s*●)?$/;
const text = (cell) => (cell.querySelector("data")?.value ?? cell.textContent).trim().replace("−", "-").replace(/^–$/, "");
const number = (cell) => Number((NUMBER.exec(text(cell)) ?? [])[1]?.replace(/,/g, "") ?? NaN);

for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const rows = () => [...table.tBodies[0].rows];
  heads.forEach((head, column) => {
    const filled = rows().map((row) => row.cells[column]).filter((cell) => text(cell) !== "");
    const numeric = filled.length > 0 && filled.every((cell) => !Number.isNaN(number(cell)));
    if (numeric) {
      const foot = [...(table.tFoot?.rows ?? [])].map((row) => row.cells[column]);
      for (const cell of [head, ...rows().map((row) => row.cells[column]), ...foot]) cell?.classList.add("number");
    }
    if (head.textContent === "" || rows().length < 2) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const compare = (a, b) => (numeric ? number(a) - number(b) : text(a).localeCompare(text(b), "en"));
      const sorted = rows().sort((first, second) => {
        const [a, b] = [first.cells[column], second.cells[column]];
        const empty = (text(a) === "") - (text(b) === "");
        return empty || (up ? 1 : -1) * compare(a, b);
      });
      table.tBodies[0].append(...sorted);
    });
  });
}

// What scrolls in its box can be scrolled by keyboard too.
for (const box of document.querySelectorAll("figure > .scroll")) if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
