// trainer bench op: every kernel of an op against the others, in turns: plain loops, the library's,
// a fused one and its composed twin; forward, and backward alone.
#include <fmt/format.h>
#include <algorithm>
#include "autograd/backward.h"
#include "core/allocator.h"
#include "core/copy.h"
#include "core/trace.h"
#include "ops/op_inputs.h"
#include "toggles/hint.h"
#include "trainer/bench/bench.h"
#include "trainer/bench/timing.h"
#include "trainer/output.h"
#include "trainer/tables.h"

namespace bellows {

namespace {
// One way to compute an op.
struct Way {
  std::string name;  // "composed, vendor"
  OpFn run;
  KernelOptions kernels;
};

// An op on inputs of one list of shapes.
struct Case {
  const OpSpec* op;
  Inputs inputs;
  double forward_bytes = 0, backward_bytes = 0;  // each input, output and gradient once
};
}  // namespace

static Inputs inputs_on(Device device, const OpSpec& op, const Shapes& shapes) {
  Inputs inputs;
  for (const Tensor& t : make_inputs(op, shapes, DType::f32))
    inputs.push_back(require_grad(to(device, t.detach())));
  return inputs;
}

static Case make_case(const OpSpec& op, const Shapes& shapes, Device device) {
  Case c{&op, inputs_on(device, op, shapes)};
  const NoGrad guard;
  double in = 0;
  for (const Tensor& t : c.inputs) in += double(t.nbytes());
  const double out = double(op.run(c.inputs).nbytes());
  c.forward_bytes = in + out;
  c.backward_bytes = 2 * in + out;
  return c;
}

// A vendor's kernel is a way of its own only where it runs.
static bool uses_vendor(const Way& way, const Inputs& inputs) {
  trace::Counter& calls = trace::counter("kernel.vendor_calls");
  const int64_t before = calls.value();
  const Kernels use(way.kernels);
  const NoGrad guard;
  way.run(inputs);
  return calls.value() != before;
}

static std::vector<Way> ways_of(const Case& c) {
  std::vector<Way> ways = {{c.op->composed ? "fused" : "plain", c.op->run, {}}};
  if (c.op->composed) ways.push_back({"composed", c.op->composed, {}});
  for (Way way : std::vector(ways)) {
    way.kernels.vendor = true;
    way.name = way.name == "plain" ? "vendor" : way.name + ", vendor";
    if (uses_vendor(way, c.inputs)) ways.push_back(way);
  }
  return ways;
}

static Call forward_of(const Way& way, const Case& c) {
  return [&] {
    const Kernels use(way.kernels);
    const NoGrad guard;
    way.run(c.inputs);
  };
}

// The graph is built once and walked again and again, from a gradient of ones.
static Call backward_of(const Way& way, const Case& c) {
  const Kernels use(way.kernels);
  const Tensor y = way.run(c.inputs), dy = full(y.shape(), 1, y.detach());
  const Tensor loss =
      record("loss", full({}, 0, y.detach()), {y}, [dy](const Tensor&) { return Grads{dy}; });
  return [loss, &c] {
    backward(loss, {.retain_graph = true});
    zero_grad(c.inputs, true);
  };
}

static std::string shapes_text(const Inputs& inputs) {
  std::string text;
  for (const Tensor& t : inputs) text += cat(text.empty() ? "" : " ", t.shape());
  return text;
}

static std::string gb(double bytes, const Timing& timing) {
  return fmt::format("{:.2f}", 1e-9 * bytes / timing.median());
}

static void add_rows(const Case& c, Device device, std::vector<TableRow>& rows) {
  const std::vector<Way> ways = ways_of(c);
  std::vector<Call> calls;
  for (const Way& way : ways) calls.push_back(forward_of(way, c));
  if (c.op->differentiable)
    for (const Way& way : ways) calls.push_back(backward_of(way, c));
  const std::vector<Timing> times = time_in_turns(calls, device);
  for (size_t i = 0; i < ways.size(); ++i) {
    const std::string name = cat(c.op->name, *c.op->variant ? ", " : "", c.op->variant);
    rows.push_back({i ? "" : name, i ? "" : shapes_text(c.inputs), ways[i].name,
                    time_text(times[i].median()), gb(c.forward_bytes, times[i]), "-", "-"});
    if (!c.op->differentiable) continue;
    const Timing& back = times[ways.size() + i];
    rows.back()[5] = time_text(back.median());
    rows.back()[6] = gb(c.backward_bytes, back);
  }
}

static std::vector<const OpSpec*> specs_of(const std::string& name) {
  std::vector<const OpSpec*> specs;
  std::vector<std::string> names;
  for (const OpSpec& op : op_specs()) {
    if (op.large.empty()) continue;
    names.push_back(op.name);
    if (name.empty() || name == op.name) specs.push_back(&op);
  }
  CHECK(!specs.empty(), "bench op: no op ", on_one_line(name),
        " with shapes to time, the nearest is '", nearest(name, names),
        "'; trainer bench op  takes them all");
  std::ranges::stable_sort(specs, {}, [](const OpSpec* op) { return std::string_view(op->name); });
  return specs;
}

static int run(const Arguments& args) {
  CommandLine line = bench_line("op");
  std::string name, wanted = "auto";
  line.add_option("name", name, "of an op (default: all that have large shapes)");
  add_device_option(line, wanted);
  if (!line.read(args)) return 0;
  const std::vector<const OpSpec*> specs = specs_of(name);
  const Device device = start_bench(wanted);
  std::vector<TableRow> rows = {{"op", "shapes", "kernel", "forward", "GB/s", "backward", "GB/s"}};
  for (const OpSpec* op : specs)
    for (const Shapes& shapes : op->large) add_rows(make_case(*op, shapes, device), device, rows);
  say(cat("ops in f32 on ", device_text(device)));
  say("medians of turns; GB/s count each input, output and gradient once\n");
  say_part(aligned(rows, "lllrrrr"));
  return 0;
}

static const AddBench bench({"op", "each kernel of an op: plain, a library's, fused or composed",
                             "trainer bench op matmul", run});

}  // namespace bellows
