#!/usr/bin/env python3
"""Two ranks on a slow link: what overlap hides, and the bucket size that trainer plan predicts.

    peers/throttled.py --mbit 200
    peers/throttled.py --config configs/ddp/resnet18.yaml --mbit 200 --rounds 3 --out REPORT

Each rank runs in a network namespace of its own, and a token bucket (tc tbf) limits the link
between them. The script measures the link (trainer bench allreduce) and one rank alone
(trainer plan --json), then trains on two ranks: with overlap and without, and with each bucket
size of the plan's ladder, in turns. It fails if the wait for gradients that overlap leaves exceeds
max(0, communication - backward) by more than 15 % of the communication, or if the bucket size with
the shortest measured wait is further than a factor of two from the predicted one, by more than the
noise. Skipped where namespaces are not allowed. Needs root.

--ab FOLDER writes the reports of trainer ab for overlap_allreduce and bucketed_allreduce instead,
--profile FOLDER the profiles of two ranks with overlap and without: on.json and off.json.
"""
import json
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import arms  # noqa: E402
import measure  # noqa: E402

SUBNET = "10.213.17."


def arguments():
    p = measure.parser(__doc__, "trainer")
    p.add_argument("--config", default=measure.ROOT / "configs" / "ddp" / "resnet18.yaml")
    p.add_argument("--mbit", type=float, default=200, help="Mbit/s of the link, each way")
    p.add_argument("--updates", type=int, default=30, help="of each run; the first third warms up")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--sizes", type=int, default=5, help="of buckets, around the predicted one")
    p.add_argument("--timeout", type=float, default=300, help="s, for a run")
    p.add_argument("--out", help="report to write: OUT.md and OUT.json")
    p.add_argument("--ab", help="folder for the reports of trainer ab")
    p.add_argument("--profile", help="folder for profiles of two ranks")
    p.add_argument("words", nargs="*", help="key=value as for the trainer")
    return p.parse_args()


class Link:
    """Two namespaces with a throttled pair of interfaces."""

    def __init__(self, mbit):
        self.names, self.mbit = [f"bellows{os.getpid()}{side}" for side in "ab"], mbit

    def command(self, text):
        said = measure.capture(text.split())
        if said.returncode:
            raise RuntimeError(f"{text}: {measure.last_line(said.stderr)}")

    def __enter__(self):
        a, b = self.names
        try:
            for name in self.names:
                self.command(f"ip netns add {name}")
            self.command(f"ip link add eth0 netns {a} type veth peer name eth0 netns {b}")
            for i, name in enumerate(self.names):
                inside = f"ip netns exec {name} "
                self.command(f"{inside}ip addr add {SUBNET}{i + 1}/24 dev eth0")
                for interface in ("lo", "eth0"):
                    self.command(f"{inside}ip link set {interface} up")
                self.command(f"{inside}tc qdisc add dev eth0 root tbf rate {self.mbit}mbit "
                             "burst 32kb latency 50ms")
        except (RuntimeError, OSError):
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            measure.capture(["ip", "netns", "delete", name])


class Ranks:
    def __init__(self, a, link):
        self.a, self.link, self.port = a, link, 29500

    def run(self, *argv):
        """Runs the trainer on both ranks; returns what rank 0 printed."""
        self.port += 1
        printed = arms.together(
            [["ip", "netns", "exec", name, self.a.ours, *argv] for name in self.link.names],
            self.a.timeout,
            [arms.rank_variables(rank, 2, self.port, f"{SUBNET}1") for rank in range(2)])
        return printed if printed is not None else sys.exit(1)

    def train(self, *words):
        """Median ms of a step, loading excluded, and of its wait for gradients on rank 0."""
        with tempfile.TemporaryDirectory() as folder:
            printed = self.run("--config", self.a.config, f"train.max_iters={self.a.updates}",
                               "log.every=1", "eval.every=0", "ckpt.every=0",
                               "log.tensorboard=false", "--run-dir", f"{folder}/run",
                               *self.a.words, *words)
            if "ranks: 2 (gloo), " not in printed:
                raise SystemExit("the values of the ranks did not travel over the link")
            lines = (pathlib.Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
        rows = [row for row in map(json.loads, lines) if row["split"] == "train"]
        rows = rows[len(rows) // 3:]
        return {"step_ms": 1e3 * statistics.median(r["batch_cost"] - r["reader_cost"]
                                                   for r in rows),
                "wait_ms": 1e3 * statistics.median(r["wait_by_rank"][0] for r in rows)}


def forecast(a, link):
    """Both ranks are measured alone at the same time, since they share the memory."""
    argv = [a.ours, "plan", "--config", a.config, "--ranks", "2", "--json", "--algorithm", "ring",
            "--latency-us", link["latency_us"], "--gbps", link["gbps"], *a.words]
    return json.loads(arms.together([argv] * 2, a.timeout) or sys.exit(1))


def ladder_of(plan, sizes):
    """Sizes around the predicted one, at most, each twice the one before."""
    row = plan["rows"][0]
    all_sizes = [step["bucket_mb"] for step in row["ladder"]]
    at = all_sizes.index(row["best_bucket_mb"])
    first = max(0, min(at - sizes // 2, len(all_sizes) - sizes))
    return all_sizes[first:first + sizes]


def measure_all(a, ranks, plan):
    setting = {f"{mb:g} MiB": [f"dist.bucket_mb={mb}", f"dist.first_bucket_mb={mb}"]
               for mb in ladder_of(plan, a.sizes)}
    best = f"{plan['rows'][0]['best_bucket_mb']:g} MiB"
    setting["no overlap"] = [*setting[best], "toggles.overlap_allreduce=off"]
    results = measure.take_turns(setting, a.rounds, lambda name: ranks.train(*setting[name]))
    return best, {name: {key: measure.middle(each, key) for key in ("step_ms", "wait_ms")}
                  | {"noise_ms": max(r["wait_ms"] for r in each) - min(r["wait_ms"] for r in each)}
                  for name, each in results.items()}


def write_ab_reports(a, ranks):
    """Each rank runs `ab`; the report of rank 0 gets a line about the link."""
    for toggle in ("overlap_allreduce", "bucketed_allreduce"):
        report = pathlib.Path(a.ab).resolve() / f"{toggle}.md"
        ranks.run("ab", "--config", os.path.relpath(a.config), "--toggle", toggle, "--steps", 5,
                  "--warmup", 10, "--processes", 5, "--report", report, *a.words)
        link = f"{a.mbit:g} Mbit/s each way between two network namespaces (tc tbf)"
        report.write_text(report.read_text() + f"- link: {link}\n")
        facts = json.loads(report.with_suffix(".json").read_text())
        facts["machine"]["link"] = link
        report.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")


def write_profiles(a, ranks):
    for value in ("on", "off"):
        printed = ranks.run("profile", "--config", a.config, "--steps", "5:25", "--json",
                            pathlib.Path(a.profile) / f"{value}.json",
                            f"toggles.overlap_allreduce={value}", *a.words)
        print(f"overlap_allreduce={value}\n\n{printed[printed.index('rank  all-reduce'):]}")


def judged(plan, best, results):
    """The two claims, with their figures: [(text, holds)]."""
    late = results["no overlap"]
    communication = late["wait_ms"]
    backward = 1e3 * (plan["backward_end_s"] - plan["first_ready_s"])
    limit = max(0, communication - backward) + 0.15 * communication
    exposed = results[best]["wait_ms"]
    sizes = {name: r for name, r in results.items() if name != "no overlap"}
    measured = min(sizes, key=lambda name: sizes[name]["wait_ms"])
    factor = float(measured.split()[0]) / float(best.split()[0])
    lost = exposed - sizes[measured]["wait_ms"]
    return [(f"exposed wait with overlap: {exposed:.1f} ms of {communication:.1f} ms of "
             f"communication, beside {backward:.1f} ms of backward; limit {limit:.1f} ms",
             exposed <= limit),
            (f"shortest wait: predicted for buckets of {best}, measured for {measured}, by "
             f"{lost:.1f} ms (noise {sizes[best]['noise_ms']:.1f} ms)",
             0.5 <= factor <= 2 or lost <= sizes[best]["noise_ms"])]


def main():
    a = arguments()
    a.ours, a.config = pathlib.Path(a.ours).resolve(), pathlib.Path(a.config).resolve()
    facts = measure.machine()
    try:
        with Link(a.mbit) as link:
            ranks = Ranks(a, link)
            if a.ab:
                return write_ab_reports(a, ranks)
            if a.profile:
                return write_profiles(a, ranks)
            network = json.loads(ranks.run("bench", "allreduce", "--json", "--max-mb", 1))["link"]
            if not network:
                raise SystemExit("the machine is too noisy to measure the link")
            plan = forecast(a, network)
            best, results = measure_all(a, ranks, plan)
    except (RuntimeError, OSError) as error:
        print(f"skipped: no network namespaces here: {error}")
        return
    predicted = {f"{step['bucket_mb']:g} MiB": step for step in plan["rows"][0]["ladder"]}
    rows = []
    for name, r in results.items():
        step = predicted.get(name)
        said = [f"{1e3 * step[key]:.1f}" for key in ("step_s", "exposed_s")] if step else \
            [f"{1e3 * plan['rows'][0]['no_overlap_step_s']:.1f}", ""]
        rows.append([name, said[0], f"{r['step_ms']:.1f}", said[1], f"{r['wait_ms']:.1f}"])
    claims = judged(plan, best, results)
    text = (f"# Two ranks on a link of {a.mbit:g} Mbit/s\n\nMeasured as a ring: "
            f"{network['latency_us']:.0f} us a hop, {network['gbps']:.3f} Gbit/s. One rank alone: "
            f"{1e3 * plan['step_s']:.1f} ms an update. Medians of {a.rounds} rounds in turns.\n\n"
            + measure.table(["buckets", "step, predicted ms", "measured", "wait, predicted ms",
                             "measured"], rows)
            + "\n" + "".join(f"- {'holds' if ok else 'FAILS'}: {claim}\n" for claim, ok in claims))
    measure.publish(a.out, text + "\n", facts, {"link": network, "plan": plan, "results": results})
    if not all(ok for _, ok in claims):
        sys.exit(1)


if __name__ == "__main__":
    main()
