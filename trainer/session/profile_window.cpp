#include "trainer/session/profile_window.h"
#include "core/base/check.h"

namespace bellows {

ProfileWindow::~ProfileWindow() {
  step_.reset();
  if (marking_) trace::mark(false);
}

void ProfileWindow::begin(int64_t update) {
  if (options_.window.empty() || update >= options_.window[1]) return;
  if (!marking_ && update >= options_.window[0]) trace::mark(marking_ = true);
  if (!marking_) return;
  name_ = cat("ProfilerStep#", update);
  step_.emplace(name_.c_str());
}

void ProfileWindow::end(int64_t update) {
  step_.reset();
  if (marking_ && update + 1 >= options_.window[1]) trace::mark(marking_ = false);
}

bool ProfileWindow::ends_the_run(int64_t updates) const {
  return options_.exit_after && !options_.window.empty() && updates >= options_.window[1];
}

std::string profiler_command(const ProfileOptions& options, const std::string& name) {
  if (options.window.empty()) return "";
  return cat(
      "profile: updates ", options.window[0], " to ", options.window[1],
      "; recorded by  nsys profile -t cuda,nvtx,osrt,cudnn,cublas -c cudaProfilerApi -f true "
      "-o ",
      name, " trainer ...");
}

}  // namespace bellows
