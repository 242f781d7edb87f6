// needs name update_s phases ops ops_by_operands modules memory gaps outliers run
// Page of a report of `trainer profile --json` (labs/profile/report.cpp).

pages.profile = ({update_s, flop, memory, ...report}) => ({
  title: report.name,
  about: t`Steps ${report.first_step} to ${report.first_step + report.updates - 1} · batch ${
    report.batch} · ${plural(report.threads, 'thread')}`,
  numbers: () => [
    ['update', seconds(update_s), t`mean of ${report.updates}, batch ${report.batch}`],
    ['samples a second', short(report.batch / update_s)],
    ['in ops', percent(sum(report.ops.map(op => op.share))), 'of the time of an update'],
    flop > 0 && ['GFLOP/s', short(1e-9 * flop / update_s), `${digits(flop / report.bytes, 3)} FLOP `
      + `per byte${report.mfu === null ? '' : `, MFU ${percent(report.mfu)}`}`],
    ['peak memory', bytes(memory.peak_bytes), t`in step ${memory.step}`]],
  sections: [
    ['Where an update goes', () => [phasesBar(report.phases), allRanks(report), oneUpdate(report)]],
    ['Ops', () => [opsTables(report), roofline(report)]],
    ['Modules', () => longTable(12, 'modules', ['module', 'forward ms', 'backward ms', 'share'],
      report.modules.map(({module, forward_s, backward_s, share}) =>
        [code(module), inMs(forward_s), inMs(backward_s), percent(share)]))],
    ['Memory', () => memoryAtPeak(memory)],
    ['Gaps', () => gapsTable(report)],
    ['Threads', () => threadsTable(report.thread_states ?? [])],
    ['Slow calls', () => slowCalls(report.outliers)],
    ['The run', () => pre(report.run.join('\n'))]]});

const inMs = s => decimals(1e3 * s, 3);
const opName = ({op, name = op, backward}) => t`${name}${backward ? ', back' : ''}`;
const moduleOf = row => row.module === '' ? '–' : code(row.module);
const onDevice = report => report.times === 'time on the device';

const phaseColors = new Map(
  [['input wait', 4], ['forward', 0], ['backward', 1], ['optimizer', 5], ['clear_grad', 3]]);
const phasesBar = phases => shareBar('Phases', 'mean of all updates of the window',
  phases.map(({phase, s}) => [phase, s, phaseColors.get(phase) ?? 2]));

// ---- one update: lanes of time slices above the memory in use

// The ops by their tone, and the gaps by their cause: {tone, name, rows}.
function groupsOf({ops, gaps}) {
  const toneOf = op => ['optimizer', 'zero_grad'].includes(op.name) ? 'c' : op.backward ? 'b' : 'a';
  const names = {a: 'forward ops', b: 'backward ops', c: 'optimizer and clearing'};
  const tones = Object.keys(names).map(tone =>
    ({tone, name: names[tone], rows: ops.filter(op => toneOf(op) === tone)}));
  const causes = [...new Set(gaps.map(gap => gap.name))].sort().map(cause =>
    ({tone: 'g', name: t`${cause} gap`, rows: gaps.filter(gap => gap.name === cause)}));
  return {tones: tones.filter(({rows}) => rows.length > 0), causes};
}

function oneUpdate(report) {
  const update = report.typical_update, {tones, causes} = groupsOf(update);
  const lanes = [{name: 'phases', groups: [{tone: 'c', rows: update.phases}]},
    {name: 'ops', groups: tones}, ...causes.map(cause => ({name: cause.name, groups: [cause]}))];
  const what = onDevice(report) ? 'what the device ran' : 'the compute thread';
  const secondsOf = rows => seconds(1e-9 * sum(rows.map(row => row.ns)));
  return figure('One update',
    t`step ${update.step}, of median length: ${what}, its gaps by cause, and memory in use`, [
    lanesPlot(lanes, update),
    h`<ul class=legend>${[...tones, ...causes].map(({tone, name, rows}) => h`<li>
      <i class="slice ${tone}"></i>${name}${tone === 'g' && 's'} ${secondsOf(rows)}</li>`)}</ul>`]);
}

// An update of all ranks: the ops on the compute thread of each rank, and below them its buckets in
// flight. Pages above each other share one scale.
function allRanks({ranks = []}) {
  const shifted = (rows, ns) => rows.map(row => ({...row, begin_ns: ns + row.begin_ns}));
  const lanes = ranks.flatMap(({begin_ns, ops, waits, buckets}, rank) => [
    {name: t`rank ${rank}`, groups: [
      ...groupsOf({ops: shifted(ops, begin_ns), gaps: []}).tones,
      {tone: 'w', name: 'exposed wait', rows: shifted(waits, begin_ns)}]},
    {name: 'buckets', groups: [
      {tone: 'g', name: 'bucket on its way', rows: shifted(buckets, begin_ns)}]}]);
  const shown = [report].flat().flatMap(each => each.ranks ?? []);
  const s = 1e-9 * most(shown.map(each => each.begin_ns + 1e9 * each.s));
  const tones = new Map(lanes.flatMap(({groups}) => groups.map(({tone, name}) => [tone, name])));
  const note = 'what each compute thread ran, its waits for buckets, and the buckets on their way';
  return lanes.length > 0 && [figure('All ranks', t`step ${ranks[0].step} on one clock: ${note}`, [
    lanesPlot(lanes, {s, bytes_in_use: []}),
    h`<ul class=legend>${[...tones].map(([tone, name]) =>
      h`<li><i class="slice ${tone}"></i>${name}</li>`)}</ul>`]),
  table(['rank', 'all-reduce ms a step', 'hidden', 'exposed', 'peak of tensors',
    'peak of process', 'clock'],
    ranks.map(({all_reduce_s, exposed_s, shares_clock, ...row}, rank) => [rank,
      inMs(all_reduce_s), inMs(all_reduce_s - exposed_s), inMs(exposed_s),
      bytes(row.max_mem_allocated), bytes(row.peak_resident_bytes),
      shares_clock ? 'shared' : 'of its own']))];
}

function lanesPlot(lanes, {s, bytes_in_use}) {
  const kLane = 30, kMemory = bytes_in_use.length && 130;
  const height = kLane * lanes.length + (kMemory && 14 + kMemory);
  const x = scaleOver(0, 1e3 * s, 6), at = ns => x.at(1e-6 * ns);
  const plot = new Plot(height, longest(lanes.map(lane => lane.name)) + 2, 2);
  lanes.forEach(({name, groups}, i) => {
    plot.label('y', 0, kLane * (i + 0.5) - 4, name);
    plot.labels.push(groups.map(({tone, rows}) => rows.map(row => slice(row, tone, at, kLane * i))));
  });
  plot.xAxis(x, 'ms');
  if (!kMemory) return plot.html();
  const y = scaleAround(0, 1e-6 * most(bytes_in_use.map(([, count]) => count)), 3);
  const yOf = megabytes => height - kMemory * y.at(megabytes);
  const ends = [...bytes_in_use.slice(1).map(([ns]) => at(ns)), 1];
  const steps = bytes_in_use.flatMap(([ns, count], i) =>  // a value holds until the next one
    [at(ns), ends[i]].map(end => [end, yOf(1e-6 * count)]));
  plot.yAxis(y, yOf, ' MB');
  plot.path('line a', steps);
  plot.path('wash', [...steps, [1, height], [0, height]], 'Z');
  return plot.html();
}

// A slice of time. Its name is shown if there is room; the pointer shows all of its data.
function slice({begin_ns, ns, module, ...row}, tone, at, top) {
  const left = 100 * at(begin_ns), width = 100 * at(begin_ns + ns) - left, name = opName(row);
  const about = `${name}${module ? t` in ${module}` : ''}: ${decimals(1e-6 * ns, 3)} ms`;
  const place = `left:${decimals(left, 2)}%;width:${decimals(width, 2)}%;top:${top}px`;
  return h`<span class="slice ${tone}" style="${place}" title="${about}">${
    width > 3 && h`<b>${name}</b>`}</span>`;
}

// ---- ops

function opsTables({ops, ops_by_operands}) {
  const heads = ['calls', 'ms', 'mean ms', 'share', 'GFLOP/s', 'GB/s', 'FLOP/B', 'of ceiling'];
  const ratio = (work, by, factor = 1) => work > 0 && by > 0 ? decimals(factor * work / by, 1) : '';
  const cells = op => [short(op.calls), inMs(op.s), inMs(op.mean_s), percent(op.share),
    ratio(op.flop, op.s, 1e-9), ratio(op.bytes, op.s, 1e-9), ratio(op.flop, op.bytes),
    op.of_ceiling === null ? '' : percent(op.of_ceiling, 0)];
  const operandsOf = op => [op.shapes, op.dtype, op.layout].filter(text => text).join(' ');
  const shown = ops_by_operands.slice(0, 100);
  return [
    longTable(20, 'ops', ['op', ...heads], ops.map(op => [code(opName(op)), ...cells(op)])),
    fold(t`By operands: ${someOf(shown.length, ops_by_operands.length)}`, table(
      ['op', 'kernel', 'operands', ...heads],
      shown.map(op => [code(opName(op)), op.kernel, operandsOf(op), ...cells(op)]), 3))];
}

// GFLOP/s over FLOP per byte, both logarithmic, below the ceilings of the machine.
function roofline({ops, ops_by_operands, ceilings}) {
  const points = ops.map(op => ({...op, x: op.flop / op.bytes, y: 1e-9 * op.flop / op.s})).filter(
    ({x, y}) => x > 0 && y > 0 && x + y < Infinity);
  const low = ops_by_operands.some(({dtype = 'f32'}) => dtype !== 'f32');
  const roofs = (low ? ['f32', 'bf16'] : ['f32']).map(name =>
    ({name, rate: 1e-9 * ceilings[`${name}_flop_per_s`]})).filter(({rate}) => rate > 0);
  const slope = 1e-9 * ceilings.bytes_per_s, roof = most(roofs.map(({rate}) => rate));
  if (points.length === 0 || roofs.length === 0 || !(slope > 0)) return '';
  const scaleOf = (values, end) => logScale(least(values), most([...values, end]));
  const kRoof = 300, knee = roof / slope;
  const x = scaleOf(points.map(point => point.x), 2 * knee);
  const y = scaleOf(points.map(point => point.y), roof);
  const yOf = rate => kRoof * (1 - y.at(rate)), begin = Math.max(x.low, y.low / slope);
  const plot = new Plot(kRoof, roomBeside(y), 2);
  plot.yAxis(y, yOf);
  plot.line('one', x.at(begin), yOf(begin * slope), x.at(knee), yOf(roof));
  const middle = Math.sqrt(begin * knee), rate = t`${decimals(slope, 1)} GB/s`;
  const taken = roofs.map(({name, rate}) => {
    const text = t`${name} ${decimals(rate, 0)} GFLOP/s`, top = yOf(rate);
    plot.line('one', x.at(rate / slope), top, 1, top);
    plot.label('roof', 1, top - 18, text);
    return {left: 1 - widthOf(text), right: 1, y: top - 10};
  });
  const under = yOf(middle * slope) + 12;
  taken.push({left: x.at(middle), right: x.at(middle) + widthOf(rate), y: under});
  plot.label('end', x.at(middle), under, rate);
  drawPoints(plot, points.map(point => ({...point, x: x.at(point.x), y: yOf(point.y)})), taken);
  plot.xAxis(x, 'FLOP per byte');
  return figure('Roofline', 'GFLOP/s of each op over its FLOP per byte, and what this machine '
    + 'reaches; orange forward, blue backward. Data in a cache and algorithms with fewer products '
    + 'may exceed it', plot.html());
}

const widthOf = text => 7 * text.length / 270;  // in widths of the plot: 270 px on a phone

// Draws the points, and names each where there is room: beside it, below or above. The first points
// have priority. `taken`: boxes where no name may be.
function drawPoints(plot, points, taken) {
  for (const {x, y} of points) taken.push({left: x - 0.02, right: x + 0.02, y});
  const meets = (a, b) => a.left < b.right && b.left < a.right && Math.abs(a.y - b.y) < 15;
  const fits = box => box.left >= 0 && box.right <= 1 && !taken.some(other => meets(box, other));
  for (const {x, y, op, backward} of points) {
    plot.dots(`dot big ${backward ? 'b' : 'a'}`, [[x, y]]);
    const width = widthOf(op), box = (kind, top, left, middle) =>
      ({kind, top, left: x + left, right: x + left + width, y: y + middle});
    const place = [
      box('end', y, 0.025, 0), box('start', y, -0.025 - width, 0),
      box('x', y + 8, -width / 2, 16), box('x', y - 24, -width / 2, -16),
      ...[16, -16].flatMap(down => [box('end', y + down, 0.025, down),
        box('start', y + down, -0.025 - width, down)])].find(fits);
    if (!place) continue;
    plot.label(place.kind, x, place.top, op);
    taken.push(place);
  }
}

// ---- memory, gaps, slow calls

function memoryAtPeak({peak_bytes, step, modules}) {
  const rows = modules.map(row => ({...row, both: row.held + row.tensors}));
  const shown = rows.filter(row => row.both > 0.01 * peak_bytes).slice(0, 12);
  const others = rows.filter(row => !shown.includes(row)), rest = sum(others.map(row => row.both));
  return [
    barChart('Memory at the peak', t`${bytes(peak_bytes)} in step ${step}, by the module that took `
      + `it${others.length ? `; ${others.length} others: ${bytes(rest)}` : ''}`,
      shown.map(({module, both}) => ({name: module, text: bytes(both), value: both}))),
    fold('Held from before the window, and tensors since', table(
      ['module', 'held before', 'tensors', 'both'], rows.map(({module, held, tensors, both}) =>
        [code(module), bytes(held), bytes(tensors), bytes(both)])))];
}

const gapsTable = ({gaps, ...report}) => gaps.length > 0 && [
  h`<p>${onDevice(report) ? 'The device runs nothing' : 'No op runs on the compute thread'}. For ${
    percent(report.waited_for_core_share)} of the time, other work had the core of the compute
    thread.</p>`,
  longTable(10, 'gaps',
    ['cause', 'in', 'module', 'count', 'ms an update', 'share', 'longest ms', 'step'],
    gaps.map(gap => [gap.cause, code(gap.in), moduleOf(gap), short(gap.count), inMs(gap.s),
      percent(gap.share), inMs(gap.longest_s), gap.longest_step]), 3)];

const threadsTable = threads => threads.length > 0 && [
  h`<p>Shares of the window: running on a core, runnable but without one, because other threads had
    all of them, and waiting for something else.</p>`,
  longTable(12, 'threads', ['thread', 'running', 'runnable', 'waiting'],
    threads.map(({name, running, runnable, waiting}) =>
      [code(name), percent(running), percent(runnable), percent(waiting)]))];

const slowCalls = calls => calls.length === 0
  ? h`<p>None is further than 3 MAD from its median.</p>`
  : [h`<p>${calls.length} further than 3 median absolute deviations (MAD) from the median of calls
      with the same operands, the furthest first.</p>`,
    longTable(10, 'calls', ['op', 'module', 'step', 'ms', 'median ms', 'MAD'],
      calls.slice(0, 200).map(call => [code(opName(call)), moduleOf(call), call.step,
        inMs(call.s), inMs(call.median_s), inMs(call.mad_s)]), 2)];
