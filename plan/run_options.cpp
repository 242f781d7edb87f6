#include "plan/run_options.h"
#include "core/config/visitor.h"

namespace bellows {

static constexpr const char* kTheirWeights =
    "the weights come from the checkpoint; undo the change, or start a new run";

void visit(Visitor& v, TrainOptions& o) {
  v("epochs", o.epochs, "passes over the training set", {.min = 0})
      .also({"epoch", "max_epochs", "num_epochs", "num_train_epochs"});
  v("max_iters", o.max_iters, "updates after which the run stops; 0: no such limit", {.min = 0})
      .also({"iters", "max_steps", "num_iters", "total_iters"});
  v("accumulate", o.accumulate, "micro-batches that make one update", {.min = 1});
  v("cuda_graph", o.cuda_graph, "capture an update once, replay it for each batch");
  v.list("tuning_window", o.tuning_window, "first and last update in which kernels are tried out",
         {.min = 1});
  const auto& window = o.tuning_window;
  v.require("tuning_window", window.size() == 2 && window[0] <= window[1],
            "must be the first and the last update, as in [1, 10]");
  v("weights", o.weights,
    "a .safetensors file to start from (torchvision's names, as export writes), an index of "
    "several "
    "files, or the folder of a run or a file")
      .fixed(kTheirWeights)
      .also({"pretrained"});
  v("weights_strict", o.weights_strict,
    "refuse weights that do not fit; false: parameters that lack some keep their initial values")
      .fixed(kTheirWeights);
  v("dry_run", o.dry_run, "a pass over the largest batch before the first step");
  v("on_nonfinite", o.on_nonfinite, {"stop", "skip", "continue"}, "reaction to a NaN or Inf loss");
  v("max_nonfinite", o.max_nonfinite, "non-finite losses in a row before it stops", {.min = 1});
  v("patience", o.patience,
    "early stopping: evaluations without improvement of ckpt.best's metric, or else of the loss, "
    "before the run ends; 0: no limit",
    {.min = 0})
      .also({"early_stopping", "early_stopping_patience", "patience"});
}

void visit(Visitor& v, EvalOptions& o) {
  v("every", o.every, "epochs between evaluations; 0: never", {.min = 0})
      .also({"eval_interval", "val_interval"});
  v("batch_size", o.batch_size, "samples per batch; 0: as in training", {.min = 0, .max = 1 << 24})
      .also({"batch", "bs", "eval_batch_size"});
  v("no_grad", o.no_grad, "evaluation builds no graph and saves nothing");
  v.choices("metrics", o.metrics, "computed besides the loss");
}

void visit(Visitor& v, LogOptions& o) {
  v("every", o.every, "iterations between log lines", {.min = 1})
      .also({"log_every_n_steps", "log_interval", "log_iter", "log_iters", "logging_steps",
             "print_freq"});
  v("format", o.format, {"paddle", "json", "plain"},
    "of the log lines; json: every line on stdout is a JSON object, other lines {\"message\": "
    "...}");
  v("deferred", o.deferred, "losses stay on the device and are read at log steps only");
  v("kernels", o.kernels, "the summary lists which implementation ran in each layer");
  v("pictures_every", o.pictures_every,
    "updates between pictures of the batch, pictures/step_N.png in the run folder; 0: none",
    {.min = 0});
  v("tensorboard", o.tensorboard, "write an event file beside metrics.jsonl");
  v("progress", o.progress, "a progress bar on a terminal");
}

void visit(Visitor& v, CkptOptions& o) {
  v("every", o.every, "epochs between checkpoints; 0: only at the end", {.min = 0})
      .also({"checkpoint_interval", "save_interval", "snapshot_epoch"});
  v("every_iters", o.every_iters, "iterations between further checkpoints; 0: none", {.min = 0})
      .also({"save_steps"});
  v("keep", o.keep, "newest checkpoints to keep", {.min = 1})
      .also({"keep_checkpoint_max", "save_top_k", "save_total_limit"});
  v("best", o.best,
    "none, loss or a metric of eval.metrics: the best checkpoint by it is kept as "
    "checkpoints/best.safetensors")
      .forgets(Forget::best)
      .also({"metric_for_best_model", "monitor", "save_best", "save_best_only"});
  v("async", o.async, "take a snapshot, write it in the background");
  v("max_overhead", o.max_overhead, "warn if saving takes a larger share of the time",
    {.min = 0, .max = 1});
  v("retries", o.retries, "more tries after a failed save", {.min = 0});
  v("on_error", o.on_error, {"stop", "warn"}, "reaction to a failed save");
  v("require_finite", o.require_finite, "refuse checkpoints and weights with NaN or Inf");
}

void visit(Visitor& v, TargetOptions& o) {
  v("metric", o.metric, "none, loss or the metric of eval.metrics that ends the training")
      .forgets(Forget::target);
  v("value", o.value, "value to reach: at least this accuracy (0 to 1), at most this loss")
      .forgets(Forget::target);
  v("stop", o.stop, "end the training there; false: only report it");
}

void visit(Visitor& v, SimOptions& o) {
  v("compute", o.compute,
    "planted computing: least time of an update, in us; auto: twice what it takes here",
    {.min = kAutoCompute, .max = 1e9, .auto_is_min = true});
  v("load", o.load, "planted loading: time of a batch, as a multiple of sim.compute",
    {.min = 0, .max = 1e4});
  v.require("load", o.load == 0 || o.compute != 0, "needs sim.compute");
}

void visit(Visitor& v, ProfileOptions& o) {
  v.list("window", o.window, "updates to profile, the last not included, as in [20, 30]",
         {.min = 0});
  const auto& window = o.window;
  v.require("window", window.empty() || (window.size() == 2 && window[0] < window[1]),
            "must be the first update and the one after the last, as in [20, 30]");
  v("exit_after", o.exit_after, "end the run after the window");
}

void visit(Visitor& v, DebugOptions& o) {
  v("anomaly", o.anomaly, "stop at the first gradient that is not finite, naming op and module")
      .also({"detect_anomaly"});
  v("sync_guard", o.sync_guard, {"off", "warn", "error"},
    "name the lines that make the host wait for the device between two log steps");
  v("lock_stats", o.lock_stats, "how long threads waited for each lock");
}

}  // namespace bellows
