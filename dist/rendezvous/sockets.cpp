#include "dist/rendezvous/sockets.h"
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>
#include "core/device/threads.h"

namespace bellows {

void begin_thread(const std::string& name) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  name_thread(name);
}

void check_lack(int error, const char* where) {
  const bool descriptors = error == EMFILE || error == ENFILE;
  if (descriptors || error == ENOMEM || error == ENOBUFS)
    fail(Exit::memory, where, ": ", std::strerror(error),
         descriptors ? "; raise  ulimit -n" : "; free some memory");
}

Clock::time_point deadline_after(Timeout timeout) {
  return Clock::now() + std::min<Timeout>(timeout, std::chrono::hours(24 * 3650));
}

bool wait_for_socket(int socket, short events, Clock::time_point deadline) {
  for (int64_t left = 1; left > 0;) {
    left = std::chrono::ceil<Timeout>(deadline - Clock::now()).count();
    pollfd polled = {socket, events, 0};
    if (::poll(&polled, 1, int(std::clamp<int64_t>(left, 0, 3600'000))) > 0) return true;
  }
  return false;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

int port_of(int socket, bool peer) {
  sockaddr_in6 address{};  // the port is at the same place for IPv4
  socklen_t size = sizeof(address);
  (peer ? getpeername : getsockname)(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

bool is_of_this_user(int socket) {
  const unsigned own = port_of(socket), its = port_of(socket, true);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      unsigned local = 0, remote = 0, state = 0, user = 0;
      std::sscanf(line.c_str(), "%*s %*[^:]:%x %*[^:]:%x %x %*s %*s %*s %u", &local, &remote,
                  &state, &user);
      if (local == its && remote == own && state == TCP_ESTABLISHED) return user == geteuid();
    }
  }
  return false;
}

// Returns a socket for which `attempt` returns 0, at one of the addresses of `host`, or -1 with the
// reason in `why`. Sends keepalive probes, because firewalls forget connections that idle for
// hours; sockets that a listener accepts inherit the options.
static int open_socket(const std::string& host, int port, std::string& why, const auto& attempt) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  const int unknown = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  if (unknown) why = gai_strerror(unknown);
  if (unknown) check_lack(Descriptor(::dup(0)).get() < 0 ? errno : 0, "store: no name service");
  for (const addrinfo* at = owner.get(); at; at = at->ai_next) {
    Descriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) check_lack(errno, "store: no socket");
    const int yes = 1, idle_s = 60;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
    setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    const int error = attempt(socket.get(), *at);
    if (!error) return socket.release();
    check_lack(error, "store: no connection");
    why = std::strerror(error);
  }
  return -1;
}

Descriptor listen_on(const std::string& host, int port) {
  std::vector<std::string> hosts = {"::", "0.0.0.0"};  // an IPv6 socket also serves IPv4
  if (is_loopback(host)) hosts = {host == "localhost" ? "127.0.0.1" : host};
  std::string why;
  // A port in use may be the source port of an outgoing connection, which may end soon.
  for (int tries = 0; tries < 50; ++tries, std::this_thread::sleep_for(Timeout(20)))
    for (const std::string& own : hosts) {
      const int listener = open_socket(own, port, why, [](int socket, const addrinfo& at) {
        const int yes = 1, no = 0;
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
        const int failed = ::bind(socket, at.ai_addr, at.ai_addrlen) || ::listen(socket, SOMAXCONN);
        return failed ? errno : 0;
      });
      if (listener >= 0) return Descriptor(listener);
    }
  fail(Exit::distributed, "rendezvous: rank 0 cannot listen on port ", port, ": ", why,
       "; see who holds it with  ss -ltnp, or set dist.store_port");
}

int connect_to(const std::string& host, int port, Clock::time_point deadline, std::string& why) {
  return open_socket(host, port, why, [&](int socket, const addrinfo& at) {
    if (!::connect(socket, at.ai_addr, at.ai_addrlen)) return 0;
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    // An address may drop packets while the next one answers.
    const auto limit = std::min(deadline, Clock::now() + std::chrono::seconds(5));
    if (!wait_for_socket(socket, POLLOUT, limit)) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
  });
}

bool transfer(int socket, std::string& out, std::string& in, std::string& why) {
  char bytes[1 << 16];
  const bool sends = !out.empty();
  const ssize_t n = sends ? ::send(socket, out.data(), out.size(), MSG_NOSIGNAL)
                          : ::recv(socket, bytes, sizeof(bytes), 0);
  if (n > 0 && sends) out.erase(0, n);
  if (n > 0 && !sends) in.append(bytes, n);
  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return true;
  why = n == 0 ? kClosed : std::strerror(errno);
  return false;
}

}  // namespace bellows
