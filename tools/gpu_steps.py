"""The steps of tools/gpu_check.sh: what each runs, with and without a GPU, and what it has to show.

A step passes if its program ends with 0 and `read`, if it has one, finds what it looks for. `read`
gets the step's own folder, which is also {out} in the words of the command, and gives back
(a line that sums up, data for the report), or raises Failed. Without a `read`, the report keeps
what the program has said. `predicted` is what the step should show, stated before any GPU ran it.
The steps are in the order of what would be learned: whether the libraries and kernels work at all,
then LeNet in a graph, ResNet-50 beside PyTorch, and the rest.
"""
import dataclasses
import json
import os
import pathlib
import shutil
import statistics

BUNDLE = pathlib.Path(__file__).resolve().parent.parent
BIN = BUNDLE / "bin"
# Suites that find a GPU by themselves and then run on it, too.
FIRST_SUITES = ["vendor", "ops", "nvrtc"]
SUITES = ["core", "autograd", "optim", "models", "trainer", "toggles", "data", "dist", "labs"]
ON_DEVICE = "*OnDevice*"


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


@dataclasses.dataclass
class Step:
    name: str
    what: str
    predicted: str
    limit_s: int
    command: list
    on_cpu: list = None  # words in their place without a GPU; none: the step needs one
    read: object = None
    data: str = None     # a data set that has to be in data/


def tests(out):
    """Of a suite: how many, which failed, and why some were skipped."""
    report = json.loads((out / "tests.json").read_text())
    cases = [case for suite in report["testsuites"] for case in suite["testsuite"]]
    skipped = [case["name"] for case in cases if case.get("result") == "SKIPPED"]
    ran = report["tests"] - report["disabled"] - len(skipped)
    failed = [f"{case['classname']}.{case['name']}" for case in cases if case.get("failures")]
    data = {"ran": ran, "failed": failed, "skipped": len(skipped)}
    if failed:  # a test of an op ends with its name: EqualsTheCpuIn/conv2d
        ops = sorted({name.rsplit("/", 1)[1] for name in failed if "/" in name.split(".", 1)[1]})
        raise Failed(f"{len(failed)} of {ran} failed{', on ' * bool(ops)}{' '.join(ops[:8])}: "
                     f"{' '.join(failed[:5])}", data)
    if not ran:
        raise Failed("no test ran", data)
    return f"{ran} tests, {len(skipped)} skipped", data


def tables(out):
    """The Markdown and the figures of a comparison; Failed where a side did not run. A missing
    torch is the program's to judge: where it may be missing, the line says so."""
    data = json.loads((out / "result.json").read_text())
    data["markdown"] = (out / "result.md").read_text()
    data |= data.pop("runs")[0]
    missing = data["missing"]
    lost = [f"{name}: {why}" for name, why in missing.items() if name != "torch"]
    if lost:
        raise Failed("missing: " + "; ".join(lost), data)
    line = data.get("line", "measured")
    return f"{line}; no peer, torch: {missing['torch']}" if missing else line, data


def beside_peers(out):
    """As tables(), with the step of our fastest arm and of each peer."""
    line, data = tables(out)
    ms = {name: statistics.median(turn["ms_median"] for turn in turns)
          for name, turns in data["results"].items()}
    ours = min((name for name in ms if name.startswith("bellows")), key=ms.get)
    peers = [f"{name} {ms[name] / ms[ours]:.2f} x" for name in ms if name.startswith("torch")]
    return f"{ms[ours]:.4g} ms a step; {', '.join(peers) or line}", data


def accuracy(least):
    def read(out):
        lines = (out / "run" / "metrics.jsonl").read_text().splitlines()
        found = [line["accuracy"] for line in map(json.loads, lines) if "accuracy" in line]
        if not found or found[-1] < least:
            raise Failed(f"accuracy {found[-1:]}, {least} is due", {"accuracy": found})
        return f"accuracy {found[-1]:.4f}", {"accuracy": found}
    return read


def sanitizer(tool):
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.access(found, os.X_OK):
        raise Skipped("no compute-sanitizer on this machine")
    return [found, "--tool", tool, "--error-exitcode", "1", "--print-limit", "20",
            *suite("ops", ON_DEVICE)]


def suite(name, only="*"):
    return [BIN / f"{name}_test", f"--gtest_filter={only}", "--gtest_brief=1",
            "--gtest_output=json:{out}/tests.json"]


def compare(model):
    return ["python3", BUNDLE / "peers/compare.py", model, "--ours", BIN / "trainer", "--out",
            "{out}/result", "--device", "cuda", "--seconds", "2", "--timeout", "300"]


def peers(model, *words):
    """Ours as it is and with every toggle, beside PyTorch in three ways."""
    return [*compare(model), "--python", "python3", "--batch", "256" if model != "lenet" else "64",
            "--rounds", "7", "--warmup", "20", "--with", "", "--with", "toggles=all", *words]


def nccl_alone():
    """A world of one with NCCL beside one without, eager and in a graph: same bits, 2 % at most."""
    arms = [f"toggles=all toggles.cuda_graph={graph} dist.backend={backend}"
            for graph in ("off", "on") for backend in ("single", "nccl")]
    return [*compare("resnet18"), "--precision", "bf16", "--ways",
            *[word for arm in arms for word in ("--with", arm)]]


def two_ranks(backend, *words):
    """Two ranks that share GPU 0."""
    start = " ".join(f'"{word}"' for word in [
        BIN / "trainer", "--config", BUNDLE / "configs/lenet.yaml", "device=cuda:0",
        f"dist.backend={backend}", "dist.timeout_s=60", "toggles.cuda_graph=off", *words,
        "--run-dir", "{out}/run"])
    return ["bash", "-c", f"""
        export BELLOWS_WORLD=2 BELLOWS_LOCAL_WORLD=2 BELLOWS_HOST=127.0.0.1 BELLOWS_PORT=29591
        export BELLOWS_TOKEN=$RANDOM$RANDOM
        BELLOWS_RANK=1 BELLOWS_LOCAL_RANK=1 {start} & other=$!
        BELLOWS_RANK=0 BELLOWS_LOCAL_RANK=0 {start}
        code=$?; wait $other; echo $((code + $?)) > {{out}}/code"""]


def gloo_on_one_gpu(out):
    if int((out / "code").read_text()):
        raise Failed("a rank failed")
    return accuracy(0.9)(out)


TINY = ["--device", "cpu", "--batch", "2", "--image", "32", "--rounds", "2", "--seconds", "0.05",
        "--warmup", "1", "--ways", "eager"]


def all_steps():
    trainer = BIN / "trainer"
    passes = "every test passes"

    def suites(names):
        for name in names:
            yield Step(f"{name}_test", f"the suite {name}, device included", passes, 400,
                       suite(name), [], tests)

    def resnet(model, precision):
        name = f"{model}_{precision}"
        return Step(name, f"{model} beside PyTorch, {precision}, batch 256", "faster than PyTorch", 580,
                    peers(model, "--precision", precision), [*TINY, "--precision", "bf16"],
                    beside_peers)

    yield Step("doctor", "versions, libraries, driver", "a GPU, cuDNN 9 and cuBLAS 13", 120,
               [trainer, "doctor"], [])
    yield from suites(FIRST_SUITES)
    yield Step("lenet", "LeNet beside PyTorch, captured, f32, batch 64", "faster than PyTorch", 400,
               peers("lenet"), TINY, beside_peers)
    yield resnet("resnet50", "bf16")
    yield from suites(SUITES)
    yield resnet("resnet50", "f16")
    yield resnet("resnet18", "bf16")
    yield resnet("resnet18", "f16")
    yield Step("bandwidth", "own kernels beside what memory moves",
               "batch norm at 85 % of a copy, which is 4.3 TB/s on an H200", 300,
               [trainer, "bench", "op", "batch_norm_relu", "--elements", "67108864", "--dtype",
                "bf16"], ["--elements", "1048576"])
    yield Step("mnist", "LeNet learns MNIST, every toggle on", "accuracy of 0.99 or more", 200,
               [trainer, "--config", BUNDLE / "configs/lenet_mnist.yaml", "toggles=all",
                f"data.root={BUNDLE / 'data/mnist'}", "--run-dir", "{out}/run"],
               ["threads.threads=1"], accuracy(0.99), "mnist")
    yield Step("stress", "8192^3 products, verified", "788 TFLOP/s in bf16 on an H200", 200,
               [trainer, "doctor", "--stress"], ["256"])
    yield Step("copies", "host to device and back, pinned and pageable",
               "pinned 50 GB/s or more by PCIe 5", 120, [trainer, "bench", "h2d"])
    yield Step("nccl_alone", "NCCL in a world of one, graph off and on", "2 % slower at most", 400,
               nccl_alone(), read=tables)
    yield Step("gloo_one_gpu", "two ranks on one GPU through pinned memory",
               "accuracy of 0.9 or more", 200, two_ranks("gloo"), read=gloo_on_one_gpu)
    yield Step("memcheck", "the ops' kernels under compute-sanitizer: memory", passes, 580,
               lambda: sanitizer("memcheck"), read=tests)
    yield Step("racecheck", "the ops' kernels under compute-sanitizer: races", passes, 580,
               lambda: sanitizer("racecheck"), read=tests)
    yield Step("seed_table", "the seeds' matmul table", "the seeds' ratios", 200,
               [trainer, "bench", "matmul", "--seed-table"], [])
    yield Step("align", "which sizes Tensor Cores want", "multiples of 8 in 16 bits", 200,
               [trainer, "bench", "matmul", "--align"], [])
