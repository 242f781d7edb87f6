// Figures of a page. Lines and areas are SVG that is stretched to the width of the page; their text
// is HTML at its normal size, so it can be read on a phone. A tone is a color of page.css: 'a' the
// accent, 'b' the one compared with it, 'c' the quiet one, 'g' that of gaps in time.

const figure = (title, note, body) =>
  h`<figure><figcaption><b>${title}</b> ${note}</figcaption>${body}</figure>`;

// ---- scales: two ends, ticks, and at(value), which is 0 at the low end and 1 at the high one

// The scale ends where the data end, unless both ends are equal but for rounding. A step is the
// smallest of 1, 2, 5 x 10^n that makes at most `count` of them.
function scaleOver(low, high, count, step) {
  if (!(high - low > 1e-12 * Math.abs(low))) high = low + (0.1 * Math.abs(low) || 1);
  const least = (high - low) / count, power = 10 ** Math.floor(Math.log10(least));
  step ??= power * ([1, 2, 5].find(factor => factor * power >= least) ?? 10);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9), ticks = [];
  for (let i = 0; i < 100 && first + i <= last; ++i) ticks.push((first + i) * step);
  return {low, high, step, ticks, at: value => (value - low) / (high - low)};
}

function scaleAround(low, high, count) {
  const {high: end, step} = scaleOver(low, high, count);
  const round = (value, to, slack) => step * to(value / step + slack);
  return scaleOver(round(low, Math.floor, 1e-9), round(end, Math.ceil, -1e-9), count, step);
}

// For low > 0. Ticks are decades; within two decades also 1, 2 and 5; within a small part of one
// decade they are linear.
function logScale(low, high) {
  if (!(low > 0 && high / low < 1e200)) return scaleOver(low, high, 5);
  const room = Math.max(high / low, 1.02) ** 0.06, begin = low / room, end = high * room;
  const decades = Math.log10(end / begin), ticks = [];
  for (let n = Math.floor(Math.log10(begin)); 10 ** n <= end; n += Math.ceil(decades / 5))
    for (const factor of decades > 2 ? [1] : [1, 2, 5]) ticks.push(factor * 10 ** n);
  return {low: begin, high: end,
    ticks: decades < 0.7 ? scaleOver(begin, end, 4).ticks
      : ticks.filter(tick => tick >= begin && tick <= end),
    at: value => Math.log(value / begin) / Math.log(end / begin)};
}

// ---- plots

const coordinates = ([x, y]) => `${digits(1000 * x, 5)} ${digits(y, 5)}`;

// Part of a figure that is `height` px high. x is from 0 to 1, y in px from the top. `left`,
// `right`: room for labels, in characters.
class Plot {
  constructor(height, left, right) {
    Object.assign(this, {height, left, right, svg: [], labels: [], values: false});
  }
  draw(kind, d) { this.svg.push(h`<path class="${kind}" d="${d}"/>`); }
  path(kind, points, end = '') { this.draw(kind, `M${points.map(coordinates).join('L')}${end}`); }
  line(kind, x1, y1, x2, y2) { this.path(kind, [[x1, y1], [x2, y2]]); }
  dots(kind, points) { this.draw(kind, points.map(point => `M${coordinates(point)}h0`).join('')); }
  label(kind, x, y, text) {
    const place = `left:${digits(100 * x, 4)}%;top:${digits(y, 4)}px`;
    this.labels.push(h`<span class="${kind}" style="${place}">${text}</span>`);
  }
  xAxis(scale, name) {
    for (const tick of scale.ticks) {
      this.line('tick', scale.at(tick), this.height, scale.at(tick), this.height + 4);
      this.label('x', scale.at(tick), this.height + 6, short(tick));
    }
    this.label('xn', 1, this.height + 22, name);
  }
  yAxis(scale, yOf, unit = '') {
    for (const tick of scale.ticks) {
      this.line('grid', 0, yOf(tick), 1, yOf(tick));
      this.label('y', 0, yOf(tick), short(tick) + (tick > 0 ? unit : ''));
    }
  }
  html() {
    const size = `height:${this.height}px;margin-left:${this.left}ch;margin-right:${this.right}ch`;
    const values = this.values && h` data-v="${JSON.stringify(this.values)}"`;
    return h`<div class=plot style="${size}"${values}><svg viewBox="0 0 1000 ${this.height}"
      preserveAspectRatio=none aria-hidden=true>${this.svg}</svg>${this.labels}</div>`;
  }
}

const longest = texts => most(texts.map(text => String(text).length));
const roomBeside = scale => longest(scale.ticks.map(short)) + 2;

// ---- lines and stacked areas

const kHeight = 208;  // px

// Leaves out points that cannot be drawn. Adds to each series the upper edge of its area: its own
// points, or the sums of the series up to it.
function withEdges(given, log, stacked) {
  const series = given.filter(each => each);
  const drawn = points =>
    points.filter(point => point.every(Number.isFinite) && (!log || point[1] > 0));
  const sums = end => series[0].points.map(([x], k) =>
    [x, sum(series.slice(0, end).map(({points}) => points[k][1]))]);
  return series.map(({points, ...rest}, i) => ({...rest, points: drawn(points),
    edge: drawn(stacked ? sums(i + 1) : points)})).filter(({edge}) => edge.length > 0);
}

// Draws each line, or the area between it and the previous one. Returns the heights of names.
function drawLines(plot, lines, stacked, place) {
  let below = [[0, kHeight], [1, kHeight]];
  return lines.map(({edge, tone}) => {
    const points = edge.map(place), end = points.at(-1)[1], under = below.at(-1)[1];
    if (stacked) plot.path(`area ${tone}`, [...points, ...below.reverse()], 'Z');
    else plot.path(`line ${tone}`, points);
    if (!stacked && points.length <= 30) plot.dots(`dot ${tone}`, points);
    below = points;
    return stacked ? (end + under) / 2 : end;
  });
}

// Sorts names, which take two lines, from top to bottom, and moves them apart.
function spread(names) {
  const kLines = 34;
  names.sort((a, b) => a.y - b.y);
  names.forEach((name, i) => name.y = Math.max(name.y, i ? names[i - 1].y + kLines : 8));
  [...names].reverse().forEach((name, i, up) =>
    name.y = Math.min(name.y, i ? up[i - 1].y - kLines : kHeight - 8));
}

// Lines over a common x, each with its name and last value at its end. series: {name, tone,
// points}, where x ascends, or false; unit: of y; axis: 'log', 'zero' or fitted; stacked: areas, the
// first at the bottom; intervals: {x, interval: [low, high]}; mark: {x, name} of a vertical line.
function lineChart({title, note = '', unit = '', xName = 'step', series, axis, stacked,
  intervals = [], mark}) {
  const lines = withEdges(series, axis === 'log', stacked);
  if (!lines.some(line => line.points.length > 1)) return '';
  const xs = lines.flatMap(({edge}) => [edge[0][0], edge.at(-1)[0]]);
  const ys = [...lines.flatMap(line => line.edge.map(point => point[1])),
    ...intervals.flatMap(({interval}) => interval), stacked || axis === 'zero' ? 0 : NaN];
  const x = scaleOver(least(xs), most(xs), 5);
  const y = axis === 'log' ? logScale(least(ys), most(ys)) : scaleAround(least(ys), most(ys), 4);
  const yOf = value => kHeight * (1 - y.at(value));
  const names = lines.map(line => ({...line, last: short(line.points.at(-1)[1]) + unit}));
  const room = longest(names.flatMap(({name, last}) => [name, last])) + 2;
  const plot = new Plot(kHeight, roomBeside(y), room);
  plot.yAxis(y, yOf);
  drawLines(plot, lines, stacked, ([at, value]) => [x.at(at), yOf(value)])
    .forEach((height, i) => names[i].y = height);
  for (const {x: at, interval: [low, high]} of intervals)
    plot.line('interval', x.at(at), yOf(low), x.at(at), yOf(high));
  if (mark && mark.x >= x.low && mark.x <= x.high) {
    plot.line('one', x.at(mark.x), 0, x.at(mark.x), kHeight);
    plot.label('x', x.at(mark.x), -18, mark.name);
  }
  spread(names);
  for (const {name, tone, last, y: top} of names)
    plot.label('end', 1, top, h`<b class=${tone}>${name}</b>${last}`);
  plot.xAxis(x, xName);
  plot.values = [x.low, x.high, lines.map(({name, tone, points}) => [name, tone, points])];
  return figure(title, note, plot.html());
}

// ---- parts and amounts

// Draws parts of a whole as one bar, with a legend of their values: [name, seconds, color], where
// the color is a number of page.css, or false.
function shareBar(title, note, given) {
  const parts = given.filter(part => part);
  const whole = sum(parts.map(part => part[1]));
  return whole > 0 && figure(title, note, h`
    <div class=bar>${parts.map(([, s, color]) =>
      h`<i class=p${color} style="width:${decimals(100 * s / whole, 3)}%"></i>`)}</div>
    <ul class=legend>${parts.map(([name, s, color]) => h`<li><i class=p${color}></i>${name}
      <b>${percent(s / whole, 2)}</b> ${seconds(s)}</li>`)}</ul>`);
}

// Amounts from zero on: {name, text, value} and, as needed, a tone; an interval [low, high]; a
// larger value `before` that this one replaces, drawn pale; a note, in a column of its own.
function barChart(title, note, bars) {
  const whole = most(bars.flatMap(({value, before, interval}) => [value, before, interval?.[1]]));
  const at = value => decimals(100 * Math.min(1, Math.max(0, value / whole)), 2) + '%';
  const noted = bars.some(bar => 'note' in bar);
  const track = ({value, before, interval = [], tone = 'a'}) => [
    before > value && h`<i class=before style="width:${at(before)}"></i>`,
    Number.isFinite(value) && h`<i class=${tone} style="width:${at(value)}"></i>`,
    finite(interval).length === 2 &&
      h`<u style="left:${at(interval[0])};right:${at(whole - interval[1])}"></u>`];
  return whole > 0 && figure(title, note, h`<div class="bars${noted && ' noted'}">${bars.map(bar =>
    h`<div><b>${bar.name}</b><em>${bar.text}</em>${noted && h`<em class=more>${bar.note}</em>`}
      <span>${track(bar)}</span></div>`)}</div>`);
}

// A table that shades larger values darker. rows, columns: names; valueOf(row, column): of indices.
function heatTable(title, note, corner, rows, columns, valueOf) {
  const values = rows.map((_, row) => columns.map((_, column) => valueOf(row, column)));
  const low = least(values.flat()), high = most(values.flat());
  const shade = value => decimals(high > low ? 5 + 50 * (value - low) / (high - low) : 5, 0);
  return figure(title, note, h`<div class=wide><table class=heat><thead><tr><th>${corner}</th>
    ${columns.map(column => h`<th class=r>${column}</th>`)}</tr></thead>
    <tbody>${rows.map((row, i) => h`<tr><td>${row}</td>${values[i].map(value =>
      h`<td class=r style="--h:${shade(value)}%">${short(value)}</td>`)}</tr>`)}
    </tbody></table></div>`);
}
