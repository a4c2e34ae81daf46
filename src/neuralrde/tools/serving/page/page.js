// The page: watches the service's streams.
import { Ring, SHOWN, colour, drawAnswers, drawChannels, drawTile, readColours } from "/trace.js";

const $ = (id) => document.getElementById(id);
const streams = new Map();
let models = {}, model = null, focus = null, socket = null, latencies = [], chosenByHand = false;

class Stream {
  constructor(name) {
    this.name = name;
    this.tile = document.createElement("button");
    this.tile.type = "button"; this.tile.className = "tile";
    for (const part of ["who", "late", "says", "true"]) { this[part] = document.createElement("span"); this[part].className = part; this.tile.append(this[part]); }
    this.canvas = document.createElement("canvas"); this.tile.append(this.canvas);
    this.who.textContent = name; this.tile.title = name;
    this.tile.addEventListener("click", () => { chosenByHand = true; look(name); });
    this.reset();
  }
  reset() { this.small = new Ring(SHOWN / 5); this.whole = new Ring(SHOWN); this.history = []; this.points = 0; this.cursor = 0; this.truth = undefined; }
  take(news) {
    if (news.restarted && news.from !== undefined && news.from < this.points) this.reset();
    this.points = news.points;
    if (news.values) {
      const every = Math.ceil(news.values.length / 12);
      this.small.push(news.from, news.stride * every, news.values.filter((_, k) => k % every === 0).map((row) => [row[0]]));
      if (this.name === focus && news.values[0].length === channels().length) this.whole.push(news.from, news.stride, news.values);
    }
    if (news.truth !== undefined) this.truth = news.truth;
    if (news.answer) {
      if (news.answer.forecast) news.answer = summed(news.answer);
      const { prediction, interval, probabilities } = news.answer;
      const first = (value) => (Array.isArray(value) ? value[0] : value);
      this.answer = news.answer;
      const entry = { at: this.points, value: first(prediction), shares: probabilities };
      if (interval) entry.ends = Array.isArray(interval[0]) ? interval[0] : interval;
      if (typeof news.truth === "number") entry.truth = news.truth;
      this.history.push(entry);
      if (this.history.length > 1200) this.history = this.history.filter((one, k) => k % 2 || one.truth !== undefined);
    }
    this.latency = news.latency;
    this.stale = true;
  }
  show() {
    if (!this.stale) return;
    this.stale = false;
    this.says.textContent = this.answer ? written(this.answer.prediction) : "–";
    this.true.textContent = this.truth === undefined || this.truth === null ? "" : written(this.truth);
    this.late.textContent = this.latency === undefined ? "" : milliseconds(this.latency);
    drawTile(this.canvas, this.small, this.name === focus);
  }
}

// A forecast as a prediction: of the first channel, at the end of its horizon; and as a fan, placed in points.
function summed({ forecast, interval, times, now }) {
  const { step } = models[model].parameters.ahead, ends = interval?.[interval.length - 1][0];
  return { prediction: forecast[forecast.length - 1][0], interval: ends?.every(Number.isFinite) ? ends : null, fan: { places: times.map((time) => (time - now) / step), values: forecast, ends: interval } };
}
const channels = () => models[model]?.parameters?.channels ?? [];
const classes = () => models[model]?.parameters?.classes ?? null;
const written = (value) => { const one = Array.isArray(value) ? value[0] : value; return typeof one === "number" ? one.toFixed(Math.abs(one) >= 100 ? 0 : Math.abs(one) >= 10 ? 1 : 3) : String(one); };
const milliseconds = (value) => `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;

function look(name) {
  if (focus === name) return;
  const before = streams.get(focus);
  focus = name;
  for (const one of [before, streams.get(name)]) if (one) { one.whole = new Ring(SHOWN); one.tile.classList.toggle("chosen", one.name === name); one.stale = true; }
  tell();
}
const tell = () => { if (socket?.readyState === 1) socket.send(JSON.stringify({ focus, model })); };

function connect() {
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/watch`);
  socket.onopen = () => { $("link").textContent = "live"; $("link").className = "link live"; tell(); };
  socket.onclose = () => { $("link").textContent = "connection lost"; $("link").className = "link lost"; setTimeout(connect, 1000); };
  socket.onmessage = (event) => {
    const frame = JSON.parse(event.data);
    latencies.push(...frame.latencies);
    latencies = latencies.slice(-3000);
    for (const [name, news] of Object.entries(frame.streams)) {
      let stream = streams.get(name);
      if (news.ended) { if (stream) { stream.tile.remove(); streams.delete(name); if (focus === name) { focus = null; chosenByHand = false; } } continue; }
      if (!stream) { stream = new Stream(name); streams.set(name, stream); place(stream); }
      stream.take(news);
    }
    if (!streams.has(focus) && streams.size) look([...streams.keys()].sort(byName)[0]);
  };
}
const byName = (a, b) => a.localeCompare(b, "en", { numeric: true });
function place(stream) {
  const next = [...$("tiles").children].find((tile) => byName(tile.title, stream.name) > 0);
  $("tiles").insertBefore(stream.tile, next ?? null);
  if (!chosenByHand && (focus === null || byName(stream.name, focus) < 0)) look(stream.name);
}

function showFocus() {
  const stream = streams.get(focus), some = Boolean(stream?.answer);
  $("numbers").hidden = !some; $("hint").hidden = Boolean(stream);
  $("name").textContent = stream ? stream.name : "No stream yet";
  $("count").textContent = streams.size ? `${streams.size} shown` : "";
  if (latencies.length) {
    const sorted = [...latencies].sort((a, b) => a - b);
    $("p50").textContent = milliseconds(sorted[Math.floor(0.5 * sorted.length)]);
    $("p99").textContent = milliseconds(sorted[Math.floor(0.99 * sorted.length)]);
  }
  if (!stream) return;
  const step = models[model]?.parameters?.window?.step;
  $("points").textContent = stream.points.toLocaleString("en");
  $("windows").textContent = step ? Math.max(0, Math.floor((stream.points - 1) / step)).toLocaleString("en") : "–";
  if (!some) return;
  const { prediction, interval, probabilities } = stream.answer;
  $("answer").textContent = written(prediction);
  $("answer").classList.toggle("words", typeof prediction === "string");
  const ends = interval ? (Array.isArray(interval[0]) ? interval[0] : interval) : null;
  $("interval").textContent = ends ? `${written(ends[0])} to ${written(ends[1])}` : "";
  const known = stream.truth !== undefined && stream.truth !== null;
  $("truth-box").hidden = !known;
  if (known) {
    $("truth").textContent = written(stream.truth);
    const difference = typeof stream.truth === "number" ? (Array.isArray(prediction) ? prediction[0] : prediction) - stream.truth : null;
    $("difference").textContent = difference === null ? "" : `${difference < 0 ? "−" : "+"}${Math.abs(difference).toFixed(1)}`;
  }
  $("classes").hidden = !probabilities;
  if (probabilities) showClasses(probabilities);
  const said = stream.answer.explanation, sum = (parts) => parts.reduce((a, b) => a + b, 0);
  const signed = ([name, parts]) => `${name} ${sum(parts) < 0 ? "−" : "+"}${Math.abs(sum(parts)).toFixed(2)}`;
  $("because").textContent = said ? `${said.output}: ${Object.entries(said.contributions).slice(0, 6).map(signed).join(", ")}` : "";
}
function showClasses(probabilities) {
  const names = Object.keys(probabilities), box = $("classes");
  if (box.children.length !== names.length) {
    box.replaceChildren(...names.map(() => { const row = document.createElement("div"); row.className = "class"; const bar = document.createElement("i"); bar.append(document.createElement("b")); row.append(document.createElement("span"), document.createElement("span"), bar); return row; }));
  }
  names.forEach((name, k) => {
    const [label, share, bar] = box.children[k].children;
    label.textContent = name; share.textContent = `${(100 * probabilities[name]).toFixed(0)} %`;
    bar.firstChild.style.width = `${100 * probabilities[name]}%`; bar.firstChild.style.background = colour(k);
  });
}

let drawn = 0, told = 0;
function draw(now) {
  const passed = Math.min(now - drawn, 200);
  drawn = now;
  const stream = streams.get(focus);
  if (stream) {
    const behind = stream.points - stream.cursor;
    if (behind > SHOWN || behind < 0) stream.cursor = stream.points;
    else stream.cursor += behind * (1 - Math.exp(-passed / 350)); // points come in bursts, the picture moves evenly
    drawChannels($("channels"), stream.whole, stream.cursor, channels(), models[model]?.parameters?.window?.step, stream.answer?.fan);
    document.body.dataset.cursor = Math.round(stream.cursor);
  }
  if (now - told > 120) {
    told = now;
    showFocus();
    if (stream) drawAnswers($("answers"), stream.history, classes());
    for (const one of streams.values()) one.show();
  }
  requestAnimationFrame(draw);
}

function legends() {
  const named = (list) => list.map(([text, kind]) => { const one = document.createElement("span"); one.className = kind; const inner = document.createElement("b"); inner.textContent = text; one.append(inner); return one; });
  const step = models[model]?.parameters?.window?.step;
  $("legend").replaceChildren(...named([...channels().map((name, k) => [name, `c${k % 6}`]), ...(step ? [["windows", "bounds cq"]] : [])]));
  const forecasts = models[model]?.parameters?.ahead;
  $("answer-title").textContent = forecasts ? `Forecast of ${channels()[0]}, ${forecasts.horizon.toLocaleString("en")} ahead` : "Prediction";
  $("answer-label").textContent = forecasts ? "Forecast" : "Predicted";
  const shares = classes();
  const share = models[model]?.parameters?.interval;
  $("legend-answer").replaceChildren(...named(shares ? shares.slice(0, 6).map((name, k) => [name, `c${k}`])
    : [["predicted", "c0"], ...(share ? [[`${Math.round(100 * share)} % interval`, "band c0"]] : []), ["true", "dots ct"]]));
}

async function begin() {
  readColours();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); for (const one of streams.values()) one.stale = true; });
  const index = await (await fetch("/v2/repository/index", { method: "POST" })).json();
  for (const { name } of index) models[name] = await (await fetch(`/v2/models/${encodeURIComponent(name)}`)).json();
  $("model").replaceChildren(...Object.keys(models).map((name) => new Option(name, name)));
  model = Object.keys(models)[0];
  $("model").value = model;
  $("model").addEventListener("change", () => { model = $("model").value; for (const one of streams.values()) one.tile.remove(); streams.clear(); focus = null; chosenByHand = false; legends(); tell(); });
  legends(); connect(); requestAnimationFrame(draw);
}
begin();
