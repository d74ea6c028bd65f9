{
  const text = (cell) => (cell.querySelector(".full") ?? cell.querySelector("code") ?? cell).textContent.trim();
  const value = (cell) => (cell.dataset.v === undefined ? null : Number(cell.dataset.v));

  /* Unknown values come last, whichever way the column is sorted. */
  const compare = (column, isNumber, sign) => (a, b) => {
    if (!isNumber) return sign * text(a.cells[column]).localeCompare(text(b.cells[column]));
    const [x, y] = [value(a.cells[column]), value(b.cells[column])];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (x - y);
  };

  const sortable = (table) => {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const isNumber = head.classList.contains("n");
      const button = make("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const order = before === "descending" || (!before && !isNumber) ? "ascending" : "descending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const rows = [...body.rows].sort(compare(column, isNumber, order === "ascending" ? 1 : -1));
        body.append(...rows);
      });
    });
  };

  const filterable = (grid, table) => {
    const input = grid.querySelector(".filter");
    const found = grid.querySelector(".found");
    const rows = [...table.tBodies[0].rows];
    const texts = rows.map((row) => [...row.cells].map(text).join("\n").toLowerCase());
    const apply = () => {
      const sought = input.value.trim().toLowerCase();
      let shown = 0;
      rows.forEach((row, number) => {
        row.hidden = !texts[number].includes(sought);
        shown += !row.hidden;
      });
      found.textContent = sought ? filled(words.found, { shown, all: rows.length }) : "";
    };
    input.addEventListener("input", apply);
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { input.value = ""; apply(); }
    });
  };

  /* A spreadsheet takes a name that begins like a formula for one. */
  const quoted = (field) => {
    const safe = /^[=+\-@\t\r\n\uff0b\uff0d\uff1d\uff20]/.test(field) ? `'${field}` : field;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const csv = (table) => {
    const head = [...table.tHead.rows[0].cells].map((cell) => quoted(cell.dataset.csv));
    const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => [...row.cells].map((cell) =>
      cell.dataset.v ?? (cell.classList.contains("none") ? "" : quoted(text(cell)))));
    return [head, ...rows].map((fields) => fields.join(",")).join("\r\n") + "\r\n";
  };

  for (const grid of document.querySelectorAll(".grid")) {
    const table = grid.querySelector("table");
    if (!table.classList.contains("mixed") && table.tBodies[0].rows.length > 1) sortable(table);
    if (grid.querySelector(".filter")) filterable(grid, table);
    const button = grid.querySelector(".csv");
    button.addEventListener("click", () => confirmCopy(button, csv(table)));
  }
}
