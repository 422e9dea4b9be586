// What a timeline shows where: a row for each agent, with a lane for each event that overlaps others, and colors.
// Colors are those of Okabe and Ito, told apart with every kind of color vision; kinds have names in the legend.

const KINDS = {
  orchestrator_decision: "#0072b2",
  spawn: "#e69f00",
  despawn: "#b8860b",
  message: "#56b4e9",
  tool_call: "#009e73",
  tool_result: "#66c2a5",
  return: "#cc79a7",
  aggregate: "#8c6bb1",
  human_intervention: "#d55e00",
  safety_event: "#a50f15",
};
const LANES = 6;

// Agents in the order of the tree, others behind; each with the lanes of its events on one axis.
function rowsOfAgents(run, axis) {
  const rows = new Map();
  for (const agent of run.agentRows) rows.set(agent.agent, { name: agent.agent, level: agent.level, lanes: [], events: [] });
  for (const event of run.rows) {
    if (!rows.has(event.who)) rows.set(event.who, { name: event.who, level: 0, lanes: [], events: [] });
    rows.get(event.who).events.push(event);
  }
  for (const row of rows.values()) {
    row.events.sort((a, b) => axis.start(a) - axis.start(b) || a.seq - b.seq);
    for (const event of row.events) {
      const start = axis.start(event);
      let lane = row.lanes.findIndex((until) => until <= start);
      if (lane < 0) lane = row.lanes.length < LANES ? row.lanes.length : LANES - 1;
      row.lanes[lane] = Math.max(row.lanes[lane] ?? 0, axis.finish(event));
      event.lane = lane;
    }
  }
  return [...rows.values()].filter((row) => row.events.length);
}

const AXES = {
  recorded: { label: "as recorded", start: (e) => e.start ?? e.seq, finish: (e) => e.finish ?? e.seq },
  soon: { label: "as soon as possible", start: (e) => e.soon ?? e.seq, finish: (e) => e.soon_finish ?? e.seq },
  order: { label: "in order, one step each", start: (e) => e.at, finish: (e) => e.at + 0.9 },
};

function mixed(from, to, share) {
  const parts = [0, 1, 2].map((at) => Math.round(from[at] + (to[at] - from[at]) * share));
  return `rgb(${parts.join(",")})`;
}

const PALE = { light: [226, 230, 235], dark: [62, 70, 80] };
const BLUE = { light: [0, 90, 160], dark: [110, 190, 255] };
const ORANGE = { light: [200, 85, 0], dark: [255, 160, 60] };
const DARK = matchMedia("(prefers-color-scheme: dark)");

// color(event) and legend: [[color, words]] of each way to color a run.
function coloring(run, by) {
  const theme = DARK.matches ? "dark" : "light";
  const [pale, blue, orange] = [PALE[theme], BLUE[theme], ORANGE[theme]];
  const flat = (rgb) => mixed(rgb, rgb, 0);
  if (by === "critical") {
    return {
      color: (event) => flat(event.critical ? orange : pale),
      legend: [[flat(orange), "on the critical path"], [flat(pale), "off it"]],
    };
  }
  if (by === "taint") {
    const known = run.rows.some((event) => event.hops !== null && event.hops !== undefined);
    return {
      color: (event) => flat((event.hops ?? null) === null ? pale : event.seed ? orange : blue),
      legend: [[flat(orange), "untrusted content begins here"], [flat(blue), "it may have reached this"],
        [flat(pale), known ? "clean" : "nothing is known to be untrusted"]],
    };
  }
  if (by === "tokens" || by === "cost_usd") {
    const values = run.rows.map((event) => event[by] ?? null);
    const most = values.reduce((a, b) => Math.max(a, b ?? 0), 0);
    const word = by === "tokens" ? "tokens" : "USD";
    return {
      color: (event) => (event[by] > 0 ? mixed(pale, blue, 0.15 + 0.85 * Math.sqrt(event[by] / most)) : flat(pale)),
      legend: most ? [[mixed(pale, blue, 0.15), "little"], [flat(blue), `${number(most)} ${word}`], [flat(pale), "none recorded"]]
        : [[flat(pale), `no ${word} recorded`]],
    };
  }
  if (by.startsWith("credit ")) {
    const method = run.credits.find((one) => one.method === by.slice(7));
    const values = method?.events ?? [];
    const most = values.reduce((a, b) => Math.max(a, Math.abs(Number(b ?? 0))), 0);
    return {
      color: (event) => {
        const value = values[event.at] ?? null;
        if (value === null || !most) return flat(pale);
        return mixed(pale, value < 0 ? orange : blue, Math.sqrt(Math.abs(value) / most));
      },
      legend: most ? [[flat(blue), `credit up to +${number(most)}`], [flat(orange), `credit down to −${number(most)}`], [flat(pale), "none"]]
        : [[flat(pale), "no credit by this method: its tab says why"]],
    };
  }
  const present = new Set(run.rows.map((event) => event.type));
  return {
    color: (event) => KINDS[event.type] ?? "#888888",
    legend: Object.entries(KINDS).filter(([kind]) => present.has(kind)).map(([kind, color]) => [color, kind.replaceAll("_", " ")]),
  };
}
