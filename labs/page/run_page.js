// needs plan plan_text env train test totals summary toggles higher_is_better
// Page of a run folder, as read_run() of trainer/state/run_record.h returns it.

pages.run = run => ({
  over: 'training run',
  title: optionOf(run, 'name'),
  about: aboutRun(run),
  numbers: () => runNumbers(run),
  sections: [
    ['Learning', () => [grid(learning(run)), foldedRows('Evaluations', run.test)]],
    ['Test images', () => testImages(run)],
    ['Speed', () => [grid(
      logChart('Samples a second', 'ips of each log window', '', line(run.train, 'ips', 'a')),
      stepParts(run.train), wholeRun(run.totals)), foldedRows('Log windows', run.train)]],
    ['Resources', () => grid(resources(run.train))],
    ['Toggles', () => runToggles(run.toggles)],
    ['Configuration', () => configuration(run)],
    ['Machine', () => facts(rowsOf(run.env))],
    ['Summary', () => pre(run.summary.join('\n'))]]});

const optionOf = ({plan}, key) => plan.find(([option]) => option === key)?.[1];
// Returns a column of the log; NaN if a row has no number.
const column = (rows, name, factor = 1) => (rows.step ?? []).map((_, i) =>
  typeof rows[name]?.[i] === 'number' ? factor * rows[name][i] : NaN);
const known = (rows, name) => finite(column(rows, name));
const metricsIn = test => Object.keys(test).filter(name => !['ts', 'step', 'epoch'].includes(name));
const isShare = metric => metric.startsWith('accuracy');
const metricText = (metric, value) => isShare(metric) ? percent(value, 2) : decimals(value, 4);

// Time of the last log window, as text; false if there is none.
function endOf({train}) {
  const s = Math.min(column(train, 'ts').at(-1), 253402300799);  // the end of the year 9999
  return s >= 0 && `${new Date(1e3 * s).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}

function aboutRun(run) {
  const [model, data] = ['model.name', 'data.name'].map(key => optionOf(run, key));
  return [
    model && t`${model} on ${data}`,
    run.env.cpu,
    endOf(run),
    Object.keys(run.totals).length === 0 && 'no end is recorded: it runs, or was killed',
  ].filter(text => text).join(' · ');
}

function runNumbers({train, test, totals, higher_is_better}) {
  const [loss, ips, step] = ['loss', 'ips', 'batch_cost'].map(name => known(train, name));
  const metrics = metricsIn(test).filter(name =>
    name !== 'accuracy_top5' && known(test, name).length > 0);
  return [
    ...metrics.map(metric => {
      const values = known(test, metric), best = higher_is_better.includes(metric) ? most : least;
      return [t`test ${metric}`, metricText(metric, values.at(-1)),
        `best ${metricText(metric, best(values))} of ${plural(values.length, 'evaluation')}`];
    }),
    loss.length > 0 && ['training loss', decimals(loss.at(-1), 4), `from ${decimals(loss[0], 4)}`],
    ips.length > 0 && ['samples a second', short(median(ips)), 'median of the log windows'],
    step.length > 0 && ['step', seconds(median(step)), 'median of the log windows'],
    totals.elapsed_s >= 0 && ['time', seconds(totals.elapsed_s),
      `${plural(totals.epoch, 'epoch')}, ${plural(totals.step, 'step')}`]];
}

const line = (rows, key, tone, name = key, factor = 1) => ({name, tone,
  points: column(rows, key, factor).map((value, i) => [rows.step[i], value])});
const logChart = (title, note, unit, ...series) =>
  lineChart({title, note, unit, series, axis: 'zero'});

// The axis is logarithmic if the losses span more than a factor of 20.
function lossChart(title, note, series) {
  const losses = series.flatMap(({points}) => points.map(([, loss]) => loss)), low = least(losses);
  const log = low > 0 && most(losses) > 20 * low;
  return lineChart({title, axis: log ? 'log' : 'zero', series,
    note: note + (log ? '; logarithmic' : '')});
}

function learning({train, test}) {
  const metrics = metricsIn(test).filter(name => name !== 'loss');
  const names = {accuracy: 'top 1', accuracy_top5: 'top 5'};
  return [
    lossChart('Loss', 'of each log window and of the test set',
      [line(test, 'loss', 'b', 'test'), line(train, 'loss', 'a', 'train')]),
    metrics.filter(metric => !isShare(metric)).map(title =>
      lineChart({title, note: 'of the test set', series: [line(test, title, 'a')]})),
    lineChart({title: 'Accuracy', note: 'of the test set, in %', unit: ' %',
      series: metrics.filter(isShare).map((metric, i) =>
        line(test, metric, i ? 'c' : 'a', names[metric] ?? metric, 100))}),
    logChart('Learning rate', '', '', line(train, 'lr', 'c'))];
}

// Parts of a step, which add up to batch_cost. With several ranks, waits are the slowest one's.
function stepParts(train) {
  const whole = column(train, 'batch_cost', 1e3), reading = column(train, 'reader_cost', 1e3);
  const waits = train.wait_by_rank ?? [];
  const waiting = whole.map((_, i) => 1e3 * most([0, ...(waits[i] ?? [])]));
  const compute = whole.map((ms, i) => Math.max(0, ms - reading[i] - waiting[i]));
  // The first window includes one-time work, such as the choice of kernels.
  const skipped = whole.length > 10 ? 1 : 0;
  const part = (name, tone, values) =>
    ({name, tone, points: values.map((ms, i) => [train.step[i], ms]).slice(skipped)});
  return lineChart({title: 'Time of a step', unit: ' ms', stacked: true,
    note: 'batch_cost and its part reader_cost'
      + (skipped ? `; the first window took ${digits(whole[0], 3)} ms` : ''),
    series: [part('compute', 'a', compute), waits.length > 0 && part('waiting', 'c', waiting),
      part('reading', 'b', reading)]});
}

function wholeRun({elapsed_s, step_s, load_s, eval_s, save_s}) {
  const other = elapsed_s - step_s - load_s - eval_s - save_s;
  return Number.isFinite(other) && shareBar('The whole run', 'where the time went', [
    ['steps', step_s, 0], ['waiting for data', load_s, 1], ['evaluation', eval_s, 2],
    ['saving', save_s, 3], other > 0 && ['other', other, 4]]);
}

const resources = train => [
  logChart('Memory', 'largest so far: of the process, and of tensors', ' MB',
    line(train, 'peak_resident_bytes', 'c', 'process', 1e-6),
    line(train, 'max_mem_allocated', 'a', 'tensors', 1e-6)),
  logChart('CPU', 'cores that the process kept busy', '', line(train, 'cpu_cores', 'a', 'cores')),
  logChart('GPU', 'share of the time in which a kernel ran, in %', ' %',
    line(train, 'gpu_utilization', 'a', 'busy', 100))];

// Shows at most 60 evenly spaced rows, always including the last.
function foldedRows(title, rows) {
  const names = Object.keys(rows).filter(name => name !== 'ts' && !rows[name].some(Array.isArray));
  const columns = names.map(name => column(rows, name)), count = columns[0]?.length ?? 0;
  const shown = Math.min(count, 60);
  const picked = Array.from({length: shown}, (_, i) => Math.floor((i + 1) * count / shown) - 1);
  return count > 0 && fold(t`${title}: ${someOf(shown, count)}`,
    table(names, picked.map(i => columns.map(values => short(values[i]))), 0));
}

function runToggles(toggles) {
  const stateOf = ({count, superseded}) => count === undefined ? 'unknown'
    : count !== 0 || superseded ? 'ran' : 'idle';
  const named = state => toggles.filter(toggle => stateOf(toggle) === state)
    .map(({name, value}) => setting(name, value));
  return [chips('Ran', 'their footprints counted', named('ran')),
    chips('Never ran', 'on, with nothing to do here', named('idle'), true),
    chips('On', 'the folder does not say which of them ran', named('unknown'))];
}

function configuration({plan, plan_text}) {
  const set = plan.filter(([, value, origin]) =>
    value !== 'default' && origin !== 'default' && !origin.startsWith('off, '));
  return [
    table(['option', 'value', 'set by'], set.map(([option, ...rest]) => [code(option), ...rest]), 3)
      || h`<p>Every option has its default.</p>`,
    fold('plan.yaml: every option and where it was set', pre(plan_text))];
}

// ---- images of the test set

// Labels and answers: the accuracy of each class and a confusion matrix or, for many classes, the
// worst ones and the most frequent mistakes.
function testImages({images}) {
  if (!images) return '';
  if (images.missing) return h`<p>Missing: when this page was made, the run had no checkpoint that
    could be evaluated, or its test set could not be read.</p>`;
  const {classes, pairs, samples, of: all, worst, last} = images, kFew = 20;
  const countOf = test => sum(pairs.filter(test).map(([, , count]) => count));
  const rows = classes.map((name, i) => {
    const seen = countOf(([label]) => label === i);
    const right = countOf(([label, guess]) => label === i && guess === i);
    return {name, value: right / seen, before: 1, text: t`${percent(right / seen)} of ${seen}`};
  }).filter(({value}) => value >= 0).sort((a, b) => a.value - b.value);
  const mistakes = pairs.filter(([label, guess]) => label !== guess).sort((a, b) => b[2] - a[2]);
  const pictures = (title, note, list) => list.length > 0 && figure(title, note, h`
    <div class=images>${list.map(({label, guess, loss, jpeg}) => h`<div>
      <img alt="" src="data:image/jpeg;base64,${jpeg}"/><b>${classes[guess]}</b>${
      label === guess ? 'right' : t`is ${classes[label]}`}<br/>loss ${short(loss)}</div>`)}</div>`);
  return [
    barChart('Accuracy by class', t`of ${samples < all ? t`${samples} of ` : ''}${
      all} test images, lowest first${
      rows.length > kFew ? t`; ${kFew} of ${rows.length} classes` : ''}`, rows.slice(0, kFew)),
    classes.length <= kFew
      ? heatTable('Confusion', 'images by label and answer', 'label ↓  answer →', classes, classes,
        (row, column) => countOf(([label, guess]) => label === row && guess === column))
      : figure('Confusion', 'most frequent mistakes', table(['label', 'answer', 'images'], mistakes
        .slice(0, kFew).map(([label, guess, n]) => [classes[label], classes[guess], n]), 2)),
    pictures('Worst images', 'the largest losses, with the answer in bold', worst),
    pictures('Last batch', 'its first images, with the answer in bold', last)];
}

// ---- several runs

several.run = runs => ({
  over: 'training runs',
  title: plural(runs.length, 'run'),
  about: [...new Set(runs.map(run => t`${optionOf(run, 'model.name')} on ${
    optionOf(run, 'data.name')}`))].join(' · '),
  numbers: () => [],
  sections: [
    ['Results', () => resultsTable(runs)],
    ['Learning', () => grid(overlays(runs))],
    ['Options that differ', () => differingOptions(runs)]]});

function resultsTable(runs) {
  const metrics = [...new Set(runs.flatMap(({test}) => metricsIn(test)))].filter(
    metric => metric !== 'accuracy_top5');
  const last = (rows, name) => known(rows, name).at(-1);
  return table(['run', 'name', 'model', 'data', 'train loss', ...metrics.map(m => t`test ${m}`),
    'samples/s', 'time', 'last log line'], runs.map(({label, page, ...run}) => [
    page ? h`<a href="${encodeURI(page)}">${label}</a>` : label,
    ...['name', 'model.name', 'data.name'].map(key => optionOf(run, key)),
    decimals(last(run.train, 'loss'), 4),
    ...metrics.map(metric => metricText(metric, last(run.test, metric))),
    short(median(column(run.train, 'ips'))),
    run.totals.elapsed_s >= 0 ? seconds(run.totals.elapsed_s) : 'no end', endOf(run) || '–']), 4);
}

function overlays(runs) {
  const curves = (split, key, factor) => runs.map((run, i) =>
    line(run[split], key, 'abcdef'[i], run.label, factor));
  return [lossChart('Training loss', 'of each log window', curves('train', 'loss')),
    lossChart('Test loss', 'of the test set', curves('test', 'loss')),
    lineChart({title: 'Accuracy', note: 'of the test set, in %', unit: ' %',
      series: curves('test', 'accuracy', 100)})];
}

function differingOptions(runs) {
  const keys = [...new Set(runs.flatMap(({plan}) => plan.map(([key]) => key)))];
  const rows = keys.map(key => [code(key), ...runs.map(run => optionOf(run, key) ?? '–')]);
  const differing = rows.filter(([, ...values]) => new Set(values).size > 1);
  return differing.length > 0
    ? longTable(20, 'options', ['option', ...runs.map(({label}) => label)], differing,
      runs.length + 1)
    : h`<p>None: the runs have the same options.</p>`;
}
