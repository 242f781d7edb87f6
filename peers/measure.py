"""Shared by the comparisons with PyTorch: interleaving, medians over rounds, machine facts."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parser(about, ours=None):
    """A parser of a script's arguments. `ours`: the program in build/ that --ours replaces."""
    p = argparse.ArgumentParser(description=about,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    if ours:
        p.add_argument("--ours", default=ROOT / "build" / ours)
    return p


def first_line(path, default="unknown"):
    try:
        return pathlib.Path(path).read_text().splitlines()[0]
    except (OSError, IndexError):
        return default


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def vectors():
    """The widest vector units of the CPU that products use."""
    flags = first_flags()
    names = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16", "avx512f": "AVX-512", "avx2": "AVX2"}
    found = [name for flag, name in names.items() if flag in flags]
    return " and ".join(found[:2] if "AMX" in found else found[:1]) or "no AVX2"


def first_flags():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return line.split()
    return []


def commit():
    """Commit of this checkout, or of the checkout that the bundle was built from."""
    if bundled := first_line(ROOT / "VERSION", ""):
        return bundled
    said = capture(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"])
    return said.stdout.strip() or "unknown"


def load_average():
    return " ".join(f"{load:.2f}" for load in os.getloadavg())


def machine():
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": cpu_model(),
        "vectors": vectors(),
        "cores": len(os.sched_getaffinity(0)),
        "governor": first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "kernel": platform.release(),
        "commit": commit(),
        "load average before": load_average(),
    }


def command():
    """The command line, with the script's path in the checkout; of other paths the name only."""
    script = pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT)
    words = [pathlib.Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    return shlex.join([str(script), *words])


def complain(text):
    print(text, file=sys.stderr, flush=True)


def capture(argv, **environment):
    argv = list(map(str, argv))
    try:
        return subprocess.run(argv, capture_output=True, text=True,
                              env=dict(os.environ, **environment))
    except OSError as error:
        return subprocess.CompletedProcess(argv, 127, "", str(error))


def torch_version(python):
    """Version of the interpreter's torch; None, after a message on stderr, if it has none."""
    said = capture([python, "-c", "import torch; print(torch.__version__)"])
    if said.returncode == 0 and said.stdout.strip():
        return said.stdout.strip()
    complain(f"skipped: {python} cannot import torch: {last_line(said.stderr)}")
    return None


def with_torch(pythons):
    """The interpreters that have torch, with its version: {python: version}."""
    versions = {python: torch_version(python) for python in pythons}
    able = {python: version for python, version in versions.items() if version}
    if not able:
        complain("no peer: name a Python that has torch with --python; ours runs alone")
    return able


def last_line(text):
    return text.strip().splitlines()[-1] if text.strip() else "it said nothing"


def run(argv, threads):
    """Runs a program; returns the JSON line that it prints last. If it fails, prints the reason and
    returns None."""
    said = capture(argv, OMP_NUM_THREADS=str(threads))
    if said.returncode == 0 and last_line(said.stdout).startswith("{"):
        return json.loads(last_line(said.stdout))
    complain(f"failed with {said.returncode}: {' '.join(map(str, argv))}: {last_line(said.stderr)}")
    return None


def take_turns(names, rounds, turn, after_turn=lambda results: None):
    """Runs each name once per round, in the order A B C, C B A, A B C, ..., so that drift affects
    all alike. turn(name) returns a result, or None if it failed; a name that failed is removed.
    Returns the lists of results by name; after_turn gets them after each turn."""
    results = {name: [] for name in names}
    after_turn(results)
    for index in range(rounds):
        for name in list(results) if index % 2 == 0 else list(results)[::-1]:
            complain(f"round {index + 1} of {rounds}: {name}")
            result = turn(name)
            if result is None:
                del results[name]
            else:
                results[name].append(result)
            after_turn(results)
    return results


def middle(results, key):
    return statistics.median(result[key] for result in results)


def ratio(below, above, key):
    """Median, minimum and maximum over the rounds of above[key] / below[key]."""
    ratios = [a[key] / b[key] for a, b in zip(above, below)]
    return statistics.median(ratios), min(ratios), max(ratios)


def speed_ratio(ours, other):
    """How many times as fast ours is, by samples per second or by the time of a step."""
    if "samples_per_s" in ours[0]:
        return ratio(other, ours, "samples_per_s")
    return ratio(ours, other, "ms_median")


def ratio_text(below, above, key, digits=".2f"):
    return spread(*ratio(below, above, key), digits)


def spread(median, low, high, digits=".2f"):
    """Formats as "1.58 (1.52 to 1.67)"."""
    return f"{median:{digits}} ({low:{digits}} to {high:{digits}})"


def time_text(results):
    """Step time in ms: medians over the rounds of median, lower and upper quartile."""
    return spread(*(middle(results, key) for key in ("ms_median", "ms_q1", "ms_q3")), ".4g")


def rate_text(results, key):
    rates = [result[key] for result in results]
    return spread(statistics.median(rates), min(rates), max(rates), ".0f")


def bullets(facts):
    return "".join(f"- {key}: {value}\n" for key, value in facts.items())


def table(header, rows):
    lines = [header, ["---"] * len(header)] + rows
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def write(stem, text, facts, data):
    """Writes STEM.md, which ends with facts about the machine, and STEM.json with the data of every
    run. A reader sees the old or the new content of a file."""
    facts |= {"load average after": load_average(), "command": command()}
    stem = pathlib.Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    for suffix, content in ((".md", text + bullets(facts)),
                            (".json", json.dumps({"machine": facts} | data, indent=1) + "\n")):
        partial = stem.with_name(f".{stem.name}{suffix}")
        partial.write_text(content)
        partial.rename(stem.with_suffix(suffix))


def publish(stem, text, facts, data):
    """Prints a report and writes it, if there is a stem."""
    print(text + bullets(facts))
    if stem:
        write(stem, text, facts, data)
        complain(f"written: {stem}.md, {stem}.json")
