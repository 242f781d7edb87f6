#include "dist/rendezvous/sockets.h"
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>
#include "core/device/threads.h"

namespace bellows {

using std::chrono::milliseconds;
using std::chrono::seconds;

void begin_thread(const std::string& name) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  name_thread(name);
}

Clock::time_point deadline_after(Timeout timeout) {
  return Clock::now() + std::min<Timeout>(timeout, std::chrono::hours(24 * 3650));
}

bool wait_for_socket(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    pollfd polled = {socket, events, 0};
    const int ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3600'000));
    if (::poll(&polled, 1, ms) > 0) return true;
    if (left.count() <= 0) return false;
  }
}

// ---- addresses

namespace {
struct Address {
  sockaddr_storage bytes{};
  socklen_t size = sizeof(bytes);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  bool ip6() const { return bytes.ss_family == AF_INET6; }
  bool loopback() const {
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(&bytes);
    const auto* const four = reinterpret_cast<const sockaddr_in*>(&bytes);
    return ip6() ? IN6_IS_ADDR_LOOPBACK(&six->sin6_addr)
                 : ntohl(four->sin_addr.s_addr) >> 24 == 127;
  }
};
}  // namespace

// Returns the addresses of `host` (null: of all interfaces), none if it is unknown.
static std::vector<Address> resolve(const char* host, int port, int flags, std::string& why) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  std::vector<Address> addresses;
  if (const int error = getaddrinfo(host, std::to_string(port).c_str(), &wanted, &found)) {
    why = gai_strerror(error);
    return addresses;
  }
  for (const addrinfo* at = found; at; at = at->ai_next) {
    std::memcpy(&addresses.emplace_back().bytes, at->ai_addr, at->ai_addrlen);
    addresses.back().size = at->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

static Address own_address(int socket) {
  Address own;
  getsockname(socket, own.get(), &own.size);
  return own;
}

std::pair<std::string, int> local_address_of(int listener) {
  const Address own = own_address(listener);
  char host[NI_MAXHOST] = "127.0.0.1", port[NI_MAXSERV] = "0";
  getnameinfo(own.get(), own.size, own.loopback() ? host : nullptr,
              own.loopback() ? sizeof(host) : 0, port, sizeof(port),
              NI_NUMERICHOST | NI_NUMERICSERV);
  return {host, std::stoi(port)};
}

// ---- listening

// Returns the inode of the socket that listens on the port, if there is one.
static std::optional<std::string> listener_inode(int port) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string local, state, inode, skip;
      fields >> skip >> local >> skip >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      const size_t colon = local.find(':');
      if (!fields || colon == local.npos || state != "0A") continue;
      if (std::strtol(local.c_str() + colon + 1, nullptr, 16) == port) return inode;
    }
  }
  return {};
}

// Returns " by process PID (name)", or "" if the process belongs to another user.
static std::string owner_of(const std::string& inode) {
  const std::string wanted = cat("socket:[", inode, "]");
  for (const Path& process : paths_in("/proc", Exit::distributed)) {
    if (!std::isdigit(process.filename().native()[0])) continue;
    std::error_code error;
    std::filesystem::directory_iterator at(process / "fd", error), end;
    for (; !error && at != end; at.increment(error)) {
      std::error_code none;
      if (std::filesystem::read_symlink(at->path(), none) != wanted) continue;
      std::string name;
      std::getline(std::ifstream(process / "comm"), name);
      return cat(" by process ", process.filename().native(), " (", printable(name), ")");
    }
  }
  return "";
}

static std::vector<Address> addresses_to_bind(const std::string& host, bool all_local, int port) {
  std::string why;
  std::vector<Address> named = resolve(host.c_str(), port, all_local ? 0 : AI_NUMERICHOST, why);
  if (!named.empty() && std::ranges::all_of(named, &Address::loopback)) return named;
  // IPv6 first, because an IPv6 socket also serves IPv4.
  std::vector<Address> any = resolve(nullptr, port, AI_PASSIVE, why);
  std::stable_partition(any.begin(), any.end(), [](const Address& one) { return one.ip6(); });
  return any;
}

Descriptor listen_on(const std::string& host, bool all_local, int port) {
  const std::vector<Address> addresses = addresses_to_bind(host, all_local, port);
  // Retries while the port is in use but no process listens on it: it is then the source port of an
  // outgoing connection, which may end soon.
  for (const auto deadline = Clock::now() + seconds(5);;
       std::this_thread::sleep_for(milliseconds(20))) {
    int error = EADDRNOTAVAIL;
    for (const Address& address : addresses) {
      const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, yes = 1, no = 0;
      Descriptor socket(::socket(address.bytes.ss_family, type, 0));
      error = errno;
      if (socket.get() < 0) continue;
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
      if (address.ip6()) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
      if (::bind(socket.get(), address.get(), address.size) == 0 &&
          ::listen(socket.get(), SOMAXCONN) == 0)
        return Descriptor(socket.release());
      error = errno;
      if (error == EADDRINUSE) break;
    }
    const auto inode = error == EADDRINUSE ? listener_inode(port) : std::nullopt;
    if (error == EADDRINUSE && !inode && Clock::now() < deadline) continue;
    const bool of_port = error == EADDRINUSE || error == EACCES;  // not if sockets are used up
    fail(Exit::distributed, "rendezvous: rank 0 cannot listen on port ", port, ": ",
         error == EADDRINUSE ? cat("it is in use", inode ? owner_of(*inode) : "")
                             : std::strerror(error),
         of_port           ? "; choose another with dist.store_port"
         : error == EMFILE ? "; raise ulimit -n"
                           : "");
  }
}

// ---- connections

// Sends keepalive probes, because firewalls forget connections that idle for hours.
static void configure(int socket) {
  const int yes = 1, idle_s = 60;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
}

// Returns 0 or an error number.
static int connect_socket(int socket, const Address& to, Clock::time_point deadline) {
  if (::connect(socket, to.get(), to.size) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    if (!wait_for_socket(socket, POLLOUT, deadline)) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) return error;
  }
  // While no process listens on a port of the ephemeral range, the system may assign that port to a
  // socket that connects to it, which then connects to itself.
  Address peer;
  if (getpeername(socket, peer.get(), &peer.size) != 0) return errno;
  const Address own = own_address(socket);
  const bool itself = own.size == peer.size && !std::memcmp(&own.bytes, &peer.bytes, own.size);
  return itself ? ECONNREFUSED : 0;
}

int connect_to(const std::string& host, int port, Clock::time_point deadline, std::string& why) {
  for (const Address& address : resolve(host.c_str(), port, 0, why)) {
    // An address may drop packets while the next one answers, and a host that is down now may be up
    // at the next attempt.
    const auto limit = std::min(deadline, Clock::now() + seconds(5));
    const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    Descriptor socket(::socket(address.bytes.ss_family, type, 0));
    const int error = socket.get() < 0 ? errno : connect_socket(socket.get(), address, limit);
    if (!error) {
      configure(socket.get());
      return socket.release();
    }
    why = std::strerror(error);
  }
  return -1;
}

static bool again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

bool receive_some(int socket, std::string& buffer, std::string& why) {
  char bytes[1 << 16];
  const ssize_t n = ::recv(socket, bytes, sizeof(bytes), 0);
  if (n > 0) buffer.append(bytes, n);
  if (n > 0 || (n < 0 && again())) return true;
  why = n == 0 ? "it closed the connection" : std::strerror(errno);
  return false;
}

bool send_some(int socket, std::string& buffer, std::string& why) {
  const ssize_t n = ::send(socket, buffer.data(), buffer.size(), MSG_NOSIGNAL);
  if (n >= 0) buffer.erase(0, n);
  if (n >= 0 || again()) return true;
  why = std::strerror(errno);
  return false;
}

}  // namespace bellows
