#include "dist/groups/gloo_engine.h"
#include <future>
#include "core/base/trace.h"
#include "core/device/threads.h"

namespace bellows {

// Connects on a thread whose name, cores and signal mask Gloo's thread is to inherit.
static GlooMesh connected(const GroupContext& group, const std::string& prefix) {
  const auto connect = [&] {
    begin_thread("gloo");
    return connect_mesh(group.ranks, *group.store, prefix, group.timeout());
  };
  return std::async(std::launch::async, connect).get();
}

GlooEngine::GlooEngine(const GroupContext& group, bool share)
    : prefix_(group.new_prefix("gloo")),
      shared_(SharedMemory::join(group.ranks, *group.store, prefix_ + "memory/", group.timeout(),
                                 share)),
      mesh_(shared_ ? nullptr : connected(group, prefix_ + "mesh/")),
      guard_(group, "gloo", prefix_, [this] { close(); }),
      thread_(start_thread("gloo", [this] { run_wanted(); })) {}

GlooEngine::~GlooEngine() {
  guard_.end();
  std::unique_lock lock(mutex_);
  stopping_ = true;
  has_work_.notify_one();
  if (!guard_.is_done(wanted_)) close();
  lock.unlock();
  thread_.join();
}

int64_t GlooEngine::start(GlooOperation operation) {
  guard_.start(operation.collective);
  const int64_t sequence = operation.collective.sequence;
  const std::lock_guard lock(mutex_);
  // A small message is complete at once. Waking the thread for it would take longer.
  if (!shared_ || !shared_->start(operation.message)) {
    wanted_ = sequence;
    has_work_.notify_one();
  }
  queue_.push_back(std::move(operation));
  return sequence;
}

void GlooEngine::wait(int64_t sequence) {
  if (shared_) {
    if (std::unique_lock running(run_, std::try_to_lock); running) {
      run_up_to(sequence);
    } else {
      const std::lock_guard lock(mutex_);
      wanted_ = std::max(wanted_, sequence);
      has_work_.notify_one();
    }
  }
  guard_.wait(sequence);
}

// Ends the operation in progress, here and on the other ranks.
void GlooEngine::close() {
  if (shared_) shared_->close();
  if (mesh_) close_mesh(*mesh_);
}

// Runs on the engine's thread.
void GlooEngine::run_wanted() {
  begin_thread("gloo");
  std::unique_lock lock(mutex_);
  for (bool lives = true; lives;) {
    has_work_.wait(lock, [this] {
      return stopping_ || (!queue_.empty() && queue_.front().collective.sequence <= wanted_);
    });
    if (stopping_) return;
    const int64_t wanted = wanted_;
    lock.unlock();
    {
      const std::lock_guard running(run_);
      lives = run_up_to(wanted);
    }
    lock.lock();
  }
}

// The caller holds run_. Returns false if an operation failed.
bool GlooEngine::run_up_to(int64_t sequence) {
  std::unique_lock lock(mutex_);
  while (!queue_.empty() && queue_.front().collective.sequence <= sequence) {
    const GlooOperation operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (!run(operation)) return false;
    guard_.done(operation.collective.sequence);
    lock.lock();
  }
  return true;
}

// Returns false if the operation failed. Throws if memory is used up.
bool GlooEngine::run(const GlooOperation& operation) {
  const trace::Range range(operation.collective.what.c_str());
  const auto due = guard_.begin(operation.collective);
  try {
    if (shared_)
      shared_->finish(operation.message, until(due));
    else
      operation.over_tcp({mesh_, uint32_t(operation.collective.sequence), until(due)});
    return true;
  } catch (const std::bad_alloc&) {  // ends this rank with exit 6: the network is not to blame
    throw;
  } catch (const std::exception& error) {
    guard_.diagnose(operation.collective, plain(error.what()));
    return false;
  }
}

}  // namespace bellows
