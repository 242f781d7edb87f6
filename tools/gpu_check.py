"""Runs the steps of gpu_steps.py, each under its time limit, and reports."""
import argparse
import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from gpu_steps import BUNDLE, GROUPS, TOGETHER, Failed, Skipped, all_steps

sys.path.insert(0, str(BUNDLE / "peers"))
import gpu_state  # noqa: E402
import measure  # noqa: E402

TAIL = 40  # lines of a step's output that the report keeps, where it did not pass


def arguments():
    p = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__)
    p.add_argument("out", nargs="?", type=lambda text: pathlib.Path(text).resolve(),
                   help="folder of the report")
    p.add_argument("steps", nargs="*",
                   help="by name, or that of a group; none: all that have not passed yet")
    p.add_argument("--list", action="store_true", help="the steps and their time limits")
    p.add_argument("--allow-cpu", action="store_true",
                   help="without a GPU, what can run without one, at small sizes")
    p.add_argument("--merge", action="store_true",
                   help="the names are other reports, to be added to OUT's")
    p.add_argument("--limit", type=float, default=float("inf"), help="s, for all steps together")
    a = p.parse_intermixed_args()
    if not a.out and not a.list:
        p.error("name a folder for the report")
    return a


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def ask(*argv):
    """What a program says; "" where it is not there or fails."""
    try:
        said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def library_versions():
    code = ("import importlib.metadata as m\n"
            "print(*sorted(f'{d.name} {d.version}' for d in m.distributions()"
            " if d.name.startswith(('nvidia-', 'torch', 'triton'))), sep=', ')")
    return ask("python3", "-c", code)


# ---- a step


def words(step, out, on_gpu):
    """The command. Raises Skipped where it cannot run here."""
    if not on_gpu and step.on_cpu is None:
        raise Skipped("needs a GPU")
    if step.data and not (BUNDLE / "data" / step.data).is_dir():
        raise Skipped(f"needs data/{step.data}: tools/bundle.sh --data FOLDER")
    command = step.command() if callable(step.command) else step.command
    if not on_gpu:
        command = step.on_cpu(command) if callable(step.on_cpu) else [*command, *step.on_cpu]
    return [str(word).replace("{out}", str(out)) for word in command]


def run(argv, limit_s, log):
    """Exit code; None if it ran out of time. Ends what it has started, too."""
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, cwd=BUNDLE, start_new_session=True)
    except OSError as error:
        raise Failed(f"cannot start {argv[0]}: {error.strerror}") from error
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def judge(step, code, limit_s, out, said):
    """A line and data. Raises Failed, with what a program reported before its end."""
    line, data, why = "done", {"output": said}, ""
    try:
        line, data = step.read(out, said) if step.read else (line, data)
    except Failed as reason:
        why, data = reason.args[0], reason.args[1] if len(reason.args) > 1 else {}
    except (OSError, ValueError, KeyError, IndexError) as reason:
        data, why = {}, f"its report cannot be read: {reason}" if code == 0 else ""
    if code is None:
        why = f"not done after {limit_s:.0f} s{'; ' * bool(why)}{why}"
    elif code:
        why = f"ended with exit code {code}: {why or (said[-1] if said else 'it said nothing')}"
    if why:
        raise Failed(why, data)
    return line, data


def attempt(step, limit_s, on_gpu, folder):
    """Runs a step in folder/now, so that what it wrote is there even if this program is killed, and
    gives back its result and what it said."""
    place = folder / "now" if "{out}/result" in str(step.command) else None
    out = place or pathlib.Path(tempfile.mkdtemp(prefix=f"{step.name}."))
    if place:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    begin, result = time.monotonic(), {"what": step.what, "predicted": step.predicted,
                                       "date": now()}
    said, states = [], {}
    with tempfile.TemporaryFile() as log:
        try:
            argv = words(step, out, on_gpu)
            result["command"] = shlex.join(argv).replace(str(out), "OUT").replace(f"{BUNDLE}/", "")
            if on_gpu:
                states["gpu before"] = gpu_state.text(gpu_state.state())
            code = run(argv, limit_s, log)
            if on_gpu:
                states["gpu after"] = gpu_state.text(gpu_state.state())
            log.seek(0)
            said = log.read().decode(errors="replace").splitlines()
            line, data = judge(step, code, limit_s, out, said)
            result |= {"status": "passed", "summary": line, "data": data}
        except Skipped as reason:
            result |= {"status": "skipped", "summary": str(reason)}
        except Failed as reason:
            result |= {"status": "failed", "summary": str(reason.args[0]),
                       "data": reason.args[1] if len(reason.args) > 1 else {},
                       "tail": said[-TAIL:]}
        finally:
            shutil.rmtree(out, ignore_errors=True)
    return result | states | {"seconds": round(time.monotonic() - begin, 1)}, said


# ---- the report


def load(path):
    return json.loads(path.read_text()) if path.exists() else {"machine": {}, "steps": {}}


def machine():
    return {"date": now(), "commit": measure.commit(), "gpu": gpu_state.text(gpu_state.state()),
            "cores": len(os.sched_getaffinity(0)), "python": sys.version.split()[0],
            "packages": library_versions()}


def markdown(report):
    order = [step.name for step in all_steps()]
    steps = sorted(report["steps"].items(), key=lambda item: order.index(item[0])
                   if item[0] in order else len(order))
    text = "# Checks of a bundle\n\n"
    text += "".join(f"- {key}: {value}\n" for key, value in report["machine"].items())
    text += "\n| step | what | predicted | | saw | s |\n| --- | --- | --- | --- | --- | --- |\n"
    for name, step in steps:
        text += (f"| {name} | {step['what']} | {step['predicted']} | {step['status']} | "
                 f"{step['summary']} | {step['seconds']:g} |\n")
    for name, step in steps:
        data = step.get("data", {})
        if "markdown" in data:
            text += f"\n#{data['markdown']}"
        for what, lines in (("what it said", data.get("output")),
                            ("the end of its output", step.get("tail"))):
            if lines:
                text += f"\n## {name}, {what}\n\n```\n" + "\n".join(lines) + "\n```\n"
        text += "".join(f"\n- {name}, {when}: {step[when]}\n"
                        for when in ("gpu before", "gpu after") if when in step)
    return text


def write(out, report):
    out.mkdir(parents=True, exist_ok=True)
    for name, text in (("report.json", json.dumps(report, indent=1) + "\n"),
                       ("report.md", markdown(report))):
        partial = out / f".{name}"
        partial.write_text(text)
        partial.rename(out / name)


def merge(out, others):
    report = load(out / "report.json")
    for other in others:
        more = load(pathlib.Path(other))
        report["machine"] |= more["machine"]
        report["steps"] |= more["steps"]
    write(out, report)


# ---- all of it


def chosen(names, report):
    steps = all_steps()
    known = {step.name for step in steps} | set(GROUPS)
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"gpu_check: no step {unknown[0]}; there are: {' '.join(sorted(known))}")
    if names:
        return [step for step in steps if step.name in names or step.group in names]
    return [step for step in steps
            if report["steps"].get(step.name, {}).get("status") != "passed"]


class Check:
    def __init__(self, a, on_gpu):
        self.a, self.on_gpu, self.report = a, on_gpu, load(a.out / "report.json")
        self.report["machine"] |= machine()
        self.deadline, self.writing = time.monotonic() + a.limit, threading.Lock()
        a.out.mkdir(parents=True, exist_ok=True)

    def step(self, step, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            print(f"gpu_check: out of time before {step.name}", flush=True)
            return
        result, said = attempt(step, min(step.limit_s, left), self.on_gpu, self.a.out)
        with self.writing:
            self.report["steps"][step.name] = result
            with open(self.a.out / "log.txt", "a") as log:
                log.write("\n".join([f"\n==== {step.name}, {result['date']}", *said, ""]))
            write(self.a.out, self.report)
        print(f"{result['status']:8}{step.name:20}{result['seconds']:7.1f} s  "
              f"predicted: {step.predicted}; saw: {result['summary']}", flush=True)

    def run(self):
        steps = chosen(self.a.steps, self.report)
        while steps:
            group = steps[0].group
            count = sum(step.group == group for step in steps) if group else 1
            limit = time.monotonic() + GROUPS[group] if group else float("inf")
            at_once = count if group in TOGETHER else 1
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                for done in [pool.submit(self.step, step, min(self.deadline, limit))
                             for step in steps[:count]]:
                    done.result()
            steps = steps[count:]
        return any(step["status"] == "failed" for step in self.report["steps"].values())


def main():
    a = arguments()
    if a.list:
        for step in all_steps():
            print(f"{step.name:20}{step.limit_s:4} s  {step.group or '':14}{step.what}")
        return 0
    if a.merge:
        return merge(a.out, a.steps)
    on_gpu = bool(gpu_state.state())
    if not on_gpu:
        print("gpu_check: no GPU here (nvidia-smi does not answer)"
              + ("" if a.allow_cpu else "; --allow-cpu runs what can run without one"), flush=True)
        if not a.allow_cpu:
            return 2
    return int(Check(a, on_gpu).run())


if __name__ == "__main__":
    sys.exit(main())
