// needs arms keys laws placebo busy config command machine
// Page of a report of `trainer sweep` (trainer/ab/sweep_report.cpp).

pages.sweep = report => ({
  title: Object.keys(report.keys).map(shortKey).join(', '),
  about: report.config,
  numbers: () => {
    const fastest = report.arms.reduce((a, b) => b.ips > a.ips ? b : a), {placebo} = report;
    return [
      ['most samples a second', short(fastest.ips), fastest.name],
      ratioNumber('over the first', fastest.speedup_over_first),
      ...report.laws.map(({knee, load_s, compute_s}) => ['knee', plural(knee, 'worker'),
        `loading takes ${seconds(load_s)} a batch, computing ${seconds(compute_s)}`]),
      ratioNumber('placebo', placebo.speedup, 'the first against itself; '),
      ['processes', placebo.processes.length, 'an arm, taking turns']].slice(0, 6);
  },
  sections: [
    ['Speed', () => [paragraph('Busy machine: ', report.busy), grid(sweepFigures(report))]],
    ['Arms', () => sweptTable(report.arms)],
    ['The law of loader workers', () => lawTable(report)],
    ['Losses', () => lossesTable(report.arms)],
    measurement(report)]});

const shortKey = key => key.slice(key.lastIndexOf('.') + 1);

// The law of data/loader/loader_law.h.
const predictedMs = ({load_s, compute_s}, workers) =>
  1e3 * (workers === 0 ? load_s + compute_s : Math.max(compute_s, load_s / workers));

function sweepFigures(report) {
  const {arms, keys} = report, [first, second, ...more] = Object.values(keys);
  if (second && more.length === 0 && first.length * second.length === arms.length)
    return [sweptMap('Samples a second', report, arm => arm.ips),
      sweptMap('Time of a step, ms', report, arm => 1e3 * arm.batch_cost)];
  const numeric = first.every(text => text !== '' && Number.isFinite(Number(text)));
  return !second && first.length > 1 && numeric ? sweepLines(report) : sweepBars(arms);
}

function sweptMap(title, {arms, keys}, valueOf) {
  const [[rowKey, rows], [columnKey, columns]] = Object.entries(keys);
  return heatTable(title, 'median of the blocks; the larger, the darker',
    `${shortKey(rowKey)} ↓  ${shortKey(columnKey)} →`, rows, columns, (row, column) => valueOf(
      arms.find(({values}) => values[0] === rows[row] && values[1] === columns[column])));
}

function sweepLines({keys, laws, ...report}) {
  const xOf = arm => Number(arm.values[0]), arms = [...report.arms].sort((a, b) => xOf(a) - xOf(b));
  const series = (name, tone, yOf) => ({name, tone, points: arms.map(arm => [xOf(arm), yOf(arm)])});
  const common = {xName: shortKey(Object.keys(keys)[0]), axis: 'zero'};
  const law = laws.length === 1 && laws[0];
  return [
    lineChart({...common, title: 'Time of a step', unit: ' ms',
      note: 'batch_cost: median of the blocks, and from quartile to quartile'
        + (law ? t`; blue: the law max(C, L / W), whose knee is at ${law.knee}` : ''),
      series: [law && series('predicted', 'b', arm => predictedMs(law, xOf(arm))),
        series('measured', 'a', arm => 1e3 * arm.batch_cost)],
      intervals: arms.map(arm => ({x: xOf(arm), interval: quartiles(blockMs(arm))})),
      mark: law && {x: law.knee, name: 'knee'}}),
    lineChart({...common, title: 'Samples a second', note: 'from the median of the blocks',
      series: [series('ips', 'a', arm => arm.ips)]})];
}

const sweepBars = arms => [
  barChart('Time of a step', 'median of the blocks, with quartiles', arms.map(arm =>
    ({...blocksBar(arm, arm.name), text: quartilesText(blockMs(arm))}))),
  barChart('Samples a second', 'from the median of the blocks', arms.map(arm =>
    ({name: arm.name, text: short(arm.ips), value: arm.ips})))];

const inMs = s => digits(1e3 * s, 4);

const sweptTable = arms => table(['arm', 'ms a step', 'quartiles', 'waiting ms', 'samples/s',
  'over the first', 'tensors', 'CPU %', 'epoch gap ms'], arms.map(arm => [
  arm.name, inMs(arm.batch_cost), rangeOf(blockMs(arm)), inMs(arm.reader_cost), short(arm.ips),
  ratioText(arm.speedup_over_first), bytes(arm.peak_tensor_bytes),
  decimals(100 * arm.cpu_share, 0), inMs(arm.epoch_gap_s)]));

const lawTable = ({arms, laws}) => table(['arm', 'predicted ms', 'measured ms', 'ratio'],
  laws.flatMap(law => law.arms.map(index => arms[index]).map(({name, workers, batch_cost}) => [
    t`${name}${workers === law.knee ? ' (knee)' : ''}`, digits(predictedMs(law, workers), 4),
    inMs(batch_cost), decimals(1e3 * batch_cost / predictedMs(law, workers), 3)])));

const lossesTable = arms => arms.every(arm => 'loss_at_equal_samples' in arm) && table(
  ['arm', 'at equal samples', 'at equal updates', 'at equal time', 'FLOP per byte'],
  arms.map(arm => [arm.name, decimals(arm.loss_at_equal_samples, 4),
    decimals(arm.loss_at_equal_updates, 4), decimals(arm.loss_at_equal_time, 4),
    decimals(arm.flop / arm.bytes, 2)]));
