// Two runs side by side: their steps in two columns, lane by lane.

const FOLDED = 6;
const AROUND = 2;

// Places of steps that are folded: the middle of long sequences that both runs have.
function foldedAt(rows) {
  const folded = new Map();
  let from = 0;
  for (let at = 0; at <= rows.length; at += 1) {
    if (at < rows.length && rows[at].edit === "same") continue;
    const [start, end] = [from ? from + AROUND : from, at < rows.length ? at - AROUND : at];
    if (at - from > FOLDED && end > start) folded.set(start, end);
    from = at + 1;
  }
  return folded;
}

function stepOf(row) {
  return [row.type ?? "step", row.tool].filter(Boolean).map((one) => visible(one, 60)).join(" ");
}

function besideRow(run, row, chooseEvent) {
  const at = row.here === null || row.here === undefined ? undefined : run.place.get(row.here);
  const words = stepOf(row);
  const mine = at === undefined ? words : el("button", { type: "button", class: "choose", onclick: () => chooseEvent(at, true) }, words);
  const here = row.edit === "there" ? el("td", { class: "none" }, "") : el("td", { class: row.edit === "here" ? "only here" : "" }, mine);
  const there = row.edit === "here" ? el("td", { class: "none" }, "") : el("td", { class: row.edit === "there" ? "only there" : "" }, words);
  const said = { same: "both", here: "only this run", there: "only the other" }[row.edit];
  return el("tr", {}, el("td", { class: "soft" }, said), here, there);
}

function besideLane(run, label, rows, chooseEvent) {
  const body = el("tbody");
  const folded = foldedAt(rows);
  for (let at = 0; at < rows.length; at += 1) {
    const end = folded.get(at);
    if (end === undefined) body.append(besideRow(run, rows[at], chooseEvent));
    else {
      const hidden = rows.slice(at, end);
      const place = el("tr", {}, el("td", { colspan: "3", class: "fold" }, el("button", { type: "button",
        onclick: () => place.replaceWith(...hidden.map((row) => besideRow(run, row, chooseEvent))) }, `${plural(hidden.length, "step")} of both`)));
      body.append(place);
      at = end - 1;
    }
  }
  const alone = rows.filter((row) => row.edit !== "same").length;
  return el("div", { class: "grid" }, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Steps of ${label}` }, el("table", { class: "beside" },
    el("caption", {}, `${label}: ${plural(rows.length, "step")}, ${number(alone)} of one run alone`),
    el("thead", {}, el("tr", {}, ...["Who", "This run", "The other run"].map((one) => el("th", { scope: "col" }, one)))), body)));
}

function besidePane(run, { chooseEvent }) {
  const rows = rowsOf(run.beside);
  if (!rows.length) return [el("p", {}, "No run stands beside this one.")];
  const others = [...new Set(rows.map((row) => row.other))];
  return others.flatMap((other) => {
    const mine = rows.filter((row) => row.other === other);
    const name = RUNS.find((row) => row.trace === other);
    const lanes = new Map();
    for (const row of mine) {
      const label = `${row.label === null || row.label === undefined ? "the team" : visible(row.label, 80)}${row.ordinal ? ` ${row.ordinal + 1}` : ""}`;
      if (!lanes.has(label)) lanes.set(label, []);
      lanes.get(label).push(row);
    }
    return [el("h3", {}, `Beside run ${name ? `${name.label}, id ${visible(name.trace_id, 40)}` : number(other)}`),
      notes("Steps that both runs took stand side by side; what one of them did alone has a mark. A first difference is not a cause."),
      ...[...lanes].map(([label, steps]) => besideLane(run, label, steps, chooseEvent))];
  });
}
