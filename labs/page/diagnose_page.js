// needs name limit updates batch_cost reader_cost between_ops_s ops findings untried
// Page of a report of `trainer diagnose --json` (labs/diagnose/diagnosis.cpp).

pages.diagnose = ({findings, cores_used, ...report}) => ({
  title: report.name,
  about: sentence(report.class_advice ?? ''),
  numbers: () => [
    ['limit', report.limit, `an update takes ${seconds(report.batch_cost)}`],
    'class' in report && ['class', t`${report.class} of 4`, report.class_name],
    findings.length > 0 && ['largest possible gain', gainOf(findings[0]), code(findings[0].rule)],
    cores_used >= 0 && ['cores in use', `${decimals(cores_used, 1)} of ${short(report.cores)}`,
      `${decimals(Math.max(0, report.waited_for_a_core), 1)} waited for`],
    ['updates', short(report.updates),
      report.measured_here ? 'measured for this report' : 'from the log of the run']],
  sections: [
    ['Where an update goes', () => timeOf(report)],
    ['Findings', () => findingsList(findings, report.batch_cost)],
    ['Toggles', () => chips('Off', 'and able to run here', report.untried, true)],
    ['Rates', () => facts(ratesOf(report))]]});

const gainOf = ({most_speedup}) => `${decimals(most_speedup, 2)} ×`;
const shareText = (s, whole) => `${seconds(s)}, ${percent(s / whole)}`;

function timeOf({batch_cost, reader_cost, between_ops_s, ops}) {
  const inOps = sum(ops.map(op => op.s)), measured = inOps > 0;
  const rest = batch_cost - reader_cost - (measured ? inOps + between_ops_s : 0);
  return [
    shareBar('An update', 'waiting for data, in ops, and between ops', [
      ['input', reader_cost, 1],
      measured && ['ops', inOps, 0], measured && ['between ops', between_ops_s, 4],
      rest > 1e-3 * batch_cost && (measured ? ['other', rest, 5] : ['computing', rest, 0])]),
    barChart('Ops', 'own time in an update, both passes', ops.slice(0, 10).map(({op, s}) =>
      ({name: op, text: shareText(s, batch_cost), value: s})))];
}

function findingsList(findings, batch_cost) {
  const gain = finding => finding.saves_s > 0
    ? `${shareText(finding.saves_s, batch_cost)}, at most ${gainOf(finding)}` : 'not measured';
  return findings.length === 0 ? h`<p>None: no rule fired.</p>` : [
    barChart('Largest possible gain',
      'time of an update that the remedy could remove, and the speedup if it removed all of it',
      findings.map(each => ({name: each.rule, text: gain(each), value: each.saves_s}))),
    h`<ol class=findings>${findings.map(({rule, text, remedies, advice}) => h`<li><h3>${rule}</h3>
      <p>${text}</p>${pre(remedies.join('\n'))}
      ${advice !== '' && h`<p class=note>${sentence(advice)}</p>`}</li>`)}</ol>`];
}

const ratesOf = ({load_s, batch_bytes, batch_cost, disk_bytes_per_s, eval_share, save_share}) => [
  [load_s > 0, 'load, one worker', seconds(load_s)],
  [batch_bytes > 0, 'batches', `${bytes(batch_bytes / batch_cost)}/s`],
  [disk_bytes_per_s >= 0, 'disks', `${bytes(disk_bytes_per_s)}/s`],
  [eval_share > 0, 'evaluation', `${percent(eval_share, 2)} of the run`],
  [save_share > 0, 'saving', `${percent(save_share, 2)} of the run`],
].flatMap(([known, name, value]) => known ? [[name, value]] : []);
