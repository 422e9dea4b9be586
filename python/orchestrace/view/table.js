// A table that sorts by its headers, in pages, as the ARIA practices describe one: a button in each header,
// aria-sort on the column, buttons in rows that can be chosen, arrow keys between these.

const PAGE = 25;

// columns: {key, label, kind: "text" | "number", show(row) -> text or element, title}
// A column that is empty in all rows is left out, unless it is `always` there. `below` gives a second line of the
// first column. In a table that is `distinct`, a column that repeats another one, or one text in all rows, is left out.
// options: caption, distinct, rows, columns, narrow, sort: [key, ascending], choose(row), chosen(row), page, empty
function table(options) {
  const { caption, choose } = options;
  const known = (row, key) => row[key] !== null && row[key] !== undefined && row[key] !== "";
  const columns = options.columns.filter((column, at) => at === 0 || !options.rows.length || column.always
    || options.rows.some((row) => known(row, column.key))).filter((column, at, all) => at === 0 || !options.distinct || !repeats(column, all.slice(0, at)));
  const state = { rows: options.rows, sort: options.sort ?? null, page: 0 };
  const size = options.page ?? PAGE;
  const body = el("tbody");
  const heads = columns.map((column) => head(column));
  const status = el("span", { class: "page-status", role: "status", "aria-live": "polite" });
  const back = el("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const next = el("button", { type: "button", onclick: () => turn(1) }, "Next");
  const pager = el("div", { class: "pager" }, back, status, next);
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", { text: caption }), el("thead", {}, el("tr", {}, ...heads)), body));
  const whole = el("div", { class: options.narrow ? "grid narrow" : "grid" }, scroll, pager);
  let sorted = [];

  function repeats(column, before) {
    if (options.rows.length < 2) return false;
    const values = options.rows.map((row) => row[column.key] ?? null);
    return (column.kind !== "number" && values.every((value) => value === values[0]))
      || before.some((other) => options.rows.every((row, at) => (row[other.key] ?? null) === values[at]));
  }

  function head(column) {
    const button = el("button", { type: "button", onclick: () => sortBy(column) }, column.label,
      el("span", { class: "arrow", "aria-hidden": "true" }));
    return el("th", { scope: "col", class: column.kind ?? "text", title: column.title }, button);
  }

  function sortBy(column) {
    const first = column.kind !== "number";
    const [key, ascending] = state.sort ?? [];
    state.sort = [column.key, key === column.key ? !ascending : first];
    state.page = 0;
    draw();
  }

  // Nothing comes last, whichever way: what is not known is neither small nor large.
  function compare(a, b) {
    const [key, ascending] = state.sort;
    const [x, y] = [a[key] ?? null, b[key] ?? null];
    if (x === null || y === null) return (x === null) - (y === null);
    const numeric = columns.find((column) => column.key === key)?.kind === "number";
    const order = numeric ? Number(x) - Number(y) : x < y ? -1 : x > y ? 1 : 0;
    return ascending ? order : -order;
  }

  function turn(by) {
    state.page += by;
    draw();
    scroll.scrollTop = 0;
  }

  function draw() {
    sorted = state.sort ? [...state.rows].sort(compare) : state.rows;
    const pages = Math.max(1, Math.ceil(sorted.length / size));
    state.page = Math.min(state.page, pages - 1);
    heads.forEach((one, at) => {
      const mine = state.sort && state.sort[0] === columns[at].key;
      if (mine) one.setAttribute("aria-sort", state.sort[1] ? "ascending" : "descending");
      else one.removeAttribute("aria-sort");
      one.querySelector(".arrow").textContent = mine ? (state.sort[1] ? " ▲" : " ▼") : "";
    });
    const shown = sorted.slice(state.page * size, (state.page + 1) * size);
    body.replaceChildren(...shown.map(rowOf));
    if (!shown.length) {
      body.append(el("tr", {}, el("td", { colspan: columns.length, class: "none" }, options.empty ?? "None.")));
    }
    pager.hidden = pages === 1;
    back.disabled = state.page === 0;
    next.disabled = state.page === pages - 1;
    status.textContent = `Page ${state.page + 1} of ${pages}, ${plural(sorted.length, "row")}`;
  }

  function rowOf(row) {
    const mine = options.chosen?.(row) ?? false;
    const cells = columns.map((column, at) => {
      let shown = column.show ? column.show(row) : column.kind === "number" ? number(row[column.key]) : visible(row[column.key]);
      if (at === 0 && choose && (options.choosable?.(row) ?? true)) {
        shown = el("button", { type: "button", class: "choose", "aria-pressed": String(mine), onclick: () => choose(row) }, shown);
      }
      const second = column.below?.(row) || null;
      return el(at === 0 ? "th" : "td", { scope: at === 0 ? "row" : null, class: column.kind ?? "text" }, shown,
        second ? el("span", { class: "below" }, second) : null);
    });
    return el("tr", { class: mine ? "chosen" : null }, ...cells);
  }

  body.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const buttons = [...body.querySelectorAll("button.choose")];
    const at = buttons.indexOf(document.activeElement);
    if (by === undefined || at < 0) return;
    event.preventDefault();
    buttons[Math.min(Math.max(at + by, 0), buttons.length - 1)].focus();
  });

  draw();
  return {
    element: whole,
    redraw: draw,
    show(rows) {
      state.rows = rows;
      state.page = 0;
      draw();
    },
    reveal(row) {
      const at = sorted.indexOf(row);
      if (at >= 0) state.page = Math.floor(at / size);
      draw();
    },
  };
}

// A number with a bar, from the middle or, of what is never negative, from the left: chart and text are one cell.
function bar(value, most, text, { lower = null, upper = null, positive = false, wide = false } = {}) {
  const box = el("span", { class: positive ? "bar positive" : "bar", "aria-hidden": "true" });
  const part = (x) => Math.max(-1, Math.min(1, Number(x) / (most || 1)));
  const scale = (x) => (positive ? 100 * part(x) : 50 + 50 * part(x));
  const put = (from, to, kind) => {
    const piece = el("span", { class: kind });
    piece.style.left = `${Math.min(from, to)}%`;
    piece.style.width = `${Math.max(Math.abs(to - from), 0.8)}%`;
    box.append(piece);
  };
  if (lower !== null && upper !== null) put(scale(lower), scale(upper), "range");
  if (value !== null && value !== undefined) put(scale(0), scale(value), Number(value) < 0 ? "minus" : "plus");
  return el("span", { class: "measured" }, box, el("span", { class: wide ? "figure wide" : "figure", text }));
}
