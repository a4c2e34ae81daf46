// Pictures of streams on canvases: a ring of points, and how it is drawn.

export const SHOWN = 1000; // points of the stream in focus
const COLOURS = ["--first", "--second", "--third", "--fourth", "--fifth", "--sixth"];
let style = {};

export function readColours() {
  const computed = getComputedStyle(document.documentElement);
  for (const name of [...COLOURS, "--quiet", "--line", "--grid", "--band", "--true", "--panel", "--ink"]) {
    style[name] = computed.getPropertyValue(name).trim();
  }
}
export const colour = (k) => style[COLOURS[k % COLOURS.length]];

// Points by their numbers, at most `size` of them; points that were left out lie on the line between their neighbours.
export class Ring {
  constructor(size) {
    this.size = size;
    this.at = [];
    this.values = [];
  }
  push(first, stride, rows) {
    if (this.at.length && first < this.at[this.at.length - 1]) { this.at = []; this.values = []; }
    rows.forEach((row, k) => { this.at.push(first + k * stride); this.values.push(row); });
    const spare = this.at.length - 2 * this.size;
    if (spare > 0) { this.at.splice(0, spare); this.values.splice(0, spare); }
  }
  get last() { return this.at.length ? this.at[this.at.length - 1] : 0; }
  from(number) {
    let low = 0, high = this.at.length;
    while (low < high) { const middle = (low + high) >> 1; if (this.at[middle] < number) low = middle + 1; else high = middle; }
    return low;
  }
}

export function fitted(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width];
}

const nice = (span) => { const power = 10 ** Math.floor(Math.log10(span)), lead = span / power; return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10); };

function ticks(context, from, to, x, top, bottom) {
  const step = nice((to - from) / 7);
  context.fillStyle = style["--quiet"];
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  for (let value = Math.ceil(Math.max(0, from) / step) * step; value <= to; value += step) {
    context.fillText(value.toLocaleString("en"), x(value), bottom + 15);
  }
}

// One lane per channel, windows as hairlines, the newest point at the right; or ahead of it the fan of a forecast,
// whose places are counted in points, and as much of the past as can be seen beside it.
export function drawChannels(canvas, ring, end, names, step, fan) {
  const height = fan ? Math.max(250, 90 * names.length) : 250, [context, width] = fitted(canvas, height);
  const reach = fan ? fan.places[fan.places.length - 1] : 0, shown = fan ? Math.min(SHOWN, Math.max(20, 2 * reach)) : SHOWN;
  const bottom = height - 20, from = end - shown, x = (at) => ((at - from) / (shown + reach)) * (width - 12); // the last point is number `end` - 1
  if (fan) { context.strokeStyle = style["--line"]; context.lineWidth = 1; context.beginPath(); context.moveTo(x(end - 1), 2); context.lineTo(x(end - 1), bottom); context.stroke(); }
  if (step) {
    context.strokeStyle = style["--line"];
    context.lineWidth = 1;
    const every = step * Math.max(1, Math.round(8 / ((step / SHOWN) * width)));
    context.beginPath();
    for (let at = Math.ceil(Math.max(0, from) / every) * every; at <= end; at += every) { context.moveTo(x(at), 2); context.lineTo(x(at), bottom); }
    context.stroke();
  }
  ticks(context, from, end, x, 0, bottom);
  const start = ring.from(from), count = names.length || 1, lane = bottom / count;
  for (let c = 0; c < count; c++) {
    let low = Infinity, high = -Infinity;
    const reaches = (v) => { if (v !== null && v !== undefined) { low = Math.min(low, v); high = Math.max(high, v); } };
    for (let k = start; k < ring.at.length; k++) reaches(ring.values[k][c]);
    if (fan) fan.values.forEach((row, k) => { reaches(row[c]); fan.ends?.[k][c].forEach(reaches); });
    if (low > high) continue;
    const span = high - low || 1, top = c * lane + 10, tall = lane - 20;
    const y = (v) => top + tall * (1 - (v - low) / span);
    if (fan) drawFan(context, fan, c, (place) => x(end - 1 + place), y);
    context.strokeStyle = colour(c);
    context.lineWidth = 1.7;
    context.lineJoin = "round";
    context.beginPath();
    let pen = false, last = null;
    for (let k = start; k < ring.at.length && ring.at[k] <= end; k++) {
      const v = ring.values[k][c];
      if (v === null || v === undefined) { pen = false; continue; }
      if (pen) context.lineTo(x(ring.at[k]), y(v)); else context.moveTo(x(ring.at[k]), y(v));
      pen = true; last = [x(ring.at[k]), y(v)];
      if (fan) context.ellipse(...last, 1, 1, 0, 0, 7); // one between two gaps has no line
    }
    context.stroke();
    if (last) { context.fillStyle = colour(c); context.beginPath(); context.arc(last[0], last[1], 3.2, 0, 7); context.fill(); }
  }
}

// What a channel will be, and between which ends; an end that is not known is left out.
function drawFan(context, fan, c, x, y) {
  const sure = fan.places.map((place, k) => [place, fan.ends?.[k][c] ?? [null, null]]).filter(([, ends]) => ends[0] !== null && ends[1] !== null);
  context.fillStyle = context.strokeStyle = colour(c);
  if (sure.length > 1) {
    context.globalAlpha = 0.18; context.beginPath();
    sure.forEach(([place, ends], k) => (k ? context.lineTo(x(place), y(ends[1])) : context.moveTo(x(place), y(ends[1]))));
    [...sure].reverse().forEach(([place, ends]) => context.lineTo(x(place), y(ends[0])));
    context.closePath(); context.fill(); context.globalAlpha = 1;
  }
  context.lineWidth = 1.7; context.setLineDash([5, 4]); context.beginPath();
  fan.places.forEach((place, k) => (k ? context.lineTo(x(place), y(fan.values[k][c])) : context.moveTo(x(place), y(fan.values[k][c]))));
  context.stroke(); context.setLineDash([]);
}

// The predictions so far, with their intervals and what is true; or the probability of each class.
export function drawAnswers(canvas, history, classes) {
  const height = 170, [context, width] = fitted(canvas, height);
  if (history.length < 2) return;
  const left = 42, bottom = height - 20, from = history[0].at, to = Math.max(history[history.length - 1].at, from + 1);
  const x = (at) => left + ((at - from) / (to - from)) * (width - left - 12);
  let low = 0, high = 1;
  if (!classes) {
    const all = history.flatMap((one) => [one.value, one.truth, ...(one.ends || [])]).filter((v) => Number.isFinite(v));
    low = Math.min(...all); high = Math.max(...all);
    const spare = 0.08 * (high - low || 1); low -= spare; high += spare;
  }
  const y = (v) => 6 + (bottom - 6) * (1 - (v - low) / (high - low));
  const step = nice((high - low) / 4);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) {
    context.strokeStyle = style["--grid"]; context.lineWidth = 1;
    context.beginPath(); context.moveTo(left, y(value)); context.lineTo(width, y(value)); context.stroke();
    context.fillStyle = style["--quiet"];
    context.fillText(Number(value.toPrecision(6)).toLocaleString("en"), left - 8, y(value) + 4);
  }
  ticks(context, from, to, x, 0, bottom);
  const line = (points, stroke, wide) => {
    context.strokeStyle = stroke; context.lineWidth = wide; context.lineJoin = "round"; context.beginPath();
    points.forEach(([px, py], k) => (k ? context.lineTo(px, py) : context.moveTo(px, py))); context.stroke();
  };
  if (classes) {
    classes.slice(0, 6).forEach((name, k) => line(history.map((one) => [x(one.at), y(one.shares[name] ?? 0)]), colour(k), 2));
    return;
  }
  const banded = history.filter((one) => one.ends);
  if (banded.length > 1) {
    context.fillStyle = style["--band"]; context.beginPath();
    banded.forEach((one, k) => (k ? context.lineTo(x(one.at), y(one.ends[1])) : context.moveTo(x(one.at), y(one.ends[1]))));
    [...banded].reverse().forEach((one) => context.lineTo(x(one.at), y(one.ends[0])));
    context.closePath(); context.fill();
  }
  line(history.map((one) => [x(one.at), y(one.value)]), colour(0), 2);
  context.fillStyle = style["--true"];
  for (const one of history) if (one.truth !== undefined) { context.beginPath(); context.arc(x(one.at), y(one.truth), 3.1, 0, 7); context.fill(); }
}

export function drawTile(canvas, ring, chosen) {
  const height = 36, [context, width] = fitted(canvas, height), count = ring.at.length;
  if (count < 2) return;
  const end = ring.last, span = Math.max(Math.min(end - ring.at[0], SHOWN), 1), start = ring.from(end - SHOWN);
  let low = Infinity, high = -Infinity;
  for (let k = start; k < count; k++) { const v = ring.values[k][0]; if (v !== null) { low = Math.min(low, v); high = Math.max(high, v); } }
  context.strokeStyle = chosen ? colour(0) : style["--quiet"];
  context.lineWidth = 1.25; context.lineJoin = "round"; context.globalAlpha = chosen ? 1 : 0.85;
  context.beginPath();
  for (let k = start; k < count; k++) {
    const v = ring.values[k][0]; if (v === null) continue;
    const px = width - ((end - ring.at[k]) / span) * width, py = 3 + (height - 6) * (1 - (v - low) / (high - low || 1));
    if (k === start) context.moveTo(px, py); else context.lineTo(px, py);
  }
  context.stroke(); context.globalAlpha = 1;
}
