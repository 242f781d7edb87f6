#!/usr/bin/env python3
"""Tests `trainer ab` as an instrument: how often is it wrong about effects that are known?

    peers/planted/truth.py
    peers/planted/truth.py --arms slow --states quiet --budget 1m --out build/results/ab-slow
    peers/planted/truth.py --config configs/resnet18.yaml --set data.batch_size=8 --budget 2m \\
        --out build/results/ab-truth-resnet18

Each run of `ab` compares a run without the toggle `planted` (planted.cpp) to other arms: one equal
but for a counter, one whose gradients are too large by 0.1 %, one that wastes 3 % of a step.
"""
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import arms  # noqa: E402
import measure  # noqa: E402

SLOWER = 0.03  # share of a step that the slow arm wastes
ARMS, STATES = ["equal", "wrong", "slow"], ["quiet", "busy"]


def arguments():
    p = measure.parser(__doc__, "peers/bench_planted")
    p.add_argument("--config", default="configs/lenet.yaml", help="in this checkout")
    p.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of all arms")
    p.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    p.add_argument("--states", nargs="+", choices=STATES, default=STATES)
    p.add_argument("--runs", type=int, default=20, help="in each state")
    p.add_argument("--busy", type=int, default=2, help="processes that spin in the busy runs")
    p.add_argument("--budget", default="30s", help="of each run")
    p.add_argument("--out", default=measure.ROOT / "build" / "results" / "ab-truth")
    return p.parse_args()


def compare(a, values, folder, *more):
    """Returns the JSON report of one run of ab."""
    report = pathlib.Path(folder) / "report.md"
    argv = [a.ours, "ab", "--config", measure.ROOT / a.config, *a.set, "--toggle",
            "planted", "--value", values, "--report", report, *more]
    done = measure.capture(argv)
    if done.returncode not in (0, 5):  # 5: the losses differ
        sys.exit(f"ab ended with {done.returncode}: {done.stderr}")
    return json.loads(report.with_suffix(".json").read_text())


def step_us(a, folder):
    """Time of a step, in us, without a planted effect."""
    of_round = [block for process in compare(a, "on", folder, "--processes", 3)["off"]["processes"]
                for block in process["wall_s_per_step"]]
    return 1e6 * sorted(of_round)[len(of_round) // 2]


def one_run(a, waste_us, folder):
    values = {"equal": "on", "wrong": "wrong", "slow": str(waste_us)}
    on = compare(a, ",".join(values[arm] for arm in a.arms), folder, "--budget", a.budget)["on"]
    return {arm: {"verdict": each["verdict"], "ratio": each["speedup"]["ratio"],
                  "interval": each["speedup"]["interval"], "losses_hold": each["losses_hold"],
                  "processes": len(each["processes"])}
            for arm, each in zip(a.arms, on)}


def claims(arm):
    """Whether ab says that the arm's speed differs."""
    return arm["verdict"].startswith(("faster", "slower"))


# What each arm shows: a title, and whether one run's finding counts.
COUNTED = {"equal": ("false verdicts on equal arms", lambda r: claims(r) or not r["losses_hold"]),
           "wrong": ("wrong gradients found", lambda r: not r["losses_hold"]),
           "slow": ("slow arm found", lambda r: r["verdict"].startswith("slower"))}


def row(state, runs):
    found = [f"{sum(COUNTED[arm][1](run[arm]) for run in runs)} of {len(runs)}" for arm in runs[0]]
    widths = sorted(50 * (run[arm]["interval"][1] - run[arm]["interval"][0])
                    for run in runs for arm in run)
    return [state, *found, f"{widths[len(widths) // 2]:.2f} ({widths[0]:.2f} to {widths[-1]:.2f})"]


INTRODUCTION = """# How often `trainer ab` is wrong

{run};
each run of ab has {budget} at most, for the reference, its placebo and {count} more: {named}.
{busy}
"""
BUSY = "Busy runs compete with {} processes that spin.\n"
NAMED = {"equal": "an equal arm differs by a counter only",
         "wrong": "wrong gradients are too large by 0.1 %",
         "slow": "a slow arm wastes {waste_us} us of a step of {step_us:.0f} us ({share:.1f} %)"}


def main():
    a = arguments()
    facts, runs = measure.machine(), {}
    with tempfile.TemporaryDirectory() as folder:
        step = step_us(a, folder)
        waste_us = round(SLOWER * step)
        for state in a.states:
            with arms.Spinning(a.busy if state == "busy" else 0):
                runs[state] = []
                for i in range(a.runs):
                    runs[state].append(one_run(a, waste_us, folder))
                    measure.complain(f"{state} {i + 1} of {a.runs}: "
                                     f"{ {k: v['verdict'] for k, v in runs[state][-1].items()} }")
    named = ", ".join(NAMED[arm] for arm in a.arms)
    named = named.format(step_us=step, waste_us=waste_us, share=100 * waste_us / step)
    busy = BUSY.format(a.busy) if "busy" in a.states else ""
    text = INTRODUCTION.format(named=named, count=len(a.arms), run=" ".join([a.config, *a.set]),
                               budget=a.budget, busy=busy)
    header = ["", *(COUNTED[arm][0] for arm in a.arms), "half of the interval, %: median (range)"]
    text += measure.table(header, [row(state, each) for state, each in runs.items()])
    measure.publish(a.out, text + "\n", facts,
                  {"step_us": step, "waste_us": waste_us, "runs": runs})


if __name__ == "__main__":
    main()
