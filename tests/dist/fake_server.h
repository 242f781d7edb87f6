// A server of the store whose answers a test chooses.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <list>
#include <string>
#include <thread>
#include <tuple>
#include <vector>
#include "dist/rendezvous/rendezvous.h"
#include "dist/rendezvous/sockets.h"
#include "dist/rendezvous/store_frames.h"

namespace bellows {

inline const std::string kYes = pack(Word::ok, "", "1");  // of any request, also of an add

// Serves rank 1 of 2. The answers go to the hello of its first connection, the hello of its second
// one, and the requests on that, in turn. Then the server ends or, if it `stays`, is like a stopped
// process: the system completes its connections, and nothing answers.
class FakeServer {
 public:
  explicit FakeServer(std::vector<std::string> answers, bool stays = false)
      : listener_(listen_on("127.0.0.1", true, 0)),
        thread_([this, answers = std::move(answers), stays](const std::stop_token& stop) {
          std::list<Descriptor> connections;
          for (const std::string& bytes : answers) {
            if (connections.size() < 2) connections.emplace_back(accept_one());
            answer(connections.back().get(), bytes);
          }
          while (stays && !stop.stop_requested())
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }) {}
  Ranks ranks() const {
    Ranks ranks;
    ranks.rank = ranks.local_rank = 1;
    ranks.world = ranks.local_world = 2;
    std::tie(ranks.host, ranks.port) = local_address_of(listener_.get());
    return ranks;
  }

 private:
  int accept_one() const {
    wait_for_socket(listener_.get(), POLLIN, deadline_after(std::chrono::seconds(60)));
    return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
  }
  static void answer(int socket, const std::string& bytes) {
    char request[4096];
    EXPECT_GT(::recv(socket, request, sizeof(request), 0), 0);
    EXPECT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), bytes.size());
  }

  const Descriptor listener_;
  const std::jthread thread_;
};

}  // namespace bellows
