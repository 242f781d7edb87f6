#include "data/sets/damaged.h"
#include <mutex>
#include <set>
#include "core/base/output.h"
#include "core/base/trace.h"

namespace bellows {

static std::mutex mutex;
static std::set<std::string> told;  // guarded by mutex

static void tell_once(const std::string& origin, const char* why) {
  const std::lock_guard lock(mutex);
  if (!told.insert(origin).second) return;
  trace::count<"data.damaged_samples">();
  warn(cat(origin, ": skipped: ", why));
}

Sample read_undamaged(const Dataset& dataset, int64_t index, OnDamaged on_damaged,
                      const std::function<Sample(int64_t)>& read) {
  for (int64_t skipped = 0;; ++skipped) {
    const int64_t i = (index + skipped) % dataset.size();
    try {
      Sample sample = read(i);
      if (skipped && on_damaged == OnDamaged::leave_out) sample.label = kLeftOut;
      return sample;
    } catch (const Error& error) {
      if (error.exit != Exit::data) throw;
      if (on_damaged == OnDamaged::error)
        fail(Exit::data, error.what(), "; data.on_damaged=skip leaves it out");
      trace::count<"data.damaged">();
      tell_once(dataset.origin(i), error.what());
      if (skipped + 1 == std::min(kMostInARow, dataset.size()))
        fail(Exit::data, skipped + 1, " damaged samples in a row, the last: ", dataset.origin(i),
             ": ", error.what());
    }
  }
}

std::vector<std::string> skipped_samples() {
  const std::lock_guard lock(mutex);
  return {told.begin(), told.end()};
}

std::string name_of_sample(const Dataset& dataset, int64_t index) {
  return cat("sample ", index, " (", dataset.origin(index), ")");
}

void rethrow_at_sample(const Dataset& dataset, int64_t index) {
  const std::string name = name_of_sample(dataset, index);
  try {
    throw;
  } catch (const Error& error) {
    fail(error.exit == Exit::usage ? Exit::data : error.exit, name, ": ", error.what());
  } catch (const std::bad_alloc&) {
    fail(Exit::memory, name, ": out of host memory");
  } catch (const std::exception& error) {
    fail(Exit::data, name, ": ", error.what());
  }
}

}  // namespace bellows
