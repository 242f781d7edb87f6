// The rules. Each has a test that plants its fault; on a run without faults all are silent.
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include "core/base/words.h"
#include "core/tensor/kernel.h"
#include "data/loader/loader_law.h"
#include "labs/diagnose/diagnosis.h"

namespace bellows {

using Judged = std::optional<Fault>;

// ---- what the rules share

static bool is_on(const Evidence& e, const std::string& toggle) {
  return e.config.toggles.at(toggle).text != find_toggle(toggle)->off();
}

static Names switch_on(const Evidence& e, const Names& names) {
  Names settings;
  for (const std::string& name : names) {
    const Toggle& toggle = known_toggle(name, "diagnose");
    const bool works = e.on_gpu || no_effect(toggle, e.config.plan.device).empty();
    if (!is_on(e, name) && works) settings.push_back(cat("toggles.", name, "=", suggested(toggle)));
  }
  return settings;
}

// Returns whether a library has a kernel for the op on the run's device. A kernel is named after
// its op: "conv2d_backward_x". Some ops compute their products with kernels of other ops.
static bool has_vendor_kernel(const Evidence& e, const std::string& op) {
  static const std::map<std::string, Names> others = {
      {"linear", {"matmul"}}, {"linear_relu", {"linear", "matmul"}}, {"einsum", {"matmul"}}};
  Names names = others.contains(op) ? others.at(op) : Names();
  names.push_back(op);
  const int device = static_cast<int>(e.on_gpu ? Device::cuda : Device::cpu);
  return std::ranges::any_of(kernel_records(), [&](const KernelRecord* kernel) {
    const std::string name = kernel->name;
    return kernel->vendor[device] && std::ranges::any_of(names, [&](const auto& of) {
             return name == of || name.starts_with(of + "_backward");
           });
  });
}

static std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }
static std::string about_ms(double seconds) { return fmt::format("{:.3g} ms", 1e3 * seconds); }

static bool cores_full(const Evidence& e) { return e.cpu_used > 0.85 * e.cores; }
// True if other programs hold the cores. Every part of the update then waits, so no other cause can
// be identified. A run's own teams of threads make each other wait on a quiet machine, too.
static bool contended(const Evidence& e) { return e.waited > 0.1 * e.cores && e.others > 0.05; }
static bool starved(const Evidence& e) { return e.input_share() > 0.1; }

int64_t workers_needed(const Evidence& e) {
  constexpr int64_t kMost = 64;
  return std::min(LoaderLaw{e.load_s, std::max(e.compute_s(), 1e-9)}.knee(), kMost);
}

static bool starved_by_enough(const Evidence& e) {
  // The log of a short run does not show other programs.
  const bool cores_lack = contended(e) || (e.waited > 0.1 * e.cores && e.others < 0);
  return starved(e) && !cores_full(e) && !cores_lack && workers_needed(e) <= e.workers();
}

Names untried(const Evidence& e) {
  Names names;
  for (const Toggle& toggle : toggles())
    if (*toggle.fast && !is_on(e, toggle.name) && toggle.fast != toggle.off() &&
        no_effect(toggle, e.config.plan.device, toggle.fast).empty())
      names.push_back(toggle.fast == std::string("on") ? toggle.name
                                                       : cat(toggle.name, "=", toggle.fast));
  std::ranges::sort(names);
  return names;
}

// ---- input

static Judged workers_too_few(const Evidence& e) {
  const int64_t wanted = workers_needed(e);
  if (!starved(e) || cores_full(e) || wanted <= e.workers()) return {};
  // More workers finish the same work sooner, on idle cores.
  const double idle = e.cpu_used < 0 ? 1 : std::max(0.0, 1 - e.cpu_used / e.cores);
  return Fault{
      .text = fmt::format(
          "The step waits for data {} of the time{}. One worker needs {} for a batch, the step "
          "computes for {}: {} hide the loading.",
          percent(e.input_share()),
          e.cpu_used < 0 ? ""
                         : fmt::format(", and {:.1f} of {} cores are in use", e.cpu_used, e.cores),
          about_ms(e.load_s), about_ms(e.compute_s()), count_of(wanted, "worker")),
      .saves_s = std::min(e.reader_s(), idle * e.batch_s()),
      .remedies = {cat("toggles.num_workers=", wanted)}};
}

static Judged cpu_saturated(const Evidence& e) {
  if (!starved(e) || !cores_full(e)) return {};
  return Fault{.text = fmt::format("The step waits for data {} of the time, and all {} cores are "
                                   "in use, so more workers would not help: do less for a sample.",
                                   percent(e.input_share()), e.cores),
               .saves_s = e.reader_s(),
               .remedies = switch_on(e, {"scaled_decode", "device_augment"}),
               .advice = "more cores, `trainer pack` with smaller images, or fewer transforms"};
}

static Judged device_oscillating(const Evidence& e) {
  if (!starved_by_enough(e) || e.swing() < 0.25) return {};
  Names remedies = switch_on(e, {"device_randperm", "sync_free_logging"});
  if (e.workers() > 0) {
    const int64_t ahead =
        2 * std::max<int64_t>(2, e.config.plan.data.loader.workers.prefetch_factor);
    remedies.insert(remedies.begin(), cat("toggles.prefetch_factor=", ahead));
  }
  return Fault{.text = fmt::format("Computing swings between none and all of an update (standard "
                                   "deviation {}): batches arrive in bursts.",
                                   percent(e.swing())),
               .saves_s = e.reader_s(),
               .remedies = remedies};
}

static Judged io_starved(const Evidence& e) {
  if (!starved_by_enough(e) || device_oscillating(e)) return {};
  return Fault{.text = fmt::format("The step waits for data {} of the time, although {} should be "
                                   "enough: reading is the limit.",
                                   percent(e.input_share()), count_of(e.workers(), "worker")),
               .saves_s = e.reader_s(),
               .remedies = switch_on(e, {"persistent_workers"}),
               .advice = "shards (trainer pack), a faster disk, or data on a local one"};
}

// ---- the device

static Judged device_unused(const Evidence& e) {
  if (!e.gpu_idle) return {};
  return Fault{.text = "The GPU of this machine stays at 0 %: the run is on the CPU.",
               .saves_s = e.compute_s(),
               .remedies = {"device=cuda"},
               .advice = "`trainer doctor` says whether this binary can use the GPU"};
}

static Judged host_bound(const Evidence& e) {
  const double share = e.share(e.between_ops_s);
  if (!e.measured || share < 0.5) return {};
  return Fault{.text = fmt::format("{} of an update, {}, {}: the host keeps the device waiting.",
                                   percent(share), about_ms(e.between_ops_s),
                                   e.on_gpu ? "the GPU runs nothing" : "is spent in no op"),
               .saves_s = e.between_ops_s,
               .remedies = switch_on(e, {"cuda_graph", "sync_free_logging", "fused_optimizer"}),
               .advice = "`trainer profile` shows what runs between the ops"};
}

static Judged kernel_hot(const Evidence& e) {
  if (e.ops.empty()) return {};
  const double share = e.share(e.ops[0].s);
  const std::string& op = e.ops[0].name;
  Names toggles;
  if (has_vendor_kernel(e, op)) toggles.push_back("vendor_kernels");
  if (op == "conv2d" || op == "max_pool2d") toggles.push_back("batch_lanes");
  const Names remedies = switch_on(e, toggles);
  if (share < 0.3 || remedies.empty()) return {};
  return Fault{.text = fmt::format("{} takes {} of an update, and other kernels for it are off.",
                                   op, percent(share)),
               .saves_s = e.ops[0].s,
               .remedies = remedies};
}

// Products of large operands, which do many FLOP for each byte, should come near the peak.
static Judged blas_slow(const Evidence& e) {
  double s = 0, flop = 0;
  for (const OpTime& op : e.ops)
    if (op.flop > 0) s += op.s, flop += op.flop;
  const double reached = flop / std::max(s, 1e-12) / std::max(e.fma_per_s, 1.0);
  const bool many_flop = flop > 20 * e.product_bytes;
  constexpr double kUsual = 0.5;  // share of the peak that large products of oneDNN reach
  if (kernel_hot(e) || contended(e) || e.on_gpu || e.fma_per_s == 0 || s < 0.3 * e.batch_s() ||
      !many_flop || reached > 0.15)
    return {};
  return Fault{.text = fmt::format("Products take {} of an update and reach {} of the FLOP/s that "
                                   "this CPU's registers do.",
                                   percent(s / e.batch_s()), percent(reached)),
               .saves_s = s * (1 - reached / kUsual),
               .remedies = switch_on(e, {"vendor_kernels", "kernel_autotune", "channels_last"}),
               .advice = "`trainer doctor --stress` tells how far each library is from the peak"};
}

static Judged amp_worthwhile(const Evidence& e) {
  double s = 0;
  for (const OpTime& op : e.ops)
    if (op.flop > 0) s += op.s;
  // Applies to GPUs with Tensor Cores. A CPU gains too, but `ab` has to show how much.
  if (!e.on_gpu || !e.tensor_cores || is_on(e, "amp") || s < 0.3 * e.batch_s()) return {};
  return Fault{.text = fmt::format("Products take {} of an update in f32; the Tensor Cores of "
                                   "this GPU are idle.",
                                   percent(s / e.batch_s())),
               .saves_s = s / 2,
               .remedies = switch_on(e, {"amp", "channels_last", "pad_channels"})};
}

// ---- the host and its software

static Judged gpu_contended(const Evidence& e) {
  if (e.gpu_processes < 2) return {};
  const double others = e.gpu_processes - 1;
  return Fault{
      .text = cat("The GPU computes for ", e.gpu_processes, " processes, this one included."),
      .saves_s = e.compute_s() * others / e.gpu_processes,
      .advice = "a GPU of its own, see  device: cuda:1"};
}

static Judged host_contended(const Evidence& e) {
  if (!contended(e)) return {};
  // More threads than cores also wait for each other. Other programs used at most the other cores.
  const double waited = std::min(e.waited, e.cores - e.cpu_used) / e.cores;
  return Fault{.text = fmt::format("Compute threads were ready but had no core for {} of the time: "
                                   "other programs use this machine.",
                                   percent(waited)),
               .saves_s = waited * e.batch_s(),
               .advice = "use an idle machine, or lower  threads.threads"};
}

static Judged lock_contended(const Evidence& e) {
  double wait_s = 0;
  for (const auto& [name, ns] : e.counters)
    if (name.starts_with("lock.") && name.ends_with(".wait_ns")) wait_s += 1e-9 * double(ns);
  // Mean wait of a thread. All threads wait while one that holds a lock has lost its core to
  // another program, so only long waits count on a busy machine.
  const double threads = double(e.workers() + 1);
  const double each = wait_s / threads / double(std::max<int64_t>(e.updates, 1));
  if (each < (contended(e) ? 0.2 : 0.05) * e.batch_s()) return {};
  return Fault{.text = fmt::format("A thread waits {} an update for locks.", about_ms(each)),
               .saves_s = std::min(each, e.batch_s()),
               .remedies = switch_on(e, {"ring_queues"})};
}

static Judged algo_search_repeated(const Evidence& e) {
  const int64_t searches = e.counted("autotune.searches");
  if (searches == 0) return {};
  const double s = 1e-6 * double(e.counted("autotune.search_us")) / double(e.updates);
  return Fault{
      .text = fmt::format("{} for the fastest kernel after the warm-up, {} an update.",
                          searches == 1 ? std::string("1 search") : cat(searches, " searches"),
                          about_ms(s)),
      .saves_s = s,
      .advice = "a shorter train.tuning_window, or shapes that do not change"};
}

static Judged copy_not_pinned(const Evidence& e) {
  if (e.counted("data.staging_copies") == 0) return {};
  return Fault{.text =
                   "Batches are copied to the device from pageable memory, so the driver "
                   "copies them once more and the host waits.",
               .remedies = switch_on(e, {"pin_memory", "non_blocking"})};
}

static Judged created_then_moved(const Evidence& e) {
  if (!e.on_gpu || e.counted("tensor.created_then_moved") == 0 || is_on(e, "device_tensors"))
    return {};
  return Fault{.text = "Tensors are made on the host and moved to the device at once.",
               .remedies = switch_on(e, {"device_tensors"})};
}

// ---- the model and the loop

static Judged bias_before_norm(const Evidence& e) {
  if (e.biases_before_norm == 0 || is_on(e, "drop_conv_bias")) return {};
  return Fault{.text = fmt::format("The biases of {} are subtracted again by the batch norm "
                                   "behind each.",
                                   count_of(e.biases_before_norm, "convolution")),
               .remedies = switch_on(e, {"drop_conv_bias"})};
}

static Judged grads_not_cleared(const Evidence& e) {
  if (!e.measured || e.counted("grad.dropped") + e.counted("grad.memsets") > 0) return {};
  return Fault{.text =
                   "No gradient was cleared: they add up from update to update, so each one "
                   "repeats all before it.",
               .advice = "call zero_grad() after every update"};
}

static Judged updates_skipped(const Evidence& e) {
  const double share = double(e.skipped) / double(std::max<int64_t>(1, e.updates));
  const bool settles = e.config.plan.amp.scales() && share < 0.02;  // the loss scale settles
  if (e.skipped == 0 || settles) return {};
  return Fault{.text = cat(e.skipped, " of ", count_of(e.updates, "update"),
                           " skipped, because gradients were not finite."),
               .advice = "a lower learning rate, or see which op with  debug.anomaly=true"};
}

static Judged saving(const Evidence& e) {
  const double limit = e.config.plan.ckpt.max_overhead;
  if (e.save_share <= limit || e.saves == 1) return {};  // no option saves less often than once
  return Fault{
      .text = fmt::format("Saving took {:.3g} % of the run, more than {:g} % (ckpt.max_overhead).",
                          100 * e.save_share, 100 * limit),
      .saves_s = e.save_share * e.batch_s(),
      .remedies = switch_on(e, {"async_checkpoint"}),
      .advice = cat("save less often (", saving_interval(e.config.plan.ckpt), ")")};
}

static Judged evaluating(const Evidence& e) {
  if (e.eval_share < 0.3) return {};
  return Fault{.text = fmt::format("Evaluation took {} of the run.", percent(e.eval_share)),
               .saves_s = e.eval_share * e.batch_s(),
               .remedies = switch_on(e, {"eval_no_grad"}),
               .advice = "evaluate less often (eval.every)"};
}

const std::vector<Rule>& diagnosis_rules() {
  static const std::vector<Rule> all = {
      {"workers_too_few", "reading", workers_too_few},
      {"cpu_saturated", "reading", cpu_saturated},
      {"device_oscillating", "reading", device_oscillating},
      {"io_starved", "reading", io_starved},
      {"device_unused", "configuration", device_unused},
      {"host_bound", "scheduling", host_bound},
      {"kernel_hot", "op performance", kernel_hot},
      {"blas_slow", "op performance", blas_slow},
      {"amp_worthwhile", "configuration", amp_worthwhile},
      {"gpu_contended", "configuration", gpu_contended},
      {"host_contended", "configuration", host_contended},
      {"lock_contended", "scheduling", lock_contended},
      {"algo_search_repeated", "scheduling", algo_search_repeated},
      {"copy_not_pinned", "reading", copy_not_pinned},
      {"created_then_moved", "scheduling", created_then_moved},
      {"bias_before_bn", "model", bias_before_norm},
      {"grads_not_cleared", "model", grads_not_cleared},
      {"updates_skipped", "model", updates_skipped},
      {"saving", "scheduling", saving},
      {"evaluating", "scheduling", evaluating},
  };
  return all;
}

}  // namespace bellows
