// A server of the store whose answers a test chooses.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include "dist/rendezvous/sockets.h"
#include "dist/rendezvous/tcp_store.h"
#include "tests/dist/memory_store.h"

namespace bellows {

inline const std::string kYes = pack({Word::ok, "", "1"});  // of any request, also of an add

// Serves rank 1 of 2. It shakes hands on `connections` of them, and then the answers go to the
// requests on the last one, in turn. Then the server ends or, if it `stays`, is like a stopped
// process: the system completes its connections, and nothing answers.
class FakeServer {
 public:
  explicit FakeServer(int connections, std::vector<std::string> answers, bool stays = false)
      : listener_(listen_on("127.0.0.1", 0)),
        thread_(
            [this, connections, answers = std::move(answers), stays](const std::stop_token& stop) {
              std::list<Descriptor> sockets;
              for (int i = 0; i < connections; ++i) {
                sockets.emplace_back(accept_one());
                shake_hands(sockets.back().get());
              }
              for (const std::string& bytes : answers) {
                request(sockets.back().get());
                send(sockets.back().get(), bytes);
              }
              while (stays && !stop.stop_requested())
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }) {}
  Ranks ranks() const { return place_of_rank(1, 2, port_of(listener_.get())); }

  // All that clients said in handshakes.
  std::string heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  int accept_one() const {
    wait_for_socket(listener_.get(), POLLIN, deadline_after(std::chrono::seconds(60)));
    return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
  }
  static void send(int socket, const std::string& bytes) {
    EXPECT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), bytes.size());
  }
  static StoreFrame request(int socket) {
    std::string received, none, why;
    StoreFrame frame;
    for (bool bad = false; !unpack(received, kMaxValue, frame, bad);)
      if (!transfer(socket, none, received, why)) break;
    return frame;
  }
  void shake_hands(int socket) {
    const std::string nonce(kNonce, 'n');
    send(socket, pack({Word::nonce, "", nonce}));
    const StoreFrame hello = request(socket);
    {
      const std::lock_guard lock(mutex_);
      heard_ += hello.key + hello.value;
    }
    const std::string said = nonce + hello.key.substr(0, kNonce) + hello.value;
    send(socket, pack({Word::ok, "", proof_of("", "store" + said)}));
  }

  const Descriptor listener_;
  mutable std::mutex mutex_;  // guards heard_
  std::string heard_;
  const std::jthread thread_;
};

}  // namespace bellows
