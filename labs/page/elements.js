// Pieces of a page: escaped HTML, numbers as people read them, tables and lists. A report may lack
// a value, which then shows as a dash.
'use strict';

const pages = {};  // a function by kind, from report to {title, about, numbers, sections}
const several = {};  // as `pages`, for lists of reports that share one page

// Text that is HTML already; everything else is escaped where it is inserted.
class Html extends String {}

// Control characters but the newline, and characters that end a line or turn the writing direction.
const kUnseen = /[\0-\t\v-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const escaped = plain => plain.replace(/[&<>"']/g, c => `&#${c.charCodeAt()};`)
  .replace(kUnseen, c => '\\u' + c.charCodeAt().toString(16).padStart(4, '0'));

// Returns the text of a value; a dash if the report lacks the value or it is no text or number.
const textOf = value => typeof value === 'object' || value === undefined || Number.isNaN(value)
  ? '–' : String(value);

// Returns the HTML of a value or of a list of values; "" for false.
function html(value) {
  if (Array.isArray(value)) return value.map(html).join('');
  if (value === false) return '';
  return value instanceof Html ? String(value) : escaped(textOf(value));
}

// Templates with values of a report: t`of ${count} steps` is a text, h`<b>${name}</b>` is HTML.
const t = (parts, ...values) => String.raw({raw: parts}, ...values.map(textOf));
const h = (parts, ...values) => new Html(String.raw({raw: parts}, ...values.map(html)));

// ---- numbers

const finite = values => values.filter(Number.isFinite);
const least = values => finite(values).reduce((a, b) => Math.min(a, b), Infinity);
const most = values => finite(values).reduce((a, b) => Math.max(a, b), -Infinity);
const sum = values => values.reduce((a, b) => a + b, 0);

// Returns an interpolated quantile; `share` is from 0 to 1.
function quantile(values, share) {
  const sorted = finite(values).sort((a, b) => a - b), at = share * (sorted.length - 1);
  const below = sorted[Math.floor(at)], above = sorted[Math.ceil(at)];
  return below + (at % 1) * (above - below);
}
const median = values => quantile(values, 0.5);

// A number with `count` significant digits, and one with `count` decimals.
const digits = (value, count) => Number.isFinite(value) ? `${+value.toPrecision(count)}` : '–';
const decimals = (value, count) => Number.isFinite(value) ? value.toFixed(count) : '–';

// "26.3k", "0.0469", "1.2M". Where three digits would round up to the next unit, that unit is used.
function short(value) {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return '–';
  if (size > 0 && size < 1e-3) return value.toExponential(2).replace(/\.?0+e/, 'e');
  if (size >= 999.5e6) return digits(value / 1e9, 3) + 'G';
  if (size >= 999.5e3) return digits(value / 1e6, 3) + 'M';
  if (size >= 9999.5) return digits(value / 1e3, 3) + 'k';
  return digits(value, size >= 10 ? 4 : 3);
}

// "680 µs", "4.2 s", "1 h 05 min".
function seconds(s) {
  const minutes = Math.round(s / 60), rest = String(minutes % 60).padStart(2, '0');
  if (minutes >= 60) return `${Math.floor(minutes / 60)} h ${rest} min`;
  if (s >= 120) return `${minutes} min`;
  if (s >= 1) return `${digits(s, 3)} s`;
  return s >= 1e-3 ? `${digits(1e3 * s, 3)} ms` : `${digits(1e6 * s, 3)} µs`;
}

const bytes = count =>
  count >= 1e9 ? `${decimals(count / 1e9, 2)} GB` : `${decimals(count / 1e6, 1)} MB`;
const percent = (share, count = 1) => `${decimals(100 * share, count)} %`;
const plural = (count, noun) => t`${count} ${noun}${count === 1 ? '' : 's'}`;
const someOf = (shown, all) => shown < all ? `${shown} of ${all}` : `${all}`;

// ---- elements

const code = name => h`<code>${name}</code>`;
const pre = lines => lines !== '' && h`<pre>${lines}</pre>`;
const fold = (title, body) => h`<details><summary>${title}</summary>${body}</details>`;
const grid = (...figures) => html(figures) !== '' && h`<div class=grid>${figures}</div>`;
// A sentence of a report: begins with a capital, and `x` becomes code.
const sentence = plain => textOf(plain).replace(/^./, first => first.toUpperCase()).split('`')
  .map((part, i) => i % 2 ? code(part) : part);
// Returns "num_workers=2", or the name alone of a toggle that is on.
const setting = (toggle, value) => value === 'on' ? toggle : t`${toggle}=${value}`;

// A table of rows of cells, without false rows. Columns after the first `left` align to the right.
function table(heads, rows, left = 1) {
  const cells = (tag, row) => row.map((cell, i) => cell !== false &&
    new Html(`<${tag}${i < left ? '' : ' class=r'}>${html(cell)}</${tag}>`));
  return rows.length > 0 && h`<div class=wide><table><thead><tr>${cells('th', heads)}</tr></thead>
    <tbody>${rows.map(row => h`<tr>${cells('td', row)}</tr>`)}</tbody></table></div>`;
}

// Shows the first `limit` rows, and all rows in a folded table.
const longTable = (limit, noun, heads, rows, left) => [table(heads, rows.slice(0, limit), left),
  rows.length > limit && fold(`All ${rows.length} ${noun}`, table(heads, rows, left))];

// Names and values, in two columns if there is room.
const facts = rows => rows.length > 0 && h`<dl class=facts>${rows.map(([name, value]) =>
  h`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

// Returns the rows of facts() for an object; nested objects are merged into it.
const rowsOf = object => Object.entries(object).flatMap(([name, value]) => {
  const plain = each => typeof each === 'string' ? each : JSON.stringify(each);
  if (Array.isArray(value)) return [[name, value.map(plain).join(', ') || 'none']];
  if (value && typeof value === 'object') return rowsOf(value);
  const isSize = name.endsWith('_bytes') && typeof value === 'number';
  return [isSize ? [name.slice(0, -6), bytes(value)] : [name, plain(value)]];
});

// Chips below a small title, pale if they are `off`.
const chips = (title, note, names, off = false) => names.length > 0 && h`
  <h3>${title} <span>${note}</span></h3>
  <ul class=names>${names.map(name => h`<li${off && h` class=off`}>${name}</li>`)}</ul>`;
