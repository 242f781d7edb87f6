// Byte ledger: device memory that each op of a captured ResNet-50 step touches, per image, beside
// what the ops state (ops/base/work.h). Measured: every launch faults on the first touch of a page.
// A stand-in for a vendor's call reads and writes the vendor's tensors, so it counts alike.
//
//   ninja -C build cuda_host_ledger
//   build/tests/cuda_host/cuda_host_ledger
#include <fmt/format.h>
#include <map>
#include "ops/base/work.h"
#include "tests/cuda_host/recorded_step.h"

using namespace bellows;

namespace {

// Bytes that grow with the batch, and those that do not, from steps on one and on two images.
struct LedgerRow {
  double one = 0, two = 0, stated_one = 0, stated_two = 0;
  int64_t launches = 0;
  double per_image() const { return two - one; }
  double stated() const { return stated_two - stated_one; }
};
using Ledger = std::map<std::string, LedgerRow>;

// One name for an op, its passes and its kernels: "conv2d" of "conv2d_backward_w".
std::string family(std::string name) {
  for (const char* end : {"_backward", "_training", "_relu"})
    if (const size_t at = name.find(end); at != name.npos) name.resize(at);
  if (name.starts_with("adaptive_")) name.erase(0, 9);
  if (name == "matmul" || name == "sum_rows") return "linear";
  if (name == "copy") return "cast";
  return name.empty() ? "no op" : name;
}

constexpr const char* kSums = "add_into";  // kernel that sums the gradients of a fork

void measure(Ledger& ledger, int64_t batch) {
  const Plan plan = cuda_host::plan_of("resnet50", batch, 224, {"toggles.amp=bf16"});
  NoiseStep step(plan);
  const std::vector<RecordedOp> ops = [&] {
    OpLog log;
    step();
    return log.ops;
  }();
  for (const cuda_host::Recorded& work : cuda_host::recorded_step(step, true)) {
    LedgerRow& row = ledger[family(work.kernel)];
    (batch == 1 ? row.one : row.two) += double(work.read + work.written);
    if (batch == 1) ++row.launches;
  }
  const auto state = [&](const std::string& name, double bytes) {
    LedgerRow& row = ledger[name];
    (batch == 1 ? row.stated_one : row.stated_two) += bytes;
  };
  for (const RecordedOp& op : ops) {
    const OpWork work = work_of(op);
    state(family(op.name), work.forward.bytes + work.backward.bytes);
  }
  state(kSums, gradient_sum_bytes(ops));
}

std::string mb(double bytes) { return fmt::format("{:.1f}", 1e-6 * bytes); }

}  // namespace

int main() {
  cuda_host::multiprocessors = 1;
  Ledger ledger;
  measure(ledger, 1);
  measure(ledger, 2);
  fmt::print(R"(# Bytes of a ResNet-50 step, bf16

MB of device memory that a captured training step at 224x224 reads and writes, all toggles on, on
the stand-in device (`tests/cuda_host`). `build/tests/cuda_host/cuda_host_ledger` takes 8 minutes.
Measured by pages of 4 KiB, each once per launch and direction; the difference between one and two
images is an image's share, what is left of one image is the step's. Stated: what the ops say of
themselves (`ops/base/work.h`). Norms run as streaming kernels, as they do at batch 256. Their
partial sums, 8 bytes for each channel of a group of rows, grow with the multiprocessors and not
with the batch, so the device has one multiprocessor here. On 132, with three blocks each, they are
at most 0.7 MB an image at batch 256. `add_into` sums the gradients of a fork where backward of the
op before it does not; its stated bytes include the gradients that batch norms add. The batch comes
in f32.

| op | launches | MB an image | stated | excess | MB a step |
|---|---|---|---|---|---|
)");
  LedgerRow all;
  for (const auto& [name, e] : ledger) {
    fmt::print("| {} | {} | {} | {} | {} | {} |\n", name, e.launches, mb(e.per_image()),
               mb(e.stated()), mb(e.per_image() - e.stated()), mb(e.one - e.per_image()));
    all.one += e.one, all.two += e.two, all.launches += e.launches;
    all.stated_one += e.stated_one, all.stated_two += e.stated_two;
  }
  fmt::print("| all | {} | {} | {} | {} | {} |\n", all.launches, mb(all.per_image()),
             mb(all.stated()), mb(all.per_image() - all.stated()), mb(all.one - all.per_image()));
}
