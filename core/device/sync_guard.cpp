#include "core/device/sync_guard.h"
#include <mutex>
#include <set>
#include <utility>
#include "core/base/check.h"
#include "core/base/module_path.h"
#include "core/base/trace.h"

namespace bellows {

static OnSync& in_force() {
  static thread_local OnSync on_sync = OnSync::ignore;
  return on_sync;
}

SyncGuard::SyncGuard(OnSync on_sync) : Scoped(in_force(), on_sync) {}

namespace {
struct Reports {
  std::mutex mutex;
  std::set<std::string> known;
  std::vector<std::string> fresh;
};
}  // namespace
static Reports& reports() {
  static Reports& all = *new Reports;
  return all;
}

std::vector<std::string> take_sync_reports() {
  const std::lock_guard lock(reports().mutex);
  return std::exchange(reports().fresh, {});
}

void detail::note_sync(const std::source_location& at) {
  const OnSync on_sync = in_force();
  if (on_sync == OnSync::ignore) return;
  trace::count<"sync.guarded">();
  const std::string& path = current_site()->path;
  std::string text = cat("sync_guard: the host waits for the device at ", at.file_name(), ":",
                         at.line());  // "core/tensor/copy.cpp:27"
  if (running_kernel()) text += cat(", in ", running_kernel());
  if (!path.empty()) text += cat(", in module '", path, "'");
  if (on_sync == OnSync::refuse) fail(Exit::internal, text);
  const std::lock_guard lock(reports().mutex);
  if (reports().known.insert(text).second) reports().fresh.push_back(text);
}

}  // namespace bellows
