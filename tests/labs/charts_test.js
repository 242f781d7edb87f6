// Checks numbers, scales and charts of the pages: node charts_test.js labs/page
'use strict';
const assert = require('assert'), fs = require('fs'), vm = require('vm');

const sources = ['elements.js', 'charts.js'].map(
  name => fs.readFileSync(`${process.argv[2]}/${name}`, 'utf8'));
vm.runInThisContext(sources.join('\n'));  // defines html, short, lineChart and so on

// ---- text and numbers

assert.strictEqual(escaped('<a href="x">\'&\''), '&#60;a href=&#34;x&#34;&#62;&#39;&#38;&#39;');
assert.strictEqual(escaped('\x1b\u202e\n'), '\\u001b\\u202e\n');

const values = [0, 26315.3, 0.0469, 98.853, 1e-4, -2.5e-5, 1.25e6, 9999.6, 999700, 3e9, 1, NaN,
  undefined, Infinity];
assert.strictEqual(values.map(short).join(' '),
  '0 26.3k 0.0469 98.85 1e-4 -2.5e-5 1.25M 10k 1M 3G 1 – – –');
assert.deepStrictEqual([0.00068, 0.0042, 5, 300, 3900, undefined].map(seconds),
  ['680 µs', '4.2 ms', '5 s', '5 min', '1 h 05 min', '– µs']);
assert.deepStrictEqual([5.1e6, 2.345e9].map(bytes), ['5.1 MB', '2.35 GB']);
assert.strictEqual(quantile([4, NaN, 1, 2, 3], 0.25), 1.75);

// ---- scales

assert.deepStrictEqual(scaleAround(0.3, 3.9, 4).ticks, [0, 1, 2, 3, 4]);
assert.deepStrictEqual(scaleOver(20, 940, 5).ticks, [200, 400, 600, 800]);
assert.deepStrictEqual(logScale(1e-3, 2).ticks.map(short), ['0.001', '0.01', '0.1', '1']);
for (const low of [0, 5, -2, 0.1, 1e16, 1e300, -1e16])  // a constant has a scale, too
  for (const high of [low, low + Math.abs(low) * Number.EPSILON])
    for (const make of [scaleAround, scaleOver, logScale]) {
      const {ticks, at} = make(low, high, 4);
      assert(ticks.length >= 1 && ticks.length <= 7, `${low} to ${high}: ${ticks}`);
      assert(ticks.map(at).every(Number.isFinite));
      assert(ticks.every((tick, i) => i === 0 || tick > ticks[i - 1]));
    }

// ---- charts

const waves = count =>
  ({name: '<s>', tone: 'a', points: Array.from({length: count}, (_, i) => [i, i % 7])});
const chart = more => html(lineChart({title: '<t>', series: [], ...more}));

// A long one keeps its spikes, and its names are text.
const spiky = waves(300000);
spiky.points[77777][1] = 123456;
const drawn = chart({series: [spiky]});
assert(drawn.includes('123456') && drawn.includes('<b>&#60;t&#62;</b>') && !drawn.includes('<s>'));

// Parts are stacked step by step: 1000 + 2 and 1 + 2000 of 3000, in 208 px.
const low = waves(1000), high = waves(1000);
[low.points[121][1], high.points[568][1]] = [1000, 2000];
const stacked = chart({series: [low, high], axis: 'zero', stacked: true});
assert(stacked.includes('L121.12 138.53') && stacked.includes('L568.57 69.264'));

// Nothing is drawn of what has no place.
const gappy = {points: [1, NaN, -1, Infinity, 3].map((y, x) => [x, y])};
assert(chart({series: [gappy], axis: 'log'}).includes('[[0,1],[4,3]]'));
for (const series of [[], [waves(1)], [{points: [[0, NaN], [1, null], [2]]}]])
  assert.strictEqual(chart({series}), '');
const marked = x => chart({series: [{points: [[0, 1], [4, 2]]}], mark: {x, name: 'knee'}});
assert(marked(1).includes('left:25%;top:-18px">knee<'));
for (const x of [5, NaN]) assert(!marked(x).includes('knee'));
assert.strictEqual(html(shareBar('t', '', [['a', 0, 1]])), '');
for (const bars of [[], [{name: 'a', text: '', value: 0}]])
  assert.strictEqual(html(barChart('t', '', bars)), '');
const bar = html(barChart('t', '', [{name: '<a>', text: '', value: 2, before: 4, tone: 'c'}]));
assert(bar.includes('before style="width:100.00%') && bar.includes('c style="width:50.00%'));
assert(bar.includes('<b>&#60;a&#62;</b>'));
assert.strictEqual(html(table(['a'], [])), '');
