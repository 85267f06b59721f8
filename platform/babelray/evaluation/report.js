// Numbers to the right, and a click on a heading sorts the table by it.
for (const table of document.querySelectorAll("table")) {
  const number = (cell) => Number(cell.textContent.replace(/,/g, "") || NaN);
  const rows = () => [...table.tBodies[0].rows];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const numeric = rows().length > 0 && rows().every((row) => !Number.isNaN(number(row.cells[column])));
    if (numeric) for (const row of table.rows) row.cells[column]?.classList.add("number");
    head.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const compare = (a, b) => numeric ? number(a.cells[column]) - number(b.cells[column])
        : a.cells[column].textContent.localeCompare(b.cells[column].textContent);
      table.tBodies[0].append(...rows().sort((a, b) => (up ? 1 : -1) * compare(a, b)));
    });
  });
}
