// The panes of a run: what each tab shows, made when the tab is opened first.

const REASONS = {
  "graph.cycle": "its edges close a cycle",
  "field.absent": "the recording lacks a field that this needs",
  "reward.absent": "the run has no reward",
  "outcome.absent": "no event is known to be the answer",
  "support.absent": "no score on the way to the outcome says what that is worth; the bounds hold",
  "selection.empty": "the run has nothing of what is changed",
  "trace.partial": "the recording ends before the run did",
  "outcome.ambiguous": "more than one event may be the answer",
  "group.degenerate": "the group has no other rollout, or all have the same reward",
  "time.steps": "the recording has steps, no times",
  "gate.unstable": "the sign differs between families of gates",
};

function reason(code) {
  if (code === null || code === undefined) return "";
  return REASONS[code] ? `${REASONS[code]} (${code})` : visible(code);
}

function list(pairs) {
  return el("dl", {}, ...pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .flatMap(([name, value]) => [el("dt", { text: name }), el("dd", {}, value)]));
}

function notes(...sentences) {
  const said = sentences.filter(Boolean);
  return said.length ? el("div", { class: "notes" }, ...said.map((one) => el("p", {}, one))) : null;
}

const WORDS = { cost_usd: "cost, USD", t: "time recorded", hops: "taint: edges from untrusted", seed: "taint begins here",
  source: "duration is from", soon: "start, as soon as possible", soon_finish: "end, as soon as possible", into: null };
const OWN = new Set(["at", "into", "out", "who", "row", "lane"]);

function eventDetails(run, at, point) {
  const event = run.rows[at];
  const told = Object.entries(event).filter(([name, value]) => !OWN.has(name) && value !== null && value !== undefined)
    .map(([name, value]) => [WORDS[name] ?? name.replaceAll("_", " "), typeof value === "number" ? number(value, 9) : visible(value, 2000)]);
  for (const one of run.credits) {
    const value = one.events?.[at] ?? null;
    if (value !== null) told.push([`credit by ${one.method}`, number(value, 9)]);
  }
  told.push(["recorded in", visible(placeOf(run, at), 600)]);
  if (run.places.reason) told.push(["line of the event", visible(run.places.reason, 400)]);
  const link = (edge) => el("li", {}, el("button", { type: "button", onclick: () => point(edge.at) },
    `${visible(run.rows[edge.at].id, 40)} (${edge.type.replaceAll("_", " ")})`));
  const ways = (words, edges) => (edges.length
    ? [el("h4", {}, words), el("ul", { class: "edges" }, ...edges.slice(0, 40).map(link),
      edges.length > 40 ? el("li", {}, `and ${(edges.length - 40).toLocaleString("en")} more`) : null)] : []);
  const text = run.texts[at] ?? null;
  return [
    list(told),
    ...ways("Follows from", event.into),
    ...ways("Leads to", event.out),
    ...(text !== null ? [el("h4", {}, "Record"), el("pre", { tabindex: "0", role: "region", "aria-label": "Record of the event" }, visibleLines(text))]
      : [notes(run.no_texts ? visible(run.no_texts, 400) : CORPUS.text ? null : "Its text is not in this page; --text embeds it.")]),
  ];
}

function agentsPane(run, { chooseAgent }) {
  const parts = new Map(rowsOf(run.critical).map((row) => [row.agent, row]));
  const most = run.agentRows.reduce((a, row) => Math.max(a, row.critical_share ?? 0), 0);
  const rows = run.agentRows.map((row, at) => ({ ...row, order: at, critical: parts.get(row.agent)?.critical ?? null }));
  return [table({
    caption: "Agents, each below the agent that spawned it, with its part of the critical path",
    rows, page: 100, distinct: true, choose: chooseAgent, choosable: (row) => row.n_events > 0,
    columns: [
      { key: "order", label: "Agent", kind: "tree", show: (row) => {
        const name = el("span", { class: "branch" }, row.level ? el("span", { class: "twig", "aria-hidden": "true" }, "└ ") : null,
          visible(row.agent, 80), row.level ? el("span", { class: "sr" }, `, level ${row.level + 1}`) : null);
        name.style.paddingLeft = `${Math.min(row.level, 12) * 1.1}em`;
        return name;
      } },
      { key: "kind", label: "Kind", kind: "name" },
      { key: "role", label: "Role" },
      { key: "parent", label: "Spawned by" },
      { key: "n_events", label: "Events", kind: "number" },
      { key: "n_turns", label: "Turns", kind: "number" },
      { key: "n_tool_calls", label: "Tool calls", kind: "number" },
      { key: "tokens", label: "Tokens", kind: "number" },
      { key: "tokens_fresh", label: "Fresh", kind: "number", title: "Tokens in that no cache had" },
      { key: "tokens_cached", label: "Cached", kind: "number" },
      { key: "tokens_cache_write", label: "Cache write", kind: "number", title: "Tokens in that were written to a cache" },
      { key: "tokens_out", label: "Out", kind: "number" },
      { key: "cost_usd", label: "Cost, USD", kind: "number" },
      { key: "work", label: `Work, ${run.unit}`, kind: "number" },
      { key: "critical_share", label: "Critical share", kind: "number", title: "Share of the critical path",
        show: (row) => ((row.critical_share ?? null) === null ? "" : bar(row.critical_share, most, `${number(100 * row.critical_share, 3)} %`, { positive: true })) },
      { key: "utilization", label: "Reaches answer", kind: "number", title: "Share of its events from which a way leads to the answer",
        show: (row) => ((row.utilization ?? null) === null ? "" : `${number(100 * row.utilization, 3)} %`) },
    ],
  }).element];
}

function creditPane(run, { chooseAgent }) {
  const choice = el("select", {}, ...run.credits.map((one) => el("option", { value: one.method }, one.method)));
  const place = el("div");
  const draw = () => {
    const at = run.credits.findIndex((one) => one.method === choice.value);
    const [credit, about] = [run.credits[at], CORPUS.methods[at]];
    const rows = credit.agents ? rowsOf(credit.agents).map((row) => ({ ...row, name: row.unit_id ?? "(nobody's events)" })) : [];
    const most = rows.reduce((a, row) => Math.max(a, Math.abs(Number(row.credit ?? 0))), 0);
    const reasons = [...new Set(rows.map((row) => row.reason).filter(Boolean))];
    const kind = about.quantity === "share" ? "Shares: the rows add up to the reward of the run."
      : "Advantages: how much better than the comparison; they do not add up.";
    const tier = rows.find((row) => row.tier)?.tier;
    place.replaceChildren(notes(`${about.summary.charAt(0).toUpperCase()}${about.summary.slice(1)}. ${kind}${tier ? ` Tier: ${tier}.` : ""}`,
      about.reason ? `No credit: ${visible(about.reason, 600)}` : null,
      ...reasons.map((code) => `Where it is empty: ${reason(code)}.`)),
    rows.length ? table({
      caption: `Credit by ${credit.method}, by agent`, rows, sort: ["credit", false], page: 50, narrow: true,
      choose: (row) => chooseAgent({ agent: row.unit_id }), choosable: (row) => row.unit_id !== null,
      columns: [
        { key: "name", label: "Agent", show: (row) => visible(row.name, 80) },
        { key: "credit", label: "Credit", kind: "number", always: true, show: (row) => ((row.credit ?? null) === null ? "none"
          : bar(row.credit, most, signed(row.credit), row.stderr ? { lower: row.credit - row.stderr, upper: row.credit + row.stderr } : {})) },
        { key: "stderr", label: "Standard error", kind: "number" },
        { key: "reason", label: "Why none", kind: "long", show: (row) => reason(row.reason) },
      ],
    }).element : el("p", {}, "No rows."));
  };
  choice.addEventListener("change", draw);
  if (!run.credits.length) return [el("p", {}, "No method was asked for.")];
  draw();
  return [el("div", { class: "tools" }, el("label", {}, "Method ", choice)), place];
}

function effectsPane(run) {
  const rows = rowsOf(run.effects).map((row) => ({
    ...row,
    gain: row.makespan !== null && row.makespan !== undefined && row.makespan_cf !== null && row.makespan_cf !== undefined
      ? row.makespan_cf - row.makespan : null,
    kept: row.tokens ? row.tokens_cf - row.tokens : null,
  }));
  const outcome = rows.filter((row) => row.tier !== "schedule");
  const timing = rows.filter((row) => row.tier === "schedule" || (row.makespan ?? null) !== null);
  const most = timing.reduce((a, row) => Math.max(a, Math.abs(row.gain ?? 0)), 0);
  const named = { key: "unit_id", label: "Of", show: (row) => visible(row.unit_id, 80) };
  const scenario = { key: "intervention", label: "What if", kind: "name", show: (row) => el("code", {}, visible(row.intervention, 60)) };
  const why = { key: "reason", label: "Note", kind: "long", show: (row) => reason(row.reason) };
  return [
    notes("Nothing was run again. Each row is what follows from the recording if one thing is changed; its tier says under which assumptions.",
      run.no_effects ? visible(run.no_effects, 600) : null,
      run.n_effects > rows.length ? `${(run.n_effects - rows.length).toLocaleString("en")} further rows are left out.` : null),
    table({
      caption: "What the outcome would have been: effects, the most harmful first", rows: outcome, page: 50, empty: "No such intervention.",
      columns: [scenario, named,
        { key: "effect", label: "Effect on outcome", kind: "number", always: true, show: (row) => ((row.lower ?? null) === null && (row.effect ?? null) === null ? "unknown"
          : bar(row.effect, 1, `${(row.effect ?? null) === null ? "unknown" : signed(row.effect)} [${signed(row.lower) || "?"}, ${signed(row.upper) || "?"}]`, { lower: row.lower ?? null, upper: row.upper ?? null, wide: true })) },
        { key: "outcome_cf", label: "Outcome then", kind: "number" },
        { key: "kept", label: "Tokens saved", kind: "number", show: (row) => (row.kept === null ? "" : number(-row.kept)) },
        { key: "tier", label: "Tier", kind: "name" }, { key: "support", label: "Support", kind: "number" }, why],
    }).element,
    table({
      caption: "How long it would have taken: the same work on other schedules", rows: timing, page: 50, empty: "No such intervention.",
      columns: [scenario, named,
        { key: "gain", label: `Change, ${run.unit}`, kind: "number", show: (row) => (row.gain === null ? "unknown" : bar(row.gain, most, signed(row.gain))) },
        { key: "makespan", label: "Now", kind: "number", show: (row) => span(row.makespan, run.unit) },
        { key: "makespan_cf", label: "Then", kind: "number", show: (row) => span(row.makespan_cf, run.unit) },
        { key: "tier", label: "Tier", kind: "name" }, { key: "support", label: "Support", kind: "number" }, why],
    }).element,
  ];
}

function eventsPane(run, { chooseEvent, chosenEvent }) {
  const grid = table({
    caption: "Events in order", rows: run.rows, page: 50, choose: (row) => chooseEvent(row.at, true), chosen: (row) => row.at === chosenEvent(),
    columns: [
      { key: "seq", label: "Event", kind: "number", show: (row) => number(row.seq) },
      { key: "id", label: "Id", show: (row) => visible(row.id, 60) },
      { key: "type", label: "Kind", kind: "name", show: (row) => row.type.replaceAll("_", " ") },
      { key: "who", label: "Agent", show: (row) => visible(row.who, 60) },
      { key: "tool", label: "Tool", show: (row) => visible(row.tool, 60) },
      { key: "start", label: `Start, ${run.unit}`, kind: "number" },
      { key: "duration", label: "Duration", kind: "number" },
      { key: "critical", label: "Critical", show: (row) => (row.critical ? "yes" : "") },
      { key: "tokens", label: "Tokens", kind: "number" },
      { key: "cost_usd", label: "Cost, USD", kind: "number" },
      { key: "score", label: "Score", kind: "number" },
      { key: "ok", label: "Ok", show: (row) => ((row.ok ?? null) === null ? "" : row.ok ? "yes" : "no") },
      { key: "hops", label: "Taint", show: (row) => ((row.hops ?? null) === null ? "" : row.seed ? "begins" : `${row.hops} away`) },
    ],
  });
  return [grid.element, grid];
}

function findingsPane(run, { chooseEvent }) {
  const rows = rowsOf(run.findings);
  return [table({
    caption: "Findings: what is odd about this recording, and still valid", rows, empty: "Nothing is odd about this run.",
    choose: (row) => chooseEvent(run.place.get(row.seq), true), choosable: (row) => run.place.has(row.seq),
    columns: [
      { key: "code", label: "Code", show: (row) => el("code", {}, visible(row.code)) },
      { key: "count", label: "Times", kind: "number" },
      { key: "seq", label: "First event", kind: "number" },
      { key: "message", label: "What", kind: "long", show: (row) => visible(row.message, 600) },
    ],
  }).element];
}
