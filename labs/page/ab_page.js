// needs off placebo on clock busy differences held claim command machine
// Page of a report of `trainer ab` (trainer/ab/report.cpp).

pages.ab = report => ({
  title: t`${report.off.name} against ${report.on.map(arm => arm.name).join(', ')}`,
  about: report.claim !== '' && t`Claim: ${report.claim}`,
  numbers: () => verdicts(report),
  sections: [
    ['Speed', () => [paragraph('Busy machine: ', report.busy),
      grid(ratioChart(report), stripChart(report))]],
    ...report.on.flatMap(arm => findings(report, arm)),
    ['Arms', () => [paragraph('Differences: ', report.differences),
      paragraph('Off in all arms: ', report.held), armsTable(report)]],
    measurement(report)]});

const failed = (text = 'FAILED') => h`<span class=bad>${text}</span>`;

function verdicts({off, placebo, on}) {
  const several = on.length > 1;
  const ran = holds => holds ? 'and the toggle ran in one arm only' : failed('footprint FAILED');
  return [
    ...on.map(({name, answer, speedup}) =>
      ratioNumber(several ? name : answer, speedup, several ? t`${answer}; ` : '')),
    ratioNumber('placebo', placebo.speedup, 'two equal arms; '),
    ...on.map(arm => [several ? t`losses, ${arm.name}` : 'losses',
      arm.losses_hold ? 'hold' : failed(), 'footprint_holds' in arm && ran(arm.footprint_holds)]),
    ['processes', off.processes.length, 'a side, taking turns']];
}

// Draws plots on a common axis, each below its name and its numbers.
function rowsChart(title, note, x, unit, rows, draw) {
  const axis = new Plot(1, 2, 2);
  axis.line('grid', 0, 0, 1, 0);
  axis.xAxis(x, unit);
  return figure(title, note, [rows.map(row => {
    const plot = new Plot(row.height, 2, 2);
    draw(plot, row);
    return h`<p class=row><b class=${row.tone}>${row.name}</b> <span>${row.text}</span></p>
      ${plot.html()}`;
  }), axis.html()]);
}

// Ratios with their intervals on a logarithmic axis. Shaded: how far the placebo is from 1.
function ratioChart({off, placebo, on}) {
  const noise = Math.max(1.01, Math.exp(Math.abs(Math.log(placebo.speedup.ratio))));
  const rows = [...on.map(arm => ({...arm, tone: 'a'})), {...placebo, name: 'placebo', tone: 'c'}]
    .map(({name, tone, speedup}) => ({name, tone, speedup, height: 26,
      text: `${times(speedup)} (${intervalText(speedup)})`}));
  const ends = rows.flatMap(({speedup: {ratio, interval}}) => [ratio, ...interval]);
  const inside = ends.filter(end => end > 0);
  const x = logScale(least([1 / noise, 0.98, ...inside]), most([noise, 1.02, ...inside]));
  const draw = (plot, {tone, speedup, height}) => {
    const [left, right] = [x.at(1 / noise), x.at(noise)];
    plot.path('noise', [[left, 0], [right, 0], [right, height], [left, height]], 'Z');
    plot.line('one', x.at(1), 0, x.at(1), height);
    if (hasInterval(speedup))
      plot.path(`bar ${tone}`, speedup.interval.map(end => [x.at(end), height / 2]));
    plot.dots(`dot big ${tone}`, [[x.at(speedup.ratio), height / 2]]);
  };
  return rowsChart('Speedup', t`over ${off.name}, and its interval; shaded: noise of the placebo`,
    x, 'times as fast', rows, draw);
}

// A dot for each block, a lane for each process, and the median.
function stripChart({off, placebo, on, clock}) {
  const arms = [{...off, tone: 'b'}, {...placebo, tone: 'c', name: t`${placebo.name} (placebo)`},
    ...on.map(arm => ({...arm, tone: 'a'}))];
  const rows = arms.map(({name, tone, ...arm}) => {
    const lanes = blocksOf(arm, clock), lane = lanes.length > 12 ? 5 : 8;
    return {name, tone, lanes, lane, height: lane * (lanes.length + 1),
      text: quartilesText(lanes.flat())};
  });
  const all = rows.flatMap(row => row.lanes.flat()), low = least(all), high = most(all);
  const room = 0.03 * (high - low || high);
  const x = high > 3 * low ? logScale(low, high) : scaleOver(low - room, high + room, 5);
  const what = `${clock === 'cpu' ? 'CPU time' : 'time'} of a `
    + ('wall_s_per_step' in off.processes[0] ? 'step' : 'run');
  const draw = (plot, {tone, lanes, lane, height}) => {
    for (const tick of x.ticks) plot.line('grid', x.at(tick), 0, x.at(tick), height);
    plot.dots(`dot some ${tone}`,
      lanes.flatMap((times, i) => times.map(value => [x.at(value), lane * (i + 1)])));
    const middle = x.at(median(lanes.flat()));
    plot.line('median', middle, 0, middle, height);
  };
  return all.length > 0 && rowsChart('Times',
    `${what} in each block, a row for each process; a line at the median`, x, 'ms', rows, draw);
}

function findings({off, on}, arm) {
  const of = on.length > 1 ? t`: ${arm.name}` : '';
  const finding = (key, holds) => key in arm &&
    h`<p>${!arm[holds] && [failed(), ' ']}${sentence(arm[key])}</p>`;
  return [
    ['Losses' + of, () => [finding('losses', 'losses_hold'),
      finding('evaluations', 'evaluations_hold'), lossCharts(off, arm)]],
    ['Counters' + of, () => [finding('footprint', 'footprint_holds'), countersTable(off, arm)]]];
}

function lossCharts(off, {loss_by_step, losses_apart: {arms, placebo, allowed}}) {
  const series = (name, tone, losses) =>
    ({name, tone, points: losses.map((loss, i) => [i + 1, loss])});
  return grid(
    lineChart({title: 'Loss', note: 'of each step, first process of each arm',
      series: [series('off', 'b', off.loss_by_step), series('on', 'a', loss_by_step)]}),
    lineChart({title: 'Distance of the losses', axis: 'log', note: 'largest so far; rounding: of '
      + 'arms whose first weights differ by one unit in the last place', series: [
      series('rounding', 'c', placebo), series('arms', 'a', arms),
      allowed && series('allowed', 'b', allowed)]}));
}

const countersTable = (off, {name, counters_per_step}) =>
  table(['counter, per step', off.name, name], Object.entries(counters_per_step).map(
    ([counter, rates]) => [code(counter), ...rates.map(short)])) || h`<p>No counter differs.</p>`;

function armsTable({off, placebo, on, clock}) {
  const joulesOf = arm => arm.processes.flatMap(
    process => finite(process.gpu_j_per_step ?? process.gpu_j_per_run ?? []));
  const largest = (arm, key) => bytes(most(arm.processes.map(process => process[key])));
  const arms = [off, {...placebo, name: t`${placebo.name} (placebo)`}, ...on];
  const metered = arms.some(arm => joulesOf(arm).length > 0);
  return table(['arm', 'time: median (quartiles)', 'peak of tensors', 'peak of the process',
    metered && 'energy of the GPU'], arms.map(arm => [
    arm.name, quartilesText(blockMs(arm, clock)), largest(arm, 'peak_tensor_bytes'),
    largest(arm, 'peak_resident_bytes'), metered && quartilesText(joulesOf(arm), 'J')]));
}
