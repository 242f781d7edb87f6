#!/usr/bin/env python3
"""Compares a training step of Bellows and PyTorch on the GPU, interleaved.

    peers/gpu/run.py --model lenet --ours build/peers/bench_step --with "" --with toggles=all
    peers/gpu/run.py --model resnet50 --precision bf16                      only the peer
    peers/gpu/run.py --model lenet --device cpu --batch 4 --seconds 0.1     tests this script

Peers are PyTorch at its best: channels_last, cudnn.benchmark, the fused optimizer, set_to_none;
eager, with torch.compile(mode="max-autotune"), and with the whole step as one CUDA graph. Ours runs
once per --with, with its key=value words; tf32 is the same as the peers' unless the words set it.
Each arm is one process for all rounds. The report lists arms that failed, and the exit code is then
1; on a GPU also if torch is missing.
"""
import pathlib
import shlex
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import arms  # noqa: E402
import measure  # noqa: E402
import state  # noqa: E402

PEER = HERE.parent / "torch" / "torch_step.py"
BATCH = {"lenet": 64, "resnet18": 256, "resnet50": 256}
AMP = {"f32": "off", "bf16": "bf16", "f16": "fp16"}
PEERS = {"eager": [], "compile": ["--compile"], "graph": ["--graph"]}


def arguments():
    p = measure.parser(__doc__)
    p.add_argument("--ours", help="bench_step; without it the peers run alone")
    p.add_argument("--with", dest="variants", action="append", metavar="WORDS",
                   help="key=value words for an arm of ours; may be repeated")
    p.add_argument("--python", default=sys.executable, help="with torch")
    p.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    p.add_argument("--model", choices=list(BATCH), default="lenet")
    p.add_argument("--batch", type=int, help="64 for lenet, else 256")
    p.add_argument("--image", type=int, default=224, help="side of a ResNet's images")
    p.add_argument("--precision", choices=["f32", "bf16", "f16"], default="f32")
    p.add_argument("--tf32", action="store_true")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--threads", type=int, default=1, help="of the host")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=2, help="of steps, for each turn")
    p.add_argument("--warmup", type=int, default=20, help="steps")
    p.add_argument("--timeout", type=float, default=300, help="s, for an arm to get warm")
    p.add_argument("--out", help="stem of a .md and a .json; else the table is printed only")
    a = p.parse_args()
    a.batch = a.batch or BATCH[a.model]
    return a


def common(a):
    return ["--model", a.model, "--batch", a.batch, "--device", a.device, "--threads", a.threads,
            "--seconds", a.seconds, "--warmup", a.warmup, "--resident"]


def ours(a, words):
    """Command of our arm. tf32 is set explicitly because a preset may turn it on."""
    own = [f"toggles.amp={AMP[a.precision]}", f"toggles.tf32={'on' if a.tf32 else 'off'}"]
    return [a.ours, *common(a), *([] if a.model == "lenet" else ["--image", a.image]), *own,
            *shlex.split(words)]


def peer(a, options):
    return [a.python, PEER, *common(a), "--image", a.image, "--precision", a.precision,
            *["--tf32"] * a.tf32, "--layout", "nhwc", "--fused", *options]


def contestants(a, version):
    runs = {}
    for words in (a.variants or [""]) if a.ours else []:
        runs[f"bellows {words}".strip()] = ours(a, words)
    for name in a.peers if version else []:
        if name == "graph" and a.device == "cpu":
            measure.complain("left out: graph: CUDA graphs need a GPU")
        else:
            runs[f"torch {version} {name}"] = peer(a, PEERS[name])
    return runs


def clocks(results):
    """The lowest SM clock after a time slice, with the throttle reasons."""
    states = [result["gpu"] for result in results if result.get("gpu")]
    if not states:
        return ""
    lowest = min(states, key=lambda s: float(s["SM MHz"]))
    held = {s["throttle reasons"] for s in states} - {"none", "idle"}
    return "; ".join([lowest["SM MHz"], *sorted(held)])


def row(name, results, first):
    against = "" if results is first else measure.ratio_text(first, results, "ms_median")
    return [name, measure.time_text(results), f"{measure.middle(results, 'ms_wall'):.4g}",
            f"{measure.middle(results, 'ips'):.0f}", against,
            f"{max(result['peak_bytes'] for result in results) / 2**20:.0f}",
            f"{results[0]['warmup_s']:.1f}", clocks(results)]


COUNTED = ["cuda.launches", "graph.replays", "alloc.system_calls", "sync.count", "copy.h2d_bytes",
           "copy.d2h_bytes"]  # tests/house checks that these counters exist
INTRODUCTION = """# {model}: a training step beside PyTorch, {where}

One step is zero_grad, forward, cross-entropy, backward and SGD with momentum and weight decay, on
one batch of {batch} random samples in memory, {precision}, tf32 {tf32} on both sides. {rounds}
rounds of {seconds:g} s each, in turns (A B C, C B A, ...), every arm one process that is stopped
while it waits. {clock}
Medians over the rounds of each turn's median, with its quartiles; the ratio is taken within each
round: median (smallest to largest).

"""
CLOCKS = {"cuda": "A step is what lies between two device events, one after each step; the wall "
                  "time is a turn's, from an idle device to an idle device, over its steps.",
          "cpu": "A step is wall time."}


def rates_of(name, block, on_gpu):
    """Increase of each counter per step of ours; a block lists only counters that changed."""
    rates = {key: block["per_step"].get(key, 0) for key in COUNTED}
    if on_gpu and not rates["cuda.launches"] + rates["graph.replays"]:
        raise SystemExit(f"{name}: neither a launch nor a replay was counted, so 0 means nothing")
    return rates


def counter_table(results, on_gpu):
    """Table of counters per step of our arms; "" if none of them ran."""
    rows = [[name, *(f"{rate:g}" for rate in rates_of(name, blocks[-1], on_gpu).values())]
            for name, blocks in results.items() if "per_step" in blocks[-1]]
    if not rows:
        return ""
    return "Counted in the last turn, a step:\n\n" + measure.table(["", *COUNTED], rows) + "\n"


def missing_text(missing):
    """Lists the arms that failed, with the reasons."""
    return "".join(f"**Missing**: {name}: {why}\n\n" for name, why in missing.items())


def report(a, results, missing):
    first = next(iter(results))
    header = ["", "ms a step (q1 to q3)", "wall ms", "images/s", f"times {first}", "peak MiB",
              "warm after s", "SM MHz, lowest"]
    rows = [row(name, each, results[first]) for name, each in results.items()]
    text = INTRODUCTION.format(**vars(a) | {"tf32": "on" if a.tf32 else "off",
                                            "clock": CLOCKS[a.device],
                                            "where": "on a GPU" if a.device == "cuda" else
                                            "on the CPU"})
    return (text + missing_text(missing) + measure.table(header, rows) + "\n"
            + counter_table(results, a.device == "cuda"))


def versions(results):
    """Versions of the peer's libraries, as it printed them."""
    said = next((each[0] for each in results.values() if "peer" in each[0]), {})
    return {key: said[key] for key in ("peer", "cuda", "cudnn") if key in said}


def main():
    a = arguments()
    facts, watched = measure.machine(), a.device == "cuda"
    if watched:
        facts["gpu before"] = state.text(state.state())
    version = measure.torch_version(a.python) if a.peers else None
    commands = contestants(a, version)
    with arms.Arms(commands, a.timeout, OMP_NUM_THREADS=str(a.threads)) as running:
        results = running.take_turns(a.rounds, lambda: {"gpu": state.state()} if watched else {})
    if not results:
        why = "; ".join(f"{name}: {error}" for name, error in running.missing.items())
        raise SystemExit(f"no arm ran to its end, so there is nothing to compare: {why}")
    if watched:
        facts["gpu after"] = state.text(state.state())
    facts |= versions(results)
    missing = dict(running.missing)
    if a.peers and not version:
        missing["torch"] = f"none in {a.python}"
    measure.write(a.out, report(a, results, missing), facts,
                  {"missing": missing, "results": results})
    return int(bool(set(missing) - {"torch"}) or bool(missing) and watched)


if __name__ == "__main__":
    sys.exit(main())
