// Two stacked bars at the top: where time went, and where tokens and dollars went, by agent. The list below a bar
// says in text what the bar shows.

const TIME_NAMES = { model: "models", tool: "tools", queue: "queues", permission: "permissions", human: "waiting for people", scorer: "graders", unaccounted: "unaccounted for" };

// parts: [{name, value, text}]; those that are not known or nothing are left out of the bar.
function stacked(label, parts) {
  const known = parts.filter((part) => part.value > 0);
  const total = known.reduce((sum, part) => sum + part.value, 0);
  if (!total) return null;
  const share = (part) => (part.value < total / 100 ? "under 1 %" : `${Math.round(100 * part.value / total)} %`);
  const box = el("div", { class: "stack", role: "img", "aria-label": `${label}: ${known.map((part) => `${part.name} ${share(part)}`).join(", ")}` },
    ...known.map((part, at) => {
      const piece = el("span", { class: `part part-${at % 8}`, title: `${part.name}: ${part.text}, ${share(part)}` });
      piece.style.width = `${100 * part.value / total}%`;
      return piece;
    }));
  const legend = el("ul", { class: "legend" }, ...known.map((part, at) => el("li", {},
    el("span", { class: `swatch part-${at % 8}`, "aria-hidden": "true" }), `${part.name} ${part.text} (${share(part)})`)));
  return el("div", {}, el("h4", {}, label), box, legend);
}

function timeBar() {
  const { seconds, idle, n_timed: timed } = CORPUS.time;
  const parts = Object.entries(TIME_NAMES).map(([key, name]) => ({ name, value: seconds[key] ?? 0, text: span(seconds[key] ?? 0, "seconds") }));
  const bar = stacked("Where time went", parts);
  if (!bar) return el("div", {}, el("h4", {}, "Where time went"), el("p", {}, timed ? "Nothing took time." : "No recording says when anything was."));
  const said = [timed < CORPUS.n_runs ? `Of ${number(timed)} of ${plural(CORPUS.n_runs, "run")}, which have times.` : null,
    idle ? `Not drawn: idle time, ${span(idle, "seconds")}.` : null];
  bar.append(...[notes(...said)].filter(Boolean));
  return bar;
}

function moneyBars() {
  const rows = rowsOf(CORPUS.spending).map((row) => ({ ...row, name: (row.agent ?? null) === null ? `${number(row.n_agents)} others` : visible(row.agent, 40) }));
  const tokens = stacked("Where tokens went, by agent", rows.map((row) => ({ name: row.name, value: row.tokens ?? 0, text: number(row.tokens ?? 0) })));
  const listed = rows.some((row) => (row.listed_usd ?? 0) > 0);
  const recorded = rows.some((row) => (row.cost_usd ?? 0) - (row.listed_usd ?? 0) > 1e-12);
  const basis = listed ? (recorded ? ", as recorded and by a list of prices" : ", by a list of prices") : "";
  const dollars = stacked(`Where dollars went, by agent${basis}`, rows.map((row) => ({ name: row.name, value: row.cost_usd ?? 0, text: `$${number(row.cost_usd ?? 0, 3)}` })));
  const none = [tokens ? null : "No recording says how many tokens an agent used.", dollars ? null : "No recording says what an agent cost."];
  return el("div", {}, ...[tokens, dollars, notes(...none)].filter(Boolean));
}
