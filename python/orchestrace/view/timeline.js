// The timeline of a run on a canvas: 10,000 events as elements of their own would take seconds to lay out. Its text
// alternative is the table of events, which has the same rows; the chosen event is told in a live region.

const ROW = 16;
const GAP = 8;
const AXIS = 26;
// Seconds between the ticks of a clock, from 15 s to a week.
const CLOCK = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

function timeline(run, { choose, colorings, announce }) {
  const state = { axis: run.no_schedule ? "order" : "recorded", by: "kind", from: 0, to: 1, at: null, matches: null };
  const canvas = el("canvas", { class: "canvas", tabindex: "0", role: "application", "aria-roledescription": "timeline",
    "aria-label": `Timeline of ${plural(run.rows.length, "event")} by agent. Left and right go from event to event, up and down from agent to agent, Enter shows details, plus and minus zoom. The tab Events has the same as a table.` });
  const spacer = el("div", { class: "spacer" });
  const view = el("div", { class: "timeline", tabindex: "-1" }, canvas, spacer);
  const legend = el("ul", { class: "legend", "aria-label": "Colors" });
  const cursor = el("p", { class: "cursor", role: "status", "aria-live": "polite" }, "No event is chosen.");
  let rows = [];
  let extent = [0, 1];
  let height = 0;
  let scheduled = false;
  let fill = () => "#888";

  const choice = (label, options, name) => el("label", {}, `${label} `, el("select", { onchange: (event) => {
    state[name] = event.target.value;
    if (name === "axis") layout();
    recolor();
  } }, ...options.map(([value, words]) => el("option", { value, selected: state[name] === value }, words))));
  const button = (words, label, act) => el("button", { type: "button", "aria-label": label, title: label, onclick: act }, words);
  const tools = el("div", { class: "tools" },
    choice("Color by", colorings, "by"),
    run.no_schedule ? null : choice("Time", Object.entries(AXES).map(([name, axis]) => [name, axis.label]), "axis"),
    el("span", { class: "buttons", role: "group", "aria-label": "Zoom" },
      button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)), button("Fit", "Show the whole run", () => window_(...extent))));

  function layout() {
    const axis = AXES[state.axis];
    rows = rowsOfAgents(run, axis);
    let top = AXIS;
    for (const row of rows) {
      row.top = top;
      row.height = Math.max(1, row.lanes.length) * ROW;
      top += row.height + GAP;
      for (const event of row.events) event.row = row;
    }
    height = top;
    extent = [Infinity, -Infinity];
    for (const event of run.rows) {
      extent[0] = Math.min(extent[0], axis.start(event));
      extent[1] = Math.max(extent[1], axis.finish(event));
    }
    if (!(extent[1] > extent[0])) extent = [Number.isFinite(extent[0]) ? extent[0] : 0, (Number.isFinite(extent[0]) ? extent[0] : 0) + 1];
    view.style.height = `${Math.min(height + 4, Math.max(260, Math.round(innerHeight * 0.6)))}px`;
    [state.from, state.to] = extent;
  }

  function recolor() {
    const found = coloring(run, state.by);
    fill = found.color;
    legend.replaceChildren(...found.legend.map(([color, words]) => {
      const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = color;
      return el("li", {}, swatch, words);
    }), el("li", {}, el("span", { class: "swatch line", "aria-hidden": "true" }), "line below: critical path"));
    redraw();
  }

  function window_(from, to) {
    const whole = extent[1] - extent[0];
    const width = Math.min(whole, Math.max(to - from, whole / 1e6));
    state.from = Math.min(Math.max(from, extent[0]), extent[1] - width);
    state.to = state.from + width;
    redraw();
  }

  function zoom(factor, around = null) {
    const middle = around ?? (state.at === null ? (state.from + state.to) / 2 : AXES[state.axis].start(run.rows[state.at]));
    const inside = Math.min(Math.max(middle, state.from), state.to);
    window_(inside - (inside - state.from) * factor, inside + (state.to - inside) * factor);
  }

  const names = () => Math.min(170, Math.max(84, Math.round(canvas.clientWidth * 0.2)));
  const x = (time) => names() + ((time - state.from) / (state.to - state.from)) * (canvas.clientWidth - names() - 8);
  const timeAt = (px) => state.from + ((px - names()) / (canvas.clientWidth - names() - 8)) * (state.to - state.from);

  function redraw() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      paint();
      performance.mark("drawn"); // what benches/python/view_paint.py waits for
    });
  }

  function paint() {
    const [width, tall] = [view.clientWidth, view.clientHeight];
    if (!width || !tall) return;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(tall * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${tall}px`;
    }
    spacer.style.height = `${Math.max(0, height - tall)}px`;
    const style = getComputedStyle(view);
    const ink = { text: style.getPropertyValue("--text").trim(), line: style.getPropertyValue("--line").trim(),
      ground: style.getPropertyValue("--ground").trim(), accent: style.getPropertyValue("--accent").trim() };
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = ink.ground;
    c.fillRect(0, 0, width, tall);
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    const shift = view.scrollTop;
    const axis = AXES[state.axis];
    const left = names();
    const stripes = rows.filter((row) => row.top + row.height > shift && row.top < shift + tall);
    for (const row of stripes) {
      c.fillStyle = ink.line;
      c.fillRect(0, row.top - shift + row.height + GAP / 2, width, 1);
    }
    c.save();
    c.beginPath();
    c.rect(left, AXIS, width - left, tall - AXIS);
    c.clip();
    for (const row of stripes) {
      for (const event of row.events) {
        const [from, to] = [x(axis.start(event)), x(axis.finish(event))];
        if (to < left || from > width) continue;
        const y = row.top - shift + event.lane * ROW;
        c.globalAlpha = state.matches && !state.matches.has(event.at) ? 0.15 : 1;
        c.fillStyle = fill(event);
        c.fillRect(from, y, Math.max(to - from - 0.5, 2), ROW - 4);
        if (event.critical) {
          c.fillStyle = ink.text;
          c.fillRect(from, y + ROW - 4, Math.max(to - from - 0.5, 2), 2);
        }
      }
    }
    c.globalAlpha = 1;
    if (state.at !== null) mark(c, run.rows[state.at], axis, shift, ink);
    c.restore();
    labels(c, stripes, left, shift, ink);
    ticks(c, left, width, ink);
  }

  function mark(c, event, axis, shift, ink) {
    const middle = (one) => one.row.top - shift + one.lane * ROW + ROW / 2 - 2;
    c.strokeStyle = ink.accent;
    c.lineWidth = 1.5;
    for (const [near, isInto] of [[event.into, true], [event.out, false]]) {
      for (const edge of near.slice(0, 50)) {
        const other = run.rows[edge.at];
        const [a, b] = isInto ? [other, event] : [event, other];
        c.setLineDash(edge.type === "temporal" ? [3, 3] : []);
        c.beginPath();
        c.moveTo(x(axis.finish(a)), middle(a));
        c.lineTo(x(axis.start(b)), middle(b));
        c.stroke();
      }
    }
    c.setLineDash([]);
    c.lineWidth = 2.5;
    c.strokeRect(x(axis.start(event)) - 2, event.row.top - shift + event.lane * ROW - 2,
      Math.max(x(axis.finish(event)) - x(axis.start(event)), 2) + 4, ROW);
  }

  function labels(c, stripes, left, shift, ink) {
    c.fillStyle = ink.ground;
    c.fillRect(0, AXIS, left - 4, canvas.clientHeight - AXIS);
    c.fillStyle = ink.text;
    for (const row of stripes) {
      const indent = 6 + Math.min(row.level, 5) * 9;
      c.fillText(fitted(c, row.name === null ? "nobody" : visible(row.name, 60), left - indent - 10), indent, row.top - shift + row.height / 2 - 2);
    }
  }

  function fitted(c, text, width) {
    if (c.measureText(text).width <= width) return text;
    let [low, high] = [0, text.length];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (c.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
      else high = middle - 1;
    }
    return `${text.slice(0, low)}…`;
  }

  function ticks(c, left, width, ink) {
    c.fillStyle = ink.ground;
    c.fillRect(0, 0, width, AXIS);
    c.fillStyle = ink.text;
    const count = Math.max(2, Math.floor((width - left) / 110));
    const raw = (state.to - state.from) / count;
    const unit = state.axis === "order" ? "steps" : run.unit;
    const step = stepOf(raw, unit);
    for (let tick = Math.ceil(state.from / step) * step, n = 0; tick <= state.to && n < 50; tick += step, n += 1) {
      const at = x(tick);
      const words = unit === "seconds" ? span(Number(tick.toPrecision(9)), unit) : number(Number(tick.toPrecision(6)));
      c.fillRect(at, AXIS - 5, 1, 5);
      c.fillText(words, Math.min(at + 3, width - c.measureText(words).width - 2), AXIS / 2);
    }
    c.fillText(unit === "seconds" ? "time" : "steps", 6, AXIS / 2);
  }

  function stepOf(raw, unit) {
    const clock = unit === "seconds" ? CLOCK.find((one) => one >= raw) : undefined;
    if (raw > 10 && clock) return clock;
    const power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
  }

  function point(at, { scroll = true } = {}) {
    state.at = at;
    const event = run.rows[at];
    const axis = AXES[state.axis];
    const [start, finish] = [axis.start(event), axis.finish(event)];
    if (scroll && (start > state.to || finish < state.from)) {
      const width = state.to - state.from;
      window_(start - width / 2, start + width / 2);
    }
    if (scroll && (event.row.top < view.scrollTop + AXIS || event.row.top + event.row.height > view.scrollTop + view.clientHeight)) {
      view.scrollTop = Math.max(0, event.row.top - view.clientHeight / 2);
    }
    const words = `${visible(event.who ?? "nobody")}: ${event.type.replaceAll("_", " ")}${event.tool ? ` ${visible(event.tool)}` : ""}, ${visible(event.id)}, ${span(event.start ?? event.seq, run.unit)}`;
    cursor.textContent = words;
    redraw();
  }

  function hit(px, py) {
    const axis = AXES[state.axis];
    const y = py + view.scrollTop;
    const row = rows.find((one) => y >= one.top && y < one.top + one.height);
    if (!row || px < names() || py < AXIS) return null;
    const lane = Math.floor((y - row.top) / ROW);
    let best = null;
    for (const event of row.events) {
      if (event.lane !== lane) continue;
      const [from, to] = [x(axis.start(event)), Math.max(x(axis.finish(event)), x(axis.start(event)) + 2)];
      const away = Math.max(from - px, px - to, 0);
      if (away <= 4 && (best === null || away <= best[0])) best = [away, event.at];
    }
    return best && best[1];
  }

  function step(key) {
    if (state.at === null) return rows[0]?.events[0]?.at ?? null;
    const event = run.rows[state.at];
    const among = event.row.events;
    const place = among.indexOf(event);
    if (key === "ArrowRight") return among[Math.min(place + 1, among.length - 1)].at;
    if (key === "ArrowLeft") return among[Math.max(place - 1, 0)].at;
    if (key === "Home") return among[0].at;
    if (key === "End") return among[among.length - 1].at;
    const next = rows[rows.indexOf(event.row) + (key === "ArrowDown" ? 1 : -1)];
    if (!next) return state.at;
    const start = AXES[state.axis].start(event);
    return next.events.reduce((a, b) =>
      (Math.abs(AXES[state.axis].start(b) - start) < Math.abs(AXES[state.axis].start(a) - start) ? b : a)).at;
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
      const at = step(event.key);
      if (at !== null) point(at);
    } else if (event.key === "Enter" || event.key === " ") {
      if (state.at !== null) choose(state.at, true);
    } else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "0") window_(...extent);
    else return;
    event.preventDefault();
  });

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.offsetX, from: state.from, to: state.to, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag || !event.buttons) return;
    const by = ((drag.x - event.offsetX) / (canvas.clientWidth - names() - 8)) * (drag.to - drag.from);
    if (Math.abs(drag.x - event.offsetX) > 4) drag.moved = true;
    if (drag.moved) window_(drag.from + by, drag.to + by);
  });
  canvas.addEventListener("pointerup", (event) => {
    const at = drag && !drag.moved ? hit(event.offsetX, event.offsetY) : null;
    drag = null;
    if (at === null) return;
    point(at, { scroll: false });
    choose(at, false);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.offsetX));
  }, { passive: false });
  view.addEventListener("scroll", redraw, { passive: true });
  DARK.addEventListener("change", recolor);
  new ResizeObserver(redraw).observe(view);

  layout();
  recolor();
  return {
    element: el("div", {}, tools, legend, view, cursor),
    point,
    redraw,
    paint,
    match(found) {
      state.matches = found;
      redraw();
    },
    focus: () => canvas.focus(),
  };
}
