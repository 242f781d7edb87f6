// trainer bench op: all implementations of an op against each other, timed alternately: plain
// loops, the library's, fused and composed. Forward, and backward alone.
#include "ops/base/op.h"
#include <fmt/format.h>
#include <algorithm>
#include "autograd/backward.h"
#include "core/base/output.h"
#include "core/base/trace.h"
#include "core/config/config.h"
#include "core/config/hint.h"
#include "core/device/timer.h"
#include "core/tensor/copy.h"
#include "labs/bench/bench.h"
#include "labs/bench/passes.h"
#include "plan/toggle.h"
#include "trainer/verbs/tables.h"

namespace bellows {

namespace {
struct Implementation {
  std::string name;  // "composed, vendor"
  OpFn run;
  KernelOptions kernels;
};

struct Case {
  const OpSpec* op;
  Inputs inputs;
  double forward_bytes = 0, backward_bytes = 0;  // each input, output and gradient counted once
};

struct Options {
  std::string device = "auto", dtype = "f32", repeat, config;
  Arguments words;
  int64_t elements = 0;
};
}  // namespace

static Case make_case(const OpSpec& op, const Shapes& shapes, DType dtype, Device device) {
  Case c{&op, {}};
  for (const Tensor& t : make_inputs(op, shapes, dtype))
    c.inputs.push_back(require_grad(to(device, t.detach())));
  const NoGrad guard;
  double in = 0;
  for (const Tensor& t : c.inputs) in += double(t.nbytes());
  const double out = double(op.run(c.inputs).nbytes());
  c.forward_bytes = in + out;
  c.backward_bytes = 2 * in + out;
  return c;
}

// Returns true if the implementation calls a vendor kernel on these inputs. Otherwise its "vendor"
// variant would repeat the plain one.
static bool uses_vendor(const Implementation& impl, const Inputs& inputs) {
  trace::Counter& calls = trace::counter("kernel.vendor_calls");
  const int64_t before = calls.value();
  const Kernels use(impl.kernels);
  const NoGrad guard;
  impl.run(inputs);
  return calls.value() != before;
}

static std::vector<Implementation> implementations_of(const Case& c) {
  std::vector<Implementation> all = {{c.op->composed ? "fused" : "plain", c.op->run, {}}};
  if (c.op->composed) all.push_back({"composed", c.op->composed, {}});
  for (Implementation impl : std::vector(all)) {
    impl.kernels.vendor = true;
    impl.name = impl.name == "plain" ? "vendor" : impl.name + ", vendor";
    if (uses_vendor(impl, c.inputs)) all.push_back(impl);
  }
  return all;
}

static std::function<void()> forward_of(const Implementation& impl, const Case& c) {
  return [&] {
    const Kernels use(impl.kernels);
    const NoGrad guard;
    impl.run(c.inputs);
  };
}

// Runs backward on a graph that is recorded once, starting from a gradient of ones.
static std::function<void()> backward_of(const Implementation& impl, const Case& c) {
  const Kernels use(impl.kernels);
  const Tensor y = impl.run(c.inputs), dy = full(y.shape(), 1, y.detach());
  return [loss = scalar_with_grad(y, dy), &c] {
    backward(loss, {.retain_graph = true});
    zero_grad(c.inputs, true);
  };
}

static void add_rows(const Case& c, Device device, std::vector<TableRow>& rows) {
  const std::vector<Implementation> all = implementations_of(c);
  std::vector<std::function<void()>> calls;
  for (const Implementation& impl : all) calls.push_back(forward_of(impl, c));
  if (c.op->differentiable)
    for (const Implementation& impl : all) calls.push_back(backward_of(impl, c));
  const std::vector<Timing> times = time_interleaved(calls, device);
  std::string name = cat(c.op->name, *c.op->variant ? ", " : "", c.op->variant), shapes;
  for (const Tensor& t : c.inputs) shapes += cat(shapes.empty() ? "" : " ", t.shape());
  for (size_t i = 0; i < all.size(); ++i) {
    rows.push_back({std::exchange(name, ""), std::exchange(shapes, ""), all[i].name});
    const auto add = [&](const Timing& timing, double bytes) {
      rows.back().push_back(time_text(timing.median()));
      rows.back().push_back(fmt::format("{:.2f}", 1e-9 * bytes / timing.median()));
    };
    add(times[i], c.forward_bytes);
    if (c.op->differentiable)
      add(times[all.size() + i], c.backward_bytes);
    else
      rows.back().insert(rows.back().end(), {"-", "-"});
  }
}

// Returns the specs of an op; "": of all.
static std::vector<const OpSpec*> specs_of(const std::string& name) {
  std::vector<const OpSpec*> specs;
  std::vector<std::string> names;
  for (const OpSpec& op : op_specs()) {
    if (op.large.empty()) continue;
    names.emplace_back(op.name);
    if (name.empty() || name == op.name) specs.push_back(&op);
  }
  CHECK(!specs.empty(), "bench op: no op ", on_one_line(name),
        " with shapes to time, the nearest is '", nearest(name, names),
        "'; trainer bench op  times all of them");
  std::ranges::stable_sort(specs, {}, [](const OpSpec* op) { return std::string_view(op->name); });
  return specs;
}

// Makes the first axis longer until the first input has about `elements` elements. Inputs of the
// same shape grow alike.
static Shapes enlarged(Shapes shapes, int64_t elements) {
  const Shape first = shapes[0];
  for (Shape& shape : shapes)
    if (shape == first) shape[0] *= std::max<int64_t>(1, elements / first.numel());
  return shapes;
}

static int run_op(CommandLine& line, const Arguments& args) {
  Options o;
  line.add_option("name", o.words,
                  "name of an op (default: all that have shapes to time); with --repeat, key=value "
                  "options of the run");
  add_device_option(line, o.device);
  line.add_option("--dtype", o.dtype, "element type of the inputs").one_of({"f32", "bf16", "f16"});
  line.add_option("--elements", o.elements, "lengthen the first axis to about so many in all")
      .range(int64_t(1), int64_t(1) << 30);
  line.add_option("--repeat", o.repeat,
                  "path of a module: loop it alone, with its input in the first update of a run");
  line.add_option("--config,-c", o.config, "YAML file of that run");
  line.add_note("Another example:  trainer bench op --repeat conv2 --config configs/lenet.yaml");
  if (!line.read(args)) return 0;
  if (line.given("--repeat"))
    return repeat_module(o.repeat, make_config(read_sources(o.config, o.words)).plan), 0;
  CHECK(o.words.size() <= 1 && o.config.empty(), "bench op: takes one op, or --repeat PATH");
  const std::vector<const OpSpec*> specs = specs_of(o.words.empty() ? "" : o.words[0]);
  const Device device = start_bench(o.device);
  std::vector<TableRow> rows = {{"op", "shapes", "kernel", "forward", "GB/s", "backward", "GB/s"}};
  const DType dtype = o.dtype == "bf16" ? DType::bf16 : o.dtype == "f16" ? DType::f16 : DType::f32;
  for (const OpSpec* op : specs)
    for (const Shapes& shapes : op->large)
      add_rows(make_case(*op, enlarged(shapes, o.elements), dtype, device), device, rows);
  say(cat("ops in ", o.dtype, " on ", device_text(device)));
  say("medians; GB/s counts each input, output and gradient once");
  if (o.elements)
    say(cat(
        "memory moves ",
        rate_text(device == Device::cpu ? triad_rate() : device_copy_rate(int64_t(1) << 28), "B/s"),
        ", the most that a kernel can"));
  say("");
  say_part(aligned(rows, "lllrrrr"));
  return 0;
}

static const AddBench op_bench(
    {"op", "compares implementations of an op: plain, library, fused, composed",
     "trainer bench op matmul", run_op});

}  // namespace bellows
