#!/usr/bin/env python3
"""Measures toggles where they gain and where they have little to gain, with the commands of their
cards, and puts a row for each into docs/results.md and docs/pictures/gallery.svg.

    tools/gallery.py [TOGGLE ...]       all of them take an hour, and want a quiet machine

The rows of the others stay. A figure wants three processes on each side, so --seconds may have to
grow on a slow machine.
"""
import argparse
import json
import math
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, PICTURE = ROOT / "docs" / "results.md", ROOT / "docs" / "pictures" / "gallery.svg"
HEAD = "| toggle | where it gains | where it does not | machine | commit | date |"
UNMEASURED = "not measured"


def trainer(*words):
    done = subprocess.run([ROOT / "build" / "trainer", *words], cwd=ROOT, capture_output=True,
                          text=True)
    return done.returncode, done.stdout + done.stderr


def card(toggle):
    """Labels of `trainer explain` and their texts, of which only the first lines are needed."""
    text = trainer("explain", toggle)[1]
    return dict(re.findall(r"^  (\w[\w ]*): +(.*)$", text, re.M))


def vectors():
    flags = set(re.findall(r"amx_bf16|avx512_bf16|avx512f|avx2", Path("/proc/cpuinfo").read_text()))
    names = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16", "avx512f": "AVX-512", "avx2": "AVX2"}
    return next((name for flag, name in names.items() if flag in flags), "SSE")


def measure(command, seconds):
    """Runs `trainer ab ...`. Returns its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.md"
        code, said = trainer(*shlex.split(command)[1:], "--budget", f"{seconds}s", "--report",
                             report)
        if code:
            raise SystemExit(f"{command}: exit code {code}: {said[-600:]}")
        found = json.loads(report.with_suffix(".json").read_text())
    if not found["on"][0]["footprint_holds"]:
        raise SystemExit(f"{command}: {found['on'][0]['footprint']}")
    return found


def figure(report, gains):
    """For example "faster: 1.476 x (1.231 to 1.769), placebo 1.002"."""
    arm = report["on"][0]
    if gains == "memory":
        off, on = (max(process["peak_tensor_bytes"] for process in side["processes"]) / 1e6
                   for side in (report["off"], arm))
        return f"{off:.1f} to {on:.1f} MB of tensors at the peak"
    if gains != "time":
        off, on = arm["counters_per_step"][gains]
        counts = [f"{count:,.0f}" if count >= 100 else f"{count:.3g}" for count in (off, on)]
        return f"{counts[0]} to {counts[1]} `{gains}` per step"
    speed = arm["speedup"]
    if None in speed["interval"]:
        return f"{arm['answer']}: {speed['ratio']:.3f} x"
    low, high = speed["interval"]
    return (f"{arm['answer']}: {speed['ratio']:.3f} x ({low:.3f} to {high:.3f}), placebo "
            f"{report['placebo']['speedup']['ratio']:.3f}")


def gallery_row(toggle, seconds):
    labels = card(toggle)
    if "here" in labels and "launch" not in labels["measure"]:
        return f"| `{toggle}` | {UNMEASURED}: {labels['here']} | | | | |"
    report = measure(labels["measure"], seconds)
    where = figure(report, labels.get("gains", "time").removeprefix("less "))
    not_there = figure(measure(labels["no gain"], seconds) if "no gain" in labels else report,
                       "time")
    facts = report["machine"]
    return (f"| `{report['on'][0]['name']}` | {where} | {not_there} | {facts['cpu']}, {vectors()} |"
            f" {facts['commit'][:10]} | {facts['date'][:10]} |")


def draw(rows):
    """Draws the speed of each toggle: a disc where it gains, a ring where it does not."""
    def x(ratio):
        return 190 + 104 * math.log2(min(max(ratio, 0.5), 16) / 0.5)

    marks = ['<text x="4" y="12">&#9679; where it should gain</text>'
             '<text x="4" y="24">&#9675; where it should not</text>']
    marks += [f'<text x="{x(r):.0f}" y="12" text-anchor="middle">{r} x</text>'
              f'<path d="M{x(r):.0f} 18V{len(rows) * 16 + 22}" stroke="#ddd"/>'
              for r in (0.5, 1, 2, 4, 8, 16)]
    for i, row in enumerate(rows):
        y = 30 + 16 * i
        cells = row.split(" | ")
        line = f'<text x="182" y="{y + 4}" text-anchor="end">{cells[0][2:].strip("`")}</text>'
        for cell, fill in ((cells[2], "#fff"), (cells[1], "#c2410c")):
            found = re.search(r"([\d.]+) x \(([\d.]+) to ([\d.]+)\)", cell)
            if not found and fill == "#fff":
                continue
            if not found:
                words = cell.replace("`", "")
                line += f'<text x="{x(1.5):.0f}" y="{y + 4}" fill="#c2410c">{words}</text>'
                continue
            ratio, low, high = map(float, found.groups())
            line += (f'<path d="M{x(low):.1f} {y}H{x(high):.1f}" stroke="#c2410c"/>'
                     f'<circle cx="{x(ratio):.1f}" cy="{y}" r="4" stroke="#c2410c" fill="{fill}"/>')
        marks.append(line)
    PICTURE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {len(rows) * 16 + 30}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join(marks) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toggles", nargs="*", metavar="TOGGLE")
    parser.add_argument("--seconds", type=int, default=25, help="for each command")
    options = parser.parse_args()
    for name in options.toggles or sorted(file.stem for file in ROOT.glob("toggles/*/*.cpp")):
        put(gallery_row(name, options.seconds))


def put(row):
    """Puts the row into the table, in place of the toggle's earlier one, and draws all."""
    print(row, flush=True)
    before, rest = PAGE.read_text().split(HEAD, 1)
    table, after = rest.split("\n\n", 1)
    rows = {}
    for line in [*table.splitlines(), row]:
        name = re.match(r"\| `(\w+)|", line)[1]
        if name and (UNMEASURED not in line or name not in rows):
            rows[name] = line
    lines = [HEAD, "|---|---|---|---|---|---|", *(rows[name] for name in sorted(rows))]
    PAGE.write_text(before + "\n".join(lines) + "\n\n" + after)
    draw([rows[name] for name in sorted(rows) if UNMEASURED not in rows[name]])


if __name__ == "__main__":
    main()
