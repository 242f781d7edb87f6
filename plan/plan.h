// Plan: complete configuration of a run, as plain data. Plan{} is the run without optimizations.
// Each component defines its own options and receives only them; Plan combines them all.
#pragma once
#include "autograd/amp.h"
#include "core/device/allocator.h"
#include "core/device/kernel_options.h"
#include "core/device/threads.h"
#include "data/images/transform.h"
#include "data/loader/loader_options.h"
#include "data/sets/dataset.h"
#include "models/criterion.h"
#include "models/module/fuse.h"
#include "models/module/module.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "plan/device_choice.h"
#include "plan/run_options.h"

namespace bellows {

struct DataOptions {
  DatasetChoice dataset{"digits"};
  bool packed = false;  // read from its packed twin (data/packed/packed_twin.h)
  // An empty list in a config is replaced by this one, so the printed and saved plan is exact.
  std::vector<TransformChoice> transforms{TransformChoice("normalize")};
  LoaderOptions loader;
};
void visit(Visitor& v, DataOptions& o);

struct ModelOptions {
  Choice<MakeModel> model{"lenet"};
  FuseOptions fuse;
  bool vectorized = false;
  int64_t recompute = 0;        // recompute up to n adjacent residual blocks as one segment; 0: off
  bool drop_conv_bias = false;  // remove biases of convolutions followed by a batch_norm
  bool channels_last = false;   // weights of convolutions are stored in NHWC
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
  ProfileOptions profile;
  DebugOptions debug;
};
void visit(Visitor& v, Plan& plan);

}  // namespace bellows
