// needs plain placebo steps without left_out busy config command machine
// Page of a report of `trainer ladder` (trainer/ab/ladder_report.cpp).

pages.ladder = ({config, plain, placebo, steps, ...report}) => ({
  title: t`${config}, from plain to all`,
  about: 'Each step adds one toggle to the step before',
  numbers: () => [
    ratioNumber('all toggles over plain', steps.at(-1).speedup_over_plain),
    ['time of a step', `${medianMs(steps.at(-1))} ms`, `from ${medianMs(plain)} ms, medians`],
    ['toggles', steps.length, 'added one at a time'],
    ratioNumber('placebo', placebo.speedup, 'plain against itself; '),
    ['processes', plain.processes.length, 'a side, taking turns']],
  sections: [
    ['Steps', () => [paragraph('Busy machine: ', report.busy), waterfall(plain, steps)]],
    ['One toggle left out', () => [h`<p>All toggles against all but one. A toggle that another one
      covers seems worthless here, and one that others need takes them along.</p>`,
      withoutTable(report.without)]],
    ['Toggles', () => ladderToggles(steps, report.left_out)],
    measurement(report)]});

const stepName = ({toggle, value}) => setting(toggle, value);

function waterfall(plain, steps) {
  const toneOf = ({differs, ratio}) => !differs ? 'c' : ratio > 1 ? 'a' : 'b';
  const bar = (arm, name) => ({...blocksBar(arm, name), text: `${medianMs(arm)} ms`});
  const bars = steps.map((step, i) => ({...bar(step, t`+ ${stepName(step)}`),
    tone: toneOf(step.speedup), before: median(blockMs(i ? steps[i - 1] : plain)),
    note: ratioText(step.speedup, ' ×')}));
  return barChart('Time of a step, one toggle added at a time', 'median of the blocks, a line from '
    + 'quartile to quartile, and the ratio to the step before with its interval; pale: what the '
    + 'toggle saved; in color: a difference beyond the noise of the placebo',
    [{...bar(plain, 'plain'), tone: 'c', note: ''}, ...bars]);
}

const withoutTable = arms => table(['without', 'ms a step', 'all on is faster by', 'interval'],
  arms.map(({slowdown, ...arm}) => [code(arm.toggle), medianMs(arm),
    slowdown.differs ? h`<b>${times(slowdown)}</b>` : times(slowdown),
    hasInterval(slowdown) ? range(slowdown) : '–']));

function ladderToggles(steps, left_out) {
  const counters = steps.flatMap(step => Object.entries(step.counters_per_step).map(
    ([counter, rates]) => [code(step.toggle), code(counter), ...rates.map(short)]));
  const named = chosen => steps.filter(chosen).map(stepName);
  return [
    chips('Ran', 'their footprints counted', named(step => step.ran)),
    chips('Not in its step', 'another toggle may have replaced it', named(step => !step.ran)),
    Object.entries(left_out).map(([reason, names]) => chips('Left out', reason, names, true)),
    counters.length > 0 && fold('Counters that changed',
      table(['toggle', 'counter, per step', 'before', 'after'], counters, 2))];
}
