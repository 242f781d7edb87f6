#include "dist/groups/gloo_mesh.h"
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <list>
#include <new>
#include <system_error>
#include "core/base/file.h"
#include "dist/rendezvous/sockets.h"

namespace bellows {

namespace {
// Our store with the interface that Gloo expects. Values of rank r have the keys "r" and "rank_r".
class Rendezvous : public gloo::rendezvous::Store {
 public:
  Rendezvous(bellows::Store& store, const std::string& prefix, Timeout timeout)
      : store_(store), prefix_(prefix), timeout_(timeout), end_(Clock::now() + timeout) {}

  void set(const std::string& key, const std::vector<char>& value) override {
    store_.set(prefix_ + key, {value.begin(), value.end()});
  }
  std::vector<char> get(const std::string& key) override {
    wait({key});
    const std::string value = store_.get(prefix_ + key, timeout_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) {
      rank_ = key.substr(key.find_first_of("0123456789"));
      if (!store_.wait(prefix_ + key, until(end_))) fail_late();
    }
  }
  void wait(const std::vector<std::string>& keys, const Timeout&) override { wait(keys); }
  [[noreturn]] void fail_late(const std::string& symptom = "") const {
    const Timeout took = timeout_ - until(end_, Timeout(0));
    const bool late = took == timeout_;  // else the rank has ended, or a stranger came first
    fail(Exit::distributed, "gloo: ", late ? "rank " : "no connection to rank ", rank_,
         late ? " did not connect within " : " after ", double(took.count()) / 1000, " s", symptom,
         "; look at its last lines", late ? "" : ", or for a stranger on its port (SECURITY.md)");
  }

 private:
  bellows::Store& store_;
  const std::string prefix_;
  const Timeout timeout_;
  const Clock::time_point end_;
  std::string rank_;  // rank that Gloo waits for
};

// Returns the numeric address of this machine's interface that routes to `host`.
std::string address_towards(const std::string& host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  const int error = getaddrinfo(host.c_str(), "9", &hints, &found);
  if (error)
    fail(Exit::distributed, "gloo: host '", host, "' of rank 0: ", gai_strerror(error),
         "; check the launcher's address of rank 0");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const addrinfo* at = found; at; at = at->ai_next) {
    const Descriptor udp(socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST];
    if (udp.get() >= 0 && connect(udp.get(), at->ai_addr, at->ai_addrlen) == 0 &&
        getsockname(udp.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0)
      return text;
  }
  fail(Exit::distributed, "gloo: no route to rank 0 at '", host, "'; set GLOO_SOCKET_IFNAME");
}

// Throws Error, exit 6, if the exception means that memory, threads or open files are used up.
void check_exhaustion(const std::exception& error) {
  const std::string what = plain(error.what());
  if (dynamic_cast<const std::bad_alloc*>(&error) ||
      dynamic_cast<const std::system_error*>(&error) ||
      what.find(std::strerror(ENOMEM)) != what.npos ||
      what.find(std::strerror(EMFILE)) != what.npos)
    fail(Exit::memory, "gloo: out of memory, threads or open files (", what,
         "); raise the limits (ulimit -v, -u, -n)");
}

std::shared_ptr<gloo::transport::Device> device_for(const Ranks& ranks) {
  gloo::transport::tcp::attr at;
  if (const char* const interface = std::getenv("GLOO_SOCKET_IFNAME"); interface && *interface)
    at.iface = interface;
  else
    at.hostname = address_towards(ranks.host);
  const bool loopback = at.hostname.starts_with("127.") || at.hostname == "::1";
  if (loopback && ranks.local_world < ranks.world)
    fail(Exit::distributed, "gloo: '", ranks.host, "' is ", at.hostname,
         " here, which other machines cannot reach; set GLOO_SOCKET_IFNAME");
  try {
    return gloo::transport::tcp::CreateDevice(at);
  } catch (const std::exception& error) {
    check_exhaustion(error);
    fail(Exit::distributed, "gloo: ", plain(error.what()), "; check GLOO_SOCKET_IFNAME='", at.iface,
         "', which takes the name of one interface");
  }
}
}  // namespace

std::string plain(const std::string& gloo_message) {
  const size_t end = gloo_message.starts_with('[') ? gloo_message.find("] ") : std::string::npos;
  return end == std::string::npos ? gloo_message : gloo_message.substr(end + 2);
}

// Throws Error, exit 6, if descriptors are too few for the connections: Gloo would misreport it.
static void check_descriptors(int world) {
  std::list<Descriptor> spare;
  for (int i = 0; i < 4 + world; ++i)
    if (spare.emplace_back(::eventfd(0, EFD_CLOEXEC)).get() < 0)
      check_lack(errno, "gloo: no connections");
}

GlooMesh connect_mesh(const Ranks& ranks, Store& store, const std::string& prefix,
                      Timeout timeout) {
  check_descriptors(ranks.world);
  auto device = device_for(ranks);
  const auto context = std::make_shared<gloo::rendezvous::Context>(ranks.rank, ranks.world);
  // Gloo waits five times its timeout for a connection. Collectives set their own timeouts.
  context->setTimeout(std::max(timeout / 5, Timeout(1)));
  Rendezvous rendezvous(store, prefix, timeout);
  try {
    context->connectFullMesh(rendezvous, device);
    return context;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    check_exhaustion(error);
    rendezvous.fail_late(cat(" (", plain(error.what()), ")"));
  }
}

// Gloo has no call to close connections, but closes all of them when an operation times out.
void close_mesh(gloo::Context& mesh) {
  try {
    mesh.createUnboundBuffer(nullptr, 0)->waitRecv(Timeout(1));
  } catch (const std::exception&) {
  }
}

}  // namespace bellows
