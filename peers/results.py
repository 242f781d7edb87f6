#!/usr/bin/env python3
"""Puts figures into the table of docs/results.md: a row for each, in place of the row of an earlier
measurement.

    peers/results.py FILE.json [...]     reports of the scripts here and of `trainer ab --report`

The files are not kept: a row names the command that makes its figure again.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure  # noqa: E402

PAGE = measure.ROOT / "docs" / "results.md"
HEAD = "| figure | value | interval | machine | commit | date | command |"


def of_peers(report):
    """Rows of a comparison with PyTorch: how many times our time the fastest peer takes."""
    facts = report["machine"]
    for run in report["runs"]:
        results = run["results"]
        ours = next(name for name in results if name.startswith("bellows"))
        speed = {name: measure.speed_ratio(results[ours], results[name]) for name in results
                 if not name.startswith("bellows")}
        if speed:
            best = min(speed, key=speed.get)
            median, least, most = speed[best]
            yield (f"{run['title']}, {best}, its time / ours", f"{median:.2f} x",
                   f"{least:.2f} to {most:.2f}", facts)


def of_ab(report):
    """Rows of `trainer ab`: speed with a toggle, as a multiple of that without it."""
    for arm in report["on"]:
        speed = arm["speedup"]
        low, high = speed["interval"]
        words = report["command"].split()
        config = words[words.index("--config") + 1]
        yield (f"`{arm['name']}` on {config}: {arm['answer']}", f"{speed['ratio']:.3f} x",
               f"{low:.3f} to {high:.3f}", report["machine"] | {"command": report["command"]})


def rows_of(file):
    report = json.loads(pathlib.Path(file).read_text())
    for figure, value, interval, facts in (of_ab if report.get("kind") == "ab" else
                                           of_peers)(report):
        machine = facts["cpu"] + ", " + facts.get("vectors", measure.vectors())
        yield figure, (f"| {figure} | {value} | {interval} | {machine} | {facts['commit'][:10]} | "
                       f"{facts['date'][:10]} | `{facts['command']}` |")


def main():
    parser = measure.parser(__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    files = parser.parse_args().files
    before, table = PAGE.read_text().split(HEAD, 1)
    rows = {line.split(" | ")[0][2:]: line for line in table.splitlines()
            if line.startswith("| ") and not line.startswith("|---")}
    for file in files:
        rows.update(rows_of(file))
    lines = [HEAD, "|---|---|---|---|---|---|---|", *sorted(rows.values())]
    PAGE.write_text(before + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
