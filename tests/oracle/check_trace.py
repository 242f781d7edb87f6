#!/usr/bin/env python3
"""Checks that other programs read what the trainer records: HolisticTraceAnalysis the traces of
`trainer profile`, TensorBoard the event files of a run.

    check_trace.py [TRAINER]        default: build/trainer

Times by op agree with the profile's own table, and scalars with metrics.jsonl. Needs
HolisticTraceAnalysis, which needs pandas before 3, and tensorboard. Perfetto's trace_processor is
in no wheel; its rules are in tests/labs/chrome_trace_test.cpp.
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

from hta.trace_analysis import TraceAnalysis
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/trainer").resolve()
STEPS = range(5, 15)
TOLERANCE = 0.02  # of a sum of times; HolisticTraceAnalysis also rounds to 1 us


def trainer(folder, *words):
    subprocess.run([TRAINER, *map(str, words)], cwd=folder, check=True, capture_output=True)


def check(name, fine, found):
    print(f"{'ok    ' if fine else 'FAILED'} {name}: {found}")
    return fine


def self_times(slices):
    """us by name of (begin, end, name), without the slices inside of each."""
    times, open_ = collections.Counter(), []
    for begin, end, name in sorted(slices, key=lambda s: (s[0], -s[1])):
        while open_ and open_[-1][0] <= begin:
            open_.pop()
        times[name] += end - begin
        if open_:
            times[open_[-1][1]] -= end - begin
        open_.append((end, name))
    return times


def agrees(ops, slices):
    """Compares slices, in us, with the profile's table of ops, in s."""
    theirs, differing = self_times(slices), []
    for op in ops:
        name, us = op["op"] + ("_backward" if op["backward"] else ""), 1e6 * op["s"]
        if abs(us - theirs[name]) > TOLERANCE * us + op["calls"]:
            differing.append(f"{name} {us:.0f} us, not {theirs[name]:.0f}")
    return check(f"HolisticTraceAnalysis: times of {len(ops)} ops", not differing,
                 differing or "agree")


def check_hta(trace, profile):
    analysis = TraceAnalysis(trace_files={0: str(trace)}, include_last_profiler_step=True)
    steps = [int(step) for step in analysis.get_profiler_steps()]
    fine = check("HolisticTraceAnalysis: steps", steps == list(STEPS), steps)
    events, names = analysis.t.get_trace(0), analysis.t.symbol_table.sym_table
    ops = [(e.ts, e.ts + e.dur, names[e.name]) for e in events.itertuples()
           if names[e.cat] == "cpu_op"]
    return agrees(profile["ops"], ops) and fine


def check_tensorboard(run):
    events = EventAccumulator(str(run))
    events.Reload()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    tags, wrong = events.Tags()["scalars"], []
    for tag in tags:
        split, name = tag.split("/", 1)
        ours = [row[name] for row in rows if row.get("split") == split and name in row]
        theirs = [scalar.value for scalar in events.Scalars(tag)]
        if len(ours) != len(theirs) or any(abs(a - b) > 1e-6 * max(1, abs(a))
                                           for a, b in zip(ours, theirs)):
            wrong.append(tag)
    return check(f"TensorBoard: {len(tags)} scalars", tags and not wrong, wrong or "agree")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        config = ROOT / "configs/lenet.yaml"
        trainer(folder, "profile", "--config", config, "--steps", f"{STEPS[0]}:{STEPS[-1] + 1}",
                "--trace", "trace.json", "--json", "profile.json")
        trainer(folder, "--config", config, "--run-dir", "run", "train.epochs=2", "log.every=5",
                "data.train_size=1280", "data.test_size=64")
        profile = json.loads((folder / "profile.json").read_text())
        fine = [check_hta(folder / "trace.json", profile), check_tensorboard(folder / "run")]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
