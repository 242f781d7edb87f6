"""The steps of tools/gpu_check.sh: what each runs, with and without a GPU, and what it has to show.

A step passes if its program ends with 0 and `read`, if it has one, finds what it looks for. `read`
gets the step's own folder, which is also {out} in the words of the command, and what the program
said. It gives back (a line that sums up, data for the report), or raises Failed. Without a `read`,
the report keeps what the program said. `predicted` is what the step should show, stated before any
GPU ran it. The steps are in the order of what would be learned. Steps of a group are named
together; they share a time limit, and those of `device_tests` run at once.
"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import statistics

BUNDLE = pathlib.Path(__file__).resolve().parent.parent
BIN = BUNDLE / "bin"
# Suites with tests that need a GPU, and those tests.
SUITES = {"vendor": "*", "nvrtc": "*"} | dict.fromkeys(
    ["ops", "core", "autograd", "optim", "models", "trainer", "toggles", "data", "dist", "labs"],
    "*OnDevice*")
GROUPS = {"smoke": 90, "device_tests": 300}  # s, for all of a group
TOGETHER = {"device_tests"}


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
    # Without a GPU: words to add, or a function of the command; none: the step needs one.
    on_cpu: object = None
    read: object = None
    data: str = None     # a data set that has to be in data/
    group: str = None


def tests(out, said):
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


def tables(out, said):
    """The Markdown and the figures of a comparison; Failed where a side did not run. A missing
    torch is the program's to judge: where it may be missing, the line says so."""
    data = json.loads((out / "result.json").read_text())
    data["markdown"] = (out / "result.md").read_text()
    data |= data.pop("runs")[0]
    missing = data["missing"]
    lost = [f"{name}: {why.splitlines()[0]}" for name, why in missing.items() if name != "torch"]
    if lost:
        raise Failed("missing: " + "; ".join(lost), data)
    line = data.get("line", "measured")
    return f"{line}; no peer, torch: {missing['torch']}" if missing else line, data


def beside_peers(out, said):
    """As tables(), with the step of our fastest arm and of each peer."""
    line, data = tables(out, said)
    ms = {name: statistics.median(turn["ms_median"] for turn in turns)
          for name, turns in data["results"].items()}
    ours = min((name for name in ms if name.startswith("bellows")), key=ms.get)
    peers = [f"{name} {ms[name] / ms[ours]:.2f} x" for name in ms if name.startswith("torch")]
    return f"{ms[ours]:.4g} ms a step; {', '.join(peers) or line}", data


def accuracy(least):
    def read(out, said):
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
            *suite("ops")]


def suite(name):
    return [BIN / f"{name}_test", f"--gtest_filter={SUITES[name]}", "--gtest_brief=1",
            "--gtest_output=json:{out}/tests.json"]


# ---- smoke: whether a training step works at all, and agrees with the CPU

LOSSES = {}  # by model: {item: loss of its first step}


def smoke(model, on_cpu=False):
    """A reader of what `trainer bench step` printed. That of the CPU compares the losses."""
    def read(out, said):
        steps = [line for line in said if line.startswith("{")]
        if not steps:
            raise Failed(said[-1] if said else "it said nothing")
        step = json.loads(steps[-1])
        losses = LOSSES.setdefault(model, {})
        losses["cpu" if on_cpu else f"item {len(losses) + 1}"] = step["first_loss"]
        fallbacks = step["per_step"].get("kernel.fallbacks", 0)
        line = (f"{step['ms_median']:.4g} ms, first loss {step['first_loss']:.5f}, "
                f"{fallbacks:g} fallbacks a step")
        if fallbacks:
            raise Failed(line, step)
        apart = max(abs(loss / step["first_loss"] - 1) for loss in losses.values())
        if on_cpu and apart > 0.02:
            raise Failed(f"{line}; on the GPU {losses}", step)
        return line, step
    return read


SMOKE = {"lenet": ["data={name: digits, train_size: 64, batch_size: 64}"],
         "resnet18": ["model=resnet18", "data={name: shapes, train_size: 512, batch_size: 512}",
                      "toggles.amp=bf16"],
         "resnet50": ["model=resnet50", "data={name: shapes, train_size: 256, batch_size: 256, "
                      "transforms: [{name: resize, size: 224}, normalize]}", "toggles.amp=bf16"]}


def small(command):
    """A smoke step at the size of a rehearsal."""
    words = [re.sub(r"_size: \d+", "_size: 4", str(word)).replace("size: 224", "size: 32")
             .replace("device=cuda", "device=cpu") for word in command]
    return [*words, *["--warmup", "1"] * ("--warmup" not in words)]


def smoke_steps():
    def item(name, model, predicted, *words):
        limit_s = 40 if model == "resnet50" else 15
        return Step(f"smoke_{name}", f"{model}, one step on one batch", predicted, limit_s,
                    [BIN / "trainer", "bench", "step", *SMOKE[model], *words], small,
                    smoke(model, "device=cpu" in words), group="smoke")

    gpu = ["device=cuda", "--seconds", "1"]
    cpu = ["device=cpu", "--warmup", "0", "--steps", "1", "--seconds", "0"]
    yield item("lenet_plain", "lenet", "a loss as on the CPU", *gpu, "toggles=none")
    yield item("lenet", "lenet", "a loss as on the CPU", *gpu)
    yield item("lenet_all", "lenet", "50 to 60 us", *gpu, "toggles=all", "toggles.amp=off")
    quick = "toggles.kernel_autotune=heuristic"
    yield item("resnet18_eager", "resnet18", "slower than captured", *gpu, "toggles=all", quick,
               "toggles.cuda_graph=off")
    yield item("resnet18", "resnet18", "5.0 to 5.5 ms", *gpu, "toggles=all", quick)
    yield item("resnet50_heuristic", "resnet50", "38 to 44 ms", *gpu, "toggles=all", quick)
    yield item("resnet50", "resnet50", "38 to 44 ms", *gpu, "toggles=all")
    for model in SMOKE:
        yield item(f"cpu_{model}", model, "the losses agree to 2 %", *cpu)


def compare(model):
    return ["python3", BUNDLE / "peers/compare.py", model, "--ours", BIN / "trainer", "--out",
            "{out}/result", "--device", "cuda", "--seconds", "2", "--timeout", "300"]


def peers(model, *words):
    """Ours as it is and with every toggle, beside PyTorch eager and graphed; compiled only for
    LeNet, because compiling a ResNet takes minutes."""
    lenet = model == "lenet"
    return [*compare(model), "--python", "python3", "--batch", "64" if lenet else "256",
            "--rounds", "7", "--warmup", "20", "--with", "", "--with", "toggles=all", "--ways",
            "fused", "graph", *["compile"] * lenet, *words]


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


def gloo_on_one_gpu(out, said):
    if int((out / "code").read_text()):
        raise Failed("a rank failed")
    return accuracy(0.9)(out, said)


TINY = ["--device", "cpu", "--batch", "2", "--image", "32", "--rounds", "2", "--seconds", "0.05",
        "--warmup", "1", "--ways", "eager"]


def all_steps():
    return list(every_step())


def every_step():
    trainer = BIN / "trainer"
    passes = "every test passes"

    def resnet(model, precision):
        name = f"{model}_{precision}"
        return Step(name, f"{model} beside PyTorch, {precision}, batch 256", "faster than PyTorch",
                    240, peers(model, "--precision", precision), [*TINY, "--precision", "bf16"],
                    beside_peers)

    yield Step("doctor", "versions, libraries, driver", "a GPU, cuDNN 9 and cuBLAS 13", 30,
               [trainer, "doctor"], [])
    yield from smoke_steps()
    for name in SUITES:
        alone = ["--gtest_filter=*"] if name in ("autograd", "vendor", "nvrtc") else None
        yield Step(f"{name}_test", f"the tests of {name} that need a GPU", passes, 300, suite(name),
                   alone, tests, group="device_tests")
    yield Step("lenet", "LeNet beside PyTorch, captured, f32, batch 64",
               "110 to 130 us for torch as a graph, half of it for ours", 150, peers("lenet"), TINY,
               beside_peers)
    yield resnet("resnet18", "bf16")
    yield resnet("resnet50", "bf16")
    yield Step("bandwidth", "own kernels beside what memory moves",
               "batch norm at 85 % of a copy, which is 4.3 TB/s on an H200", 60,
               [trainer, "bench", "op", "batch_norm_relu", "--elements", "67108864", "--dtype",
                "bf16"], lambda command: [*command[:-3], "1048576", *command[-2:]])
    yield Step("mnist", "LeNet learns MNIST, every toggle on", "accuracy of 0.99 or more", 60,
               [trainer, "--config", BUNDLE / "configs/lenet_mnist.yaml", "toggles=all",
                f"data.root={BUNDLE / 'data/mnist'}", "--run-dir", "{out}/run"],
               ["threads.threads=1"], accuracy(0.99), "mnist")
    yield Step("stress", "8192^3 products, verified", "788 TFLOP/s in bf16 on an H200", 60,
               [trainer, "doctor", "--stress"], ["256"])
    yield Step("copies", "host to device and back, pinned and pageable",
               "pinned 50 GB/s or more by PCIe 5", 60, [trainer, "bench", "h2d"])
    yield Step("nccl_alone", "NCCL in a world of one, graph off and on", "2 % slower at most", 240,
               nccl_alone(), read=tables)
    yield Step("gloo_one_gpu", "two ranks on one GPU through pinned memory",
               "accuracy of 0.9 or more", 60, two_ranks("gloo"), read=gloo_on_one_gpu)
    yield resnet("resnet50", "f16")
    yield resnet("resnet18", "f16")
    yield Step("seed_table", "the seeds' matmul table", "the seeds' ratios", 60,
               [trainer, "bench", "matmul", "--source-table"], [])
    yield Step("align", "which sizes Tensor Cores want", "multiples of 8 in 16 bits", 60,
               [trainer, "bench", "matmul", "--align"], [])
    yield Step("memcheck", "the ops' kernels under compute-sanitizer: memory", passes, 400,
               lambda: sanitizer("memcheck"), read=tests)
    yield Step("racecheck", "the ops' kernels under compute-sanitizer: races", passes, 400,
               lambda: sanitizer("racecheck"), read=tests)
