// Arms, their times and the ratios between them, for the pages of ab, ladder, sweep and tune.

const hasInterval = ({interval: [low, high]}) => low > 0 && Number.isFinite(high);
const times = ({ratio}) => `${decimals(ratio, 3)} ×`;
const range = ({interval: [low, high]}) => `${decimals(low, 3)} to ${decimals(high, 3)}`;
const intervalText = speedup => hasInterval(speedup)
  ? `${digits(100 * speedup.confidence, 4)} % interval ${range(speedup)}`
  : 'no interval from one process a side';
// "1.234 × (1.100 to 1.300)".
const ratioText = (speedup, unit = '') =>
  decimals(speedup.ratio, 3) + unit + (hasInterval(speedup) ? ` (${range(speedup)})` : '');
// A ratio among the key numbers of a page. `note` precedes its interval.
const ratioNumber = (name, speedup, note = '') =>
  [name, times(speedup), note + intervalText(speedup)];

// Returns the ms of each block, one list per process. `clock`: 'wall' or 'cpu'.
const blocksOf = (arm, clock = 'wall') => arm.processes.map(process =>
  finite(process[`${clock}_s_per_step`] ?? process[`${clock}_s_per_run`]).map(s => 1e3 * s));
const blockMs = (arm, clock) => blocksOf(arm, clock).flat();
const medianMs = arm => digits(median(blockMs(arm)), 4);
const quartiles = values => [quantile(values, 0.25), quantile(values, 0.75)];
const rangeOf = values => quartiles(values).map(value => digits(value, 4)).join(' to ');
const quartilesText = (values, unit = 'ms') =>
  values.length > 0 ? `${digits(median(values), 4)} ${unit} (${rangeOf(values)})` : '–';

const paragraph = (before, texts) => texts.length > 0 && h`<p>${before}${texts.join(', ')}</p>`;
const measurement = report =>
  ['Measurement', () => [pre(report.command), facts(rowsOf(report.machine))]];

const blocksBar = (arm, name) =>
  ({name, value: median(blockMs(arm)), interval: quartiles(blockMs(arm))});
