// Sorts a table by the column that is clicked; shows the values of a chart below the pointer; opens
// what is folded before the page is printed.
for (const th of document.querySelectorAll('th')) th.onclick = () => {
  const i = th.cellIndex, body = th.closest('table').tBodies[0];
  const up = th.getAttribute('aria-sort') != 'ascending';
  for (const other of th.parentNode.children) other.removeAttribute('aria-sort');
  th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const key = r => r.cells[i].textContent;
  const scale = {k: 1e3, M: 1e6, G: 1e9};
  const number = t => parseFloat(t) * (scale[(t.match(/[kMG](?=B?$)/) || [])[0]] || 1);
  const order = (a, b) => isNaN(number(a) - number(b)) ? a.localeCompare(b) : number(a) - number(b);
  body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * order(key(a), key(b))));
};
for (const plot of document.querySelectorAll('[data-v]')) {
  const [low, high, series] = JSON.parse(plot.dataset.v);
  const cross = document.createElement('i'), tip = document.createElement('span');
  cross.className = 'cross', tip.className = 'tip';
  plot.onpointermove = event => {
    const box = plot.getBoundingClientRect();
    const x = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const at = low + x * (high - low);
    const closer = (v, w) => Math.abs(v - at) < Math.abs(w - at);
    const nearest = xs => xs.reduce((n, v, i) => closer(v, xs[n]) ? i : n, 0);
    const most = series.reduce((s, t) => t[2].length > s[2].length ? t : s)[2];
    const shown = most[nearest(most)];
    cross.style.left = tip.style.left = 100 * (shown - low) / (high - low) + '%';
    tip.style.transform = x > .5 ? 'translateX(calc(-100% - 8px))' : 'translateX(8px)';
    tip.replaceChildren(String(shown));
    for (const [name, tone, xs, ys] of series) {
      const label = document.createElement('b'), i = nearest(xs);
      label.className = tone, label.textContent = name;
      tip.append(document.createElement('br'), label, String(ys[i]));
    }
    plot.append(cross, tip);
  };
  plot.onpointerleave = () => (cross.remove(), tip.remove());
}
onbeforeprint = () => document.querySelectorAll('details').forEach(d => d.open = true);
