// StoreServer: the store's values, in the process of rank 0.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/sockets.h"
#include "dist/rendezvous/store_frames.h"

namespace bellows {

// One thread serves all ranks and never waits for one of them. A connection becomes a rank's by its
// first frame, which has the token, the attempt and the world size. One that sends anything else,
// or nothing for two seconds, is dropped. Connections, and the bytes kept for each, are bounded: no
// request is read from a client that does not read its answers. Counter: dist.store_strangers,
// connections that did not become a rank's.
class StoreServer {
 public:
  // Listens on ranks.port (0: any free one). Throws Error, exit 7.
  explicit StoreServer(const Ranks& ranks);
  // Keeps serving until all ranks have disconnected or sent nothing for a second, for five seconds
  // at most, because rank 0 may be the first to end.
  ~StoreServer();
  StoreServer(StoreServer&&) = delete;
  // Returns the given ranks with the address at which this process reaches the server.
  Ranks seen_from_inside() const;

 private:
  struct Client;
  void start();
  void serve();
  bool farewell_over();
  void drop_clients();
  void accept_some();
  void attend(Client& client, short events);
  void greet(Client& client, const StoreFrame& hello);
  std::string objection(const StoreFrame& hello, std::istringstream& rest, int& rank);
  void handle(Client& client, StoreFrame request);
  void add(Client& client, const std::string& key, const std::string& n);
  void put(const std::string& key, std::string value);
  void answer(Client& client, Word word, const std::string& value = "");

  const Ranks ranks_;
  const Descriptor listener_, wake_;  // wake_: an eventfd, written by the destructor
  std::atomic<bool> leaving_ = false;

  // Used only by the thread.
  std::vector<std::unique_ptr<Client>> clients_;  // in order of arrival
  std::map<std::string, std::string> values_;
  std::map<int, uint64_t> processes_;  // by rank: `process` of its hello
  Clock::time_point accept_after_, last_request_, farewell_until_;

  std::thread thread_;
};

}  // namespace bellows
