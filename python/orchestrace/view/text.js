// Text that is safe to look at. Names come out of recordings and may hold anything: they reach the page through
// textContent only, and what a reader cannot see, or what turns a line around, is spelt as an escape.

const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u2800\u3164\uffa0]/gu;
const LONGEST = 160;

function visible(value, longest = LONGEST) {
  let text = value === null || value === undefined ? "" : String(value);
  const length = text.length;
  if (length > longest) text = text.slice(0, longest);
  text = text.replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  return length > longest ? `${text}… (${length.toLocaleString("en")} characters)` : text;
}

// Lines of a record stay lines.
function visibleLines(text) {
  return text.split("\n").map((line) => line.split("\t").map((part) => visible(part, 1e9)).join("\t")).join("\n");
}

function number(value, digits = 4) {
  if (value === null || value === undefined || value === "") return "";
  const n = Number(value);
  if (Number.isNaN(n)) return visible(value);
  if (Number.isInteger(n)) return n.toLocaleString("en");
  const size = Math.abs(n);
  if (size >= 1e6 || size < 1e-4) return n.toPrecision(digits);
  return n.toLocaleString("en", { maximumSignificantDigits: Math.max(digits, 4) });
}

function signed(value) {
  const text = number(value);
  return text && Number(value) > 0 ? `+${text}` : text.replace("-", "−");
}

function span(value, unit) {
  if (value === null || value === undefined) return "";
  if (unit !== "seconds") return `${number(value)} steps`;
  const s = Number(value);
  for (const [size, name, small, rest] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
    if (s < size) continue;
    const whole = Math.round(s / small);
    const left = whole % (size / small);
    return `${Math.floor(whole / (size / small))} ${name}${left ? ` ${left} ${rest}` : ""}`;
  }
  return `${number(s, 3)} s`;
}

function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

// An element with its attributes and children; strings become text, never markup.
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") made.textContent = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const QUIET = matchMedia("(prefers-reduced-motion: reduce)");
