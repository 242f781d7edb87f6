// Shows the report that the page embeds. Then sorts a table by the column that is clicked, shows
// the values of a chart below the pointer, and opens what is folded before the page is printed.

// Calls `make`. If the report lacks a value that `make` reads, returns a note instead.
function attempt(make) {
  try {
    return make();
  } catch (error) {
    console.error(error);
    return h`<p class=note>The report does not hold this part.</p>`;
  }
}

// Large numbers, each with its name above and a note below: [name, value, note].
const keyNumbers = boxes => boxes.length > 0 && h`
  <dl class=key style="--n:${boxes.length}">${boxes.map(([name, value, note = '']) =>
    h`<div><dt>${name}</dt><dd>${value}</dd><dd class=note>${note}</dd></div>`)}</dl>`;

function section([title, make]) {
  const body = attempt(make);
  return html(body) !== '' && h`<section><h2>${title}</h2>${body}</section>`;
}

// The page of a report, or of several of one kind: their parts one above the other, each below its
// label, unless `several` makes one page of them.
function pageOf(given) {
  const reports = [given].flat(), [{kind}] = reports;
  const together = reports.length > 1 && several[kind];
  const parts = together ? [together(reports)] : reports.map(report => pages[kind](report));
  const label = i => parts.length > 1 && h`<h3>${reports[i].label}</h3>`;
  const head = ({over = kind, title, about, numbers}, i) => h`<header>
    <p class=over>Bellows · ${over}</p><h1>${title}</h1>${label(i)}<p class=about>${about}</p></header>
    ${attempt(() => keyNumbers(numbers().filter(box => box)))}`;
  document.title = parts.map(({title}) => textOf(title)).join(', ');
  return h`${parts.map(head)}${parts[0].sections.map(([title], i) => section([title, () =>
    parts.map(({sections}, part) => {
      const body = attempt(sections[i][1]);
      return html(body) !== '' && [label(part), body];
    })]))}`;
}

function sortBy(th) {
  const i = th.cellIndex, body = th.closest('table').tBodies[0];
  const up = th.getAttribute('aria-sort') !== 'ascending';
  for (const other of th.parentNode.children) other.removeAttribute('aria-sort');
  th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const cellOf = row => row.cells[i].textContent, factors = {k: 1e3, M: 1e6, G: 1e9};
  const numberOf = text => parseFloat(text) * (factors[text.match(/[kMG](?=B?$)/)?.[0]] ?? 1);
  const order = (a, b) => numberOf(a) - numberOf(b) || a.localeCompare(b);
  body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * order(cellOf(a), cellOf(b))));
}

// Shows the values at the step nearest to the pointer.
function followPointer(plot) {
  const [low, high, lines] = JSON.parse(plot.dataset.v);
  const all = lines.map(line => line[2]).reduce((a, b) => b.length > a.length ? b : a);
  const nearest = (points, x) =>
    points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
  plot.onpointerleave = () => plot.querySelectorAll('.cross,.tip').forEach(each => each.remove());
  plot.onpointermove = event => {
    const box = plot.getBoundingClientRect(), share = (event.clientX - box.left) / box.width;
    const [at] = nearest(all, low + share * (high - low));
    const left = `left:${100 * (at - low) / (high - low)}%`;
    const shift = `transform:translateX(${share > 0.5 ? 'calc(-100% - 8px)' : '8px'})`;
    plot.onpointerleave();
    plot.insertAdjacentHTML('beforeend', html(h`<i class=cross style="${left}"></i>
      <span class=tip style="${left};${shift}">${at}${lines.map(([name, tone, points]) =>
        h`<br><b class=${tone}>${name}</b>${digits(nearest(points, at)[1], 5)}`)}</span>`));
  };
}

const report = JSON.parse(document.getElementById('report').textContent);
document.querySelector('main').innerHTML = html(attempt(() => pageOf(report)));
for (const th of document.querySelectorAll('th')) th.onclick = () => sortBy(th);
for (const plot of document.querySelectorAll('[data-v]')) followPointer(plot);
onbeforeprint = () => document.querySelectorAll('details').forEach(each => each.open = true);
