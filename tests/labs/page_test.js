// Renders pages of `trainer report` as a browser would, and prints the body of each page:
//   node page_test.js PAGE.html...
// Whatever a report lacks or holds, its page must be whole HTML without a tag from the report.
'use strict';
const assert = require('assert'), fs = require('fs'), vm = require('vm');

// Returns the report that a page embeds, and a function that renders any report with its script.
function open(file) {
  const page = fs.readFileSync(file, 'utf8');
  const between = (begin, end) =>
    page.slice(page.indexOf(begin) + begin.length, page.lastIndexOf(end));
  const embedded = between('id=report>', '</script>\n<script>'), main = {}, errors = [];
  const document = {getElementById: () => ({textContent: embedded}), querySelector: () => main,
    querySelectorAll: () => []};
  const context = vm.createContext({document, console: {error: error => errors.push(error)}});
  vm.runInContext(between('</script>\n<script>', '</script>'), context);
  assert.deepStrictEqual(errors, []);
  const render = vm.runInContext('each => html(attempt(() => pageOf(each)))', context);
  return {report: JSON.parse(embedded), body: main.innerHTML, render};
}

function check(body, what) {
  const open = [], tags = [...body.matchAll(/<(\/?)([a-z0-9]+)[^<>]*?(\/?)>/g)];
  assert.strictEqual(tags.length, body.split('<').length - 1, `${what}: a raw <`);
  for (const [tag, end, name, alone] of tags) {
    if (end) assert.strictEqual(open.pop(), name, `${what}: ${tag} does not match`);
    else if (!alone) open.push(name);
  }
  assert.deepStrictEqual(open, [], what);
  const text = body.replace(/base64,[^"]*/g, ''), hole = text.search(/NaN|undefined|Infinity/);
  assert.strictEqual(hole, -1, `${what}: ${text.slice(Math.max(0, hole - 60), hole + 20)}`);
}

// Calls `change` with each list and object of a value, and each of its keys.
function forEachMember(value, change, path = '') {
  for (const key of Object.keys(value)) {
    const place = `${path}/${key}`;
    change(value, key, place);
    if (value[key] && typeof value[key] === 'object') forEachMember(value[key], change, place);
  }
}

// A copy whose texts are all `name`, but for the kind, and whose objects have such a member.
function renamed(value, name) {
  if (typeof value === 'string') return name;
  if (Array.isArray(value)) return value.map(each => renamed(each, name));
  if (!value || typeof value !== 'object') return value;
  const members = Object.entries(value).map(
    ([key, each]) => [key, key === 'kind' ? each : renamed(each, name)]);
  return Object.fromEntries([...members, [name, [name, name]]]);
}

const kOthers = [undefined, null, 'x', -1, 1e50, [null], {a: 1}];

for (const file of process.argv.slice(2)) {
  const {report, body, render} = open(file);
  check(body, file);
  assert(!body.includes('does not hold this part'), `${file}: a part is missing`);
  const hostile = render(renamed(report, '<img src=x>"\'&\u202e\0'));
  check(hostile, 'hostile names');
  assert(hostile.includes('&#60;img src=x&#62;&#34;&#39;&#38;\\u202e\\u0000'));
  let members = 0, tried = 0;
  forEachMember(report, () => ++members);
  const every = Math.ceil(members / 60);
  forEachMember(report, (object, key, path) => {
    const value = object[key], isTop = object === report;
    // Every member of the report itself is tried with all values, and some of the others with one.
    if (path === '/kind' || (!isTop && ++tried % every)) return;
    for (const other of isTop ? kOthers : [kOthers[tried / every % kOthers.length]]) {
      object[key] = other;
      if (other === undefined) delete object[key];
      check(render(report), `${file}: ${path} is ${JSON.stringify(other)}`);
    }
    object[key] = value;
  });
  console.log(body);
}
