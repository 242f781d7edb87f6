#include "trainer/launch/reserved_port.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <cerrno>
#include <cstring>
#include "core/base/check.h"

namespace bellows {

// A bound socket that does not listen does not exclude one that does, if both set SO_REUSEADDR.
ReservedPort::ReservedPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int yes = 1;
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  address.sin_family = AF_INET;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(socket_.get(), generic, size) != 0 || getsockname(socket_.get(), generic, &size) != 0)
    fail(Exit::distributed, "launch: no free port: ", std::strerror(errno),
         "; name one with --port");
  number_ = ntohs(address.sin_port);
}

}  // namespace bellows
