#include "acceptor.hpp"

#include <sepal/base/thread.hpp>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <utility>

namespace sepal::server {
namespace {

// Connections taken from one listener before the others are looked at.
constexpr int accepts_per_turn_max = 64;
// How long nothing is accepted when descriptors or memory have run out.
constexpr std::chrono::milliseconds accept_pause{200};

// A connection that was gone before it was taken, or a fault of its network: the next one may be fine.
bool concerns_one_connection(int error) {
  switch (error) {
    case ECONNABORTED:
    case EINTR:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
      return true;
    default:
      return false;
  }
}

template <class SocketAddress>
std::string ip_text(const sockaddr_storage& storage) {
  const auto& address = reinterpret_cast<const SocketAddress&>(storage);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if constexpr (std::is_same_v<SocketAddress, sockaddr_in>) {
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(address.sin_port));
  } else {
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(address.sin6_port));
  }
}

using NameCall = int (*)(int, sockaddr*, socklen_t*);

// `call` is getpeername or getsockname. A peer that has gone already has no address any more.
std::string endpoint_text(int descriptor, NameCall call) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (call(descriptor, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return "?:0";
  return storage.ss_family == AF_INET ? ip_text<sockaddr_in>(storage) : ip_text<sockaddr_in6>(storage);
}

}  // namespace

Acceptor::Acceptor(std::span<const std::unique_ptr<Worker>> workers) : workers_(workers), context_(1) {}

Acceptor::~Acceptor() {
  stop();
}

Result<void> Acceptor::start(std::vector<Listener> listeners) {
  for (Listener& listener : listeners) {
    auto door = std::make_unique<Door>(Door{.listener = std::move(listener),
                                            .descriptor = boost::asio::posix::stream_descriptor(context_),
                                            .pause_timer = boost::asio::steady_timer(context_)});
    boost::system::error_code error;
    door->descriptor.assign(door->listener.descriptor.number(), error);
    if (error) return fail(Errc::io, "cannot watch a listening socket: " + error.message());
    static_cast<void>(door->listener.descriptor.release());
    await(*door);
    doors_.push_back(std::move(door));
  }
  thread_ = std::thread([this] {
    name_this_thread("acceptor");
    context_.run();
  });
  return {};
}

void Acceptor::stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
  for (const auto& door : doors_) remove_socket_file(door->listener);
  doors_.clear();
}

void Acceptor::await(Door& door) {
  door.descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                             [this, &door](const boost::system::error_code& error) {
                               if (!error) accept_waiting(door);
                             });
}

void Acceptor::accept_waiting(Door& door) {
  for (int taken = 0; taken < accepts_per_turn_max; ++taken) {
    Descriptor descriptor(
        ::accept4(door.descriptor.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (descriptor.is_open()) {
      pause_logged_ = false;
      hand_over(door, std::move(descriptor));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    if (!concerns_one_connection(errno)) return pause(door, errno);
  }
  await(door);
}

// Out of descriptors or memory. The connections that wait stay in the backlog; trying at once would fail
// again.
void Acceptor::pause(Door& door, int error) {
  if (!std::exchange(pause_logged_, true)) {
    spdlog::error("accepting paused: reason=\"{}\"", std::generic_category().message(error));
  }
  door.pause_timer.expires_after(accept_pause);
  door.pause_timer.async_wait([this, &door](const boost::system::error_code& ended) {
    if (!ended) await(door);
  });
}

void Acceptor::hand_over(Door& door, Descriptor descriptor) {
  const auto fewest = std::min_element(workers_.begin(), workers_.end(),
                                       [](const auto& a, const auto& b) { return a->load() < b->load(); });
  const bool tcp = door.listener.kind == Connection::Kind::tcp;
  Accepted accepted{.descriptor = std::move(descriptor),
                    .kind = door.listener.kind,
                    .id = ++last_id_,
                    .address = {},
                    .local_address = {}};
  const int number = accepted.descriptor.number();
  accepted.address = tcp ? endpoint_text(number, ::getpeername) : door.listener.path + ":0";
  accepted.local_address = tcp ? endpoint_text(number, ::getsockname) : door.listener.path + ":0";
  (*fewest)->adopt(std::move(accepted));
}

}  // namespace sepal::server
