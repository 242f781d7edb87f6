#include "trainer/session/agreement.h"
#include <fmt/format.h>
#include <algorithm>
#include <sstream>
#include "core/base/check.h"
#include "core/base/crc32c.h"

namespace bellows {

// A rank sets "<topic>/<rank>" to one of these and its text; rank 0 sets "<topic>/verdict".
static constexpr char kFacts = 'F', kError = 'E';
static constexpr const char* kVerdict = "verdict";
// Limit on the bytes of facts in a value of the store. The checksum after them covers all facts.
static constexpr size_t kMost = 1'000'000;

static std::string key(const std::string& topic, const auto& name) {
  return cat("agree/", topic, "/", name);
}

// One line per fact, "name\tvalue", then a checksum of all lines, those beyond kMost included.
static std::string to_text(const Facts& facts) {
  std::string lines;
  for (auto [name, value] : facts) {
    std::ranges::replace(value, '\n', ' ');
    lines += cat(name, "\t", value, "\n");
  }
  const uint32_t crc = crc32c(std::as_bytes(std::span(lines)));
  return lines.substr(0, kMost) + fmt::format("all facts\tcrc {:08x}\n", crc);
}

// Describes the first line in which two ranks differ.
static std::string difference(const std::string& zero, const std::string& other, int rank) {
  std::istringstream ours(zero), theirs(other);
  for (std::string a, b;;) {
    const bool more_of_ours = bool(std::getline(ours, a));
    const bool more_of_theirs = bool(std::getline(theirs, b));
    if (a == b && (more_of_ours || more_of_theirs)) continue;
    const size_t tab = a.find('\t'), end = b.find('\t');
    if (a.substr(0, tab) != b.substr(0, end))
      return cat("rank 0 has ", a.substr(0, tab), ", rank ", rank, " has ", b.substr(0, end));
    return cat(a.substr(0, tab), " is ", a.substr(tab + 1), " on rank 0, ", b.substr(end + 1),
               " on rank ", rank);
  }
}

// Returns the reason why the ranks cannot start together, or "".
static std::string verdict(Store& store, const Ranks& ranks, const std::string& topic,
                           const std::string& mine, Timeout timeout) {
  for (int rank = 1; rank < ranks.world; ++rank) {
    std::string its;
    try {
      its = store.get(key(topic, rank), timeout);
    } catch (const Error& error) {  // a rank that did not arrive
      return error.what();
    }
    if (its.starts_with(kError)) return cat("rank ", rank, ": ", its.substr(1));
    if (its != kFacts + mine)
      return cat("the ranks differ: ", difference(mine, its.substr(1), rank),
                 "; start all ranks with one program, configuration and data set");
  }
  return "";
}

void agree(Store& store, const Ranks& ranks, const std::string& topic, const Facts& facts,
           double timeout_s) {
  const std::string mine = to_text(facts);
  const Timeout timeout = timeout_of(timeout_s);
  std::string why;
  if (ranks.rank == 0) {
    why = verdict(store, ranks, topic, mine, timeout);
    store.set(key(topic, kVerdict), why);
  } else {
    store.set(key(topic, ranks.rank), kFacts + mine);
    why = store.get(key(topic, kVerdict), timeout);
  }
  if (!why.empty()) fail(Exit::distributed, why);
}

bool refuse(Store& store, const Ranks& ranks, const std::string& topic,
            const std::string& why) noexcept {
  try {
    if (ranks.rank == 0)
      store.set(key(topic, kVerdict), cat("rank 0: ", why));
    else
      store.set(key(topic, ranks.rank), kError + why);
    return true;
  } catch (const std::exception&) {  // the store is gone, so no rank waits
    return false;
  }
}

void wait_for_rank0(Store& store, const Ranks& ranks, const std::string& what) {
  constexpr Timeout kLook(500);
  const std::string done = key("rank 0", what), failed = key("rank 0", kVerdict);
  try {
    if (ranks.rank == 0) return store.set(done, "");
    while (!store.wait(done, kLook))
      if (store.wait(failed, Timeout(0)))  // throws if rank 0 hangs
        fail(Exit::distributed, store.get(failed, kLook));
  } catch (const Error& error) {
    fail(error.exit, what, ": ", error.what());
  }
}

}  // namespace bellows
