#include "dist/groups/postmortem.h"
#include "core/base/words.h"

namespace bellows {

using Clock = std::chrono::steady_clock;
static constexpr Timeout kCauseSearch(1200);  // limit of all requests to the store for the cause
static constexpr Timeout kPatience(900);      // how long to wait for the reports of other ranks
// How long rank 0 waits for finish() of the others, and how long publishing a cause may take.
static constexpr Timeout kFarewell(500);

static std::string named(const Names& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(ranks);
}

void Postmortem::leave(const std::string& cause) {
  store_->end_within(kFarewell);
  try {
    if (store_->add(prefix_ + "causes", 1) == 1) store_->set(prefix_ + "cause", cause);
    store_->set(prefix_ + "failed", "");
  } catch (const Error&) {
  }
}

void Postmortem::report(int64_t started, bool timed_out) {
  if (reported_.exchange(true)) return;
  try {
    store_->set(key("started", ranks_.rank), cat(started, timed_out ? " timeout" : ""));
    store_->set(prefix_ + "failed", "");
  } catch (const Error&) {
  }
}

bool Postmortem::failed() const {
  try {
    return store_->wait(prefix_ + "failed", Timeout(0));
  } catch (const Error&) {
    return false;
  }
}

// Returns the published cause, or "".
std::string Postmortem::cause() const {
  const bool left = store_->wait(prefix_ + "cause", Timeout(0));
  return left ? store_->get(prefix_ + "cause", kPatience) : "";
}

std::string Postmortem::why(const Collective& c, int64_t started, bool timed_out, double timeout_s,
                            const std::string& symptom, const std::function<void()>& close) {
  store_->end_within(kCauseSearch);
  report(started, timed_out);
  close();
  try {
    const std::string why = find(c, timed_out, timeout_s, symptom);
    finish();
    return why;
  } catch (const Error& error) {
    return cat("rank 0 left or is stuck: its store does not answer (", error.what(),
               "); look at the last lines of rank 0");
  }
}

std::string Postmortem::find(const Collective& c, bool timed_out, double timeout_s,
                             const std::string& symptom) {
  const auto end = Clock::now() + kPatience;
  Names silent, late;
  for (int r = 0; r < ranks_.world; ++r) {
    if (r == ranks_.rank) continue;
    if (const std::string left = cause(); !left.empty()) return left;
    if (!store_->wait(key("started", r), until(end, Timeout(0)))) {
      silent.push_back(std::to_string(r));
      silent_.insert(r);
      continue;
    }
    const std::string report = store_->get(key("started", r), kPatience);
    if (std::stoll(report) < c.sequence) late.push_back(std::to_string(r));
    timed_out = timed_out || report.ends_with(" timeout");
  }
  if (const std::string left = cause(); !left.empty()) return left;
  const std::string within = cat(" within ", timeout_s, " s; ");
  if (!silent.empty() && timed_out)
    return cat(named(silent), " did not answer", within, "is it stopped, or its machine down?");
  if (!silent.empty())
    return cat(named(silent),
               " left and gave no cause; look at its last lines, and whether the "
               "system killed it");
  if (!late.empty() && timed_out)
    return cat(named(late), " did not come", within,
               "find out what it is doing, or raise dist.timeout_s");
  if (!late.empty())
    return cat(named(late), " ended earlier; all ranks must start the same collectives");
  if (timed_out)
    return cat("not done", within,
               "all ranks are there, so the network is too slow, or raise "
               "dist.timeout_s");
  return cat("a connection broke (", symptom, "); look at the network");
}

// Reports that this rank no longer needs the store. Rank 0, which serves it, waits up to 0.5 s for
// this report of the other live ranks. Ignores errors of the store.
void Postmortem::finish() {
  try {
    store_->set(key("finished", ranks_.rank), "");
    if (ranks_.rank) return;
    const auto end = Clock::now() + kFarewell;
    for (int r = 1; r < ranks_.world; ++r)
      if (!silent_.contains(r)) store_->wait(key("finished", r), until(end, Timeout(0)));
  } catch (const Error&) {
  }
}

std::string differences_of(const Collective& c, Store& store, const std::string& prefix,
                           const Ranks& ranks, Timeout timeout) {
  const auto end = Clock::now() + timeout;
  const auto key = [&](int64_t sequence, int rank) { return cat(prefix, sequence, "/", rank); };
  store.set(key(c.sequence, ranks.rank), description_of(c));
  Names started;
  for (int r = 0; r < ranks.world; ++r)
    started.push_back(store.get(key(c.sequence, r), until(end)));
  // All ranks have started this collective, so they have read the keys of earlier ones.
  if (c.sequence > 2) store.remove(key(c.sequence - 2, ranks.rank));
  for (int r = 1; r < ranks.world; ++r)
    if (started[r] != started[0])
      return cat("the ranks differ in collective ", c.sequence, ": rank 0 started \"", started[0],
                 "\", rank ", r, " \"", started[r],
                 "\"; all must start the same collectives in the same order");
  return "";
}

}  // namespace bellows
