#!/usr/bin/env python3
"""Writes figures into the table of docs/results.md, one row each; replaces the row of an earlier
measurement.

    peers/results.py FILE.json [...]     reports of the scripts here

The files are not kept, because each row names the command that measures its figure again.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import measure  # noqa: E402

PAGE = measure.ROOT / "docs" / "results.md"
HEAD = "| figure | value | interval | machine | commit | date | command |"


def rows_of(file):
    """Rows of a comparison with PyTorch: how many times our time the fastest peer takes."""
    report = json.loads(pathlib.Path(file).read_text())
    facts = report["machine"]
    machine = facts["cpu"] + ", " + facts.get("vectors", measure.vectors())
    for run in report["runs"]:
        results = run["results"]
        ours = next(name for name in results if name.startswith("bellows"))
        speed = {name: measure.speed_ratio(results[ours], results[name]) for name in results
                 if not name.startswith("bellows")}
        if not speed:
            continue
        best = min(speed, key=speed.get)
        median, least, most = speed[best]
        figure = f"{run['title']}, {best}, its time / ours"
        yield figure, (f"| {figure} | {median:.2f} x | {least:.2f} to {most:.2f} | {machine} | "
                       f"{facts['commit'][:10]} | {facts['date'][:10]} | `{facts['command']}` |")


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
