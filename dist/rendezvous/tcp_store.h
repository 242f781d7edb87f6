// TcpStore: a rank's access to the store that rank 0 serves (dist/rendezvous/store_server.h).
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/sockets.h"
#include "dist/rendezvous/store_frames.h"

namespace bellows {

// A call takes an idle connection or makes one, so a get() that waits does not block other threads.
// Keys are prefixed by ranks.attempt. The destructor disconnects, from which rank 0 concludes that
// this rank has no more requests.
class TcpStore : public Store {
 public:
  // Connects to ranks.host, retrying until rank 0 answers. `timeout` limits that, and later each
  // call that does not wait for a key. Throws Error, exit 7, after the timeout or if rank 0 refuses
  // this rank.
  TcpStore(const Ranks& ranks, Timeout timeout);

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Timeout timeout) override;
  bool wait(const std::string& key, Timeout timeout) override;
  int64_t add(const std::string& key, int64_t n) override;
  void remove(const std::string& key) override;
  void end_within(Timeout limit) override { deadline_ = deadline_after(limit); }

 private:
  using Connection = std::unique_ptr<Descriptor>;
  Connection connect(Clock::time_point deadline, bool patient, std::string& why);
  std::optional<StoreFrame> ask(Word word, const std::string& key, const std::string& value,
                                Timeout timeout);
  std::optional<std::string> value_of(const std::string& key, Timeout timeout);
  StoreFrame ask_now(Word word, const std::string& key, const std::string& value);
  Timeout limited(Timeout timeout) const;
  std::string rank0() const { return cat("rank 0 at ", ranks_.host, " port ", ranks_.port); }

  const Ranks ranks_;
  const Timeout timeout_;
  std::atomic<Clock::time_point> deadline_ = Clock::time_point::max();
  const std::string hello_;
  Connection presence_;  // carries no requests; rank 0 counts this rank as present while it is open
  std::mutex mutex_;     // guards idle_
  std::vector<Connection> idle_;
};

}  // namespace bellows
