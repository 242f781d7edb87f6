// Plan: complete configuration of a run, as plain data. Plan{} is the run without optimizations.
// Each component defines its own options and receives only them; Plan combines them all.
#pragma once
#include <optional>
#include "autograd/amp.h"
#include "core/device/allocator.h"
#include "core/device/kernel_options.h"
#include "core/device/threads.h"
#include "data/images/transform.h"
#include "data/loader/loader.h"
#include "data/sets/dataset.h"
#include "dist/base/options.h"
#include "models/losses/loss.h"
#include "models/module/rewrite.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "plan/run_options.h"

namespace bellows {

struct Bounds;
struct Option;

// Value of the option `device`: auto, cpu, cuda or cuda:N.
struct DeviceChoice {
  enum Kind { automatic, cpu, cuda };

  constexpr DeviceChoice(Kind kind, std::optional<int> gpu = {}) : kind(kind), gpu(gpu) {}
  bool operator==(const DeviceChoice&) const = default;
  std::string text() const;  // "auto", "cuda:1"

  Kind kind;
  std::optional<int> gpu;  // number of the GPU, with cuda:N only; else the first GPU is used
};
Option make_option(DeviceChoice& choice, Bounds bounds);  // lets a Visitor read and print it

struct DataOptions {
  DatasetChoice dataset{"digits"};
  // An empty list in a config is replaced by this one, so the printed and saved plan is exact.
  std::vector<TransformChoice> transforms{TransformChoice("normalize")};
  LoaderOptions loader;
};
void visit(Visitor& v, DataOptions& o);

struct ModelOptions {
  Choice<MakeModel> model{"lenet"};
  RewriteOptions rewrites;
  bool vectorized = false;
  bool channels_last = false;  // weights of convolutions are stored in NHWC
  bool sync_bn = false;        // batch norms train with the statistics of all ranks' batches
};
void visit(Visitor& v, ModelOptions& o);

struct Plan {
  std::string name = "run";
  uint64_t seed = 1;
  DeviceChoice device = DeviceChoice::automatic;
  ModelOptions model;
  DataOptions data;
  LossOptions loss;
  AmpOptions amp;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  TrainOptions train;
  EvalOptions eval;
  LogOptions log;
  CkptOptions ckpt;
  TargetOptions target;
  KernelOptions kernels;
  AllocatorOptions allocator;
  ThreadOptions threads;
  DistOptions dist;
  SimOptions sim;
  ProfileOptions profile;
  DebugOptions debug;
};
void visit(Visitor& v, Plan& plan);

}  // namespace bellows
