// needs config out answer gains changes left_out start placebo busy command machine
// Page of a report of `trainer tune` (trainer/ab/tune_report.cpp).

pages.tune = ({config, out, answer, changes, start, tuned, placebo, ...report}) => ({
  title: t`${config}, tuned`,
  about: answer,
  numbers: () => [
    tuned && ratioNumber('all kept changes over the start', tuned.speedup),
    ['time of a step', `${medianMs(tuned ?? start)} ms`,
      tuned ? `from ${medianMs(start)} ms, medians` : 'of the start, median'],
    ['changes', changes.filter(change => change.kept).length, `kept of ${changes.length}`],
    ratioNumber('placebo', placebo.speedup, 'the start against itself; '),
    ['processes', start.processes.length, 'a side, taking turns']],
  sections: [
    ['What was tried', () => [paragraph('Busy machine: ', report.busy),
      h`<p>Each ratio is over what was kept before it. The kept changes are in their order.</p>`,
      changeTable(changes)]],
    ['Left out', () => Object.entries(report.left_out).map(
      ([reason, names]) => chips('Left out', reason, names, true))],
    ['The config', () => h`<p>${code(out)} ${report.gains ? 'extends' : 'changes nothing in'}
      ${code(config)}.</p>`],
    measurement(report)]});

const changeTable = changes => table(
  ['change', 'times as fast', 'interval', 'losses', ''],
  changes.map(({name, same = '–', why, gain}) => [code(name),
    !gain ? '–' : gain.differs ? h`<b>${times(gain)}</b>` : times(gain),
    gain && hasInterval(gain) ? range(gain) : '–', same, why]));
