// Tables of the class "sortable": every column head becomes a button.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = Number(text);
    return text === "" || Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === "number" ? -1
      : typeof b === "number" ? 1
      : a.localeCompare(b, "en", { numeric: true });
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.ariaSort === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows];
      rows.sort((a, b) => (down ? -1 : 1) * compare(value(a, column), value(b, column)));
      body.append(...rows);
    });
  });
}
