// The data of the page: frames by columns, unpacked when they are looked at.

function unpacked(frame) {
  const columns = {};
  for (const [name, column] of Object.entries(frame.columns)) {
    columns[name] = Array.isArray(column) ? column : column.at.map((at) => (at < 0 ? null : column.names[at]));
  }
  return { height: frame.height, columns };
}

// Rows of a frame as objects; `names` are there in every row, if only as null.
function rowsOf(frame) {
  const { height, columns } = unpacked(frame);
  const rows = Array.from({ length: height }, () => ({}));
  for (const [name, column] of Object.entries(columns)) {
    for (let at = 0; at < height; at += 1) rows[at][name] = column[at];
  }
  return rows;
}

function block(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

const CORPUS = block("corpus");
const RUNS = rowsOf(CORPUS.runs);
const loaded = new Map();

// A run in detail, read once: its events know their place, their edges and their record.
function runOf(trace) {
  if (loaded.has(trace)) return loaded.get(trace);
  const run = block(`run-${trace}`);
  run.rows = rowsOf(run.events);
  run.texts = unpacked(run.texts).columns.text ?? [];
  run.place = new Map(run.rows.map((row, at) => [row.seq, at]));
  run.agentRows = rowsOf(run.agents);
  run.edgeRows = rowsOf(run.edges);
  run.rows.forEach((row, at) => {
    row.at = at;
    row.into = [];
    row.out = [];
    row.who = row.owner ?? row.agent ?? null;
  });
  for (const edge of run.edgeRows) {
    const [from, to] = [run.place.get(edge.src), run.place.get(edge.dst)];
    run.rows[from].out.push({ at: to, type: edge.type });
    run.rows[to].into.push({ at: from, type: edge.type });
  }
  loaded.set(trace, run);
  return run;
}

function placeOf(run, at) {
  const { places } = run;
  if (places.file.length) return `${places.files[places.file[at]]}:${places.line[at]}`;
  return run.file === null ? "" : `${run.file}:${run.line ?? 1} (where the run begins)`;
}

// What the search looks at, in lower case, an entry for each event.
const SEARCHED = ["id", "type", "agent", "owner", "role", "from", "to", "tool", "model", "action", "subtask_id"];

function haystack(run) {
  run.haystack ??= run.rows.map((row, at) =>
    [...SEARCHED.map((name) => row[name] ?? ""), run.texts[at] ?? ""].join("\u0000").toLowerCase());
  return run.haystack;
}
