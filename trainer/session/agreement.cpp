// The ranks of a session: how they meet, compare what they start with, and wait for each other.
#include <fmt/format.h>
#include <algorithm>
#include "core/base/crc32c.h"
#include "core/base/words.h"
#include "core/config/values.h"
#include "trainer/session/session.h"

namespace bellows {

// A group takes tensors of one device. So on a GPU a second group serves tensors in host memory.
void Session::meet_ranks() {
  if (ranks.world > 1) store = meet(ranks, plan.dist);
  GroupContext context;
  context.ranks = ranks;
  context.store = store;
  context.device = device;
  context.options = plan.dist;
  group = plan.dist.backend.make(context);
  context.device = Device::cpu;
  if (device != Device::cpu) host_group_ = Choice<MakeGroup>("auto").make(context);
  if (ranks.world == 1) return;
  notes.push_back(cat("ranks: ", ranks.world, " (", group->path(), "), global batch ",
                      joint_batch(), " = ", ranks.world, " x ", plan.data.loader.sampler.batch_size,
                      "; ips counts all ranks"));
  if (by_root())
    notes.emplace_back("dp: rank 0 reads the batches of all ranks and updates alone; ddp is off");
}

static void add_data(Facts& facts, const std::string& name, const Dataset& set,
                     const std::string& content) {
  facts.emplace_back(name + " samples", std::to_string(set.size()));
  facts.emplace_back(name + " classes", cat(set.info().classes, " ", joined(set.info().names)));
  facts.emplace_back(name + " sample", cat(set.info().input.shape));
  facts.emplace_back(name + " target", cat(set.info().target.shape));
  facts.emplace_back(name + " content", content);
}

// Returns everything that must be equal on every rank, in the order in which a user would look for
// a difference.
Facts Session::facts() const {
  Facts all;
  for (const auto& [key, value] : dump(plan)) all.emplace_back(key, value.text);
  all.emplace_back("device in use", cat(device));
  add_data(all, "training set", *train_set, data_fingerprint());
  add_data(all, "test set", *test_set, fingerprint(*test_set, 64));
  for (const NamedTensors& part : {parameters, model->buffers()})
    for (const auto& [name, tensor] : part)
      all.emplace_back(name, cat(tensor.dtype(), " ", tensor.shape()));
  return all;
}

// A rank sets "<topic>/<rank>" to one of these letters and a text; rank 0 sets "<topic>/verdict".
static constexpr char kFacts = 'F', kError = 'E';
static constexpr const char* kVerdict = "verdict";
// Limit on the bytes of facts in a value of the store. The checksum after them covers all facts.
static constexpr size_t kMost = 1'000'000;

static std::string key(const std::string& topic, const auto& name) {
  return cat("agree/", topic, "/", name);
}

// Returns one line per fact, "name\tvalue", then a checksum of all lines, even those beyond kMost.
static std::string to_text(const Facts& facts) {
  std::string lines;
  for (auto [name, value] : facts) {
    std::ranges::replace(value, '\n', ' ');
    lines += cat(name, "\t", value, "\n");
  }
  const uint32_t crc = crc32c(std::as_bytes(std::span(lines)));
  return lines.substr(0, kMost) + fmt::format("all facts\tcrc {:08x}\n", crc);
}

static std::string difference(const std::string& zero, const std::string& other, int rank) {
  const size_t same = std::ranges::mismatch(zero, other).in1 - zero.begin();
  const size_t begin = same ? zero.rfind('\n', same - 1) + 1 : 0;
  const std::string a = zero.substr(begin, zero.find('\n', begin) - begin),
                    b = other.substr(begin, other.find('\n', begin) - begin);
  const size_t tab = a.find('\t'), end = b.find('\t');
  if (a.substr(0, tab) != b.substr(0, end))
    return cat("rank 0 has ", a.substr(0, tab), ", rank ", rank, " has ", b.substr(0, end));
  return cat(a.substr(0, tab), " is ", a.substr(tab + 1), " on rank 0, ", b.substr(end + 1),
             " on rank ", rank);
}

static std::string find_difference(const Session& session, const std::string& topic,
                                   const std::string& mine) {
  for (int rank = 1; rank < session.ranks.world; ++rank) {
    std::string its;
    try {
      its = session.store->get(key(topic, rank), timeout_of(session.plan.dist.timeout_s));
    } catch (const Error& error) {  // a rank did not arrive
      return error.what();
    }
    if (its.starts_with(kError)) return cat("rank ", rank, ": ", its.substr(1));
    if (its != kFacts + mine)
      return cat("the ranks differ: ", difference(mine, its.substr(1), rank),
                 "; start all ranks with one program, configuration and data set");
  }
  return "";
}

void Session::agree(const std::string& topic, const Facts& facts) const {
  if (ranks.world == 1) return;
  const std::string mine = to_text(facts);
  std::string why;
  if (ranks.rank == 0) {
    why = find_difference(*this, topic, mine);
    store->set(key(topic, kVerdict), why);
  } else {
    store->set(key(topic, ranks.rank), kFacts + mine);
    why = store->get(key(topic, kVerdict), timeout_of(plan.dist.timeout_s));
  }
  if (!why.empty()) fail(Exit::distributed, why);
}

void Session::wait_for_rank0(const std::string& what) const {
  constexpr Timeout kLook(500);
  const std::string done = key("rank 0", what), failed = key("rank 0", kVerdict);
  if (ranks.world == 1) return;
  try {
    if (ranks.rank == 0) return store->set(done, "");
    while (!store->wait(done, kLook))
      if (store->wait(failed, Timeout(0)))  // throws if rank 0 hangs
        fail(Exit::distributed, store->get(failed, kLook));
  } catch (const Error& error) {
    fail(error.exit, what, ": ", error.what());
  }
}

// Makes agree() on that topic fail on the other ranks; on "rank 0", wait_for_rank0().
static void refuse(Store& store, int rank, const std::string& topic, const std::string& why) {
  if (rank == 0)
    store.set(key(topic, kVerdict), cat("rank 0: ", why));
  else
    store.set(key(topic, rank), kError + why);
}

void Session::abort(const std::string& why) const noexcept {
  if (ranks.world == 1) return;
  const bool training = group && group->step > 0;  // no rank is in agree() any more
  try {
    if (store && ranks.rank == 0) refuse(*store, 0, "rank 0", why);
    if (store && !training) {
      store->end_within(Timeout(300));  // rank 0 may be stuck; do not wait for it
      for (const char* topic : {"samples", "start", "state"})
        refuse(*store, ranks.rank, topic, why);
    }
  } catch (const std::exception&) {  // the store is gone, so no rank waits
  }
  if (group) group->abort(why);
  if (host_group_) host_group_->abort(why);
}

}  // namespace bellows
