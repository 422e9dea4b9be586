// The page: the list of runs, the chosen run with its tabs, search, and what is told of all recordings.

const byId = (id) => document.getElementById(id);
const page = { run: null, tab: "timeline", at: null, query: "" };
let panes = new Map();
let lines = null;
let grid = null;

const TABS = [
  ["timeline", "Timeline"], ["agents", "Agents"], ["credit", "Credit"], ["effects", "What if"], ["events", "Events"], ["findings", "Findings"],
  ...(CORPUS.beside ? [["beside", "Side by side"]] : []),
];

function summary() {
  const { records } = CORPUS;
  const parts = Object.entries(records).filter(([name, count]) => count && name !== "read").map(([name, count]) => `${number(count)} ${name}`);
  return `${plural(CORPUS.n_runs, "run")} from ${plural(records.read, "record")}${parts.length ? ` (${parts.join(", ")})` : ""}.`;
}

// A run is called by when it began and its model; by its id where the recording says neither.
for (const row of RUNS) {
  row.label = [row.started_at, row.model].filter(Boolean).map((one) => visible(one, 80)).join(" · ") || visible(row.trace_id, 80);
}

// What else tells a run from others: its title, the first words of its task, else the name of the task.
function about(row) {
  const named = row.title ?? row.words ?? (row.task_id === row.trace_id ? null : row.task_id);
  const short = RUNS.some((other) => other !== row && other.label === row.label) ? `id ${visible(row.trace_id.slice(0, 16))}` : null;
  return [named ? visible(named, 90) : short, row.partial ? "partial" : null].filter(Boolean).join(" · ");
}

const runTable = table({
  caption: "Runs; choose one to see it below", rows: RUNS, choose: (row) => open(row, true), chosen: (row) => row === page.run,
  choosable: (row) => row.detail, page: 12, sort: ["n_events", false],
  distinct: true,
  columns: [
    { key: "label", label: "Run", show: (row) => row.label, below: about },
    { key: "importer", label: "Format", kind: "name" },
    { key: "n_events", label: "Events", kind: "number" },
    { key: "n_agents", label: "Agents", kind: "number" },
    { key: "tokens", label: "Tokens", kind: "number" },
    { key: "tokens_fresh", label: "Fresh", kind: "number", title: "Tokens in that no cache had" },
    { key: "tokens_cached", label: "Cached", kind: "number" },
    { key: "tokens_cache_write", label: "Cache write", kind: "number", title: "Tokens in that were written to a cache" },
    { key: "tokens_out", label: "Out", kind: "number" },
    { key: "cost_usd", label: "Cost, USD", kind: "number" },
    { key: "elapsed", label: "Duration", kind: "number", show: (row) => span(row.elapsed, row.clock_unit) },
    { key: "reward", label: "Reward", kind: "number" },
    { key: "task_success", label: "Success", kind: "number" },
    { key: "n_tool_errors", label: "Tool errors", kind: "number" },
    { key: "n_tainted", label: "Tainted", kind: "number", title: "Events that untrusted content may have reached" },
    { key: "n_findings", label: "Findings", kind: "number" },
  ],
});

function open(row, focus = false) {
  page.run = row;
  page.at = null;
  panes = new Map();
  lines = null;
  grid = null;
  const run = runOf(row.trace);
  byId("run-title").textContent = `Run ${row.label}`;
  const shown = run.n_events > run.rows.length
    ? ` The ${run.rows.length.toLocaleString("en")} events of the critical path and the longest are shown.` : "";
  const names = [row.title, row.words].filter(Boolean).map((one) => `${visible(one, 200)}. `).join("");
  byId("run-summary").textContent = `${names}Id ${visible(row.trace_id, 80)}. ${plural(run.n_events, "event")} of ${run.agentRows.length === 1 ? "one agent"
    : `${number(run.agentRows.length)} agents and tools`}, read from ${visible(placeOf(run, 0).replace(" (where the run begins)", ""), 300) || "memory"}.${shown}`
    + (run.no_schedule ? ` No schedule: ${reason(run.no_schedule)}.` : "");
  byId("panes").replaceChildren(...TABS.map(([name]) => el("div", { id: `pane-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}`, tabindex: "-1", hidden: true })));
  byId("panes").append(el("section", { id: "event", "aria-labelledby": "event-title", tabindex: "-1" },
    el("h3", { id: "event-title" }, "Chosen event"), el("div", { id: "event-body" }, el("p", {}, "Choose an event in the timeline or in the table of events."))));
  select(page.tab);
  runTable.redraw();
  search();
  if (focus) {
    byId("run").focus({ preventScroll: true });
    byId("run").scrollIntoView({ behavior: QUIET.matches ? "auto" : "smooth", block: "start" });
  }
}

function select(name) {
  page.tab = name;
  for (const [one] of TABS) {
    const tab = byId(`tab-${one}`);
    tab.setAttribute("aria-selected", String(one === name));
    tab.tabIndex = one === name ? 0 : -1;
    byId(`pane-${one}`).hidden = one !== name;
  }
  byId("event").hidden = name !== "timeline" && name !== "events";
  if (!panes.has(name)) fill(name);
  if (name === "timeline") lines.redraw();
  if (name === "events" && page.at !== null) grid.reveal(runOf(page.run.trace).rows[page.at]);
}

function fill(name) {
  const run = runOf(page.run.trace);
  const acts = { chooseEvent, chosenEvent: () => page.at, chooseAgent };
  let made;
  if (name === "timeline") {
    lines = timeline(run, { choose: chooseEvent, colorings: [["kind", "kind"], ["critical", "critical path"], ["taint", "taint"],
      ["tokens", "tokens"], ["cost_usd", "cost"], ...run.credits.map((one) => [`credit ${one.method}`, `credit by ${one.method}`])] });
    made = [lines.element];
  } else if (name === "agents") made = agentsPane(run, acts);
  else if (name === "credit") made = creditPane(run, acts);
  else if (name === "effects") made = effectsPane(run);
  else if (name === "findings") made = findingsPane(run, acts);
  else if (name === "beside") made = besidePane(run, acts);
  else {
    const [element, itself] = eventsPane(run, acts);
    grid = itself;
    made = [element];
  }
  panes.set(name, made);
  byId(`pane-${name}`).replaceChildren(...made.filter(Boolean));
  if (name === "timeline" || name === "events") applySearch(run);
}

function chooseEvent(at, focus) {
  const run = runOf(page.run.trace);
  page.at = at;
  if (page.tab !== "timeline" && page.tab !== "events") select("events");
  byId("event-title").textContent = `Event ${visible(run.rows[at].id, 80)}`;
  byId("event-body").replaceChildren(...eventDetails(run, at, (other) => chooseEvent(other, true)).filter(Boolean));
  lines?.point(at);
  if (grid && page.tab === "events") grid.redraw();
  if (focus) byId("event").focus();
}

function chooseAgent(agent) {
  const run = runOf(page.run.trace);
  const first = run.rows.find((event) => event.who === agent.agent);
  if (!first) return;
  select("timeline");
  lines.point(first.at);
  chooseEvent(first.at, false);
  lines.focus();
}

// Search: rows of the list by their own words and by their events, events of the chosen run.
function words(row) {
  row.searched ??= [row.trace_id, row.task_id, row.importer, row.system, row.topology, row.started_at, row.model, row.title, row.words]
    .map((one) => one ?? "").join("\u0000").toLowerCase();
  return row.searched;
}

function applySearch(run) {
  if (!page.query) {
    lines?.match(null);
    grid?.show(run.rows);
    return run.rows.length;
  }
  const found = haystack(run).map((text, at) => (text.includes(page.query) ? at : -1)).filter((at) => at >= 0);
  lines?.match(new Set(found));
  grid?.show(found.map((at) => run.rows[at]));
  return found.length;
}

function search() {
  const query = byId("search").value.trim().toLowerCase();
  const changed = query !== page.query;
  page.query = query;
  if (!page.run && !RUNS.length) return;
  const hits = (row) => words(row).includes(query) || (row.detail && haystack(runOf(row.trace)).some((text) => text.includes(query)));
  const rows = query ? RUNS.filter(hits) : RUNS;
  if (changed) runTable.show(rows);
  const run = page.run ? runOf(page.run.trace) : null;
  const events = run ? applySearch(run) : 0;
  byId("matches").textContent = query
    ? `${rows.length.toLocaleString("en")} of ${plural(RUNS.length, "run")} match; in the chosen run ${events.toLocaleString("en")} of ${plural(run ? run.rows.length : 0, "event")}.`
    : "";
}

let waiting = 0;
byId("search").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(search, 120);
});
byId("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
document.addEventListener("keydown", (event) => {
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    byId("search").focus();
  } else if (event.key === "Escape" && document.activeElement === byId("search")) {
    byId("search").value = "";
    search();
  } else if (event.key === "Escape" && byId("event")?.contains(document.activeElement)) {
    if (page.tab === "timeline") lines.focus();
    else byId(`tab-${page.tab}`).focus();
  }
});

byId("tabs").append(...TABS.map(([name, label]) => el("button", { type: "button", role: "tab", id: `tab-${name}`,
  "aria-controls": `pane-${name}`, "aria-selected": "false", tabindex: "-1", onclick: () => select(name) }, label)));
byId("tabs").addEventListener("keydown", (event) => {
  const at = TABS.findIndex(([name]) => `tab-${name}` === document.activeElement?.id);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  const [name] = TABS[(to + TABS.length) % TABS.length];
  select(name);
  byId(`tab-${name}`).focus();
});

function aboutRecordings() {
  const codes = table({ caption: "Quarantined records by code", rows: rowsOf(CORPUS.quarantine.codes), empty: "No record was quarantined.",
    columns: [{ key: "code", label: "Code", show: (row) => el("code", {}, visible(row.code)) }, { key: "records", label: "Records", kind: "number" }] });
  const rejects = rowsOf(CORPUS.quarantine.rows);
  const records = table({ caption: "Quarantined records, the first of each place", rows: rejects, empty: "None.",
    columns: [{ key: "file", label: "File", kind: "long", show: (row) => visible(row.file, 200) }, { key: "line", label: "Line", kind: "number" },
      { key: "code", label: "Code", show: (row) => el("code", {}, visible(row.code)) },
      { key: "path", label: "Field", show: (row) => visible(row.path) }, { key: "message", label: "What", kind: "long", show: (row) => visible(row.message, 400) }] });
  const odd = table({ caption: "Findings of all runs", rows: rowsOf(CORPUS.findings), empty: "Nothing is odd.",
    columns: [{ key: "code", label: "Code", show: (row) => el("code", {}, visible(row.code)) }, { key: "traces", label: "Runs", kind: "number" },
      { key: "occurrences", label: "Times", kind: "number" }, { key: "message", label: "For example", kind: "long", show: (row) => visible(row.message, 400) }] });
  byId("recordings-body").replaceChildren(odd.element, codes.element, ...(rejects.length ? [records.element] : []));
}

// What the story says; of a run that is worth opening, with its name, which opens it if it is here in detail.
function sentence(said, first) {
  const row = first && RUNS.find((one) => one.trace === first[0]);
  if (!row) return [visible(said, 2000)];
  const name = row.detail ? el("button", { type: "button", class: "choose", onclick: () => open(row, true) }, row.label) : row.label;
  return [name, `: ${visible(first[1], 2000)}.`];
}

function inShort() {
  const story = el("table", { class: "story" }, el("caption", { class: "sr" }, "What is worth knowing first"),
    el("tbody", {}, ...CORPUS.story.map(([subject, said], at) => el("tr", {},
      el("th", { scope: "row" }, subject || "and"), el("td", {}, ...sentence(said, CORPUS.first[at - CORPUS.story.length + CORPUS.first.length]))))));
  const commands = el("details", {}, el("summary", {}, "The commands that show more"),
    el("ul", {}, ...CORPUS.story.map(([, , command]) => el("li", {}, el("code", {}, visible(command, 600))))));
  byId("bars").replaceChildren(timeBar(), moneyBars());
  byId("story-body").replaceChildren(story, commands);
}

byId("summary").textContent = summary();
byId("left-out").replaceChildren(...[notes(...CORPUS.left_out, CORPUS.no_reward ? `No rewards: ${visible(CORPUS.no_reward, 600)}.` : null)].filter(Boolean));
byId("run-table").append(runTable.element);
byId("made").textContent = `Made by orchestrace ${CORPUS.version} from recordings. Nothing is fetched, nothing is sent.`;
inShort();
aboutRecordings();
const opening = RUNS.find((row) => row.trace === CORPUS.opening);
if (opening) open(opening);
else byId("run").hidden = true;
document.documentElement.dataset.ready = "yes";
