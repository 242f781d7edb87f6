#include "trainer/page/page.h"
#include "core/base/check.h"
#include "core/base/plural.h"
#include "trainer/page/html.h"

namespace bellows {

static const char* const kStyle = R"css(
:root{color-scheme:light;--paper:#fff;--ink:#1c1b19;--soft:#6b6963;--rule:#e8e6e1;--wash:#f6f5f1;
--a:#c2410c;--b:#2b6499;--c:#8d8a83;--a2:#efb597;--b2:#a9c4dc}
@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;--paper:#151514;
--ink:#ecebe8;--soft:#9f9c95;--rule:#2d2c2a;--wash:#1f1f1d;--a:#ff8b52;--b:#74b0e4;--c:#85827b;
--a2:#8a4a2b;--b2:#36597a}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.55 system-ui,-apple-system,
"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:70rem;margin:auto;padding:clamp(1.5rem,5vw,4.5rem) clamp(1.1rem,4.5vw,3rem)}
h1{font-size:clamp(1.75rem,4.5vw,2.6rem);line-height:1.12;letter-spacing:-.02em;font-weight:650;
margin:.3rem 0 .7rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;font-weight:650;letter-spacing:-.01em;margin:0 0 1.4rem}
p{margin:0 0 .8rem;max-width:44rem}
.over{color:var(--a);font-weight:600;font-size:.85rem;margin:0}
.about,.note,figcaption,summary{color:var(--soft)}
.about{margin:0;overflow-wrap:anywhere}
section{margin-top:clamp(2.6rem,6vw,4rem);border-top:1px solid var(--rule);padding-top:1.5rem}
dl,dd{margin:0}
.key{display:grid;grid-template-columns:repeat(var(--n),1fr);gap:1.6rem 1.5rem;
margin-top:clamp(1.8rem,4vw,2.8rem)}
.key dt{font-size:.85rem;color:var(--soft)}
.key dd{font-size:1.7rem;line-height:1.25;font-weight:600;letter-spacing:-.02em}
.key div:first-child dd{color:var(--a)}
.key div .note.note{color:var(--soft);font-size:.85rem;font-weight:400;letter-spacing:0;
line-height:1.45}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,18.5rem),1fr));
gap:2.6rem 3rem}
figure{margin:0;min-width:0;display:flow-root}
figure+figure,.grid+*,figure+*,details+figure,
.facts+*,p+figure,p+.grid,p+.wide,pre+*{margin-top:2rem}
.grid>figure{margin-top:0}
figcaption{font-size:.85rem;margin-bottom:1.1rem;line-height:1.45}
figcaption b{display:block;color:var(--ink);font-size:.95rem;font-weight:600}
.plot{position:relative;margin-bottom:2.7rem;font-size:12px;line-height:16px}
.plot svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible}
.plot path{fill:none;vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
.plot span{position:absolute;white-space:nowrap;color:var(--soft)}
.plot .y{transform:translate(calc(-100% - 1ch),-50%)}
.plot .x{transform:translateX(-50%)}
.plot .xn{transform:translateX(-100%)}
.plot .end{transform:translateY(-50%);padding-left:1ch;color:var(--ink)}
.end b{display:block;font-weight:600}
b.a{color:var(--a)}b.b{color:var(--b)}b.c{color:var(--soft)}
.plot .grid{display:inline;stroke:var(--rule)}
.plot .tick{stroke:var(--c)}
.plot .one{stroke:var(--c)}
.plot .median{stroke:var(--ink);stroke-width:1.5}
.line,.dot,.bar{stroke-width:1.75}
.a{stroke:var(--a)}.b{stroke:var(--b)}.c{stroke:var(--c)}
.plot .dot{stroke-width:5}
.plot .some{stroke-opacity:.5}
.plot .big{stroke-width:10}
.plot .bar{stroke-width:2.5}
.plot .area{stroke:none;fill-opacity:.9}
.area.a{fill:var(--a2)}.area.b{fill:var(--b)}.area.c{fill:var(--c)}
.plot .noise{fill:var(--wash);stroke:none}
.row{display:flex;justify-content:space-between;flex-wrap:wrap;gap:0 1.5rem;margin:0 0 .35rem;
max-width:none;font-size:.9rem}
.row b{font-weight:600;overflow-wrap:anywhere}
.row+.plot{margin-bottom:1.1rem}
.cross{position:absolute;top:0;bottom:0;width:1px;background:var(--c);pointer-events:none}
.plot .tip{top:-6px;padding:.35rem .6rem;background:var(--paper);border:1px solid var(--rule);
border-radius:4px;pointer-events:none;z-index:1;color:var(--ink)}
.tip b{margin-right:.6em;font-weight:600}
div.bar{display:flex;height:1.6rem;gap:1px;border-radius:3px;overflow:hidden}
.legend{list-style:none;margin:1rem 0 0;padding:0;display:flex;flex-wrap:wrap;gap:.3rem 1.8rem;
font-size:.87rem}
.legend b{font-weight:600;margin-left:.3em}
.legend i{display:inline-block;width:.7rem;height:.7rem;border-radius:2px;margin-right:.5rem}
.p0{background:var(--a)}.p1{background:var(--b)}.p2{background:var(--a2)}
.p3{background:var(--b2)}.p4{background:var(--c)}.p5{background:var(--rule)}
.bars{display:grid;grid-template-columns:fit-content(15rem) 1fr fit-content(22rem);
grid-auto-flow:dense;gap:.42rem 1.2rem;align-items:center;font-size:.87rem}
.bars.noted{grid-template-columns:fit-content(15rem) 1fr auto auto}
.bars div{display:contents}
.bars b{font-weight:500;overflow-wrap:anywhere}
.bars em{font-style:normal;grid-column:3;text-align:right;color:var(--soft)}
.bars .more{grid-column:4}
.bars span{grid-column:2;position:relative;height:.95rem}
.bars i,.bars u{position:absolute;left:0;top:0;height:100%;border-radius:2px}
.bars i.a{background:var(--a)}.bars i.b{background:var(--b)}
.bars i.c{background:color-mix(in srgb,var(--c) 50%,var(--paper))}
.bars i.before{background:var(--rule)}
.bars u{top:calc(50% - 1px);height:2px;background:var(--ink)}
.plot .slice{height:22px;min-width:1px;overflow:hidden;container-type:inline-size;border-radius:1px}
.slice.a{background:var(--a2)}.slice.b{background:var(--b2)}.slice.c{background:var(--rule)}
.slice.g{background:var(--c)}
.slice b{display:block;padding:3px 5px;font-weight:400;color:var(--ink);overflow:hidden;
text-overflow:ellipsis;border-left:1px solid var(--paper)}
@container(max-width:2.9rem){.slice b{visibility:hidden;padding:11px 0}}
.plot .interval{stroke:var(--a);stroke-width:5;stroke-opacity:.3}
.plot .wash{stroke:none;fill:var(--a);fill-opacity:.1}
.plot .start{transform:translate(-100%,-50%);padding-right:1ch;color:var(--ink)}
.plot .roof{transform:translateX(-100%)}
.heat td.r{background:color-mix(in srgb,var(--a) var(--h),transparent);padding:.5rem .8rem}
.heat th:first-child{white-space:normal}
.heat th.r{padding-right:.8rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.87rem;line-height:1.45;min-width:min(100%,30rem)}
th,td{text-align:left;padding:.36rem 1.6rem .36rem 0;border-bottom:1px solid var(--rule);
vertical-align:baseline}
th{font-weight:500;color:var(--soft);cursor:pointer;white-space:nowrap;user-select:none}
th[aria-sort]{color:var(--ink)}
th[aria-sort=ascending]::after{content:" ↑"}th[aria-sort=descending]::after{content:" ↓"}
.r{text-align:right;white-space:nowrap}
tr>:last-child{padding-right:0}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,25rem),1fr));
gap:0 3.2rem;font-size:.87rem}
.facts div{display:flex;gap:1rem;border-bottom:1px solid var(--rule);padding:.4rem 0}
.facts dt{flex:0 0 8.5rem;color:var(--soft);overflow-wrap:anywhere}
.facts dd{overflow-wrap:anywhere;min-width:0}
.names{display:flex;flex-wrap:wrap;gap:.3rem .5rem;padding:0;margin:.2rem 0 1.6rem;list-style:none}
.names li{background:var(--wash);border-radius:4px;padding:.12rem .55rem;font-size:.87rem}
.names .off{background:none;box-shadow:inset 0 0 0 1px var(--rule);color:var(--soft)}
h3{font-size:.9rem;font-weight:600;margin:0 0 .4rem}
h3 span{font-weight:400;color:var(--soft)}
details{margin-top:1.4rem}
summary{cursor:pointer;font-size:.87rem;margin-bottom:.7rem}
pre,code{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.8rem}
pre{background:var(--wash);border-radius:6px;padding:1rem 1.2rem;overflow-x:auto;line-height:1.5;
margin:0}
ol.findings{list-style:none;margin:2.2rem 0 0;padding:0;display:grid;gap:1.8rem}
.findings p{margin:0 0 .5rem}
.findings pre{display:inline-block;max-width:100%;padding:.5rem .8rem}
.bad{color:var(--a);font-weight:600}
@media(min-width:48rem){.grid figcaption{min-height:4.1rem}}
@media(max-width:60rem){.key{grid-template-columns:repeat(3,1fr)}}
@media(max-width:48rem){.bars{grid-template-columns:1fr auto;gap:.15rem 1rem}
.bars.noted{grid-template-columns:1fr auto}
.bars em{grid-column:2}
.bars .more{grid-column:1/-1;text-align:left}
.bars span{grid-column:1/-1;margin-bottom:.55rem;height:.7rem}}
@media(max-width:30rem){.facts dt{flex-basis:6.5rem}.key{grid-template-columns:1fr 1fr}
.key dd{font-size:1.45rem}}
@media print{body{font-size:10pt}main{padding:0;max-width:none}figure,tr{break-inside:avoid}
h2,h3{break-after:avoid}section{margin-top:1.6rem}.wide,pre{overflow:visible}
pre{white-space:pre-wrap}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)css";

// Sorts a table by the column that is clicked; shows the values of a chart below the pointer; opens
// what is folded before the page is printed.
static const char* const kScript = R"js(
for (const th of document.querySelectorAll('th')) th.onclick = () => {
  const i = th.cellIndex, body = th.closest('table').tBodies[0];
  const up = th.getAttribute('aria-sort') != 'ascending';
  for (const other of th.parentNode.children) other.removeAttribute('aria-sort');
  th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const key = r => r.cells[i].textContent;
  const scale = {k: 1e3, M: 1e6, G: 1e9};
  const number = t => parseFloat(t) * (scale[t.slice(-1)] || 1);
  const order = (a, b) => isNaN(number(a) - number(b)) ? a.localeCompare(b) : number(a) - number(b);
  body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * order(key(a), key(b))));
};
for (const plot of document.querySelectorAll('[data-v]')) {
  const [low, high, series] = JSON.parse(plot.dataset.v);
  const cross = document.createElement('i'), tip = document.createElement('span');
  cross.className = 'cross', tip.className = 'tip';
  plot.onpointermove = event => {
    const box = plot.getBoundingClientRect();
    const x = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const at = low + x * (high - low);
    const closer = (v, w) => Math.abs(v - at) < Math.abs(w - at);
    const nearest = xs => xs.reduce((n, v, i) => closer(v, xs[n]) ? i : n, 0);
    const most = series.reduce((s, t) => t[2].length > s[2].length ? t : s)[2];
    const shown = most[nearest(most)];
    cross.style.left = tip.style.left = 100 * (shown - low) / (high - low) + '%';
    tip.style.transform = x > .5 ? 'translateX(calc(-100% - 8px))' : 'translateX(8px)';
    tip.replaceChildren(String(shown));
    for (const [name, tone, xs, ys] of series) {
      const label = document.createElement('b'), i = nearest(xs);
      label.className = tone, label.textContent = name;
      tip.append(document.createElement('br'), label, String(ys[i]));
    }
    plot.append(cross, tip);
  };
  plot.onpointerleave = () => (cross.remove(), tip.remove());
}
onbeforeprint = () => document.querySelectorAll('details').forEach(d => d.open = true);
)js";

static std::string document(const Page& page) {
  return cat("<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n",
             "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n<title>",
             escaped(page.title), "</title>\n<link rel=icon href=\"data:,\">\n<style>", kStyle,
             "</style>\n</head>\n<body>\n<main>\n<header>\n<p class=over>", escaped(page.over),
             "</p>\n<h1>", escaped(page.title), "</h1>\n<p class=about>", escaped(page.about),
             "</p>\n</header>\n", page.body, "</main>\n<script>", kScript,
             "</script>\n</body>\n</html>\n");
}

std::string html_of(const Json& report, const std::string& name) {
  const Json named = report.is_object() ? report.value("kind", Json()) : Json();
  const std::string kind = named.is_string() ? named : Json("");
  Names known;
  for (const auto& [each, page] : page_kinds()) known.push_back(each);
  const auto found = page_kinds().find(kind);
  CHECK(found != page_kinds().end(), name, ": ",
        kind.empty() ? std::string("no report, it has no \"kind\"")
                     : cat("no page shows a report of the kind \"", kind, "\""),
        "; there are pages for ", joined(known));
  try {
    return document(found->second.make(report));
  } catch (const Json::exception& error) {
    fail(Exit::usage, name, ": not a complete report of the kind \"", kind, "\": ", error.what());
  }
}

}  // namespace bellows
