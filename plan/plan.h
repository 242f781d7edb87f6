// Plan: complete configuration of a run, as plain data. Plan{} is the run without optimizations.
// Each component defines its own options and receives only them; Plan combines them all.
#pragma once
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
#include "plan/device_choice.h"
#include "plan/run_options.h"

namespace bellows {

struct DataOptions {
  DatasetChoice dataset{"digits"};
  bool packed = false;  // read from its copy in the packed cache (data/packed/packed_cache.h)
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
  ProfileOptions profile;
  DebugOptions debug;
};
void visit(Visitor& v, Plan& plan);

}  // namespace bellows
